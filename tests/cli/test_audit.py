"""audit, adopt and repair on real SQLite stores: what they find, what they leave alone, how they exit."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing

import pytest

EDITS = {
    "content": "UPDATE checkpoints SET checkpoint = CAST(checkpoint || x'00' AS BLOB) WHERE checkpoint_id = ?",
    "metadata": "UPDATE checkpoints SET metadata = CAST(replace(metadata, 'loop', 'fork') AS BLOB) "
    "WHERE checkpoint_id = ?",
    "deleted": "DELETE FROM checkpoints WHERE checkpoint_id = ?",
    "parent": "UPDATE checkpoints SET parent_checkpoint_id = 'another' WHERE checkpoint_id = ?",
}


@pytest.mark.parametrize("store", ["checkpoints", "app:graph", "app:saver"])
def test_a_clean_store_exits_0(project, run, data, store) -> None:
    result = run("audit", store, "--format", "json")
    assert result.exit_code == 0, result.stderr
    found = data(result)
    assert found["clean"] is True
    assert found["contexts"] == 2
    assert found["records"] >= 6
    assert found["anchor"].endswith(str(project.anchor))


@pytest.mark.parametrize("edit", EDITS)
def test_a_tampered_store_exits_1_and_names_the_record(project, run, data, edit) -> None:
    newest = project.newest()
    assert project.edit(EDITS[edit], newest) == 1
    before = project.state()
    result = run("audit", "checkpoints", "--format", "json")
    assert result.exit_code == 1, result.stderr
    found = data(result)
    assert found["clean"] is False
    assert any(newest in row["record"] or '"t-2"' in row["record"] for row in found["rows"])
    assert all(row["code"].startswith("MG4") for row in found["rows"])
    assert found["exit"]["code"] == 1
    assert project.state() == before, "an audit changes nothing"
    table = run("audit", "checkpoints")
    assert table.exit_code == 1
    assert "t-2" in table.stdout
    assert "'t-1'" not in table.stdout


def test_other_forms_and_files(project, run, place) -> None:
    project.edit(EDITS["content"], project.newest())
    result = run("audit", "checkpoints", "--format", "jsonl", "-o", "f.md", "-o", "f.json", "-o", "f.db")
    assert result.exit_code == 1
    assert all(json.loads(line)["code"] for line in result.stdout.splitlines())
    assert (place / "f.md").read_text().startswith("### memguard audit")
    assert json.loads((place / "f.json").read_text())["exit"]["code"] == 1
    with closing(sqlite3.connect(place / "f.db")) as connection:
        assert connection.execute("SELECT count(*) FROM audit").fetchone()[0] >= 1


@pytest.mark.parametrize(
    ("store", "says"),
    [
        ("checkpoint", 'Did you mean "checkpoints"?'),
        ("app:grph", "graph"),
        ("nowhere:graph", "cannot be imported"),
        ("app:open_graph", "not guarded"),
        ("app:sqlite3", "MG152"),
    ],
)
def test_a_store_that_cannot_be_named_exits_2(project, run, store, says) -> None:
    result = run("audit", store)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_database_that_is_not_there_is_not_made(project, run) -> None:
    os.rename(project.database, project.folder / "away.db")
    result = run("audit", "checkpoints")
    assert result.exit_code == 2
    assert "MG151" in result.stderr
    assert f"[{project.database}]" in result.stderr, "the path that was tried, whole"
    assert not project.database.exists()


def test_a_store_that_is_no_database_cannot_be_told(project, run) -> None:
    for suffix in ("-wal", "-shm"):
        project.database.with_name(f"agent.db{suffix}").unlink(missing_ok=True)
    project.database.write_bytes(b"this is no database" * 100)
    result = run("audit", "checkpoints")
    assert result.exit_code in (1, 3)
    assert "Traceback" not in result.stderr


def test_without_the_key_nobody_can_tell(project, run) -> None:
    project.key.rename(project.key.with_suffix(".away"))
    result = run("audit", "checkpoints")
    assert result.exit_code == 3
    assert "MG108" in result.stderr


@pytest.mark.parametrize("kid", [[], ["--id", "another"]], ids=["same id", "other id"])
def test_another_key_is_neither_tampering_nor_a_clean_store(project, run, kid) -> None:
    project.key.rename(project.key.with_suffix(".away"))
    run("keys", "new", "--keys", f"file:{project.key}", *kid)
    result = run("audit", "checkpoints")
    assert result.exit_code == 3, result.stderr
    assert "MG410" in result.stderr


def test_without_the_anchor_nobody_can_tell(project, run) -> None:
    project.anchor.rename(project.anchor.with_name("away"))
    result = run("audit", "checkpoints")
    assert result.exit_code == 3
    assert "MG411" in result.stderr
    assert not project.anchor.exists()


def test_adopt_plans_first_and_takes_only_what_has_no_tag(project, run, data, place) -> None:
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.sqlite import SqliteSaver

    with closing(sqlite3.connect(project.database, check_same_thread=False)) as connection:
        bare = SqliteSaver(connection)
        for n in range(3):
            place_ = {"configurable": {"thread_id": "old", "checkpoint_ns": ""}}
            bare.put(
                place_, {**empty_checkpoint(), "channel_values": {"n": n}}, {"source": "loop", "step": n}, {}
            )
    assert run("audit", "checkpoints").exit_code == 1
    before = project.state()
    plan = run("adopt", "checkpoints", "--format", "json")
    assert plan.exit_code == 0, plan.stderr
    assert data(plan)["applied"] is False
    assert [(row["context"], row["records"]) for row in data(plan)["rows"]] == [('["ck","old",""]', 3)]
    assert "nothing was changed" in run("adopt", "checkpoints").stdout
    assert project.state() == before, "a plan changes nothing"
    done = run("adopt", "checkpoints", "--apply", "--format", "json")
    assert done.exit_code == 0, done.stderr
    assert data(done)["applied"] is True
    assert run("audit", "checkpoints").exit_code == 0
    assert data(run("adopt", "checkpoints", "--format", "json"))["rows"] == []


def test_repair_plans_first_and_drops_what_the_head_does_not_count(project, run, data) -> None:
    newest = project.newest()
    copied = project.edit(
        "INSERT INTO checkpoints SELECT thread_id, checkpoint_ns, 'ffff' || checkpoint_id, parent_checkpoint_id, type, "
        "checkpoint, metadata FROM checkpoints WHERE checkpoint_id = ?",
        newest,
    )
    assert copied == 1
    assert run("audit", "checkpoints").exit_code == 1
    before = project.state()
    plan = run("repair", "checkpoints", "--format", "json")
    assert plan.exit_code == 0, plan.stderr
    assert sum(row["records"] for row in data(plan)["rows"]) == 1
    assert project.state() == before, "a plan changes nothing"
    assert run("repair", "checkpoints", "--apply").exit_code == 0
    assert run("audit", "checkpoints").exit_code == 0
    assert project.newest() == newest


def test_repair_says_what_it_cannot_do(project, run) -> None:
    project.edit(EDITS["deleted"], project.newest())
    result = run("repair", "checkpoints", "--apply")
    assert result.exit_code == 1
    assert "REFUSED" in result.stdout
    plan = run("repair", "checkpoints")
    assert "--apply" not in plan.stdout, "nothing can be applied"
    assert "nothing to apply" in plan.stdout
    assert run("audit", "checkpoints").exit_code == 1


def test_no_content_and_no_secret_in_any_answer(project, run) -> None:
    """The state's value and the key never show, in no form and with -v, whatever is found."""
    project.edit(EDITS["content"], project.newest())
    secret = project.key.read_text().split('"secret": "')[1].split('"')[0].rstrip("=")
    for command in (
        ["audit", "checkpoints"],
        ["repair", "checkpoints"],
        ["adopt", "checkpoints"],
        ["status"],
        ["anchor", "show"],
    ):
        for form in ("table", "json", "md"):
            output = run("-v", *command, "--format", form).output
            assert secret not in output
            assert "branch:to" not in output or "pending write" in output


def test_the_codes_as_a_process_ends_with_them(project, process) -> None:
    assert process("audit", "checkpoints").returncode == 0
    project.edit(EDITS["content"], project.newest())
    done = process("audit", "checkpoints")
    assert (done.returncode, "MG401" in done.stdout) == (1, True)
    assert process("audit", "checkpoints", MEMGUARD_KEY_FILE="nowhere.json").returncode == 3
    project.anchor.rename(project.anchor.with_name("away"))
    done = process("audit", "checkpoints")
    assert (done.returncode, done.stdout) == (3, "")
    assert "Traceback" not in done.stderr


def test_a_program_is_imported_as_a_process_would(project, process) -> None:
    done = process("doctor", "app:graph")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "app:graph.checkpointer: an edited record is refused" in done.stdout
