"""Genuine operations, at random, against a plain list: restarts, pops, clears, limits, and two processes at once.

``MEMGUARD_OPERATIONS=10000`` runs so many (default 300). A guard that raises here has raised a false alarm.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COUNT = int(os.environ.get("MEMGUARD_OPERATIONS", "300"))


@pytest.mark.parametrize("flavour", ["sqlite", "sqlalchemy", "encrypted"])
async def test_no_false_alarm_in_mixed_operations(scene: Any, flavour: str) -> None:
    rng = random.Random(20)
    names = ("alice", "bob", "carol")
    model: dict[str, list[Any]] = {name: [] for name in names}
    mg = scene.guard()
    open_: dict[str, Any] = {name: scene.session(flavour, name, mg) for name in names}
    for number in range(COUNT):
        name = rng.choice(names)
        session, held = open_[name], model[name]
        what = rng.choices(
            ("add", "many", "get", "limit", "pop", "clear", "again", "audit", "restart"),
            (30, 10, 20, 10, 15, 2, 6, 1, 3),
        )[0]
        if what == "add":
            held.append({"role": rng.choice(("user", "assistant")), "content": f"{number}"})
            await session.add_items(held[-1:])
        elif what == "many":
            new = [{"role": "user", "content": rng.choice("xyz")} for _ in range(rng.randrange(2, 6))]
            held += new
            await session.add_items(new)
        elif what == "get":
            assert await session.get_items() == held
        elif what == "limit":
            limit = rng.randrange(0, 5)
            assert await session.get_items(limit) == (held[-limit:] if limit else [])
        elif what == "pop":
            assert await session.pop_item() == (held.pop() if held else None)
        elif what == "clear":
            held.clear()
            await session.clear_session()
        elif what == "again":  # another object of the same session
            open_[name] = scene.session(flavour, name, mg)
        elif what == "audit":
            assert (await mg.aaudit(session)).clean
        else:
            await scene.aclose()
            mg = scene.guard()
            open_ = {one: scene.session(flavour, one, mg) for one in names}
        if len(held) > 60:  # long histories make every read dearer and no likelier to fail
            await session.clear_session()
            held.clear()
    for name in names:
        assert await open_[name].get_items() == model[name]
    assert (await mg.aaudit(open_["alice"])).clean


_WRITER = """
import asyncio, sys
from agents import SQLiteSession
from memguard import MemGuard
async def main(who):
    mg = MemGuard.open("home")
    session = mg.guard(SQLiteSession("shared", "agent.db"), name="chat")
    for number in range(25):
        await session.add_items([{"role": "user", "content": f"{who}-{number}"}])
        if number % 5 == 4:
            await session.add_items([{"role": "user", "content": f"{who}-gone"}])
            popped = await session.pop_item()
            print(popped["content"])
        await session.get_items(3)
    mg.close()
asyncio.run(main(sys.argv[1]))
"""


async def test_two_processes_write_one_session_and_nothing_is_lost(scene: Any) -> None:
    scene.guard()
    await scene.aclose()
    command = [sys.executable, "-c", _WRITER]
    running = [
        subprocess.Popen(
            [*command, who], cwd=scene.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for who in ("one", "two")
    ]
    popped: list[str] = []
    for process in running:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        popped += out.split()
    mg = scene.guard()
    session = scene.session("sqlite", "shared", mg)
    left = [item["content"] for item in await session.get_items()]
    wrote = [f"{who}-{n}" for who in ("one", "two") for n in range(25)]
    wrote += [f"{who}-gone" for who in ("one", "two") for _ in range(5)]
    assert sorted(left + popped) == sorted(wrote)
    assert len(popped) == 10
    for who in ("one", "two"):
        mine = [
            int(text.split("-")[1]) for text in left if text.startswith(who) and not text.endswith("gone")
        ]
        assert mine == sorted(mine), "each writer's items stand in the order in which it wrote them"
    assert (await mg.aaudit(session)).clean
    assert Path(scene.db).exists()
