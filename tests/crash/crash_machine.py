"""A Hypothesis state machine over one guarded saver and a plain model of what it must serve.

In one process: a crash is an exception that no handler catches raised at a named point, after which the
objects are dropped as they stand. Syncs are not waited for, because nothing here cuts the power.
"""

from __future__ import annotations

import gc
import random
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import crash_model as model
from crash_child import FOLDER, Opened, Setting, create, open_saver
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import memguard.anchors.logfile as logfile
from memguard.errors import ForgottenError, IntegrityError
from memguard.keys.file import FileKeyRing
from memguard.testing.crashpoints import Points

PLACES = st.sampled_from([(t, n) for t in ("t0", "t1") for n in model.NAMESPACES])
SEEDS = st.integers(0, 1 << 30)
POINTS = st.sampled_from(
    (
        "slot.write.before", "slot.write.torn", "slot.write.after", "store.statement", "store.commit.before",
        "store.commit.after", "head.before", "head.after", "intent.before", "intent.after", "log.write.before",
        "log.write.torn", "log.write.after", "log.sync.before", "log.sync.after", "ledger.mid",
    )
)  # fmt: skip
#: Edits of a pending write's order key, which a read of one checkpoint shows only by the order.
ORDERS = (
    "UPDATE writes SET idx = idx + 50 WHERE rowid = {rowid}",
    "UPDATE writes SET task_path = 'z' || task_path WHERE rowid = {rowid}",
)
#: Edits of one row: table and what is done to it. ``{rowid}`` is a row of the context that is edited.
_REPLACED = "CAST(replace(metadata,"
EDITS = (
    ("checkpoints", "DELETE FROM checkpoints WHERE rowid = {rowid}"),
    (
        "checkpoints",
        "UPDATE checkpoints SET checkpoint = CAST(checkpoint || x'00' AS BLOB) WHERE rowid = {rowid}",
    ),
    ("checkpoints", "UPDATE checkpoints SET parent_checkpoint_id = 'gone' WHERE rowid = {rowid}"),
    (
        "checkpoints",
        f"UPDATE checkpoints SET metadata = {_REPLACED} 'loop', 'fork') AS BLOB) WHERE rowid = {{rowid}}",
    ),
    (
        "checkpoints",
        f"UPDATE checkpoints SET metadata = {_REPLACED} 'mg1.', 'mg2.') AS BLOB) WHERE rowid = {{rowid}}",
    ),
    (
        "checkpoints",
        "UPDATE checkpoints SET checkpoint_id = 'ff' || substr(checkpoint_id, 3) WHERE rowid = {rowid}",
    ),
    ("checkpoints", "UPDATE checkpoints SET type = 'json' WHERE rowid = {rowid}"),
    ("writes", "DELETE FROM writes WHERE rowid = {rowid}"),
    ("writes", "UPDATE writes SET value = CAST(value || x'00' AS BLOB) WHERE rowid = {rowid}"),
    ("writes", "UPDATE writes SET channel = '__resume__' WHERE rowid = {rowid}"),
    *(("writes", statement) for statement in ORDERS),
    ("writes", "UPDATE writes SET task_id = 'other' WHERE rowid = {rowid}"),
    ("writes", "UPDATE writes SET type = 'msgpack' WHERE rowid = {rowid}"),
)


class Crash(BaseException):
    """Nothing catches it by mistake."""


class Interrupted(Exception):
    """An error of the machine that the store or the anchor passes on."""


def _crash(point: str) -> None:
    raise Crash(point)


def _interrupt(point: str) -> None:
    raise Interrupted(point)


class SaverMachine(RuleBasedStateMachine):
    """See the module."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="memguard-machine-", dir=FOLDER))
        self._datasync = logfile.LogFile.datasync
        logfile.LogFile.datasync = _quick  # type: ignore[method-assign]
        create(self.folder)
        self.points, self.setting = Points(), Setting()
        self.points.install()
        self.opened: Opened | None = open_saver(self.folder, self.setting, self.points)
        self.states: list[model.State] = [{}]
        self.count = 0
        self.boots = 0

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self._drop()
            self.points.remove()
            logfile.LogFile.datasync = self._datasync  # type: ignore[method-assign]
            shutil.rmtree(self.folder, ignore_errors=True)

    # -- writing -----------------------------------------------------------------------------

    def _draw(self, place: tuple[str, str], kind: str, seed: int) -> model.Op:
        self.count += 1
        rng = random.Random(seed)
        thread, ns = place
        here = {f"{thread}|{ns}": self.states[0].get(f"{thread}|{ns}", {})}
        for _ in range(200):
            op = model.draw(here, rng, self.count, kind=kind)
            if op["thread"] == thread and op.get("ns", ns) == ns:
                return op
        return {"op": "read", "thread": thread, "ns": ns}

    def _saver(self) -> Any:
        if self.opened is None:
            self.opened = open_saver(self.folder, self.setting, self.points)
        return self.opened.saver

    def _apply(self, op: model.Op) -> None:
        self.states = [model.apply(state, op) for state in self.states]

    @rule(
        place=PLACES,
        kind=st.sampled_from(("put", "put", "fork", "again", "put_writes", "special")),
        seed=SEEDS,
    )
    def write(self, place: tuple[str, str], kind: str, seed: int) -> None:
        op = self._draw(place, kind, seed)
        try:
            model.perform(self._saver(), op)
        except ForgottenError:
            self._was_deleted()
        else:
            self._apply(op)

    def _was_deleted(self) -> None:
        """Right only if a delete before it was cut short and then completed: nobody has looked since."""
        assert len(self.states) > 1
        self.states = self.states[1:]

    @rule(place=PLACES)
    def delete(self, place: tuple[str, str]) -> None:
        op = {"op": "delete_thread", "thread": place[0]}
        model.perform(self._saver(), op)
        self._apply(op)

    @rule(
        place=PLACES,
        kind=st.sampled_from(("put", "put_writes", "special", "again", "delete_thread")),
        seed=SEEDS,
        point=POINTS,
        nth=st.integers(1, 2),
        how=st.sampled_from(("crash", "crash", "stay", "error")),
    )
    def fail(self, place: tuple[str, str], kind: str, seed: int, point: str, nth: int, how: str) -> None:
        """An operation that ends at a point: by a crash, by an interrupt that the program survives, by an error."""
        op = self._draw(place, kind, seed)
        saver = self._saver()
        self.points.arm(point, _interrupt if how == "error" else _crash, nth=nth)
        try:
            model.perform(saver, op)
        except ForgottenError:
            self._was_deleted()
        except (Crash, Interrupted, IntegrityError) as error:
            broke = isinstance(error, (Crash, Interrupted)) or point.startswith(
                ("log.", "head", "intent", "ledger")
            )
            if not broke:
                raise
            tried = [model.apply(state, op) for state in self.states]
            self.states = [*self.states, *(state for state in tried if state not in self.states)]
            if how == "crash":
                self._drop()
        else:
            self._apply(op)
        finally:
            self.points.disarm()
        if how != "crash" and point.startswith("log."):
            self._drop()  # what reached the anchor is unknown to this process: it may refuse until it is opened again

    # -- what happens to homes ----------------------------------------------------------------

    def _drop(self) -> None:
        """Let go of everything without a word."""
        opened, self.opened = self.opened, None
        if opened is not None:
            opened.conn.rollback()
            opened.conn.close()
            del opened
            gc.collect(0)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if clean and self.opened is not None:
            self.opened.close()
            self.opened = None
        self._drop()

    @rule()
    def new_boot(self) -> None:
        self._drop()
        self.setting.boot += 1

    @rule()
    def compact(self) -> None:
        self._saver()
        assert self.opened is not None
        self.opened.guard._log.compact()

    @precondition(lambda self: self.boots < 3)
    @rule()
    def rotate(self) -> None:
        """A new current key; the old one stays to verify with."""
        if self.opened is not None:
            self.opened.close()
            self.opened = None
        self.boots += 1
        FileKeyRing.open(str(self.folder / "key.json")).rotate()

    # -- reading -----------------------------------------------------------------------------

    @rule()
    def audit(self) -> None:
        self._settle()
        assert self.opened is not None
        report = self.opened.guard.audit(self.opened.saver)
        assert report.clean, [f.as_dict() for f in report.findings]

    @invariant()
    def serves_the_model(self) -> None:
        if getattr(self, "opened", None) is not None:
            self._settle()

    def _settle(self) -> None:
        """Read everything; what could be one of several states is then known to be one."""
        seen = model.observed(self._saver(), model.places_of(*self.states))
        fits = [state for state in self.states if model.shows(state, seen)]
        assert fits, "what is served is not what was written"
        self.states = fits

    # -- the adversary -------------------------------------------------------------------------

    @rule(place=PLACES, edit=st.sampled_from(EDITS), pick=st.integers(0, 50), stopped=st.booleans())
    def tamper(self, place: tuple[str, str], edit: tuple[str, str], pick: int, stopped: bool) -> None:
        """An edited row is refused by every read that would show it until the edit is undone, and then served."""
        self._settle()
        if stopped:
            self._drop()
        table, statement = edit
        conn = sqlite3.connect(self.folder / "store.db", isolation_level=None)
        try:
            rows = conn.execute(
                f"SELECT rowid, * FROM {table} WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY rowid",
                place,
            ).fetchall()
            if not rows:
                return
            row = rows[pick % len(rows)]
            conn.execute(statement.format(rowid=row[0]))
            if conn.execute(f"SELECT rowid, * FROM {table} WHERE rowid = ?", row[:1]).fetchone() == row:
                return  # nothing changed, as where the value was that already
            self._refused(place, str(row[3]), whole=statement not in ORDERS)
            conn.execute(f"DELETE FROM {table} WHERE rowid = ?", row[:1])
            names = [c[1] for c in conn.execute(f"PRAGMA table_info({table})")]
            marks = ",".join("?" * len(row))
            conn.execute(f"INSERT INTO {table} (rowid, {','.join(names)}) VALUES ({marks})", row)
        finally:
            conn.close()
        self._settle()

    def _refused(self, place: tuple[str, str], key: str, *, whole: bool) -> None:
        """That no read shows the edit, and that whoever looks at every row refuses it.

        ``whole``: the read of the record itself must refuse, too. The order key of a pending write is not returned
        by it: where the order stays as it was, what it serves is what was written.
        """
        config = {"configurable": {"thread_id": place[0], "checkpoint_ns": place[1]}}
        saver = self._saver()
        shown = {item[0]: item for item in model.expected(self.states[0], "|".join(place))}
        for name in (None, *shown):
            named = {"configurable": {**config["configurable"], **({"checkpoint_id": name} if name else {})}}
            try:
                item = model.look(saver.get_tuple(named))
            except IntegrityError:
                continue
            if item is None:
                assert not shown, f"{name}: an edit made a checkpoint vanish"
                continue  # pending writes whose checkpoint is yet to come: a list refuses below
            assert item == shown[item[0]], "an edited record was served"
            assert item[0] != key or not whole, "the record that was edited was served"
            assert name is None or item[0] == name
        try:
            list(saver.list(config))
        except IntegrityError:
            return
        assert key not in shown, "a list over an edited context was served"
        assert (
            self.opened is not None
        )  # a pending write whose checkpoint is yet to come: nobody is served its value
        assert not self.opened.guard.audit(saver).clean, "an audit did not see an edit"


def _quick(self: logfile.LogFile) -> None:
    """A sync that waits for nothing, with its points."""
    end = self.mark[0]
    points = logfile.os._points if isinstance(logfile.os, _TAP) else None  # type: ignore[attr-defined]
    if points is not None:
        points.reached("log.sync.before")
    self.durable = max(self.durable, end)
    if points is not None:
        points.reached("log.sync.after")


_TAP = __import__("memguard.testing.crashpoints", fromlist=["_LogTap"])._LogTap
