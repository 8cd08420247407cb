"""The estimators on the 90 published cells of seeds/000: what follows from its Table 5.

The expected figures were computed apart from this code. The file is given by path and is no part of the repository.
"""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from pathlib import Path

import pytest

from memguard.bench.stats.bud import bud, conversation_deltas, sign_flip
from memguard.bench.stats.grades import Item, pairs

FILE = (
    Path(os.environ.get("MEMGUARD_DATA", Path(__file__).parents[4] / "shared" / "data"))
    / "seed000_table5.csv"
)
BASE = "No defense"
#: Condition: replicate-mean BUD in points and sign-flip p of the core subset, then both and the floor of the
#: adversarial. Anomaly and rerank each leave two conversations exactly as they were, so that .25 is their floor.
EXPECTED = {
    "Sanitize": (0.03, 1.0, -6.65, 0.125, 0.125),
    "Provenance": (-0.22, 0.875, -1.69, 0.5, 0.125),
    "Anomaly": (1.14, 0.5625, -2.94, 0.25, 0.25),
    "Rerank": (-7.32, 0.125, 0.95, 0.75, 0.25),
    "Stacked": (-4.61, 0.25, 1.09, 0.625, 0.125),
}


def _grades(condition: str, subset: str) -> dict[Item, list[bool | None]]:
    """Items of which the first k of a replicate are right: the mean of a conversation is all that the table tells."""
    rows: dict[str, list[tuple[int, int]]] = defaultdict(list)
    with FILE.open(newline="") as handle:
        for row in csv.DictReader(handle):
            if row["condition"] == condition:
                rows[row["conv"]].append((int(row[f"{subset}_k"]), int(row[f"n_{subset}"])))
    grades: dict[Item, list[bool | None]] = {}
    for conversation, replicates in rows.items():
        for at in range(max(n for _, n in replicates)):
            grades[conversation, str(at)] = [at < k if at < n else None for k, n in replicates]
    return grades


@pytest.mark.skipif(not FILE.exists(), reason=f"did not run: {FILE} is not here (set MEMGUARD_DATA)")
@pytest.mark.parametrize("condition", EXPECTED)
def test_what_follows_from_the_published_cells(condition: str) -> None:
    core, core_p, adversarial, adversarial_p, floor = EXPECTED[condition]
    found = pairs(_grades(BASE, "core"), _grades(condition, "core"), means=True)
    # One of its cells has 41 of 42 items graded, which item means and cell means weigh a little differently.
    assert bud(found) == pytest.approx(core, abs=0.12)
    flip = sign_flip(list(conversation_deltas(found).values()))
    assert flip is not None
    assert flip.p == core_p
    found = pairs(_grades(BASE, "adv"), _grades(condition, "adv"), means=True)
    assert bud(found) == pytest.approx(adversarial, abs=0.005)
    flip = sign_flip(list(conversation_deltas(found).values()))
    assert flip is not None
    assert (flip.p, flip.floor) == (adversarial_p, floor)
