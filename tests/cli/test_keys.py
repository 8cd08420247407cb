"""Keys by the command line: made once, rotated, destroyed after a plan, and never printed."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def ring(place) -> str:
    return f"file:{place / 'key.json'}"


def secrets_of(place) -> list[str]:
    document = json.loads((place / "key.json").read_text())
    return [entry["secret"] for entry in document["keys"].values() if "secret" in entry]


def test_new_makes_a_private_file_once(run, ring, place) -> None:
    first = run("keys", "new", "--keys", ring)
    assert first.exit_code == 0, first.stderr
    assert (place / "key.json").stat().st_mode & 0o777 == 0o600
    before = secrets_of(place)
    second = run("keys", "new", "--keys", ring)
    assert second.exit_code == 0
    assert secrets_of(place)[0] == before[0]
    assert len(secrets_of(place)) == 2


def test_the_default_ring_is_the_users_own(run, place) -> None:
    assert run("keys", "new").exit_code == 0
    assert (place.parent / "user" / ".config" / "memguard" / "key.json").exists()


def test_rotate_retires_the_old_key_which_still_verifies(run, ring, data) -> None:
    run("keys", "new", "--keys", ring, "--id", "first")
    result = run("keys", "rotate", "second", "--keys", ring, "--format", "json")
    assert result.exit_code == 0, result.stderr
    assert {row["key"]: row["state"] for row in data(result)["rows"]} == {
        "first": "retired",
        "second": "active",
    }
    assert data(result)["current"] == "second"


def test_destroy_plans_before_it_destroys(run, ring, place, data) -> None:
    run("keys", "new", "--keys", ring, "--id", "first")
    run("keys", "rotate", "second", "--keys", ring)
    before = (place / "key.json").read_bytes()
    plan = run("keys", "destroy", "first", "--keys", ring)
    assert plan.exit_code == 0
    assert "nothing was changed" in plan.stdout
    assert (place / "key.json").read_bytes() == before
    done = run("keys", "destroy", "first", "--keys", ring, "--apply", "--format", "json")
    assert done.exit_code == 0
    assert len(secrets_of(place)) == 1
    assert {row["key"]: row["state"] for row in data(done)["rows"]}["first"] == "destroyed"


@pytest.mark.parametrize(("kid", "code"), [("first", 2), ("nobody", 3)])
def test_what_cannot_be_destroyed(run, ring, kid, code) -> None:
    run("keys", "new", "--keys", ring, "--id", "first")
    for apply in ([], ["--apply"]):
        assert run("keys", "destroy", kid, "--keys", ring, *apply).exit_code == code


def test_no_secret_in_any_answer(run, ring, place) -> None:
    run("keys", "new", "--keys", ring, "--id", "first")
    commands = [("new",), ("list",), ("rotate",), ("destroy", "first"), ("destroy", "first", "--apply")]
    for command in commands:
        known = secrets_of(place)
        for form in ("table", "json", "jsonl", "md"):
            result = run("-v", "keys", command[0], *command[1:], "--keys", ring, "--format", form)
            for secret in {*known, *secrets_of(place)}:
                assert secret.rstrip("=") not in result.output, command


def test_a_ring_that_others_can_read_is_refused(run, ring, place) -> None:
    run("keys", "new", "--keys", ring)
    (place / "key.json").chmod(0o644)
    result = run("keys", "list", "--keys", ring)
    assert result.exit_code == 2
    assert "MG110" in result.stderr


def test_an_environment_ring_is_listed_and_not_changed(run, monkeypatch) -> None:
    secret = "A" * 10 + "bcdefghijklmnopqrstuvwxyz0123456" + "w"
    monkeypatch.setenv("AGENT_KEY", secret)
    for verb in ("list", "new", "rotate"):
        result = run("keys", verb, "--keys", "env:AGENT_KEY")
        assert secret not in result.output
        if verb != "list":
            assert result.exit_code == 2


def test_rotating_the_default_ring_says_whose_it_is(run, ring) -> None:
    run("keys", "new")
    assert "all projects" in run("keys", "rotate").stdout
    run("keys", "new", "--keys", ring)
    own = run("keys", "rotate", "--keys", ring).stdout
    assert "all projects" not in own
    assert "every home whose keys are" in own
