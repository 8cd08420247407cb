"""The kinds that are plain text on disk, a memory folder and an MCP server's file: audit, doctor, adopt, repair."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memguard import MemGuard, registry
from memguard.cli.stores import Canary, StoreKind, kind_of
from memguard.errors import ConfigError
from memguard.integrations.folder import MemoryFolder
from memguard.integrations.mcp import KnowledgeGraph


@pytest.fixture(params=["folder", "mcp-memory"])
def filled(request, project, run):
    """A configured store of the kind with one record in it; its kind and its file."""
    kind: StoreKind = registry.kinds.get(request.param)
    place = project.folder / "kept"
    with (project.home / "memguard.toml").open("a") as file:
        file.write(f'\n[stores.kept]\nkind = "{kind.name}"\nuri = "file:kept"\n')
    assert run("config", "seal", "--apply").exit_code == 0
    place.mkdir() if kind.name == "folder" else place.touch()
    canary: Canary = kind.canary("filled")
    with kind.open("file:kept") as inner, MemGuard.open(project.home) as mg:
        assert kind_of(inner) is kind
        canary.write(mg.guard(inner, name="kept"), "the limit is 100 euros")
    return kind, place / "filled" / "canary.md" if kind.name == "folder" else place


def test_audit_and_doctor(filled, run, data) -> None:
    _, file = filled
    assert run("audit", "kept").exit_code == 0
    doctor = run("doctor", "kept", "--format", "json")
    results = {line["check"]: line["result"] for line in json.loads(doctor.stdout)["rows"]}
    served = [
        name for name in results if name.startswith("kept: ") and ("served" in name or "refused" in name)
    ]
    assert len(served) == 4
    assert {results[name] for name in served} == {"PASS"}
    file.write_text(file.read_text().replace("100", "999"))
    found = run("audit", "kept")
    assert found.exit_code == 1
    assert "MG40" in found.stdout
    assert "999" not in found.stdout


def test_what_a_person_edited_is_adopted_only_where_people_edit(filled, run) -> None:
    kind, file = filled
    file.write_text(file.read_text().replace("100", "200"))
    plan = run("adopt", "kept")
    if kind.name == "folder":
        assert "take over filled/canary.md, changed" in plan.stdout
        assert run("adopt", "kept", "--apply").exit_code == 0
        assert run("audit", "kept").exit_code == 0
        return
    assert "has a head already" in plan.stdout
    run("adopt", "kept", "--apply")
    assert run("audit", "kept").exit_code == 1


def test_what_is_not_there_is_not_made(tmp_path: Path) -> None:
    for name in ("folder", "mcp-memory"):
        kind: StoreKind = registry.kinds.get(name)
        for uri in (f"file:{tmp_path / 'nothing'}", "sqlite:kept.db", "file:"):
            with pytest.raises(ConfigError, match="MG151"), kind.open(uri):
                pass
    assert not (tmp_path / "nothing").exists()


def test_each_kind_knows_its_own(tmp_path: Path) -> None:
    folder, graph = MemoryFolder(tmp_path / "m"), KnowledgeGraph(tmp_path / "g.jsonl")
    assert kind_of(folder).name == "folder"
    assert kind_of(graph).name == "mcp-memory"
