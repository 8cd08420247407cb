"""The four forms of an answer, the files, and what a terminal is protected from."""

from __future__ import annotations

import json

import pytest

from memguard.cli import exits
from memguard.cli.output import FORMATS, SUFFIXES, Report, emit, plain, progress, render, width
from memguard.errors import ConfigError

REPORT = Report(
    "audit",
    code=1,
    reason="one record",
    facts={"store": "checkpoints", "clean": False},
    columns=("case", "record"),
    rows=[{"case": "T1", "record": "a|b", "hidden": [1]}, {"case": "T2", "record": "c\x1b[31m\n"}],
    notes=["see memguard explain T1"],
)


def test_json_carries_the_exit_and_all_fields() -> None:
    found = json.loads(render(REPORT, "json"))
    assert found["exit"] == {"code": 1, "reason": "one record"}
    assert found["schema"] == "memguard.cli/1"
    assert found["rows"][0]["hidden"] == [1]
    assert found["store"] == "checkpoints"


def test_jsonl_is_one_row_a_line() -> None:
    lines = render(REPORT, "jsonl").splitlines()
    assert [json.loads(line)["case"] for line in lines] == ["T1", "T2"]


def test_table_and_markdown_escape_what_a_record_id_smuggles() -> None:
    for form in ("table", "md"):
        text = render(REPORT, form)
        assert "\x1b" not in text
        assert "\\u001b" in text
    assert "a\\|b" in render(REPORT, "md")
    assert "<b>" not in render(Report("x", facts={"name": "<b>"}), "md")


HOSTILE = "a\x1b]0;x\x07\x9b31m\u202e\x7f\r\ud800\U000e0041\u2028é記"


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_in_an_answer_reaches_a_terminal_unseen(form: str) -> None:
    facts, rows = {"name": HOSTILE}, [{HOSTILE: HOSTILE, "case": HOSTILE}]
    for report in (
        Report("x", facts=facts, rows=rows, columns=("case",), notes=[HOSTILE]),
        Report("x", facts=facts, text=HOSTILE),
    ):
        text = render(report, form)
        assert all(char.isprintable() or char == "\n" for char in text)
        if form == "json":
            found = json.loads(text)
            assert (found["name"], found["rows"]) == (HOSTILE, report.rows)
        assert "é記" in text


def test_nothing_in_an_error_reaches_a_terminal_unseen(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.report(ConfigError("no such store", where=HOSTILE)) == 2
    progress(HOSTILE)
    said = capsys.readouterr().err
    assert all(char.isprintable() or char == "\n" for char in said)
    assert "\\u001b]0;x" in said


def test_a_table_is_aligned_even_with_wide_characters() -> None:
    report = Report("x", columns=("a", "b"), rows=[{"a": "記憶", "b": 1}, {"a": "x", "b": 2}])
    lines = render(report, "table").splitlines()
    assert len({width(line) for line in lines}) == 1


def test_shown_limits_the_table_and_not_the_json() -> None:
    report = Report("x", columns=("n",), rows=[{"n": n} for n in range(5)], shown=2)
    assert len(render(report, "table").splitlines()) == 3
    assert len(json.loads(render(report, "json"))["rows"]) == 5


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "yes"),
        (False, "no"),
        (0.12345, "0.123"),
        ([], "-"),
        (["a", 1], "a, 1"),
        ("\u202eabc", "\\u202eabc"),
    ],
)
def test_cells(value, text) -> None:
    assert plain(value) == text


def test_files_by_suffix(tmp_path, capsys) -> None:
    files = [tmp_path / f"out{suffix}" for suffix in SUFFIXES]
    assert emit(REPORT, "json", files) == 1
    assert json.loads((tmp_path / "out.json").read_text())["command"] == "audit"
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2
    assert (tmp_path / "out.md").read_text().startswith("### memguard audit")
    assert "CASE" in (tmp_path / "out.txt").read_text()
    from sqlite_utils import Database

    rows = list(Database(tmp_path / "out.db")["audit"].rows)
    assert [row["case"] for row in rows] == ["T1", "T2"]
    out = capsys.readouterr()
    assert json.loads(out.out)["command"] == "audit"
    assert out.err.count("wrote ") == len(SUFFIXES)


def test_progress_is_on_stderr_and_quiet_takes_it_off(run, place) -> None:
    loud = run("explain", "T1", "-o", "t1.json")
    assert "wrote t1.json" in loud.stderr
    assert "wrote" not in loud.stdout
    assert run("--quiet", "explain", "T1", "-o", "t1.json").stderr == ""


def test_colours(monkeypatch) -> None:
    report = Report("doctor", columns=("result",), rows=[{"result": "FAIL"}])
    assert "\x1b[31m" in render(report, "table", colour=True)
    from memguard.cli.output import colours_on

    monkeypatch.delenv("NO_COLOR")
    assert colours_on() is False  # not a terminal
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert colours_on() is True
    monkeypatch.setenv("NO_COLOR", "1")
    assert colours_on() is False
