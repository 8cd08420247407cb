"""Keep, release, drop, undo, purge and expire in any order, over a real store, against a plain model of it."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from langgraph.store.sqlite import SqliteStore
from quarantine_place import DECISION

from memguard import MemGuard, RefusedError
from memguard.quarantine.vault import Vault
from memguard.record import Source, Trust

NAMESPACE = ("users", "alice")
CONTEXT = '["it","users","alice"]'
KEYS = st.sampled_from("abc")
#: Entry ids are drawn as places in the list of those that exist.
WHICH = st.integers(0, 30)


class Machine(RuleBasedStateMachine):
    """The model: what each entry is, and what stands at each key."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.entries: dict[str, list[Any]] = {}  # id -> [state, key, text]
        self.there: dict[str, tuple[str, str]] = {}  # key -> (text, id of the entry it was released from)
        self.count, self.now = (
            0,
            2_000_000_000.0,
        )  # far from the store's own clock: nothing is newer by accident
        self.mg: MemGuard | None = None
        self.start()

    def start(self) -> None:
        uris = {"anchor": f"file:{self.root}/anchor", "keys": f"file:{self.root}/agent/key.json"}
        if self.mg is None:
            quiet = dict.fromkeys(("provenance", "scope", "sanitizer", "anomaly"), "off")
            limits = {"max_age_days": 10.0, "undo_days": 3.0}
            self.mg = MemGuard.create(
                self.root / "home", config={"write": quiet, "quarantine": limits}, **uris
            )
        else:
            self.mg = MemGuard.open(self.root / "home", **uris)
        self.connection = sqlite3.connect(
            self.root / "memories.db", isolation_level=None, check_same_thread=False
        )
        inner = SqliteStore(self.connection)
        inner.setup()
        self.store = self.mg.guard(inner, name="memories")
        self.vault: Vault = self.mg.quarantine.vault
        self.vault._clock = lambda: self.now
        self.vault.tables._clock = lambda: self.now

    def pick(self, which: int, *states: str) -> str | None:
        found = [id for id, entry in self.entries.items() if entry[0] in states]
        return found[which % len(found)] if found else None

    @rule(key=KEYS)
    def keep(self, key: str) -> None:
        self.count += 1
        text = f"memory {self.count}"
        id = self.vault.keep(
            "memories",
            CONTEXT,
            key,
            {"text": text},
            DECISION,
            source=Source("web", "x"),
            trust=Trust.UNTRUSTED,
        )
        assert id not in self.entries
        self.entries[id] = ["waiting", key, text, self.now]

    @rule(key=KEYS)
    def write(self, key: str) -> None:
        self.count += 1
        self.store.put(NAMESPACE, key, {"text": f"honest {self.count}"})
        self.there[key] = (f"honest {self.count}", "")

    @rule(which=WHICH)
    def release(self, which: int) -> None:
        id = self.pick(which, "waiting")
        if id is None:
            return
        entry = self.entries[id]
        (done,) = self.mg.quarantine.release(id, by="op")
        assert done.state == "released"
        entry[0], entry[3] = "released", self.now
        self.there[entry[1]] = (entry[2], id)

    @rule(which=WHICH)
    def drop(self, which: int) -> None:
        id = self.pick(which, "waiting")
        if id is not None:
            self.mg.quarantine.drop(id, by="op")
            self.entries[id][0], self.entries[id][3] = "dropped", self.now

    @rule(which=WHICH)
    def purge(self, which: int) -> None:
        id = self.pick(which, "waiting", "dropped", "released")
        if id is not None:
            self.mg.quarantine.drop(id, by="op", purge=True)
            self.entries[id][0] = "purged"

    @rule(which=WHICH)
    def undo(self, which: int) -> None:
        id = self.pick(which, "dropped", "released")
        if id is None:
            return
        entry = self.entries[id]
        if entry[0] == "released" and self.there.get(entry[1], ("", ""))[1] != id:
            try:
                self.mg.quarantine.undo(id, by="op")
            except RefusedError:
                return
            raise AssertionError("an undo took what somebody else wrote")
        released = entry[0] == "released"
        assert self.mg.quarantine.undo(id, by="op").state == "waiting"
        if released:
            del self.there[entry[1]]
        entry[0] = "waiting"
        entry[3] = self.kept_at(id)

    def kept_at(self, id: str) -> float:
        return float(self.vault.tables.entries[int(id[2:])].time)

    @rule(days=st.sampled_from([1.0, 2.0, 4.0, 11.0]))
    def expire(self, days: float) -> None:
        self.now += days * 86_400
        self.mg.quarantine.list()
        for entry in self.entries.values():
            limit = {"waiting": 10.0, "dropped": 3.0, "released": 3.0}.get(entry[0])
            if limit is not None and self.now - entry[3] > limit * 86_400:
                entry[0] = "purged"

    @rule()
    def restart(self) -> None:
        assert self.mg is not None
        self.mg.close()
        self.connection.close()
        self.start()

    @invariant()
    def the_vault_says_what_the_model_says(self) -> None:
        assert {e.id: e.state for e in self.vault.entries(None)} == {
            id: e[0] for id, e in self.entries.items()
        }

    @invariant()
    def the_store_holds_what_the_model_holds(self) -> None:
        found = {item.key: item for item in self.store.search(NAMESPACE)}
        assert {key: item.value["text"] for key, item in found.items()} == {
            k: t for k, (t, _) in self.there.items()
        }

    @precondition(lambda self: self.entries)
    @invariant()
    def content_is_there_until_it_is_purged(self) -> None:
        query = "SELECT seq, sealed IS NOT NULL FROM quarantine"
        held = dict(self.vault.tables._conn.execute(query).fetchall())
        assert held == {int(id[2:]): int(e[0] != "purged") for id, e in self.entries.items()}

    def teardown(self) -> None:
        assert self.mg is not None
        assert self.mg.audit(self.store).clean
        for id, (state, key, text, _) in self.entries.items():
            if state != "purged":
                shown = self.mg.quarantine.show(id)
                assert (shown.kept.key, shown.text) == (key, f"text\n{text}")
        self.mg.close()
        self.connection.close()
        shutil.rmtree(self.root)


Machine.TestCase.settings = settings(
    max_examples=12, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestMachine = Machine.TestCase
