"""The doctor proves by a canary, on a copy, and says where what is trusted lies."""

from __future__ import annotations

import datetime

import pytest

from memguard.cli import checks
from memguard.settings import Config


def results(found) -> dict[str, str]:
    return {row["check"]: row["result"] for row in found["rows"]}


def test_a_healthy_program(project, run, data) -> None:
    before = project.state()
    result = run("doctor", "app:graph", "--format", "json")
    assert result.exit_code == 0, result.stdout
    found = results(data(result))
    label = "app:graph.checkpointer"
    for check in (
        f"{label}: writes reach the guard",
        f"{label}: a genuine record is served",
        f"{label}: an edited record is refused",
        f"{label}: commits are durable",
    ):
        assert found[check] == "PASS", check
    assert sum("asynchronous" in check for check in found) == 2
    assert "FAIL" not in found.values()
    after = project.state()
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == set(), "the canary runs on a copy"


def test_a_configured_store(project, run, data) -> None:
    result = run("doctor", "--format", "json")
    assert result.exit_code == 0, result.stdout
    found = results(data(result))
    assert found["checkpoints: an edited record is refused"] == "PASS"
    assert found["checkpoints: the program guards it"] == "SKIP", "who opened it itself cannot know"


@pytest.mark.parametrize("kind", ["langgraph-async-sqlite-saver"])
def test_an_asynchronous_kind_is_tried_by_its_own_type(project, run, data, kind, monkeypatch) -> None:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    made: list[object] = []
    init = AsyncSqliteSaver.__init__
    monkeypatch.setattr(
        AsyncSqliteSaver, "__init__", lambda self, *a, **k: (made.append(self), init(self, *a, **k))[1]
    )
    path = project.home / "memguard.toml"
    path.write_text(path.read_text().replace("langgraph-sqlite-saver", kind))
    assert run("config", "seal", "--apply").exit_code == 0
    result = run("doctor", "--format", "json")
    assert result.exit_code == 0, result.stdout
    found = results(data(result))
    assert found["checkpoints: and served by the asynchronous twin"] == "PASS"
    assert found["checkpoints: and refused by the asynchronous twin"] == "PASS"
    assert found["checkpoints: an edited record is refused"] == "PASS"
    assert len(made) == 2, "one genuine and one edited read through AsyncSqliteSaver itself"


def test_a_program_that_is_not_guarded_fails(project, run, data) -> None:
    result = run("doctor", "app:open_graph", "--format", "json")
    assert result.exit_code == 1
    assert results(data(result))["app:open_graph.checkpointer: writes reach the guard"] == "FAIL"
    assert "MG160" in run("doctor", "app:open_graph").stdout


def test_a_guard_that_does_not_refuse_fails(project, run, data, monkeypatch) -> None:
    """The doctor's own control: with verification gone, the canary must say so."""
    monkeypatch.setattr("memguard.integrity.verifier.compare_digest", lambda tag, expected: True)
    result = run("doctor", "checkpoints", "--format", "json")
    assert result.exit_code == 1
    assert results(data(result))["checkpoints: an edited record is refused"] == "FAIL"


@pytest.mark.parametrize("preset", ["observe", "off"])
def test_observing_is_a_warning_and_says_that_edits_are_served(project, run, data, preset) -> None:
    path = project.home / "memguard.toml"
    path.write_text(path.read_text().replace('preset = "balanced"', f'preset = "{preset}"'))
    assert run("config", "seal", "--apply").exit_code == 0
    result = run("doctor", "checkpoints", "--format", "json")
    assert result.exit_code == 0, result.stdout
    found = results(data(result))
    assert found["checkpoints: an edited record is refused"] == "WARN"
    assert found["integrity is not enforced"] == "WARN"


def test_where_the_anchor_and_the_key_are(project, run, data, place) -> None:
    found = results(data(run("doctor", "--format", "json")))
    # The anchor of this project lies in the folder of its store.
    assert found["the anchor lies with the store"] == "WARN"
    assert "key source" in found
    assert found["keys and anchor are named by a file in the home"] == "WARN"


def test_roots_from_the_environment_are_not_the_homes(project, run, data, monkeypatch) -> None:
    monkeypatch.setenv("MEMGUARD_KEY_FILE", str(project.key))
    monkeypatch.setenv("MEMGUARD_ANCHOR", f"file:{project.anchor}")
    found = results(data(run("doctor", "--format", "json")))
    assert found["keys and anchor are named from outside the home"] == "PASS"


def test_a_key_in_the_stores_folder_fails(place, run, data) -> None:
    assert run("init", "--keys", f"file:{place / '.memguard-key' / 'key.json'}").exit_code == 0
    config = place / ".memguard" / "memguard.toml"
    (place / ".memguard" / "key.json").write_bytes((place / ".memguard-key" / "key.json").read_bytes())
    (place / ".memguard" / "key.json").chmod(0o600)
    config.write_text(config.read_text().replace(".memguard-key", ".memguard"))
    assert run("config", "seal", "--apply").exit_code == 0
    result = run("doctor", "--format", "json")
    assert result.exit_code == 1
    assert results(data(result))["the key lies with the home"] == "FAIL"


def test_no_home_fails_and_says_what_to_do(run) -> None:
    result = run("doctor")
    assert result.exit_code == 1
    assert "FAIL" in result.stdout
    assert "MG102" in result.stdout


def test_a_store_without_durable_commits_is_a_warning(project, run, data, place) -> None:
    program = place / "app.py"
    program.write_text(
        program.read_text().replace(
            "saver = guard(", 'bare.conn.execute("PRAGMA synchronous=NORMAL")\nsaver = guard('
        )
    )
    found = results(data(run("doctor", "app:graph", "--format", "json")))
    assert found["app:graph.checkpointer: commits are not durable"] == "WARN"


def test_lines_fit_and_colour_is_only_for_terminals(project, run) -> None:
    result = run("doctor")
    assert max(map(len, result.stdout.splitlines())) <= 200
    assert "\x1b" not in result.stdout
    assert result.stdout.splitlines()[-1].endswith("not looked at")


TODAY = datetime.date(2026, 12, 1)


def _mapped(kind: str, place: str) -> dict:
    return {"stores": {"s": {"kind": kind, "uri": "sqlite:x.db", "scope": {"user": place}}}}


def test_a_scope_map_that_binds_nothing_is_told() -> None:
    config = Config(read={"scope": "off"}, **_mapped("langgraph-sqlite-store", "namespace.1"))
    (found,) = checks.policy(config, TODAY)
    assert (found.result, found.code) == ("WARN", "MG166")
    assert "principals bind nothing in s" in found.detail


@pytest.mark.parametrize(
    ("config", "result", "word"),
    [
        ({}, None, None),
        ({"read": {"reranker": "observe"}}, "WARN", "no end"),
        (
            {"read": {"reranker": "observe"}, "observe": {"expires": datetime.date(2026, 12, 2)}},
            "PASS",
            "until",
        ),
        (
            {"read": {"reranker": "observe"}, "observe": {"expires": datetime.date(2026, 11, 30)}},
            "WARN",
            "2026-11-30",
        ),
        ({"integrity": {"mode": "report"}}, "WARN", "served"),
        (
            {"stores": {"s": {"kind": "langgraph-sqlite-store", "uri": "sqlite:x.db"}}},
            "WARN",
            "restricts nothing in s",
        ),
        (_mapped("langgraph-sqlite-store", "namespace.1"), None, None),
        (_mapped("langgraph-sqlite-saver", "thread.0"), None, None),
        (_mapped("langgraph-sqlite-saver", "metadata.user_id"), None, None),
        (_mapped("langgraph-sqlite-saver", "namespace.1"), "FAIL", "no namespace"),
        (_mapped("langgraph-async-sqlite-store", "thread"), "FAIL", "no thread"),
    ],
)
def test_policy(config, result, word) -> None:
    found = list(checks.policy(Config(**config), TODAY))
    assert [check.result for check in found] == ([result] if result else [])
    assert word is None or word in found[0].detail


def test_a_shadowing_distribution(monkeypatch) -> None:
    import importlib.metadata

    monkeypatch.setattr(
        importlib.metadata, "packages_distributions", lambda: {"memguard": ["memguard-middleware", "other"]}
    )
    (found,) = checks.shadowing()
    assert (found.result, found.code) == ("WARN", "MG161")
    assert "other" in found.detail


CLOSED = """
from langgraph.checkpoint.sqlite import SqliteSaver
from app import build
from memguard import guard

with SqliteSaver.from_conn_string("agent.db") as bare:
    graph = build(guard(bare, name="checkpoints"))
"""


def test_a_program_whose_connection_is_closed_is_told_so(project, process, place) -> None:
    (place / "closed.py").write_text(CLOSED)
    audit = process("audit", "closed:graph")
    assert audit.returncode == 2, audit.stderr
    doctor = process("doctor", "closed:graph")
    assert doctor.returncode == 1, doctor.stderr
    for said in (audit.stderr, doctor.stdout):
        assert "MG158" in said
        assert "outside of the with block" in said
        assert "[stores.NAME]" in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import nosuchmodule", "No module named 'nosuchmodule'"),
        ("raise RuntimeError('the memory of alice')", "broken.py:1"),
        ("from memguard import MemGuard; MemGuard.open('nowhere')", "MG102"),
    ],
)
def test_why_a_program_cannot_be_imported(project, process, place, text, says) -> None:
    (place / "broken.py").write_text(text + "\n")
    for verb in ("audit", "doctor"):
        done = process(verb, "broken:graph")
        assert says in done.stdout + done.stderr
        assert "alice" not in done.stdout + done.stderr


ASYNC = """
import asyncio
from app import build
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from memguard import guard


async def main():
    async with AsyncSqliteSaver.from_conn_string("agent.db") as bare:
        return build(guard(bare, name="checkpoints"))


graph = asyncio.run(main())
"""


def test_an_asynchronous_program_is_audited_by_its_table(project, process, place) -> None:
    (place / "loops.py").write_text(ASYNC)
    done = process("audit", "loops:graph")
    assert done.returncode == 2, done.stderr
    assert "[stores.NAME]" in done.stderr
    assert process("doctor", "loops:graph").returncode in (0, 1)
