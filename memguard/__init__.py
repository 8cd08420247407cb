"""memguard: a layer around the memory of LLM agents that screens writes and proves reads.

    from memguard import guard, source
    saver = guard(SqliteSaver(conn), name="checkpoints")

What ``__all__`` lists is the public interface; everything else may change. Names are imported on first
use, so ``import memguard`` loads no framework and no library.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

# The function ``guard`` and the module ``memguard.guard`` share a name. Importing a submodule binds it in
# its package, the first time only: so it is imported here and unbound again, and the name is the function's.
import memguard.guard as _module

if TYPE_CHECKING:
    from memguard.attested import attest
    from memguard.care import unwrap
    from memguard.context import principal, source
    from memguard.decision import Decision, Disposition, Evidence
    from memguard.default import guard
    from memguard.engine import MemGuard
    from memguard.errors import (
        AlreadyGuardedError,
        AnchorError,
        ConfigError,
        ForgottenError,
        ForkError,
        IntegrityError,
        MemguardError,
        QuarantinedError,
        RefusedError,
        RejectedError,
        RollbackError,
        ScopeError,
        TamperedError,
        UnknownKeyError,
        UnsupportedError,
    )
    from memguard.labels import Label, render
    from memguard.record import Source, Trust

__all__ = [
    "AlreadyGuardedError",
    "AnchorError",
    "ConfigError",
    "Decision",
    "Disposition",
    "Evidence",
    "ForgottenError",
    "ForkError",
    "IntegrityError",
    "Label",
    "MemGuard",
    "MemguardError",
    "QuarantinedError",
    "RefusedError",
    "RejectedError",
    "RollbackError",
    "ScopeError",
    "Source",
    "TamperedError",
    "Trust",
    "UnknownKeyError",
    "UnsupportedError",
    "attest",
    "guard",
    "principal",
    "render",
    "source",
    "unwrap",
]

_HOMES = {
    "attested": ("attest",),
    "care": ("unwrap",),
    "context": ("principal", "source"),
    "decision": ("Decision", "Disposition", "Evidence"),
    "default": ("guard",),
    "engine": ("MemGuard",),
    "labels": ("Label", "render"),
    "record": ("Source", "Trust"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

del _module
if not TYPE_CHECKING:
    delattr(sys.modules[__name__], "guard")


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # What has no home of its own is an error class.
    value: object = getattr(import_module(f"memguard.{_HOME.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
