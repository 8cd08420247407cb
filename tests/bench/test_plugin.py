"""A system under test from another distribution: added to the registry, with edits of its own, measured by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from memguard import registry
from memguard.bench.integrity.catalogue import DRAFT_CASES
from memguard.bench.integrity.edits import saver_cases
from memguard.bench.integrity.edits.scene import Kind
from memguard.bench.integrity.lab import Lab, kind_of
from memguard.bench.integrity.trial import run_case
from memguard.bench.suts import names
from memguard.bench.suts.langgraph_saver import SaverSut
from memguard.bench.suts.names import Name
from memguard.errors import ConfigError

KIND = saver_cases.KIND
OURS = Kind(
    "their-kind", KIND.main, KIND.state, KIND.context, {"T1": KIND.edits["T1"]}, {"T4": "no order is kept"}
)


class TheirStore(SaverSut):
    kind = "their-kind"
    edits = OURS


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.suts, "_table", dict(registry.suts._entries()))
    registry.suts.add("their-store", lambda cell, name: TheirStore(cell, name))


@pytest.mark.usefixtures("registered")
def test_it_is_built_and_edited_by_its_own_table(tmp_path: Path) -> None:
    assert "their-store" in registry.names("sut")
    lab = Lab("their-store", tmp_path, 0)
    lab.prepare()
    outcomes = {case.id: run_case(lab, case, "read") for case in DRAFT_CASES[:4]}
    assert outcomes["T1"].not_landed is None
    assert outcomes["T1"].evidence
    assert outcomes["T4"].reason == "no order is kept"
    assert outcomes["T2"].reason == "no edit is written for this kind of store yet"


def test_without_the_plugin_the_name_is_unknown() -> None:
    with pytest.raises(ConfigError, match="their-store"):
        names.parse("their-store")


def test_a_kind_without_edits_is_said(tmp_path: Path) -> None:
    sut = TheirStore(tmp_path, Name("their-store"))
    sut.edits = None  # type: ignore[assignment]
    with pytest.raises(ConfigError, match="their-kind"):
        kind_of(sut)


@pytest.mark.parametrize("name", [*names.DEFAULT, "langgraph-async-sqlite-saver+memguard@anchor-held"])
def test_names_are_read_as_they_are_written(name: str) -> None:
    assert str(names.parse(name)) == name
