"""A value comes back as what it was, or the program is told (langgraph#6970, #7066, #9021)."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from memguard import MemGuard, UnsupportedError


@dataclass
class Cart:
    total: int


class Forgetful(JsonPlusSerializer):
    """A serializer that gives a class back as a mapping, as a strict one does for a class it was not told of."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        value = super().loads_typed(data)
        return {"total": value.total} if isinstance(value, Cart) else value


def put(saver: Any, value: Any) -> Any:
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"cart": value, "plain": [1, "a", {"b": (2, 3)}]}
    checkpoint["channel_versions"] = {"cart": "1", "plain": "1"}
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    return saver.put(config, checkpoint, {"source": "loop", "step": 1}, {"cart": "1", "plain": "1"})


def guarded(tmp_path: Path, preset: str, serde: Any = None) -> tuple[MemGuard, Any]:
    home = tmp_path / "home"
    if home.exists():
        mg = MemGuard.open(home)
    else:
        mg = MemGuard.create(home, preset=preset, anchor=f"file:{tmp_path}/a", keys=f"file:{tmp_path}/k.json")
    conn = sqlite3.connect(tmp_path / "c.db", check_same_thread=False)
    return mg, mg.guard(SqliteSaver(conn, serde=serde or JsonPlusSerializer()), name="checkpoints")


@pytest.mark.parametrize("value", [Cart(3), [Cart(1), Cart(2)], {"x": Cart(4)}])
def test_own_types_come_back(tmp_path: Path, value: Any) -> None:
    mg, saver = guarded(tmp_path, "balanced")
    config = put(saver, value)
    assert saver.get_tuple(config).checkpoint["channel_values"]["cart"] == value
    mg.close()


@pytest.mark.parametrize("value", [Cart(3), [Cart(1), Cart(2)], {"x": Cart(4)}])
def test_type_that_is_no_longer_made_is_named_at_the_read(tmp_path: Path, value: Any) -> None:
    mg, saver = guarded(tmp_path, "balanced")
    config = put(saver, value)
    mg.close()

    class Blind(JsonPlusSerializer):
        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            checkpoint = super().loads_typed(data)
            if isinstance(checkpoint, dict) and "channel_values" in checkpoint:
                checkpoint["channel_values"]["cart"] = {"total": 3}
            return checkpoint

    mg, saver = guarded(tmp_path, "balanced", Blind())
    with pytest.raises(UnsupportedError, match="MG149") as caught:
        saver.get_tuple(config)
    assert "Cart" in str(caught.value)
    assert "cart of checkpoint" in str(caught.value)
    mg.close()


def test_type_that_would_not_come_back_is_refused_by_strict_and_stored_by_balanced(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    mg, saver = guarded(tmp_path / "b", "balanced", Forgetful())
    put(saver, Cart(3))
    mg.close()
    (tmp_path / "s").mkdir()
    mg, saver = guarded(tmp_path / "s", "strict", Forgetful())
    with pytest.raises(UnsupportedError, match="MG149"):
        put(saver, Cart(3))
    saver.put_writes(
        {"configurable": {"thread_id": "u", "checkpoint_ns": "", "checkpoint_id": "1"}}, [("a", 1)], "t"
    )
    conn = sqlite3.connect(tmp_path / "s" / "c.db")
    assert conn.execute("SELECT count(*) FROM checkpoints").fetchone() == (0,)
    assert conn.execute("SELECT count(*) FROM writes").fetchone() == (1,)
    mg.close()


def test_strict_msgpack_without_the_class_is_an_error_and_not_a_mapping(tmp_path: Path) -> None:
    program = f"""
import sqlite3, sys
from dataclasses import make_dataclass
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_saver_restore import Cart, guarded, put
from pathlib import Path
mg, saver = guarded(Path({str(tmp_path)!r}), "balanced")
config = {{"configurable": {{"thread_id": "t", "checkpoint_ns": ""}}}}
if sys.argv[1] == "put":
    put(saver, Cart(3))
else:
    try:
        print("served", saver.get_tuple(config).checkpoint["channel_values"]["cart"])
    except Exception as error:
        print(type(error).__name__, error)
"""
    script = tmp_path / "program.py"
    script.write_text(program)
    subprocess.run([sys.executable, script, "put"], check=True, capture_output=True)
    environment = {"LANGGRAPH_STRICT_MSGPACK": "true", "PATH": ""}
    done = subprocess.run(
        [sys.executable, script, "get"], check=True, capture_output=True, text=True, env=environment
    )
    assert done.stdout.startswith("UnsupportedError MG149"), done.stdout + done.stderr
