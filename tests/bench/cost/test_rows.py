"""From cells to rows: figures worked out by hand, subsets apart, missing replicates, and nothing scored silently."""

from __future__ import annotations

from typing import Any

import pytest

from memguard.bench.cost.cells import Cell, Decisions, Item, key_of
from memguard.bench.cost.gates import missed, summary, table
from memguard.bench.cost.rows import grades_of, rows_of


def _cell(
    condition: str, conversation: str, grades: list[bool | None], replicate: int = 1, **more: Any
) -> Cell:
    items = tuple(
        Item(id=f"q{at}", subset="core", category="single-hop", grade=grade, recall=0.5)
        for at, grade in enumerate(grades)
    )
    values: dict[str, Any] = {"decisions": Decisions(), **more}
    return Cell(
        key="k",
        condition=condition,
        conversation=conversation,
        replicate=replicate,
        mode="retrieval",
        memories=3,
        items=items,
        **values,
    )


def test_paired_utility() -> None:
    """Two conversations: one loses one of four, the other gains one of two: BUD is (-25 + 50) / 2."""
    cells = [
        _cell("none", "a", [True, True, False, False]),
        _cell("none", "b", [True, False]),
        _cell("strict", "a", [True, False, False, False]),
        _cell("strict", "b", [True, True]),
    ]
    none, strict = (row for row in rows_of(cells, seed=0) if row.subset == "core")
    assert none.utility.bud == 0.0
    assert none.utility.degenerate
    assert none.utility.bound == 50.0  # three in six items
    assert strict.utility.bud == 12.5
    assert strict.utility.replicate_mean == 12.5
    assert (strict.utility.better, strict.utility.worse, strict.utility.discordant) == (1, 1, 2)
    assert strict.utility.mcnemar_p == strict.utility.mcnemar_holm == 1.0
    assert strict.utility.signflip_floor == 0.5
    assert strict.n == 6
    assert strict.utility.ci_low is not None
    assert strict.utility.ci_high is not None
    assert strict.utility.ci_low < 12.5 < strict.utility.ci_high


def test_replicates_vote_and_missing_ones_are_not_graded() -> None:
    cells = [_cell("none", "a", [True], replicate=n) for n in (1, 2, 3)]
    cells += [_cell("strict", "a", [grade], replicate=n) for n, grade in ((1, True), (2, False))]
    assert grades_of(cells[:3], "core") == {("a", "q0"): [True, True, True]}
    _, strict = (row for row in rows_of(cells, seed=0) if row.subset == "core")
    assert strict.replicates == 2
    assert strict.utility.bud == -100.0  # a tie is wrong
    assert strict.utility.replicate_mean == -50.0
    one = [
        *cells[:3],
        *(_cell("strict", "a", [g], replicate=n) for n, g in ((1, True), (2, None), (3, None))),
    ]
    _, strict = (row for row in rows_of(one, seed=0) if row.subset == "core")
    assert strict.utility.bud is None
    assert strict.utility.not_measured


def test_without_the_undefended_arm_there_is_no_utility() -> None:
    (row, _) = rows_of([_cell("strict", "a", [True])], seed=0)
    assert row.utility.bud is None
    assert "pair" in row.utility.not_measured


def test_quarantine_rates_are_means_over_cells() -> None:
    seen = Decisions(write_seen=10, write_quarantined=1, read_seen=4, read_quarantined=2, distinct=("x", "y"))
    none = Decisions(write_seen=10, read_seen=0)
    cells = [_cell("rerank", "a", [True], decisions=seen), _cell("rerank", "b", [True], decisions=none)]
    row = rows_of(cells, seed=0)[0]
    assert (row.fqr.write, row.fqr.read, row.fqr.distinct, row.fqr.gold) == (0.05, 0.5, 0.1, 0.0)
    assert row.fqr.quarantined == 3


def test_tokens_are_attributed_and_the_judge_is_in_neither_side() -> None:
    base = _cell("none", "a", [True], tokens={"extract": 100, "answer": 100, "judge": 50})
    ours = _cell(
        "strict", "a", [True], tokens={"extract": 150, "answer": 50, "judge": 999, "guard:anomaly": 20}
    )
    none, strict = (row for row in rows_of([base, ours], seed=0) if row.subset == "core")
    assert none.token_overhead == 0.0
    assert strict.token_overhead == 0.1
    assert strict.base_token_change == 0.0


def test_gates_name_every_limit_that_is_missed() -> None:
    bad = Decisions(write_seen=100, write_quarantined=1, read_seen=100, read_quarantined=1)
    cells = [_cell("none", "a", [True] * 10), _cell("strict", "a", [True] * 9 + [False], decisions=bad)]
    rows = rows_of(cells, seed=0)
    told = "\n".join(missed(rows))
    assert "benign utility -10.00 points" in told
    assert "the interval of benign utility begins" in told
    assert "1.00 % of reads withheld" in told
    assert "1.00 % of writes withheld" in told
    assert missed(rows_of([_cell("none", "a", [True]), _cell("rerank", "a", [False])], seed=0)) == []
    assert missed(rows_of([_cell("none", "a", [True]), _cell("balanced", "a", [True])], seed=0)) == []
    assert all(len(line) <= 132 for line in table(rows).splitlines())
    assert "1 conversation(s) cannot show a sign-flip p below 1" in summary(rows)


@pytest.mark.parametrize("part", ["data", "code", "config", "seed", "condition", "conversation", "replicate"])
def test_a_cell_s_key_is_over_everything_that_made_it(part: str) -> None:
    names = ("data", "code", "config", "seed", "condition", "conversation", "replicate")
    about = dict.fromkeys(names, "x")
    assert key_of(about) != key_of({**about, part: "y"})
    assert key_of(about) == key_of(dict(reversed(about.items())))
