"""The real bare stores on the bench: every edit lands, all nine are accepted, every case of ours as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memguard.bench.integrity import rows
from memguard.bench.integrity.cases import BY_ID, CASES
from memguard.bench.integrity.controls import run_control
from memguard.bench.integrity.lab import KINDS, Lab
from memguard.bench.integrity.seeding import PER_CONTEXT, fact, records
from memguard.bench.integrity.trial import run_case

SAVER, ASYNC, STORE, ENCRYPTED = (
    "langgraph-sqlite-saver",
    "langgraph-async-sqlite-saver",
    "langgraph-sqlite-store",
    "langgraph-sqlite-saver-encrypted",
)
#: What the strict reading says where it is not ACCEPTED: a stray exception of the decoder is no refusal.
STRICT = {
    (SAVER, "X19"): "ERROR",
    (ASYNC, "X19"): "ERROR",
    (STORE, "X19"): "ERROR",
    (ENCRYPTED, "X19"): "REJECTED",
}
#: Where the draft's reading says REJECTED although nobody noticed anything: an error or an empty answer counts there.
LOOSE = {"X19", "X37", "X38"}


@pytest.fixture(
    scope="module",
    # One worker measures a SUT once, for all tests that look at its row.
    params=[
        pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in (SAVER, ASYNC, STORE, ENCRYPTED)
    ],
)
def measured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, Any]]:
    """One bare SUT's read row, measured once."""
    name: str = request.param
    lab = Lab(name, tmp_path_factory.mktemp("lab"), 0)
    lab.prepare()
    cells = {case.id: rows.cell(run_case(lab, case, "read"), "read") for case in CASES}
    held = {c: run_control(lab, c, "read") for c in ("C1", "C2", "C4")}
    return name, rows.row(rows.describe(lab.fresh()), "read", cells, held, stopped=True)


def test_controls_hold_and_every_edit_lands(measured: tuple[str, dict[str, Any]]) -> None:
    _, row = measured
    assert {c: v["ok"] for c, v in row["controls"].items()} == dict.fromkeys(
        ("C1", "C2", "C3", "C4"), True
    ), row["controls"]


def test_all_nine_are_accepted(measured: tuple[str, dict[str, Any]]) -> None:
    _, row = measured
    for n in range(1, 10):
        cell = row["cells"][f"T{n}"]
        assert (cell["verdict"], cell["strict_verdict"]) == ("ACCEPTED", "ACCEPTED"), (n, cell["detail"])
    assert (row["metric"], row["strict_metric"], row["level"], row["strict_level"]) == (0.0, 0.0, "L0", "L0")


def test_every_applicable_case_of_ours_is_served_as_genuine(measured: tuple[str, dict[str, Any]]) -> None:
    name, row = measured
    for case, cell in row["cells"].items():
        if cell["verdict"] == "N/A":
            assert cell["detail"]
            continue
        assert cell["strict_verdict"] == STRICT.get((name, case), "ACCEPTED"), (case, cell["detail"])
        assert cell["verdict"] == ("REJECTED" if case in LOOSE else "ACCEPTED"), (case, cell["detail"])
        assert cell["script"]


def test_an_edit_of_one_owner_leaves_the_other_alone(measured: tuple[str, dict[str, Any]]) -> None:
    _, row = measured
    assert {cell["collateral"] for cell in row["cells"].values()} <= {"served", "none"}


def test_the_payload_ran_where_records_are_decoded(measured: tuple[str, dict[str, Any]]) -> None:
    name, row = measured
    assert row["cells"]["X20"]["payload_ran"] is (name != STORE)


def test_measured_again_every_cell_is_the_same_to_the_last_byte(tmp_path: Path) -> None:
    chosen = [case for case in CASES if not case.after]  # those that wait are left out for their time
    twice = []
    for base in (tmp_path / "one", tmp_path / "two"):
        lab = Lab(SAVER, base, 0)
        lab.prepare()
        twice.append([rows.digest(rows.cell(run_case(lab, case, "read"), "read")) for case in chosen])
    assert twice[0] == twice[1]


def test_a_row_names_no_folder_of_this_machine(measured: tuple[str, dict[str, Any]]) -> None:
    _, row = measured
    assert "/tmp" not in str(row)
    assert str(Path.home()) not in str(row)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda k: k.name)
def test_a_kind_answers_every_case_with_an_edit_or_a_reason(kind: Any) -> None:
    assert not set(kind.edits) & set(kind.why_not)
    assert set(kind.edits) | set(kind.why_not) == set(BY_ID)


def test_seeding_gives_each_context_five_records_or_more_and_values_of_its_own() -> None:
    for seed in range(20):
        made = records(seed)
        texts = [[r.text for r in made[c]] for c in ("A", "B")]
        assert all(len(t) == PER_CONTEXT >= 5 for t in texts)
        assert not set(texts[0]) & set(texts[1])
        assert fact("A", seed) in texts[0]
        assert fact("B", seed) in texts[1]
    assert records(1) == records(1) != records(2)
