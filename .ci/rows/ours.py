"""One system of our own bench, on the nine edits and the controls: JSON on the last line of stdout.

    python ours.py NAME [--seed N]

The same lab, edits, control C3 and verdicts as ``memguard bench integrity``; its further cases are that bench's affair.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from memguard.bench.integrity import rows, verdict
from memguard.bench.integrity.catalogue import DRAFT_CASES
from memguard.bench.integrity.controls import run_control
from memguard.bench.integrity.lab import Lab
from memguard.bench.integrity.trial import run_case
from memguard.bench.suts import names
from memguard.errors import MemguardError

CONTROLS = ("C1", "C2", "C4")


def measured(name: str, seed: int, base: Path) -> dict[str, Any]:
    """What a row is made of; ``{"broken": reason}`` for a system that cannot be built or seeded here."""
    lab = Lab(name, base, seed)
    try:
        about = rows.describe(names.build(name, lab.cell))
        lab.prepare()
    except Exception as error:  # noqa: BLE001 - the row says why
        said = (
            str(error).splitlines()[0]
            if isinstance(error, (ImportError, RuntimeError, MemguardError))
            else ""
        )
        return {"broken": f"{verdict.failure(error)} {said}".strip()[:160]}
    held = {control: run_control(lab, control, "read") for control in CONTROLS}
    cells = {}
    for case in DRAFT_CASES:
        try:
            cells[case.id] = rows.cell(run_case(lab, case, "read"), "read")
        except Exception as error:  # noqa: BLE001 - the bench's own fault: an error cell, never a verdict
            cells[case.id] = rows.failed_cell(error)
    return {
        "about": about,
        "controls": held,
        "cells": cells,
        "environment": rows.environment(),
        "tool": rows.tool(),
    }


def main() -> None:
    """Measure, and print."""
    options = argparse.ArgumentParser()
    options.add_argument("name")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    guard = logging.getLogger("memguard")
    guard.handlers = [handler for handler in guard.handlers if isinstance(handler, logging.NullHandler)]
    guard.addHandler(logging.NullHandler())
    base = Path(tempfile.mkdtemp(prefix="memguard-rows-"))
    try:
        answer = measured(given.name, given.seed, base)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    sys.stdout.write("\n" + json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
