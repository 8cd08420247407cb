"""Guards that are none: the bench must not be taken in by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memguard.bench.integrity import rows
from memguard.bench.integrity.cases import BY_ID
from memguard.bench.integrity.controls import run_control
from memguard.bench.integrity.lab import Lab
from memguard.bench.integrity.trial import run_case
from memguard.bench.suts.langgraph_saver import SaverSut
from memguard.bench.suts.names import Name
from memguard.bench.suts.protocol import Item, Record
from memguard.errors import TamperedError

DRAFT = tuple(f"T{n}" for n in range(1, 10))


class Fake(SaverSut):
    """A saver with a home-made check: it keeps the genuine texts in its own memory, outside every store."""

    def is_integrity_error(self, error: BaseException) -> bool:
        return isinstance(error, TamperedError)

    @property
    def texts(self) -> set[str]:
        return {r.text for found in self.records.values() for r in found}

    def genuine(self, item: Item) -> bool:
        said = item.body["messages"] if isinstance(item.body["messages"], list) else []
        return set(said) <= self.texts


class RefusesEverything(Fake):
    def start(self) -> None:
        seeded = bool(self.records)
        super().start()
        self.refuses = seeded

    def read(self, context: str, path: str) -> list[Item]:
        if self.refuses:
            raise TamperedError("no")
        return super().read(context, path)


class ThrowsValueError(Fake):
    def read(self, context: str, path: str) -> list[Item]:
        found = super().read(context, path)
        if not all(self.genuine(i) for i in found):
            raise ValueError("what is this")
        return found


class DropsSilently(Fake):
    def read(self, context: str, path: str) -> list[Item]:
        return [i for i in super().read(context, path) if self.genuine(i)]


class ChecksTheListOnly(Fake):
    def read(self, context: str, path: str) -> list[Item]:
        found = super().read(context, path)
        if path != "head" and not all(self.genuine(i) for i in found):
            raise TamperedError("edited")
        return found


class LosesWrites(Fake):
    def write(self, record: Record) -> None:
        if len(self.records.get(record.context, [])) < 6:
            super().write(record)
        else:
            self.records[record.context].append(record)


class ServesSomethingElse(Fake):
    """Passes a control that only asks whether reading raised."""

    def start(self) -> None:
        seeded = bool(self.records)
        super().start()
        self.lies = seeded

    def read(self, context: str, path: str) -> list[Item]:
        found = super().read(context, path)
        return found[:-1] if self.lies and len(found) > 1 else found


def lab_and_cells(made: type[Fake], base: Path, cases: tuple[str, ...]) -> tuple[Lab, dict[str, Any]]:
    lab = Lab("fake", base, 0, lambda cell: made(cell, Name("langgraph-sqlite-saver")))
    lab.prepare()
    return lab, {c: rows.cell(run_case(lab, BY_ID[c], "read"), "read") for c in cases}


def measure(made: type[Fake], base: Path, cases: tuple[str, ...] = DRAFT) -> dict[str, Any]:
    lab, cells = lab_and_cells(made, base, cases)
    held = {c: run_control(lab, c, "read") for c in ("C1", "C2", "C4")}
    return rows.row(rows.describe(lab.fresh()), "read", cells, held, stopped=True)


@pytest.mark.parametrize(
    ("made", "control"),
    [(RefusesEverything, "C1"), (ServesSomethingElse, "C1"), (LosesWrites, "C2")],
)
def test_a_failed_control_leaves_nothing_to_publish(made: type[Fake], control: str, tmp_path: Path) -> None:
    row = measure(made, tmp_path)
    assert not row["controls"][control]["ok"]
    assert (row["metric"], row["strict_metric"], row["groups"], row["level"]) == (
        None,
        None,
        {},
        "not evaluable",
    )
    assert row["reason"].startswith(f"{control} failed")


def test_without_c1_who_refuses_everything_would_have_scored_full_marks(tmp_path: Path) -> None:
    row = measure(RefusesEverything, tmp_path)
    assert {c: row["cells"][c]["verdict"] for c in DRAFT} == {**dict.fromkeys(DRAFT, "REJECTED"), "T9": "N/A"}
    assert row["cells"]["T9"]["detail"].startswith(
        "the genuine operation before the edit is refused: TamperedError"
    )


@pytest.mark.parametrize(
    ("made", "loose", "hard"),
    [
        (ThrowsValueError, "REJECTED", "ERROR"),
        (DropsSilently, "ACCEPTED", "ACCEPTED"),
        (ChecksTheListOnly, "REJECTED", "ACCEPTED"),
    ],
)
def test_half_measures_pass_the_draft_at_most(
    made: type[Fake], loose: str, hard: str, tmp_path: Path
) -> None:
    cell = measure_cells(made, tmp_path, ("T5",))["T5"]
    assert (cell["verdict"], cell["strict_verdict"]) == (loose, hard), cell["detail"]


def measure_cells(made: type[Fake], base: Path, cases: tuple[str, ...]) -> dict[str, Any]:
    return lab_and_cells(made, base, cases)[1]


def test_a_clean_fake_is_evaluable(tmp_path: Path) -> None:
    row = measure(ThrowsValueError, tmp_path)
    assert row["evaluable"]
    assert all(c["ok"] for c in row["controls"].values())
    assert row["metric"] > row["strict_metric"] == 0.0
