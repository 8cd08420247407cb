"""What a saver ought to hold after some operations, as plain values, and what one does hold.

A state is ``{"thread|namespace": {checkpoint id: {"main": [parent, value, step] or None,
"writes": {"task|index": [path, channel, value]}}}}``: JSON, so that it can pass through a pipe.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, empty_checkpoint

State = dict[str, dict[str, dict[str, Any]]]
Op = dict[str, Any]
THREADS, NAMESPACES = ("t0", "t1", "t2"), ("", "sub")
#: How often an operation goes to a thread that is new: first operations are announced otherwise.
FRESH = 0.05
KINDS = ("put", "fork", "again", "put_writes", "special", "delete_thread", "read")


def identifier(count: int, writer: int, rng: random.Random) -> str:
    """A checkpoint id that sorts after every one made before it by the same writer."""
    return f"{count:08x}-{writer:04x}-6000-8000-{rng.randrange(1 << 48):012x}"


def apply(state: State, op: Op) -> State:
    """The state after an operation."""
    after = copy.deepcopy(state)
    kind = op["op"]
    if kind == "delete_thread":
        for place in list(after):
            if place.split("|")[0] == op["thread"]:
                after[place] = {}
        return after
    if kind == "read":
        return after
    group = after.setdefault(f"{op['thread']}|{op['ns']}", {}).setdefault(
        op["id"], {"main": None, "writes": {}}
    )
    if kind == "put":
        group["main"] = [op["parent"], op["value"], op["step"]]
        return after
    replaces = all(channel in WRITES_IDX_MAP for channel, _ in op["writes"])
    for position, (channel, value) in enumerate(op["writes"]):
        name = f"{op['task']}|{WRITES_IDX_MAP.get(channel, position)}"
        if replaces or name not in group["writes"]:
            group["writes"][name] = [op["path"], channel, value]
    return after


def draw(state: State, rng: random.Random, count: int, *, kind: str | None = None, writer: int = 0) -> Op:
    """The next operation of a schedule."""
    kind = kind or rng.choices(KINDS, (8, 2, 1, 6, 2, 1, 2))[0]
    thread, ns = rng.choice(THREADS), rng.choice(NAMESPACES)
    if rng.random() < FRESH:
        thread = f"n{count}"
    held = state.get(f"{thread}|{ns}", {})
    mains = sorted(key for key, group in held.items() if group["main"])
    if kind == "delete_thread":
        return {"op": kind, "thread": thread}
    if kind == "read":
        return {"op": kind, "thread": thread, "ns": ns}
    value = "".join(rng.choice("abcdefgh") for _ in range(rng.choice((3, 40, 900))))
    base = {"thread": thread, "ns": ns}
    if kind in ("put_writes", "special"):
        key = rng.choice(sorted(held)) if held and rng.random() < 0.85 else identifier(count, writer, rng)
        special = rng.sample(sorted(WRITES_IDX_MAP), rng.randint(1, 2))
        writes = (
            [[c, value] for c in special]
            if kind == "special"
            else [[f"c{i}", [value, i]] for i in range(rng.randint(1, 4))]
        )
        path = rng.choice(("", "~p, a", "~p, b"))
        return {
            "op": "put_writes",
            **base,
            "id": key,
            "task": f"k{rng.randrange(3)}",
            "path": path,
            "writes": writes,
        }
    loose = [key for key, group in held.items() if not group["main"]]
    parent = mains[-1] if mains else None
    key = identifier(count, writer, rng)
    if loose and rng.random() < 0.5:
        key = loose[0]
    if kind == "again" and mains:
        key, parent = rng.choice(mains), None
        parent = held[key]["main"][0]
    elif kind == "fork" and mains:
        parent = rng.choice(mains)
    return {"op": "put", **base, "id": key, "parent": parent, "value": value, "step": count}


def perform(saver: Any, op: Op) -> Any:
    """Do an operation on a saver."""
    kind = op["op"]
    if kind == "delete_thread":
        return saver.delete_thread(op["thread"])
    place = {"thread_id": op["thread"], "checkpoint_ns": op["ns"]}
    if kind == "read":
        return look(saver.get_tuple({"configurable": place}))
    if kind == "put":
        checkpoint = empty_checkpoint()
        checkpoint["id"] = op["id"]
        checkpoint["channel_values"], checkpoint["channel_versions"] = (
            {"x": op["value"]},
            {"x": str(op["step"])},
        )
        if op["parent"]:
            place["checkpoint_id"] = op["parent"]
        metadata = {"source": "loop", "step": op["step"], "parents": {}}
        return saver.put({"configurable": place}, checkpoint, metadata, {"x": str(op["step"])})
    place["checkpoint_id"] = op["id"]
    return saver.put_writes(
        {"configurable": place}, [(c, v) for c, v in op["writes"]], op["task"], op["path"]
    )


def look(found: Any) -> list[Any] | None:
    """A checkpoint tuple as plain values: id, parent, value, step, writes in order."""
    if found is None:
        return None
    parent = (found.parent_config or {}).get("configurable", {}).get("checkpoint_id")
    writes = [[task, channel, value] for task, channel, value in found.pending_writes or ()]
    key = found.config["configurable"]["checkpoint_id"]
    value = found.checkpoint["channel_values"].get("x")
    return json.loads(json.dumps([key, parent, value, found.metadata["step"], writes]))


def expected(state: State, place: str) -> list[list[Any]]:
    """What a list over a context shows, newest first."""
    shown = []
    for key, group in state.get(place, {}).items():
        if group["main"] is None:
            continue
        parent, value, step = group["main"]
        ordered = sorted(
            (path, *_split(name), channel, v) for name, (path, channel, v) in group["writes"].items()
        )
        shown.append([key, parent, value, step, [[task, channel, v] for _, task, _, channel, v in ordered]])
    return sorted(shown, key=lambda item: item[0], reverse=True)


def _split(name: str) -> tuple[str, int]:
    task, _, index = name.rpartition("|")
    return task, int(index)


def observed(saver: Any, places: list[str]) -> dict[str, list[list[Any]]]:
    """Everything a saver serves for these contexts, read in three ways that must agree.

    Raises:
        IntegrityError: it refuses something. AssertionError: two ways of reading disagree.
    """
    seen: dict[str, list[list[Any]]] = {}
    for place in places:
        thread, ns = place.split("|")
        config = {"configurable": {"thread_id": thread, "checkpoint_ns": ns}}
        newest = look(saver.get_tuple(config))
        seen[place] = [look(found) for found in saver.list(config)]  # type: ignore[misc]
        assert newest == (seen[place][0] if seen[place] else None), (
            f"{place}: newest differs from the list's first"
        )
        for item in seen[place]:
            one = {"configurable": {**config["configurable"], "checkpoint_id": item[0]}}
            assert look(saver.get_tuple(one)) == item, f"{place} {item[0]}: get differs from list"
    everything = sum(1 for _ in saver.list(None))
    assert everything == sum(map(len, seen.values())), "list(None) shows another number of checkpoints"
    return seen


def places_of(*states: State) -> list[str]:
    """All contexts that may hold something."""
    named = {f"{t}|{n}" for t in THREADS for n in NAMESPACES}
    return sorted(named.union(*states))


def shows(state: State, seen: dict[str, list[list[Any]]]) -> bool:
    """Whether what was seen is what the state says."""
    return all(expected(state, place) == items for place, items in seen.items())
