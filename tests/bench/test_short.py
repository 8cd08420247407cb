"""``memguard bench summary``: the five lines that ``make bench`` ends in."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memguard.bench.cli import bench
from memguard.bench.integrity import rows
from memguard.bench.overhead.command import result
from memguard.bench.overhead.rows import Row
from memguard.bench.overhead.run import SAVER, STORE
from memguard.bench.suts.names import QUICK

ROOT = Path(__file__).resolve().parents[2]


def timed(sut: str, operation: str, size: str, ratio: float, hmac_us: float, guards: str = "off") -> Row:
    return Row(
        sut, operation, size, 1, guards=guards, bare_us=1.0, guarded_us=ratio, ratio=ratio,
        sync_us=80.0, commit_us=120.0, hmac_us=hmac_us,
    )  # fmt: skip


@pytest.fixture
def files(tmp_path: Path, row_maker: Any) -> list[Path]:
    """Both results as ``make bench`` leaves them, of a quiet machine."""
    made = [
        row_maker({}, sut=sut, guarded="+" in sut, rest="REJECTED" if "+" in sut else "ACCEPTED")
        for sut in QUICK
    ]
    integrity = rows.document(rows.configuration(list(QUICK), 0, False), made, "2026-12-01T00:00:00Z")
    out = [tmp_path / "integrity.json", tmp_path / "overhead.json"]
    out[0].write_text(json.dumps(integrity))
    write_overhead(out[1], hmac_us=1.8)
    return out


def write_overhead(path: Path, hmac_us: float) -> None:
    found = [
        timed(SAVER, "put", "1 msg", 9.0, hmac_us),
        timed(SAVER, "put", "50 msg", 2.0, hmac_us),
        timed(SAVER, "put", "50 msg", 7.0, hmac_us, guards="on"),
        timed(SAVER, "get_tuple(head)", "50 msg", 1.125, hmac_us),
        timed(STORE, "store get", "2000 items", 1.5, hmac_us),
    ]
    path.write_text(json.dumps(result(found, {"bench": "overhead"})))


def summary(*files: Path) -> Result:
    return CliRunner().invoke(bench, ["summary", *map(str, files)], standalone_mode=False)


def test_five_lines_in_plain_words(files: list[Path]) -> None:
    lines = summary(*files).stdout.splitlines()
    assert len(lines) == 5
    assert max(map(len, lines)) <= 110
    of = int(re.findall(r"of (\d+)", lines[1])[0])
    assert (
        lines[1]
        == f"SqliteSaver: bare 0.00 L0, {of} of {of} edits served; guarded 1.00 L4, 0 of {of} edits served"
    )
    assert lines[2].startswith("SqliteStore: bare 0.00 L0, ")
    assert lines[3] == "Time of a guarded call, bare = 1: saver put 2.0, get 1.1; store get 1.5."
    assert "80 us" in lines[4]
    assert "BUSY" not in lines[4]


def test_a_busy_machine_is_named(files: list[Path]) -> None:
    write_overhead(files[1], hmac_us=2.6)
    assert "BUSY MACHINE (one HMAC 2.6 us, quiet 1.7)" in summary(*files).stdout.splitlines()[-1]


def test_a_bench_that_was_stopped_has_no_result(files: list[Path], tmp_path: Path) -> None:
    found = summary(files[0], tmp_path / "nothing.json").stdout
    assert found.endswith("overhead: no result\n")
    assert "integrity: no result" in summary(tmp_path / "nothing.json", files[1]).stdout
    (tmp_path / "other.json").write_text("{}")
    assert "is no result of a bench" in str(summary(tmp_path / "other.json").exception)


def test_make_bench_ends_in_it() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nbench: ")[2].partition("\n\n")[0].splitlines()
    assert "bench summary $(RESULTS)" in recipe[-2]
    assert recipe[-1].strip() == "exit $$status"
