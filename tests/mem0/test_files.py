"""What is unpickled on opening, what importing does, and the kind that the command line opens."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memguard import TamperedError
from memguard.bench.suts.mem0_offline import DIMS, config
from memguard.integrations.mem0 import check_qdrant, from_config
from memguard.integrations.mem0.kind import MEM0
from memguard.integrations.mem0.pickles import check_pickle, point_of

World = Any


class Payload:
    """Runs a command when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return (os.system, (f"touch {self.target}",))


def planted(world: World, marker: Path) -> Path:
    """A store of one memory, whose row somebody replaced by code."""
    world.memory.add("one red apple", user_id="alice", infer=False)
    world.stop()
    file = world.folder / "store/qdrant/collection/memories/storage.sqlite"
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE points SET point = ?", (pickle.dumps(Payload(marker)),))
    return world.folder / "store/qdrant"


def test_a_pickle_that_runs_code_is_found_without_running_it(make: Any, tmp_path: Path) -> None:
    world, marker = make("qdrant"), tmp_path / "ran"
    folder = planted(world, marker)
    with pytest.raises(TamperedError, match="MG540"):
        check_qdrant(folder)
    with pytest.raises(TamperedError, match="MG540"):
        from_config(config("qdrant", world.folder / "store"))
    settings = {"vector_store": config("qdrant", world.folder / "store")["vector_store"],
                "history_db_path": str(world.folder / "store/history.db")}  # fmt: skip
    (tmp_path / "mem0.json").write_text(json.dumps(settings))
    with pytest.raises(TamperedError, match="MG540"), MEM0.open(f"file:{tmp_path / 'mem0.json'}"):
        pass
    assert not marker.exists()


def test_the_same_pickle_runs_where_nobody_looks(make: Any, tmp_path: Path) -> None:
    """The control: what the check is for is real."""
    world, marker = make("qdrant"), tmp_path / "ran"
    planted(world, marker)
    with pytest.raises(Exception):  # noqa: B017 - it is no point either
        world.start()
    assert marker.exists()


def test_genuine_stores_pass_and_open(make: Any) -> None:
    world = make("qdrant")
    world.memory.add(
        "one red apple", user_id="alice", infer=False, metadata={"a": [1, {"b": None}], "c": "é\ud7ff"}
    )
    world.memory.add("I like plums", user_id="alice")
    world.stop()
    assert check_qdrant(world.folder / "store/qdrant") == 2
    memory = from_config(config("qdrant", world.folder / "store"))
    assert len(memory.get_all(filters={"user_id": "alice"})["results"]) == 2
    memory.close()
    memory.vector_store.client.close()


def _raw(text: str) -> bytes:
    return text.encode()


@pytest.mark.parametrize(
    "raw",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93.",
        # the names come out of the memo, or are put together on the stack
        b"\x80\x04\x8c\x02os\x94\x8c\x06system\x940h\x00h\x01\x93.",
        b"\x80\x04\x8c\x1fqdrant_client.http.models.models\x8c\x0bPointStruct\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x02\x82\x01.",
        b"\x80\x04K\x01.garbage",
        b"\x80\x04\x8c",
        b"",
        "text",
        None,
    ],
)
def test_every_way_to_import_is_refused(raw: object) -> None:
    with pytest.raises(TamperedError, match="MG540"):
        check_pickle(raw, "x")


def test_a_genuine_point_is_read_without_its_library() -> None:
    from qdrant_client.http.models import PointStruct, SparseVector

    sparse = SparseVector(indices=[1, 2], values=[0.5, 0.25])
    raw = pickle.dumps(PointStruct(id=7, vector={"": [1.0, 2.0], "bm25": sparse}, payload={"a": [1]}))
    found = point_of(raw, "x")
    assert found.id == "7"
    assert found.vector == {"": [1.0, 2.0], "bm25": {"indices": [1, 2], "values": [0.5, 0.25]}}
    assert found.payload == {"a": [1]}


def test_faiss_document_stores_that_are_pickles_are_looked_at(tmp_path: Path) -> None:
    folder = tmp_path / "faiss"
    folder.mkdir()
    (folder / "memories.pkl").write_bytes(pickle.dumps(Payload(tmp_path / "ran")))
    with pytest.raises(TamperedError, match="MG540"):
        from_config(config("faiss", tmp_path))
    assert not (tmp_path / "ran").exists()


_WATCH = """
import sys
seen = []
sys.addaudithook(lambda event, args: seen.append((event, args)) if event.startswith("socket.") else None)
import memguard.integrations.mem0
import memguard.integrations.mem0.guard
assert "mem0" not in sys.modules
assert not seen, seen
import os
assert os.environ["MEM0_TELEMETRY"] == "False"
import mem0
from memguard import MemGuard
from memguard.bench.suts.mem0_offline import config
from pathlib import Path
folder = Path(sys.argv[1])
mg = MemGuard.create(folder / "home", anchor=f"file:{folder}/a", keys=f"file:{folder}/k.json")
memory = mg.guard(mem0.Memory.from_config(config("qdrant", folder)), name="agent")
memory.add("I like tennis", user_id="alice")
memory.search("tennis", filters={"user_id": "alice"})
loud = [e for e in seen if e[0] in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")]
print(loud)
sys.exit(1 if loud else 0)
"""


def test_importing_and_using_it_opens_no_socket(tmp_path: Path) -> None:
    """mem0#2901: telemetry looked up hosts from an air-gapped machine."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MEM0_")}
    environment["MEM0_DIR"] = str(tmp_path / "mem0")
    done = subprocess.run(
        [sys.executable, "-c", _WATCH, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_the_variable_that_somebody_set_is_kept(tmp_path: Path) -> None:
    code = "import memguard.integrations.mem0, os; print(os.environ['MEM0_TELEMETRY'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "MEM0_TELEMETRY": "True"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "True"


# -- the command line ----------------------------------------------------------------------------------


def written(world: World, provider: str) -> Path:
    """The configuration of a world as a file, without its models."""
    found = config(provider, world.folder / "store", world.uri)
    parts = {"vector_store": found["vector_store"], "history_db_path": found["history_db_path"]}
    file = world.folder / "mem0.json"
    file.write_text(json.dumps(parts))
    return file


def test_audit_by_configuration_file(world: World) -> None:
    from memguard.cli.app import cli

    world.memory.add("one red apple", user_id="alice", infer=False)
    world.memory.add("I like plums", user_id="alice")
    file = written(world, world.provider)
    world.stop()
    home = world.folder / "home"
    toml = (home / "memguard.toml").read_text()
    (home / "memguard.toml").write_text(f'{toml}\n[stores.agent]\nkind = "mem0"\nuri = "file:{file}"\n')
    run = CliRunner()
    sealed = run.invoke(cli, ["--home", str(home), "config", "seal", "--apply"])
    assert sealed.exit_code == 0, sealed.output
    done = run.invoke(cli, ["--home", str(home), "audit", "agent", "--format", "json"])
    assert done.exit_code == 0, done.output
    with closing(sqlite3.connect(world.folder / "store/history.db")) as db, db:
        db.execute("UPDATE history SET new_memory = 'pay mallory' WHERE rowid = 1")
    done = run.invoke(cli, ["--home", str(home), "audit", "agent", "--format", "json"])
    assert done.exit_code == 1, done.output
    assert "MG40" in done.output


@pytest.mark.parametrize("provider", ["qdrant", "faiss", "chroma"])
def test_doctor_proves_itself_on_a_copy(make: Any, tmp_path: Path, provider: str) -> None:
    world = make(provider)
    world.memory.add("one red apple", user_id="alice", infer=False)
    world.stop()
    folder = world.folder / "store" / provider
    canary = MEM0.canary("mg-canary-1")
    uri = MEM0.copy(folder, tmp_path)
    world.folder = tmp_path / "other"

    from memguard import MemGuard

    home = tmp_path / "home2"
    mg = MemGuard.create(home, anchor=f"file:{tmp_path}/a2", keys=f"file:{tmp_path}/k2.json")
    with MEM0.open(uri) as inner:
        assert MEM0.accepts(inner)
        guarded = mg.guard(inner, name="doctor")
        canary.write(guarded, "true text")
        assert canary.read(guarded) == "true text"
    mg.close()
    assert canary.tamper(uri, "true text", "fals text")
    mg = MemGuard.open(home)
    with MEM0.open(uri) as inner, pytest.raises(TamperedError):
        canary.read(mg.guard(inner, name="doctor"))
    mg.close()
    assert DIMS == 32


@pytest.mark.parametrize(
    ("content", "suffix"), [("{", ".json"), ("x = [", ".toml"), ('{"a": 1}', ".json"), (None, ".json")]
)
def test_configurations_that_cannot_be_used(tmp_path: Path, content: str | None, suffix: str) -> None:
    from memguard import ConfigError

    file = tmp_path / f"mem0{suffix}"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match="MG151"), MEM0.open(f"file:{file}"):
        pass
    with pytest.raises(ConfigError, match="MG151"), MEM0.open("sqlite:x"):
        pass
