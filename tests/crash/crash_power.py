"""Power cuts: every file operation of a run is recorded, and what a disk may hold afterwards is rebuilt.

A disk keeps what was synced. Of the rest it keeps any part: each 512-byte piece of each unsynced write
may be there or not, a rename before its folder was synced may have happened or not. The wrapped
store's database (WAL, ``synchronous=FULL``) stands at the last commit that returned, or at the one
under way; the ledger (``NORMAL``) at that or any earlier one; the note of the operation is a file like any other.

``python crash_power.py --seed S --states N --sync strict|lag`` prints a report as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import crash_model as model
import crash_mutations
from crash_child import FOLDER, STORE, Opened, Setting, create, expected_ids, inspect, open_saver

from memguard.testing.crashpoints import Points

SECTOR = 512
#: Operations of one recorded run.
OPERATIONS = 40


@dataclass
class Event:
    """One thing that reached a file, or a mark in the schedule."""

    kind: str
    inode: int = 0
    offset: int = 0
    data: bytes = b""
    op: model.Op | None = None
    snapshot: Path | None = None


@dataclass
class Recording:
    """A run: its events, and the files as they stood when it began."""

    folder: Path
    events: list[Event] = field(default_factory=list)
    start: dict[int, bytes] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)


class Recorder:
    """Listens at the points of a run in ``folder``; copies of the databases go to ``copies``."""

    def __init__(self, folder: Path, copies: Path) -> None:
        self.recording, self._copies = Recording(folder), copies
        self._length: dict[int, int] = {}
        for name in ("anchor/anchor.log", f"home/locks/{STORE}.note"):
            path = folder / name
            inode = path.stat().st_ino
            self.recording.start[inode], self.recording.names[name] = path.read_bytes(), inode

    def snapshot(self, kind: str, event: str = "") -> None:
        """Copy a database as its files stand between two commits."""
        name = {"store": "store.db", "ledger": "home/state.db"}[kind]
        target = self._copies / f"{len(self.recording.events)}-{kind}"
        target.mkdir()
        for suffix in ("", "-wal"):
            path = self.recording.folder / (name + suffix)
            if path.exists():
                shutil.copyfile(path, target / (path.name))
        self.add(Event(event or kind, snapshot=target))

    def add(self, event: Event) -> None:
        self.recording.events.append(event)

    def trace(self, when: str, point: str, args: tuple[Any, ...], _result: Any) -> None:
        """Hears of every call (:data:`memguard.testing.crashpoints.Trace`)."""
        if when == "before":
            if point == "store.commit":
                self.add(Event("committing"))
            return
        if point in ("log.write", "slot.write", "compact.supersede"):
            fd, data, offset = args
            self.add(Event("write", os.fstat(fd).st_ino, offset, bytes(data)))
        elif point == "new.write":
            inode = os.fstat(args[0]).st_ino
            at = self._length.get(inode, 0)
            self.add(Event("write", inode, at, bytes(args[1])[: int(_result)]))
            self._length[inode] = at + int(_result)
        elif point in ("log.sync", "new.sync"):
            self.add(Event("sync", os.fstat(args[0]).st_ino))
        elif point == "log.cut":
            self.add(Event("cut", os.fstat(args[0]).st_ino, args[1]))
        elif point == "compact.rename":
            self.add(Event("rename", os.stat(args[1]).st_ino))
        elif point == "compact.folder":
            self.add(Event("folder"))
        elif point == "store.commit":
            self.snapshot("store")
        elif point == "ledger":
            self.snapshot("ledger")
        elif point == "ledger.sync":
            self.snapshot("ledger", "ledger-sync")


def record(folder: Path, copies: Path, seed: int, setting: Setting, operations: int) -> Recording:
    """Run a schedule to its end in this process, and hear of everything that it writes."""
    points, rng = Points(), random.Random(seed)
    create(folder)
    points.install()
    opened = open_saver(folder, setting, points)
    synchronous = opened.conn.execute("PRAGMA synchronous").fetchone()[0]
    assert synchronous == 2, "the store does not commit durably: nothing could be promised"
    opened.saver.setup()
    recorder = Recorder(folder, copies)
    recorder.snapshot("store")
    recorder.snapshot("ledger")
    points.trace = recorder.trace
    state: model.State = {}
    try:
        for number in range(operations):
            op = model.draw(state, rng, number + 1)
            recorder.add(Event("begin", op=op))
            model.perform(opened.saver, op)
            recorder.add(Event("done", op=op))
            state = model.apply(state, op)
    finally:
        points.remove()
        _abandon(opened)
    return recorder.recording


def _abandon(opened: Opened) -> None:
    """Let go without the goodbyes of a clean end: nothing more is synced or harvested."""
    opened.guard.anchor.close()
    opened.conn.close()


@dataclass
class Cut:
    """What is on the disk after a power cut.

    Attributes:
        before, after: the state by the acknowledged operations, and with the one under way.
        unsynced: acknowledged operations since the anchor's last sync.
    """

    before: model.State
    after: model.State
    unsynced: list[model.Op]


def rebuild(recording: Recording, upto: int, rng: random.Random, target: Path, keep: float) -> Cut:
    """Write what a disk may hold when the power fails after event ``upto``.

    Args:
        keep: how likely each unsynced piece is to have been written: 0 none, 1 all.
    """
    events = recording.events[: upto + 1]
    synced = {e.inode: index for index, e in enumerate(events) if e.kind == "sync"}
    folder_synced = max((i for i, e in enumerate(events) if e.kind == "folder"), default=-1)
    files = {inode: bytearray(data) for inode, data in recording.start.items()}
    names = dict(recording.names)
    state: model.State = {}
    under_way: model.Op | None = None
    unsynced: list[model.Op] = []
    stores: list[Path] = []
    ledgers: list[Path] = []
    committing = False
    for index, event in enumerate(events):
        durable = index <= synced.get(event.inode, -1)
        if event.kind == "write":
            _write(files.setdefault(event.inode, bytearray()), event, 1.0 if durable else keep, rng)
        elif event.kind == "cut" and (durable or rng.random() < keep):
            del files[event.inode][event.offset :]
        elif event.kind == "sync":
            unsynced = []
        elif event.kind == "rename" and (index <= folder_synced or rng.random() < keep):
            names["anchor/anchor.log"] = event.inode
        elif event.kind == "committing":
            committing = True
        elif event.kind == "store":
            stores.append(event.snapshot)  # type: ignore[arg-type]
            committing = False
        elif event.kind in ("ledger", "ledger-sync"):
            ledgers = [*([] if event.kind == "ledger-sync" else ledgers), event.snapshot]  # type: ignore[list-item]
        elif event.kind == "begin":
            under_way = event.op
        elif event.kind == "done":
            assert event.op is not None
            state, under_way = model.apply(state, event.op), None
            if event.op["op"] != "read":
                unsynced.append(event.op)
    if committing and rng.random() < 0.5:  # the commit under way reached the disk
        later = next(e.snapshot for e in recording.events[upto + 1 :] if e.kind == "store")
        assert later is not None
        stores.append(later)
    _lay_out(recording, target, files, names, stores[-1], rng.choice(ledgers))
    return Cut(state, model.apply(state, under_way) if under_way else state, unsynced)


def _write(content: bytearray, event: Event, keep: float, rng: random.Random) -> None:
    data, at = event.data, event.offset
    while data:
        size = SECTOR - at % SECTOR
        piece, data = data[:size], data[size:]
        if keep >= 1.0 or rng.random() < keep:
            if len(content) < at + len(piece):
                content.extend(bytes(at + len(piece) - len(content)))
            content[at : at + len(piece)] = piece
        at += len(piece)


def _lay_out(
    recording: Recording,
    target: Path,
    files: dict[int, bytearray],
    names: dict[str, int],
    store: Path,
    ledger: Path,
) -> None:
    (target / "anchor").mkdir(parents=True)
    (target / "home" / "locks").mkdir(parents=True)
    for name in ("home/memguard.toml", "home/memguard.toml.sig", "key.json"):
        shutil.copy(recording.folder / name, target / name)
    for name, inode in names.items():
        (target / name).write_bytes(files[inode])
    for path in store.iterdir():
        shutil.copyfile(path, target / path.name)
    for path in ledger.iterdir():
        shutil.copyfile(path, target / "home" / path.name)


def check(
    recording: Recording, upto: int, seed: int, setting: Setting, keep: float, *, edited: bool = False
) -> str:
    """One power cut: what is broken, or nothing.

    Args:
        edited: someone takes the newest row out of the store before it is opened again.
    """
    rng = random.Random(seed)
    target = Path(tempfile.mkdtemp(prefix="memguard-power-", dir=FOLDER))
    try:
        cut = rebuild(recording, upto, rng, target, keep)
        own = Setting(setting.sync, setting.lag_ops, setting.boot + 1)
        if edited:
            return _check_edited(target, own, cut)
        states = [cut.before] if cut.after == cut.before else [cut.before, cut.after]
        run = inspect(target, own, states, seed, 10_000).result()
        if run.error or run.said is None:
            last = next((e.kind for e in reversed(recording.events[: upto + 1])), "")
            return f"cut after event {upto} ({last}), keep {keep}: {run.error[-900:] or 'the inspector died'}"
        return ""
    finally:
        shutil.rmtree(target, ignore_errors=True)


def _check_edited(target: Path, setting: Setting, cut: Cut) -> str:
    """In lag mode an edit before the next open may cut the unsynced tail, and nothing else, unnoticed."""
    conn = sqlite3.connect(target / "store.db")
    found = conn.execute("SELECT thread_id, checkpoint_ns, max(checkpoint_id) FROM checkpoints").fetchone()
    thread, ns, key = found
    if thread is None:
        return ""
    conn.execute("DELETE FROM checkpoints WHERE checkpoint_id = ?", (key,))
    conn.execute("DELETE FROM writes WHERE checkpoint_id = ?", (key,))
    conn.commit()
    conn.close()
    points = Points()
    opened = open_saver(target, setting, points)
    try:
        from memguard.errors import IntegrityError

        try:
            opened.saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ns}})
        except IntegrityError:
            return ""
        window = {op.get("id") for op in cut.unsynced}
        under_way = (
            expected_ids(cut.after, f"{thread}|{ns}")[:1] != expected_ids(cut.before, f"{thread}|{ns}")[:1]
        )
        if key in window or under_way:
            return ""
        return f"a synced record {key} was taken out and nobody noticed"
    finally:
        _abandon(opened)


def run(
    seed: int,
    states: int,
    setting: Setting,
    *,
    operations: int = OPERATIONS,
    edited: bool = False,
    stop: bool = False,
) -> dict[str, Any]:
    """Record one run and check ``states`` power cuts spread over it, with none, some and all of the rest written."""
    began, failures = time.monotonic(), []
    root = Path(tempfile.mkdtemp(prefix="memguard-power-", dir=FOLDER))
    try:
        folder, copies = root / "run", root / "copies"
        folder.mkdir()
        copies.mkdir()
        recording = record(folder, copies, seed, setting, operations)
        rng = random.Random(seed)
        first = next(i for i, e in enumerate(recording.events) if e.kind == "begin")
        spots = range(first, len(recording.events))
        todo = [(spot, keep) for spot in spots for keep in (0.0, 0.5, 1.0)]
        chosen = todo if states >= len(todo) else rng.sample(todo, states)
        for number, (spot, keep) in enumerate(sorted(chosen)):
            broken = check(recording, spot, seed * 7919 + number, setting, keep, edited=edited)
            if broken:
                failures.append(broken)
                if stop:
                    break
    finally:
        shutil.rmtree(root, ignore_errors=True)
    kinds = [e.kind for e in recording.events]
    return {
        "events": len(kinds),
        "possible": len(todo),
        "cuts": len(chosen),
        "compactions": kinds.count("rename"),
        "failures": failures,
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--states", type=int, default=60)
    parser.add_argument("--operations", type=int, default=OPERATIONS)
    parser.add_argument("--sync", default="strict")
    parser.add_argument("--edited", action="store_true")
    parser.add_argument("--mutation", default="")
    parser.add_argument("--stop", action="store_true")
    given = parser.parse_args()
    if given.mutation:
        crash_mutations.apply(given.mutation)
    setting = Setting(given.sync)
    found = run(
        given.seed, given.states, setting, operations=given.operations, edited=given.edited, stop=given.stop
    )
    print(json.dumps(found, indent=1))
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
