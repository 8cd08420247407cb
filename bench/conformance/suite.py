"""The suite that a maintainer subclasses: one fixture, and every case is a test.

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def subject(self):
            return MyStore          # a Subject class, or any function of a folder

A test fails where the store, or the guard around it, does not keep what is claimed for it: a guarded store refuses
every edit; a bare one claims :attr:`StoreConformance.claims`, by default nothing, and an edit that it serves is then
an expected failure that says so. What a store cannot express is skipped with the reason.
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any, ClassVar

import pytest

from memguard.bench.conformance.edits import EDITS, FOLDERS
from memguard.bench.conformance.findings import claimed_cases, judge, needs
from memguard.bench.conformance.measure import measure
from memguard.bench.conformance.subject import Factory
from memguard.bench.integrity.cases import CASES

#: Where ``memguard conformance run`` wants the rows; one file a suite.
OUT = "MEMGUARD_CONFORMANCE_OUT"
#: Cases to measure, separated by commas; all without it.
ONLY = "MEMGUARD_CONFORMANCE_CASES"
COLUMNS = ("bare", "guarded")
#: Cases that some store of this kit can express.
TESTED = tuple(case.id for case in CASES if case.id in EDITS or case.id in FOLDERS)


class StoreConformance:
    """Subclass it and give the fixture ``subject``."""

    #: The level that the bare store claims by itself: L0 (nothing) to L4.
    claims: ClassVar[str] = "L0"
    #: Whether the store is measured behind memguard too.
    guarded: ClassVar[bool] = True

    @pytest.fixture
    def subject(self) -> Factory:
        """The store's description: a Subject class, or a function of a folder."""
        raise NotImplementedError("give the fixture `subject`")

    @pytest.fixture
    def measured(self, subject: Factory) -> dict[str, list[dict[str, Any]]]:
        """The rows of both columns, measured once for the class."""
        cls = type(self)
        if "_rows" not in cls.__dict__:
            only = tuple(filter(None, os.environ.get(ONLY, "").split(",")))
            made = {
                column: measure(subject, guarded=column == "guarded", cases=only)
                for column in COLUMNS
                if column == "bare" or cls.guarded
            }
            cls._rows = made  # type: ignore[attr-defined]
            _hand_over(cls, made)
        found: dict[str, list[dict[str, Any]]] = cls._rows  # type: ignore[attr-defined]
        return found

    @pytest.mark.parametrize("column", COLUMNS)
    def test_controls(self, column: str, measured: dict[str, list[dict[str, Any]]]) -> None:
        """Without an edit the store serves what was written; every edit landed."""
        for row in self._of(measured, column):
            failed = [f"{name}: {held['detail']}" for name, held in row["controls"].items() if not held["ok"]]
            assert not failed, f"{row['sut']} cannot be measured: {'; '.join(failed)}"

    @pytest.mark.parametrize("case", TESTED)
    @pytest.mark.parametrize("column", COLUMNS)
    def test_case(
        self,
        column: str,
        case: str,
        measured: dict[str, list[dict[str, Any]]],
        record_property: Any,
    ) -> None:
        """One edit: refused, served, or not expressible."""
        row = self._of(measured, column)[0]
        cell = row["cells"][case]
        record_property("verdict", cell["strict_verdict"])
        record_property("script", cell["script"])
        said = judge(row, case, claimed_cases(self.claims), all_cases=column == "guarded")
        if said.kind == "n/a":
            pytest.skip(said.text)
        if said.kind == "unclaimed":
            pytest.xfail(said.text)
        assert said.kind == "kept", said.text

    def _of(self, measured: dict[str, list[dict[str, Any]]], column: str) -> list[dict[str, Any]]:
        if column not in measured:
            pytest.skip("this suite measures the bare store alone")
        return measured[column]


def _hand_over(cls: type[StoreConformance], made: dict[str, list[dict[str, Any]]]) -> None:
    """Give the rows to ``memguard conformance run``, if it is what runs this."""
    folder = os.environ.get(OUT)
    if folder:
        rows = [row for column in made.values() for row in column]
        told = {"suite": cls.__name__, "claims": cls.claims, "needs": needs(cls.claims), "rows": rows}
        (Path(folder) / f"{uuid.uuid4().hex}.json").write_text(json.dumps(told), encoding="utf-8")
