"""The table of everyone: the catalogue is the draft's table, outcomes become the right cells, the result adds up."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from memguard.bench.integrity import rows as bench_rows
from memguard.bench.integrity import score

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / ".ci" / "rows"
PLAN = tomllib.loads((TOOL / "rows.toml").read_text(encoding="utf-8"))
PUBLISHED = json.loads((ROOT / "docs" / "results" / "rows.json").read_text(encoding="utf-8"))

#: Table 1 of the draft, in its order of claims.
NO_CLAIM = """langgraph-sqlite langgraph-postgres langgraph-redis openai-agents-sqlite-session llamaindex-memory-sqlite
crewai-ltm-lancedb letta-block-history mem0-qdrant-local openclaw-memory-md hermes-memory-md vertex-memory-bank
bedrock-agentcore-events inspeximus-default""".split()
CLAIM = """inspeximus-rcpt+dir inspeximus-rcpt+dir+home acrf-memory-guard langgraph-ledger memory-blackbox-md
memory-blackbox-md+restart atelya-attest-chain atelya-attest-chain+anchor continuum-events continuum-events+attest
atmem-chain atmem-chain+checkpoint hdp-token-content-ref hdp-token-uuid agent-memory recallspection-exact
recallspection-exact+anchor surgical-devops-g7""".split()

PLAIN = """
from agmi.adapters.langgraph_sqlite import LangGraphSqliteAdapter


class Missing(LangGraphSqliteAdapter):
    def write_raw(self, record):
        pass  # an edit that does not happen


class Refusing(LangGraphSqliteAdapter):
    def verify(self):
        return False  # whatever is stored


class Stumbling(LangGraphSqliteAdapter):
    edited = False

    def write_raw(self, record):
        super().write_raw(record)
        self.edited = True

    def verify(self):
        if self.edited:
            raise KeyError("text of a memory")
        return super().verify()
"""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"rows_{name}", TOOL / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ASSEMBLE = load("assemble")


def probe(tmp_path: Path, name: str, *more: str) -> dict[str, Any]:
    (tmp_path / "stores_of_the_test.py").write_text(PLAIN)
    words = [
        sys.executable,
        str(TOOL / "probe.py"),
        "--paths",
        str(tmp_path),
        "--adapter",
        f"stores_of_the_test:{name}",
    ]
    done = subprocess.run([*words, *more], capture_output=True, text=True, timeout=300, check=True)
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    assert "text of a memory" not in done.stdout
    return answer


def test_the_catalogue_is_the_table_of_the_draft() -> None:
    assert [name for name, row in PLAN["rows"].items() if not row["claim"]] == NO_CLAIM
    assert [name for name, row in PLAN["rows"].items() if row["claim"]] == CLAIM
    assert (len(NO_CLAIM), len(CLAIM)) == (13, 18)
    for name, row in {**PLAN["rows"], **PLAN["features"]}.items():
        assert ("adapter" in row) != ("reason" in row), name
        if "adapter" in row:
            assert row["environment"] in {**PLAN["environments"], **PLAN["dated"]}, name
            assert {"packages", "backend", "api", "features"} <= row.keys(), name


def test_the_probe_tells_served_edits_from_missed_ones_and_from_stray_errors(tmp_path: Path) -> None:
    assert probe(tmp_path, "LangGraphSqliteAdapter", "--case", "T1")["cells"] == {
        "T1": {"outcome": "served", "by": ""}
    }
    assert probe(tmp_path, "Missing", "--case", "T1")["cells"] == {"T1": {"outcome": "astray"}}
    stray = probe(tmp_path, "Stumbling", "--case", "T1")["cells"]["T1"]
    assert stray == {"outcome": "failed", "step": "reading", "error": "KeyError"}


def test_a_store_that_refuses_everything_fails_its_controls(tmp_path: Path) -> None:
    answer = probe(tmp_path, "Refusing")
    assert not answer["controls"]["C1"]["ok"]
    row = ASSEMBLE.row("refusing", ABOUT, answer, "harness")
    assert (row["evaluable"], row["metric"], row["level"]) == (False, None, score.NOT_EVALUABLE)
    assert row["reason"].startswith("not evaluable: C1")


ABOUT = {"claim": True, "adapter": "m:C", "answers": ["verify"], "packages": [], "table": "rows"}


@pytest.mark.parametrize(
    ("found", "point", "words", "landed"),
    [
        ({"outcome": "served"}, "read", ("ACCEPTED", "ACCEPTED"), True),
        ({"outcome": "noticed", "by": "verify"}, "read", ("REJECTED", "REJECTED"), True),
        ({"outcome": "noticed", "by": "verify"}, "audit", ("REPORTED", "REPORTED"), True),
        ({"outcome": "noticed", "by": "TypeError"}, "read", ("REJECTED", "ERROR"), True),
        ({"outcome": "failed", "step": "reading", "error": "KeyError"}, "read", ("REJECTED", "ERROR"), True),
        ({"outcome": "failed", "step": "seeding", "error": "KeyError"}, "read", ("ERROR", "ERROR"), False),
        ({"outcome": "astray"}, "read", ("ERROR", "ERROR"), False),
        ({"outcome": "na", "reason": "it cannot"}, "read", ("N/A", "N/A"), True),
    ],
)
def test_an_outcome_becomes_a_cell(found: Any, point: str, words: tuple[str, str], landed: bool) -> None:
    cell = ASSEMBLE.cell("T1", found, ABOUT, point)
    assert (cell["verdict"], cell["strict_verdict"]) == words
    assert cell["landed"] is landed


def test_a_name_that_appeared_on_an_index_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    about = {"claim": True, "pip": "x", "reason": "not on the package index under its published name"}
    gone, there = (ASSEMBLE.unmeasured("r", about, "pip", version) for version in (None, "2.0"))
    assert gone["reason"] == "not measured: not on the package index under its published name"
    assert "on the package index now as x 2.0" in there["reason"]
    assert there["looked_up"] == {"index": "pip", "name": "x", "newest": "2.0"}


def test_the_published_rows_add_up() -> None:
    assert (PUBLISHED["schema"], PUBLISHED["bench"]) == ("memguard.bench/1", "rows")
    assert PUBLISHED["config_digest"] == bench_rows.digest(PUBLISHED["config"])
    assert PUBLISHED["manifest"]["digest"] == bench_rows.digest(PUBLISHED["manifest"]["rows"])
    assert [r["sut"] for r in PUBLISHED["rows"] if r["table"] == "rows"] == [*PLAN["rows"]]
    for row in PUBLISHED["rows"]:
        assert row["digest"] == bench_rows.digest({k: v for k, v in row.items() if k != "digest"}), row["sut"]
        assert row["measured"] or row["reason"].startswith("not measured: ")
        assert row["date"]
        if row["measured"]:
            assert row["versions"]
            assert "not installed" not in row["versions"].values(), row["sut"]
        if row["evaluable"]:
            cells, point = row["cells"], row["detection_point"]
            assert row["strict_metric"] == score.metric(cells, point, "strict_verdict"), row["sut"]
            assert row["strict_level"] == score.level(cells, "strict_verdict"), row["sut"]
            assert row["controls"]["C3"]["failed"] == [c for c in cells if not cells[c]["landed"]]


def test_no_published_row_of_others_names_a_path_or_quotes_a_package() -> None:
    for row in PUBLISHED["rows"]:
        assert "/tmp" not in json.dumps(row), row["sut"]
        if row["table"] != "bench":
            for cell in row["cells"].values():
                assert len(cell["detail"]) < 60, cell
