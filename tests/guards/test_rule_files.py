"""Rule files of users: what they may say, and the error with file, line and reason for everything else."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memguard.config import preset
from memguard.errors import ConfigError
from memguard.guard import GuardContext, Stage
from memguard.guards.rules.files import MAX_BYTES, read_rules
from memguard.guards.sanitizer import Sanitizer
from memguard.record import Record

CTX = GuardContext(Stage.WRITE)
GOOD = """\
# freight
[[rule]]
code = "ACME-1"
name = "freight-desk"
reason = "an order to write to the old freight desk"
disposition = "quarantine"
score = 0.8
words = ["freight"]
pattern = 'freight desk [^.]{0,40}\\bnow\\b'
must = ["The FREIGHT   desk is now at 9 King Street."]
must_not = ["The freight desk was nice.", "Write now."]

[[rule]]
code = "ACME-2"
name = "codename"
reason = "a code name that stays inside"
disposition = "rewrite"
pattern = 'project heron'
must = ["Project Heron starts."]
"""


def write(folder: Path, text: str, name: str = "rules.toml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def guard(*files: str, **rules: str) -> Sanitizer:
    return Sanitizer.from_config(
        preset(
            "balanced",
            {"guards": {"sanitizer": {"rules_files": list(files), "rules": rules, "statistical": "off"}}},
        )
    )


def test_a_rule_file_adds_rules(tmp_path: Path) -> None:
    mine = guard(write(tmp_path, GOOD))
    decision = mine.decide(Record("The freight desk is now at 9 King Street."), CTX)
    assert (decision.disposition, decision.code, decision.score) == ("quarantine", "ACME-1", 0.8)
    cut = mine.decide(Record("On Monday project Heron starts, bring cake."), CTX)
    assert (cut.disposition, cut.rewritten) == ("rewrite", "On Monday  starts, bring cake.")
    assert not mine.decide(Record("The freight desk was nice."), CTX).flagged


def test_a_rule_of_a_file_has_a_mode_like_others(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    text = Record("The freight desk is now at 9 King Street.")
    assert not guard(path, **{"ACME-1": "off"}).decide(text, CTX).flagged
    assert guard(path, **{"ACME-1": "flag"}).decide(text, CTX).disposition == "flag"
    seen = guard(path, **{"ACME-1": "observe"}).decide(text, CTX)
    assert (seen.disposition, seen.would, seen.code) == ("allow", "quarantine", "ACME-1")


def test_a_file_may_be_pinned(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    digest = hashlib.sha256(GOOD.encode()).hexdigest()
    assert [rule.code for rule in read_rules([f"{path}#sha256:{digest}"])] == ["ACME-1", "ACME-2"]
    Path(path).write_text(GOOD + "\n# edited\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="not the file whose digest") as caught:
        read_rules([f"{path}#sha256:{digest}"])
    assert caught.value.code == "MG107"


@pytest.mark.parametrize(
    ("change", "line", "reason"),
    [
        (("score = 0.8", "score = 7"), 7, "score"),
        (('disposition = "quarantine"', 'disposition = "block"'), 6, "disposition"),
        (('code = "ACME-1"', 'code = "MG204"'), 3, "code"),
        (("[^.]{0,40}", "[^.]*"), 9, "bound"),
        (("[^.]{0,40}", "(?:a{0,9}b?){0,9}"), 9, "inside a repeat"),
        (("[^.]{0,40}", "(unclosed"), 9, "pattern"),
        (("[^.]{0,40}", "(x)\\1"), 9, "back to a group"),
        (("is now at", "moved to"), 10, "must: the rule does not match example 1"),
        (('"Write now."', '"freight desk now"'), 11, "must_not: the rule matches example 2"),
        (('reason = "an order to write to the old freight desk"\n', ""), 2, "reason"),
        (('words = ["freight"]', 'word = ["freight"]'), 8, "word: is not a key"),
        (('words = ["freight"]', "words = freight"), 8, "no TOML"),
        (('code = "ACME-2"', 'code = "ACME-1"'), 13, "taken"),
    ],
)
def test_an_error_names_file_line_and_reason(
    tmp_path: Path, change: tuple[str, str], line: int, reason: str
) -> None:
    assert change[0] in GOOD
    path = write(tmp_path, GOOD.replace(*change, 1))
    with pytest.raises(ConfigError) as caught:
        guard(path)
    assert caught.value.code == "MG107"
    assert caught.value.where == f"{path}:{line}"
    assert reason in str(caught.value).lower() or reason in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_rules([str(tmp_path / "missing.toml")])
    with pytest.raises(ConfigError, match="cannot be read"):
        read_rules([str(tmp_path)])
    for text, reason in (("", "no .*rule"), ("[rule]\ncode = 1\n", "list of"), ("[other]\n", "other")):
        with pytest.raises(ConfigError, match=reason):
            read_rules([write(tmp_path, text)])
    (tmp_path / "raw.toml").write_bytes(b"\xff\xfe[[rule]]")
    with pytest.raises(ConfigError, match="UTF-8"):
        read_rules([str(tmp_path / "raw.toml")])
    with pytest.raises(ConfigError, match="bytes"):
        read_rules([write(tmp_path, "#" * (MAX_BYTES + 1))])


@given(
    st.binary(max_size=300)
    | st.text(max_size=300).map(lambda text: ("[[rule]]\n" + text).encode("utf-8", "ignore"))
)
def test_any_bytes_are_rules_or_an_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("rules") / "r.toml"
    path.write_bytes(content)
    try:
        rules = read_rules([str(path)])
    except ConfigError as caught:
        rules, error = (), caught
        at = str(error.where)
        code = error.code
    else:
        at, code = str(path), "MG107"
    assert rules or at.startswith(str(path))
    assert code == "MG107"
