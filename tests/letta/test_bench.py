"""Letta on the integrity bench: an edit of a record and a restored store, in the tables of the running server."""

from __future__ import annotations

from pathlib import Path

import pytest

from memguard.bench.integrity import rows
from memguard.bench.integrity.cases import BY_ID
from memguard.bench.integrity.lab import Lab
from memguard.bench.integrity.trial import run_case
from memguard.bench.suts import names
from memguard.errors import ConfigError

#: A few edits; all cases are measured by `memguard bench integrity`.
FEW = {"letta-passages": ("T1", "T9"), "letta-blocks": ("T1",)}


@pytest.mark.parametrize("base", FEW)
def test_edits_of_the_servers_tables_are_refused(server: None, tmp_path: Path, base: str) -> None:
    lab = Lab(f"{base}+memguard", tmp_path, 0)
    lab.prepare()
    cells = {case: rows.cell(run_case(lab, BY_ID[case], "read"), "read") for case in FEW[base]}
    assert {c: cell["strict_verdict"] for c, cell in cells.items()} == dict.fromkeys(FEW[base], "REJECTED"), (
        cells
    )


def test_without_a_server_the_bench_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("letta_client")
    monkeypatch.delenv("MEMGUARD_LETTA_URL", raising=False)
    with pytest.raises(ConfigError) as caught:
        names.build("letta-passages", tmp_path)
    assert "make letta" in str(caught.value)
