"""Control C3 can fail: a no-op, a misplaced edit and an edit that takes something else along are all errors."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from memguard.bench.integrity import rows, seeding
from memguard.bench.integrity.cases import BY_ID, CASES
from memguard.bench.integrity.edits import saver_cases, steps
from memguard.bench.integrity.edits.raw import Raw, literal
from memguard.bench.integrity.edits.scene import DATABASE, Kind, Scene
from memguard.bench.integrity.lab import Lab
from memguard.bench.integrity.landed import Landing
from memguard.bench.integrity.trial import run_case

OWNERS = {"A": "alice", "B": "bob", "C": "mallory"}
KIND = saver_cases.KIND


def raw(context: str, n: int, content: str, **parts: str) -> Raw:
    return Raw("checkpoints", f"thread-{context}/", f"id-{n}", f"id-{n}", content, **parts)


BEFORE = [raw(who, n, f"{who} says {n}", meta="m") for who in ("alice", "bob") for n in range(5)]


def landing(after: list[Raw], copied: list[Raw] | None = None, files: tuple[str, ...] = ()) -> Landing:
    texts = {"A": ["shared"], "B": ["shared"]}
    scene = Scene(Path("cell"), ("store",), OWNERS, texts, True, "anchor")
    return Landing(KIND, scene, BEFORE, after, copied, frozenset(files))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_an_edit_that_never_happened_lands_nowhere(case: object) -> None:
    checked = BY_ID[case.id]  # type: ignore[attr-defined]
    assert checked.landed(landing(BEFORE)) is not None
    assert checked.landed(landing(BEFORE, BEFORE)) is not None


@pytest.mark.parametrize("case", [c for c in CASES if c.id not in ("X38",)], ids=lambda c: c.id)
def test_an_edit_that_also_touches_the_other_owner_does_not_land(case: object) -> None:
    stray = [*BEFORE[:-1], raw("bob", 4, "changed on the way", meta="n")]
    gone = stray[1:]
    for after in (stray, gone):
        assert BY_ID[case.id].landed(landing(after)) is not None  # type: ignore[attr-defined]


def swap(rows_: list[Raw], i: int, new: Raw) -> list[Raw]:
    return [*rows_[:i], new, *rows_[i + 1 :]]


@pytest.mark.parametrize(
    ("case", "after", "complaint"),
    [
        ("T1", swap(BEFORE, 2, raw("alice", 2, "edited", meta="other")), "changed ['content', 'meta']"),
        ("T1", swap(BEFORE, 7, raw("bob", 2, "edited", meta="m")), "not one of the intended"),
        ("T2", [*BEFORE[:2], *BEFORE[3:]], "not the newest"),
        ("T3", BEFORE[1:], "not the middle"),
        ("T4", swap(BEFORE, 1, raw("alice", 1, "alice says 2", meta="m")), "expected two changed rows"),
        ("T5", [*BEFORE, raw("alice", 9, "alice says 1", meta="m")], "repeats a genuine record"),
        ("T6", swap(BEFORE, 9, raw("bob", 4, "bob says 1", meta="m")), "not hold a record of the donor"),
        ("T6", swap(BEFORE, 7, raw("bob", 2, "alice says 4", meta="m")), "not the newest slot"),
        (
            "T7",
            swap(BEFORE, 4, raw("alice", 4, "alice never said", meta="m")),
            "not hold a record of the donor",
        ),
        ("T8", swap(BEFORE, 2, raw("alice", 2, "edited", meta="other")), "changed ['content', 'meta']"),
    ],
)
def test_a_misplaced_edit_is_named(case: str, after: list[Raw], complaint: str) -> None:
    assert complaint in (BY_ID[case].landed(landing(after)) or "landed")


@pytest.mark.parametrize(
    ("case", "after"),
    [
        ("T1", swap(BEFORE, 2, raw("alice", 2, "edited", meta="m"))),
        ("T2", [*BEFORE[:4], *BEFORE[5:]]),
        ("T3", [*BEFORE[:2], *BEFORE[3:]]),
        (
            "T4",
            swap(
                swap(BEFORE, 1, raw("alice", 1, "alice says 2", meta="m")),
                2,
                raw("alice", 2, "alice says 1", meta="m"),
            ),
        ),
        ("T5", [*BEFORE, raw("alice", 9, "authored", meta="m")]),
        ("T6", swap(BEFORE, 9, raw("bob", 4, "alice says 4", meta="m"))),
        ("T7", swap(BEFORE, 4, raw("alice", 4, "alice says 1", meta="m"))),
        ("T8", swap(BEFORE, 2, raw("alice", 2, "alice says 2", meta="other"))),
    ],
)
def test_the_intended_edit_lands(case: str, after: list[Raw]) -> None:
    assert BY_ID[case].landed(landing(after)) is None


def test_a_donor_that_stands_in_the_victims_context_is_no_crossing() -> None:
    twins = swap(BEFORE, 5, raw("bob", 0, "alice says 4", meta="m"))
    after = swap(twins, 9, raw("bob", 4, "alice says 4", meta="m"))
    scene = Scene(Path("cell"), ("store",), OWNERS, {"A": [], "B": []}, True, None)
    found = BY_ID["T6"].landed(Landing(KIND, scene, twins, after, None, frozenset()))
    assert found == "the donor's content stood in the victim's context already: no crossing"


def test_an_edit_that_did_not_land_is_an_error_and_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = Kind(
        KIND.name,
        KIND.main,
        KIND.state,
        KIND.context,
        {"T1": lambda s: [steps.Sql(DATABASE, "SELECT 1;")]},
        {},
    )
    monkeypatch.setattr("memguard.bench.integrity.lab.KINDS", {"sqlite-saver": nothing})
    lab = Lab("langgraph-sqlite-saver", tmp_path, 0)
    lab.prepare()
    cell = rows.cell(run_case(lab, BY_ID["T1"], "read"), "read")
    assert (cell["verdict"], cell["strict_verdict"], cell["landed"]) == ("ERROR", "ERROR", False)
    assert "0 added, 0 removed, 0 changed" in cell["detail"]


def test_edits_load_no_code_of_any_system_under_test() -> None:
    code = (
        "import sys; import memguard.bench.integrity.edits.saver_cases, memguard.bench.integrity.edits.store_cases;"
        "print([m for m in sys.modules if m.split('.')[0] in ('langgraph', 'langchain_core', 'aiosqlite')"
        " or m.startswith(('memguard.integrity', 'memguard.engine', 'memguard.bench.suts'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("value", ["it's", "", None, b"\x00\xff", 3, 2.5, -4, "a\x00b", "é"])
def test_literals_come_back_as_they_were(value: object) -> None:
    found = sqlite3.connect(":memory:").execute(f"SELECT {literal(value)}").fetchone()[0]
    assert found == value
    assert type(found) is type(value)


def test_a_failing_script_is_the_benchs_fault(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with pytest.raises(steps.EditFailed, match="no such table"):
        steps.run([steps.Sql(DATABASE, "DELETE FROM no_such_table;")], tmp_path)


def test_seeded_facts_are_what_t1_changes() -> None:
    assert saver_cases.FACT_AT == seeding.FACT_AT
