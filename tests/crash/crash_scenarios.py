"""Crashes in which somebody lends a hand: each is a short story with one right ending.

``python crash_scenarios.py NAME [--mutation M]`` prints ``{"NAME": "" or what went wrong}`` as JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crash_model as model
import crash_mutations
from crash_child import FOLDER, STORE, Child, Run, Setting, create, die, inspect, open_saver

from memguard.errors import ForgottenError, IntegrityError
from memguard.testing.crashpoints import Points

Rows = list[tuple[Any, ...]]
A, B = "t0|", "t1|"


def put(number: int, parent: int | None, thread: str = "t0", value: str = "") -> model.Op:
    """A checkpoint whose id says its number."""
    ids = [f"{n:08x}-0000-6000-8000-000000000000" if n is not None else None for n in (number, parent)]
    named: model.Op = {
        "op": "put",
        "thread": thread,
        "ns": "",
        "id": ids[0],
        "parent": ids[1],
        "step": number,
    }
    return {**named, "value": value or f"value {number}"}


def batch(number: int, thread: str = "t0") -> model.Op:
    """Three pending writes of a checkpoint."""
    key = f"{number:08x}-0000-6000-8000-000000000000"
    writes = [[f"c{i}", f"write {i}"] for i in range(3)]
    return {
        "op": "put_writes",
        "thread": thread,
        "ns": "",
        "id": key,
        "task": "k",
        "path": "",
        "writes": writes,
    }


def act(
    folder: Path, ops: list[model.Op], *, at: str = "", nth: int = 1, setting: Setting | None = None
) -> Run:
    """A process that does these operations; at the last one it dies at a point, if one is given."""

    def body(tell: Callable[[dict[str, Any]], None]) -> None:
        points = Points()
        points.install()
        opened = open_saver(folder, setting or Setting(), points)
        for number, op in enumerate(ops):
            if at and number == len(ops) - 1:
                points.arm(at, die, nth=nth)
            tell({"begin": op})
            model.perform(opened.saver, op)
            tell({"done": True})
        opened.close()

    run = Child(body).result()
    assert not run.error, run.error
    assert run.killed == bool(at), f"{at or 'the end'} was not reached"
    return run


def serves(folder: Path, *states: model.State, boot: int = 0) -> str:
    """Read all, audit, write on: "" if one of the states is served and everything goes on, else what was raised."""
    run = inspect(folder, Setting(boot=boot), list(states), 1, 100)
    found = run.result()
    return "" if found.said else found.error or "died"


def peek(folder: Path, place: str, *, boot: int = 0) -> str:
    """Read one context in a process of its own: "served", or the code of the refusal."""

    def body(tell: Callable[[dict[str, Any]], None]) -> None:
        opened = open_saver(folder, Setting(boot=boot), Points())
        thread, ns = place.split("|")
        config = {"configurable": {"thread_id": thread, "checkpoint_ns": ns}}
        answer = ""
        for read in (lambda: opened.saver.get_tuple(config), lambda: list(opened.saver.list(config))):
            try:
                read()
            except IntegrityError as error:
                answer = answer or error.code
            else:
                answer = "served"
                break
        tell({"answer": answer})

    run = Child(body).result()
    return str(run.said["answer"]) if run.said else run.error


def state_of(*ops: model.Op) -> model.State:
    """What a store holds after these."""
    state: model.State = {}
    for op in ops:
        state = model.apply(state, op)
    return state


def sql(folder: Path, statement: str, *values: Any) -> Rows:
    """One statement on the bare database."""
    conn = sqlite3.connect(folder / "store.db")
    with conn:
        found = conn.execute(statement, values).fetchall()
    conn.close()
    return found


def _newest(folder: Path, thread: str) -> tuple[Any, ...]:
    return sql(
        folder, "SELECT * FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id DESC LIMIT 1", thread
    )[0]


def _insert(folder: Path, row: tuple[Any, ...]) -> None:
    sql(folder, f"INSERT OR REPLACE INTO checkpoints VALUES ({','.join('?' * len(row))})", *row)


def _remove(folder: Path, row: tuple[Any, ...]) -> None:
    sql(folder, "DELETE FROM checkpoints WHERE thread_id = ? AND checkpoint_id = ?", row[0], row[2])


def expect(right: bool, what: str) -> None:
    """The ending of a story, or how it went wrong."""
    if not right:
        raise AssertionError(what)


# -- the stories ---------------------------------------------------------------------------------


def late_orphan(folder: Path) -> None:
    """A row that a power cut took surfaces after the recovery wrote it off: dead for ever."""
    act(folder, [put(1, None), put(2, 1), put(3, 2)], at="store.commit.after")
    orphan, before = _newest(folder, "t0"), state_of(put(1, None), put(2, 1))
    _remove(folder, orphan)
    expect(peek(folder, A) == "served", "the state before the lost write is not served")
    act(folder, [put(4, 2)], at="slot.write.after")  # announced, not written: the next open recovers
    _insert(folder, orphan)
    got = peek(folder, A)
    expect(got.startswith("MG"), f"a row that was written off came back and was {got}")
    _remove(folder, orphan)
    wrong = serves(folder, before)
    expect(not wrong, f"without it the context must be served again: {wrong}")


def ahead_in_a_clean_session(folder: Path) -> None:
    """Whole, genuine, of the next generation and the right fence, but nobody announced it: an attack."""
    act(folder, [put(1, None), put(2, 1)], at="store.commit.after")
    note = folder / "home" / "locks" / f"{STORE}.note"
    kept = note.read_bytes()
    note.write_bytes(b"")
    got = peek(folder, A)
    expect(got == "MG415", f"a row ahead of its head was {got} though nothing had been announced")
    note.write_bytes(kept)
    wrong = serves(folder, state_of(put(1, None), put(2, 1)))
    expect(not wrong, f"with the note it is the unfinished write: {wrong}")


def from_a_twin(folder: Path) -> None:
    """A copy of the whole home writes on; its row is put into the original, which was closed in peace."""
    act(folder, [put(1, None), put(2, 1)])
    twin = folder / "twin"
    twin.mkdir()
    for name in ("home", "anchor"):
        shutil.copytree(folder / name, twin / name)
    for name in ("key.json", "store.db"):
        shutil.copy(folder / name, twin / name)
    act(twin, [put(3, 2, value="the twin's")])
    row = _newest(twin, "t0")
    _insert(folder, row)
    got = peek(folder, A)
    expect(got.startswith("MG"), f"the twin's row was {got}")
    _remove(folder, row)
    wrong = serves(folder, state_of(put(1, None), put(2, 1)))
    expect(not wrong, f"without it: {wrong}")


def transplanted_first_write(folder: Path) -> None:
    """Thread t1 dies before its first write; the first write of t0 is put there: another context's tag."""
    act(folder, [put(1, None, "t0"), put(2, None, "t1")], at="intent.after")
    row = _newest(folder, "t0")
    moved = ("t1", *row[1:])
    _insert(folder, moved)
    got = peek(folder, B)
    expect(got.startswith("MG"), f"a row of thread t0 was {got} as thread t1's unfinished write")
    _remove(folder, moved)
    wrong = serves(folder, state_of(put(1, None, "t0")))
    expect(not wrong, f"without it: {wrong}")


def half_a_batch(folder: Path) -> None:
    """A store without transactions keeps one row of three: refused as a whole, and repair gives the rest back."""
    setting = Setting(row_by_row=True)
    act(folder, [put(1, None), batch(1)], at="store.row", setting=setting)
    expect(len(sql(folder, "SELECT * FROM writes")) == 1, "the batch is not half there")
    got = peek(folder, A)
    expect(got.startswith("MG"), f"half of a batch was {got}")

    def body(tell: Callable[[dict[str, Any]], None]) -> None:
        opened = open_saver(folder, Setting(), Points())
        plan = opened.guard.repair(opened.saver, apply=True)
        tell({"actions": len(plan.actions), "refused": len(plan.refused)})
        opened.close()

    run = Child(body).result()
    expect(bool(run.said) and run.said["actions"] == 1, f"repair: {run.said or run.error}")
    wrong = serves(folder, state_of(put(1, None)))
    expect(not wrong, f"after the repair: {wrong}")


def lost_delete(folder: Path) -> None:
    """A delete that was announced is completed, and stays done though the rows come back."""
    act(folder, [put(1, None), put(2, 1), {"op": "delete_thread", "thread": "t0"}], at="intent.after")
    rows = sql(folder, "SELECT * FROM checkpoints")
    wrong = serves(folder, {}, boot=0)
    expect(not wrong, f"the delete was not completed: {wrong}")
    conn_rows = sql(folder, "SELECT checkpoint_id FROM checkpoints WHERE thread_id = 't0'")
    expect(not any(r[0] in {row[2] for row in rows} for r in conn_rows), "deleted rows are still there")
    for row in rows:
        _insert(folder, row)
    got = peek(folder, A)
    expect(got.startswith("MG"), f"rows of a deleted thread were {got}")


def torn_announcement(folder: Path) -> None:
    """Half of the announcement of a delete of two namespaces reaches the log: it announces nothing."""
    sub = {**put(2, None), "ns": "sub"}
    act(folder, [put(1, None), sub, {"op": "delete_thread", "thread": "t0"}], at="log.write.torn")
    wrong = serves(folder, state_of(put(1, None), sub))
    expect(not wrong, wrong)


def idle_operation_after_a_crash(folder: Path) -> None:
    """After a kill, the first thing that runs is an operation with nothing to do: it must not take the note away."""
    act(folder, [put(1, None), put(2, 1)], at="store.commit.after")
    act(folder, [{"op": "delete_thread", "thread": "nobody"}])
    wrong = serves(folder, state_of(put(1, None), put(2, 1)))
    expect(not wrong, wrong)


def late_write_after_a_finished_delete(folder: Path) -> None:
    """A delete that a recovery finished binds like one that ended by itself: a late write is turned away."""
    act(folder, [put(1, None), put(2, 1), {"op": "delete_thread", "thread": "t0"}], at="intent.after")

    def body(tell: Callable[[dict[str, Any]], None]) -> None:
        opened = open_saver(folder, Setting(), Points())
        try:
            model.perform(opened.saver, put(3, 2))
        except ForgottenError:
            tell({"answer": ""})
        else:
            tell({"answer": "a write that names a deleted checkpoint was taken"})
        opened.close()

    run = Child(body).result()
    expect(bool(run.said) and not run.said["answer"], run.error or str(run.said))
    wrong = serves(folder, {})
    expect(not wrong, wrong)


def write_beside_a_cut_delete(folder: Path) -> None:
    """One namespace of a thread is half deleted; the next thing written is in another: it stays."""
    sub = {**put(1, None), "ns": "sub"}
    act(folder, [sub, {"op": "delete_thread", "thread": "t0"}], at="intent.after")
    act(folder, [put(2, None)])
    wrong = serves(folder, state_of(put(2, None)))
    expect(not wrong, wrong)


def brand_new_thread(folder: Path) -> None:
    """Killed in the first write of a thread, then a new boot: no brick, at each point of it."""
    points = ("intent.after", "store.statement", "store.commit.after", "log.write.torn", "head.before")
    for number, point in enumerate((*points, "log.sync.after")):
        thread = f"n{number}"
        nth = 2 if point.startswith("log.") else 1  # the first is the announcement
        act(folder, [put(number + 1, None, thread)], at=point, nth=nth, setting=Setting(boot=number))
        got = peek(folder, f"{thread}|", boot=number + 1)
        expect(got == "served", f"killed at {point}: a new thread is refused, {got}")


def identical_write_after_rollback(folder: Path) -> None:
    """The store goes back, and the very same values are written again: the rollback still shows."""
    act(folder, [put(1, None)])
    shutil.copy(folder / "store.db", folder / "older.db")
    act(folder, [put(2, 1)])
    for suffix in ("", "-wal", "-shm"):
        (folder / f"store.db{suffix}").unlink(missing_ok=True)
    shutil.copy(folder / "older.db", folder / "store.db")

    def body(tell: Callable[[dict[str, Any]], None]) -> None:
        opened = open_saver(folder, Setting(), Points())
        try:
            model.perform(opened.saver, put(2, 1))
        except IntegrityError as error:
            tell({"answer": error.code})
        else:
            tell({"answer": "written over"})

    run = Child(body).result()
    answer = run.said["answer"] if run.said else run.error
    expect(str(answer).startswith("MG"), f"after a rollback a write was {answer}")


def refused_commit(folder: Path) -> None:
    """The store's own commit fails with an error: its caller sees it, nothing of it stays, all goes on."""

    def body(tell: Callable[[dict[str, Any]], None]) -> None:
        points = Points()
        points.install()
        opened = open_saver(folder, Setting(), points)
        states = [state_of(put(1, None), put(2, 1))]
        for op in (put(1, None), put(2, 1)):
            model.perform(opened.saver, op)
        refused = [put(3, 2), put(4, 2), batch(2), batch(1), {"op": "delete_thread", "thread": "t0"}]
        for number, op in enumerate(refused):
            points.arm("store.commit.before" if number % 2 == 0 else "store.statement", _refuse)
            try:
                model.perform(opened.saver, op)
            except sqlite3.OperationalError:
                pass
            else:
                raise AssertionError("the store's error was swallowed")
            points.disarm()
            states += [model.apply(state, op) for state in states]
            seen = model.observed(opened.saver, model.places_of(*states))
            states = [state for state in states if model.shows(state, seen)]
            assert states, f"after a refused {op['op']} the saver serves a state that never was"
        last = put(9, None, "t1")
        model.perform(opened.saver, last)
        states = [model.apply(state, last) for state in states]
        report = opened.guard.audit(opened.saver)
        assert report.clean, f"audit: {[f.as_dict() for f in report.findings]}"
        tell({"states": states})
        die("a crash after all of it")

    run = Child(body).result()
    expect(not run.error and run.said is not None, run.error or "died")
    wrong = serves(folder, *run.said["states"])
    expect(not wrong, f"after a crash: {wrong}")


def refused_commit_then_crash(folder: Path) -> None:
    """The store's COMMIT fails and leaves its transaction open; the process dies before anything else commits."""

    def body(tell: Callable[[dict[str, Any]], None]) -> None:
        points = Points()
        points.install()
        opened = open_saver(folder, Setting(), points)
        model.perform(opened.saver, put(1, None))
        points.arm("store.commit.before", _refuse)
        try:
            model.perform(opened.saver, put(2, 1))
        except sqlite3.OperationalError:
            model.observed(opened.saver, model.places_of({}))
            die("at once")

    run = Child(body).result()
    expect(run.killed, run.error)
    wrong = serves(folder, state_of(put(1, None)), state_of(put(1, None), put(2, 1)))
    expect(not wrong, f"after the crash: {wrong}")


def _refuse(point: str) -> None:
    raise sqlite3.OperationalError("database or disk is full")


def compaction_keeps_all(folder: Path) -> None:
    """Many threads, then enough writes for several compactions, then a new process."""
    ops = [put(n, None, f"n{n}") for n in range(1, 9)]
    ops += [put(n, n - 1 if n > 20 else None, "t0") for n in range(20, 70)]
    act(folder, ops)
    wrong = serves(folder, state_of(*ops))
    expect(not wrong, wrong)


STORIES: dict[str, Callable[[Path], None]] = {
    story.__name__: story
    for story in (
        late_orphan,
        ahead_in_a_clean_session,
        from_a_twin,
        transplanted_first_write,
        half_a_batch,
        lost_delete,
        torn_announcement,
        idle_operation_after_a_crash,
        late_write_after_a_finished_delete,
        write_beside_a_cut_delete,
        brand_new_thread,
        identical_write_after_rollback,
        refused_commit,
        refused_commit_then_crash,
        compaction_keeps_all,
    )
}


def tell_story(name: str) -> str:
    """Play a story in a home of its own: "" or what went wrong."""
    folder = Path(tempfile.mkdtemp(prefix="memguard-story-", dir=FOLDER))
    try:
        create(folder)
        STORIES[name](folder)
    except AssertionError as error:
        return f"{error}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return ""


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(STORIES))
    parser.add_argument("--mutation", default="")
    given = parser.parse_args()
    if given.mutation:
        crash_mutations.apply(given.mutation)
    found = {name: tell_story(name)[-1200:] for name in given.names or STORIES}
    print(json.dumps(found, indent=1))
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
