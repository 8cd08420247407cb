"""Mem0's Memory and AsyncMemory, guarded.

``guard(memory, name=...)`` is all that most programs need. Beside it stand two functions for what lies in files that a
store unpickles when it is opened: :func:`check_qdrant` looks at them first, :func:`from_config` opens after looking.

Importing this package imports no framework and opens no socket. It sets ``MEM0_TELEMETRY=False`` where the variable is
unset and Mem0 is not imported yet: Mem0 reads it once, when it is imported.
"""

from __future__ import annotations

import os
import sys
from typing import Any

if "mem0" not in sys.modules:
    os.environ.setdefault("MEM0_TELEMETRY", "False")

from memguard.integrations.mem0.pickles import check_files, check_qdrant

__all__ = ["check_files", "check_qdrant", "from_config"]


def from_config(config: dict[str, Any], *, asynchronous: bool = False) -> Any:
    """``Memory.from_config(config)`` (or AsyncMemory's), after a look at every file that would be unpickled.

    Raises:
        TamperedError: MG540, a file holds more than plain values; nothing was opened.
        UnsupportedError: Mem0 is not installed.
    """
    from memguard.integrations.mem0.opening import opened

    return opened(config, asynchronous=asynchronous)
