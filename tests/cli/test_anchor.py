"""The anchor by the command line: shown, moved, accepted after a restored backup, begun again when it is lost."""

from __future__ import annotations

import shutil

import pytest


def test_show(project, run, data) -> None:
    result = run("anchor", "show", "--format", "json")
    assert result.exit_code == 0, result.stderr
    found = data(result)
    assert found["bad_signatures"] == 0
    assert [row["store"] for row in found["rows"]] == ["checkpoints"]
    assert found["rows"][0]["contexts"] == 2
    assert "SAME" in found["volume"]


def test_show_of_a_damaged_log(project, run) -> None:
    log = project.anchor / "anchor.log"
    damaged = bytearray(log.read_bytes())
    damaged[600] ^= 1  # in the middle of what was written; the file is longer, for writes to come
    log.write_bytes(bytes(damaged))
    result = run("anchor", "show")
    assert result.exit_code == 1
    assert "MG41" in result.stderr


def test_set_plans_then_moves_and_a_program_on_the_old_one_stops(project, run, data, place) -> None:
    from memguard import AnchorError, MemGuard

    target = f"file:{place / 'third' / 'anchor'}"
    before = project.state()
    plan = run("anchor", "set", target)
    assert plan.exit_code == 0, plan.stderr
    assert "nothing was changed" in plan.stdout
    assert project.state() == before

    running = MemGuard.open(project.home)
    result = run("anchor", "set", target, "--apply", "--format", "json")
    assert result.exit_code == 0, result.stderr
    assert data(run("anchor", "show", "--format", "json"))["anchor"] == target
    assert data(run("anchor", "show", "--format", "json"))["operators_acts"] == ["move"]
    assert run("audit", "checkpoints").exit_code == 0
    assert not (project.anchor / "anchor.log").exists()
    assert list(project.anchor.glob("anchor.log.moved-*"))
    text = (project.home / "memguard.toml").read_text()
    assert text.startswith("# memguard."), "comments stay"
    assert "[stores.checkpoints]" in text
    with pytest.raises(AnchorError):
        running.anchor.acquire()
    running.close()


def test_set_does_not_write_over_an_anchor(project, run, place) -> None:
    target = f"file:{place / 'third'}"
    assert run("init", "--home", "other", "--keys", f"file:{project.key}", "--anchor", target).exit_code == 0
    before = project.state()
    result = run("anchor", "set", target, "--apply")
    assert result.exit_code != 0
    assert "Traceback" not in result.stderr
    assert project.state() == before


def test_set_is_refused_where_a_variable_names_the_anchor(project, run, place, monkeypatch) -> None:
    monkeypatch.setenv("MEMGUARD_ANCHOR", f"file:{project.anchor}")
    result = run("anchor", "set", f"file:{place / 'third'}", "--apply")
    assert result.exit_code == 2
    assert "MG153" in result.stderr


def test_accept_after_a_restored_backup(project, run, data, place) -> None:
    backup = place / "backup.db"
    shutil.copy(project.database, backup)
    project.run_program()
    for suffix in ("-wal", "-shm"):
        project.database.with_name(f"agent.db{suffix}").unlink(missing_ok=True)
    shutil.copy(backup, project.database)
    assert run("audit", "checkpoints").exit_code == 1, "a rollback is a finding"

    before = project.state()
    plan = run("anchor", "accept", "--reason", "restored Tuesday's backup")
    assert plan.exit_code == 0, plan.stderr
    assert "nothing was changed" in plan.stdout
    assert project.state() == before
    assert run("audit", "checkpoints").exit_code == 1

    done = run("anchor", "accept", "checkpoints", "--reason", "restored Tuesday's backup", "--apply")
    assert done.exit_code == 0, done.stderr
    assert run("audit", "checkpoints").exit_code == 0, run("audit", "checkpoints").stdout
    acts = data(run("anchor", "show", "--format", "json"))["operators_acts"]
    assert acts == ["accept checkpoints", "accept checkpoints"], "one signed note for each context"


@pytest.mark.parametrize("reason", [[], ["--reason", ""], ["--reason", "  "]])
def test_a_ceremony_needs_a_reason(project, run, reason) -> None:
    for verb in ("accept", "recover"):
        assert run("anchor", verb, *reason, "--apply").exit_code == 2


def test_recover_a_lost_anchor(project, run) -> None:
    shutil.rmtree(project.anchor)
    assert run("audit", "checkpoints").exit_code == 3
    plan = run("anchor", "recover", "--reason", "the disk died")
    assert plan.exit_code == 0, plan.stderr
    assert not project.anchor.exists()
    done = run("anchor", "recover", "--reason", "the disk died", "--apply")
    assert done.exit_code == 0, done.stderr
    result = run("audit", "checkpoints")
    assert result.exit_code == 0, result.stdout


def test_recover_is_refused_while_the_anchor_holds(project, run) -> None:
    before = project.state()
    result = run("anchor", "recover", "--reason", "just so", "--apply")
    assert result.exit_code == 2
    assert "MG154" in result.stderr
    assert project.state() == before


def test_recover_resolves_its_stores_before_it_touches_the_anchor(project, run, place) -> None:
    """Without a [stores.NAME] table, or with one that opens nothing, plan and act fail alike and change nothing."""
    shutil.rmtree(project.anchor)
    toml = project.home / "memguard.toml"
    whole = toml.read_text()
    for change, code in (
        (whole.partition("[stores.checkpoints]")[0], "MG150"),
        (whole.replace("sqlite:agent.db", "sqlite:away.db"), "MG151"),
    ):
        toml.write_text(change)
        assert run("config", "seal", "--apply").exit_code == 0
        for apply in ([], ["--apply"]):
            result = run("anchor", "recover", "--reason", "the disk died", *apply)
            assert result.exit_code == 2
            assert code in result.stderr
            assert not project.anchor.exists()
    toml.write_text(whole)
    run("config", "seal", "--apply")
    for store in ("app:graph", "checkpoint"):
        result = run("anchor", "recover", store, "--reason", "the disk died", "--apply")
        assert result.exit_code == 2
        assert "MG150" in result.stderr
        assert not project.anchor.exists()
    assert run("anchor", "recover", "--reason", "the disk died", "--apply").exit_code == 0
    assert run("audit", "checkpoints").exit_code == 0


def test_accept_says_plainly_that_it_deletes(project, run) -> None:
    newest = project.newest()
    project.edit(
        "UPDATE checkpoints SET checkpoint = CAST(checkpoint || x'00' AS BLOB) WHERE checkpoint_id = ?",
        newest,
    )
    before = project.state()
    plan = run("anchor", "accept", "checkpoints", "--reason", "as it is")
    assert plan.exit_code == 0, plan.stderr
    assert "DELETES 1 row that was changed; copy the database first" in plan.stdout
    assert project.state() == before
    done = run("anchor", "accept", "checkpoints", "--reason", "as it is", "--apply")
    assert "deleted 1 row that was changed" in done.stdout
    assert project.newest() != newest, "the plan was true"
    assert "DELETES" in " ".join(run("anchor", "accept", "--help").stdout.split())
