"""The chain's encoding and checking, and one contract for the SQLite, PostgreSQL and memory ledgers."""

from __future__ import annotations

import hmac
import os
import sqlite3
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memguard import statedb
from memguard.anchors import open_anchor
from memguard.errors import IntegrityError, UnknownKeyError
from memguard.ledger import GENESIS, encode, link, verify_chain
from memguard.ledger.sqlite import SqliteLedger
from memguard.ports import Ledger, LedgerEntry
from memguard.testing import MemoryKeyRing, MemoryLedger

KEY = bytes(range(32))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
entries_of = st.builds(
    LedgerEntry,
    context=texts,
    generation=st.integers(0, 2**63 - 1),
    fence=st.integers(0, 2**63 - 1),
    operation=texts,
    records=st.lists(texts, max_size=3).map(tuple),
    kid=texts,
    time=st.floats(allow_nan=False),
    chain=st.just(GENESIS),
)


def history(
    length: int, context: str = '["ck","t-1",""]', kid: str = "k1", key: bytes = KEY
) -> list[LedgerEntry]:
    made: list[LedgerEntry] = []
    for number in range(length):
        bare = LedgerEntry(
            context, number + 1, 1, "put", (f"r{number}", "ü"), kid, 1764590000.125 + number, b""
        )
        made.append(replace(bare, chain=link(key, made[-1].chain if made else GENESIS, bare)))
    return made


class TestChain:
    def test_the_encoding_is_the_one_of_the_specification(self) -> None:
        entry = LedgerEntry("c", 1, 2, "put", ("a", "bc"), "k1", 1.5, b"")
        expected = b"memguard.ledger/1\0"
        for text in (b"c", b"put", b"k1"):
            expected += struct.pack(">I", len(text)) + text
        expected += struct.pack(">QQdQ", 1, 2, 1.5, 2) + b"\0\0\0\1a\0\0\0\2bc"
        assert encode(entry) == expected
        assert link(KEY, GENESIS, entry) == hmac.digest(KEY, GENESIS + expected, "sha256")

    @given(entries_of, entries_of)
    def test_two_entries_never_share_an_encoding(self, one: LedgerEntry, two: LedgerEntry) -> None:
        assert (encode(one) == encode(two)) == (one == two)

    def test_the_chain_value_is_not_part_of_its_own_encoding(self) -> None:
        entry = history(1)[0]
        assert encode(entry) == encode(replace(entry, chain=b"x"))

    @pytest.mark.parametrize("length", [0, 1, 5])
    def test_a_true_history_verifies(self, length: int) -> None:
        assert verify_chain(KEY, history(length)) is None
        made = history(length + 3)
        assert verify_chain(KEY, made[3:], made[2].chain) is None, "a part, from where it starts"

    @pytest.mark.parametrize(
        "change",
        [
            {"context": "other"},
            {"generation": 99},
            {"fence": 99},
            {"operation": "delete"},
            {"records": ()},
            {"records": ("r2ü",)},
            {"kid": "k2"},
            {"time": 0.0},
            {"chain": bytes(32)},
            {"chain": b""},
            {"generation": -1},
            {"generation": 2**64},
        ],
        ids=str,
    )
    def test_every_changed_field_is_found_where_it_is(self, change: dict[str, object]) -> None:
        made = history(5)
        made[2] = replace(made[2], **change)  # type: ignore[arg-type]
        assert verify_chain(KEY, made) == 2

    def test_removed_inserted_moved_and_foreign_entries_are_found(self) -> None:
        made = history(6)
        assert verify_chain(KEY, made[1:]) == 0
        assert verify_chain(KEY, made[:2] + made[3:]) == 2
        assert verify_chain(KEY, [made[0], made[2], made[1], *made[3:]]) == 1
        assert verify_chain(KEY, [*made[:3], made[2], *made[3:]]) == 3
        assert verify_chain(bytes(32), made) == 0
        foreign = history(6, context="other")
        assert verify_chain(KEY, [*made[:3], *foreign[3:]]) == 3
        forged = replace(made[2], context="other")
        forged = replace(forged, chain=link(KEY, made[1].chain, forged))
        assert verify_chain(KEY, [*made[:2], forged]) == 2, "even with the key, one chain is one context"

    def test_a_cut_end_is_not_seen_by_the_chain_alone(self) -> None:
        """Stated, not hoped: completeness is the business of the head in the anchor."""
        assert verify_chain(KEY, history(6)[:4]) is None

    def test_keys_by_id_after_a_rotation(self) -> None:
        ring = MemoryKeyRing("k1", secret=KEY)
        made = history(3, key=ring.subkey("chain"))
        ring.rotate("k2")
        bare = LedgerEntry(made[0].context, 4, 1, "put", (), "k2", 5.0, b"")
        made.append(replace(bare, chain=link(ring.subkey("chain"), made[-1].chain, bare)))
        assert verify_chain(lambda kid: ring.subkey("chain", kid), made) is None
        ring.destroy("k1")
        with pytest.raises(UnknownKeyError):
            verify_chain(lambda kid: ring.subkey("chain", kid), made)

    def test_what_cannot_be_encoded_is_refused(self) -> None:
        entry = history(1)[0]
        for change in (
            {"generation": -1},
            {"fence": 2**64},
            {"operation": "\ud800"},
            {"time": float("nan")},
        ):
            with pytest.raises(ValueError):
                encode(replace(entry, **change))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="0 bytes"):
            link(KEY, b"", entry)


@pytest.fixture(params=["sqlite", "connection", "memory", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    if request.param == "memory":
        yield MemoryLedger()
    elif request.param == "sqlite":
        made = SqliteLedger(tmp_path / "state.db")
        yield made
        made.close()
    elif request.param == "postgresql":
        anchor = open_anchor(request.getfixturevalue("postgres_uri"), create=True)
        yield statedb.opened(tmp_path, None, anchor).ledger()
        anchor.close()
    else:
        conn = sqlite3.connect(tmp_path / "state.db")  # the default, implicit transactions
        yield SqliteLedger(conn)
        conn.close()


class TestContract:
    def test_it_is_a_ledger(self, ledger: Ledger) -> None:
        assert isinstance(ledger, Ledger)
        assert list(ledger.entries()) == []
        assert ledger.last("nobody") is None

    def test_entries_come_back_oldest_first(self, ledger: Ledger) -> None:
        one, two = history(3), history(2, context='["it","users","alice"]')
        ledger.append([one[0], two[0], one[1]])
        ledger.append([two[1], one[2]])
        assert list(ledger.entries()) == [one[0], two[0], one[1], two[1], one[2]]
        assert list(ledger.entries(one[0].context)) == one
        assert list(ledger.entries(two[0].context)) == two
        assert ledger.last(one[0].context) == one[2]
        assert verify_chain(KEY, ledger.entries(one[0].context)) is None

    def test_the_same_operation_twice_is_ignored(self, ledger: Ledger) -> None:
        made = history(3)
        ledger.append(made[:2])
        ledger.append(made[1:])
        ledger.append([replace(made[0], operation="other", chain=bytes(32))])
        assert list(ledger.entries()) == made

    @given(entry=entries_of)
    def test_any_entry_comes_back_equal(self, entry: LedgerEntry) -> None:
        for store in (SqliteLedger(_memory()), MemoryLedger()):
            store.append([entry])
            assert list(store.entries()) == [entry]
            assert encode(next(iter(store.entries()))) == encode(entry)

    def test_more_than_a_page(self, ledger: Ledger) -> None:
        made = history(2100)
        ledger.append(made)
        assert list(ledger.entries()) == made
        assert list(ledger.entries(made[0].context)) == made

    def test_reading_while_writing(self, ledger: Ledger) -> None:
        ledger.append(history(3))
        for number, entry in enumerate(ledger.entries()):
            ledger.append([replace(entry, context=f"c{number}")])
        assert len(list(ledger.entries())) >= 6

    def test_closing_twice_is_fine_and_using_after_is_not(self, ledger: Ledger) -> None:
        ledger.append(history(1))
        ledger.close()
        ledger.close()
        for call in (
            lambda: ledger.append(history(1)),
            lambda: list(ledger.entries()),
            lambda: ledger.last("x"),
        ):
            with pytest.raises(IntegrityError, match="closed"):
                call()


def _memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None)


class TestSqlite:
    def test_a_person_can_read_it(self, tmp_path: Path) -> None:
        path = tmp_path / "state.db"
        ledger = SqliteLedger(path)
        ledger.append(history(1))
        ledger.close()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        conn = sqlite3.connect(path)
        conn.row_factory = sqlite3.Row
        row = dict(conn.execute("SELECT * FROM ledger").fetchone())
        assert row["records"] == '["r0", "ü"]'
        assert row["chain"] == history(1)[0].chain.hex()
        view = dict(conn.execute("SELECT * FROM ledger_readable").fetchone())
        assert (view["utc"], view["touched"], view["operation"]) == ("2025-12-01 11:53:20", 2, "put")
        conn.close()

    def test_it_stays_and_opens_again(self, tmp_path: Path) -> None:
        for number in range(3):
            ledger = SqliteLedger(tmp_path / "state.db")
            ledger.append(history(number + 1))
            ledger.close()
        assert list(SqliteLedger(tmp_path / "state.db").entries()) == history(3)

    def test_a_given_connection_stays_open_and_its_transaction_is_joined(self) -> None:
        conn = _memory()
        ledger = SqliteLedger(conn)
        conn.execute("BEGIN")
        ledger.append(history(2))
        assert conn.in_transaction
        conn.execute("ROLLBACK")
        assert list(ledger.entries()) == []
        ledger.append(history(2))
        assert not conn.in_transaction
        ledger.close()
        assert conn.execute("SELECT count(*) FROM ledger").fetchone() == (2,)

    def test_threads_and_processes_share_it(self, tmp_path: Path) -> None:
        path = tmp_path / "state.db"
        ledger = SqliteLedger(path)
        code = """
import sys
from memguard.ledger.sqlite import SqliteLedger
from memguard.ports import LedgerEntry
ledger = SqliteLedger(sys.argv[1])
for n in range(50): ledger.append([LedgerEntry("child", n, 0, "put", (), "k", 0.0, bytes(32))])
"""
        child = subprocess.Popen([sys.executable, "-c", code, str(path)])

        def work(name: str) -> None:
            for entry in history(50, context=name):
                ledger.append([entry])

        threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert child.wait(60) == 0
        assert [len(list(ledger.entries(name))) for name in ("a", "b", "child")] == [50, 50, 50]

    def test_a_forked_child_uses_a_connection_of_its_own(self, tmp_path: Path) -> None:
        ledger = SqliteLedger(tmp_path / "state.db")
        ledger.append(history(1))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                inherited = ledger._conn
                ledger.append(history(2))
                assert ledger._conn is not inherited
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        ledger.append(history(3))
        assert list(ledger.entries()) == history(3)

    @pytest.mark.parametrize(
        "edit",
        [
            "UPDATE ledger SET records = 'not json'",
            "UPDATE ledger SET records = '{}'",
            "UPDATE ledger SET records = '[1]'",
            "UPDATE ledger SET records = x'00'",
            "UPDATE ledger SET generation = 'many'",
            "UPDATE ledger SET time = 'noon'",
            "UPDATE ledger SET kid = x'00'",
            "UPDATE ledger SET chain = 'not hex'",
            "UPDATE ledger SET chain = x'00'",
            "DROP VIEW ledger_readable; DROP TABLE ledger",
        ],
    )
    def test_an_edited_row_is_an_integrity_error_without_its_content(self, tmp_path: Path, edit: str) -> None:
        ledger = SqliteLedger(tmp_path / "state.db")
        ledger.append(history(1))
        conn = sqlite3.connect(tmp_path / "state.db")
        conn.executescript(edit)
        conn.close()
        for call in (lambda: list(ledger.entries()), lambda: ledger.last(history(1)[0].context)):
            with pytest.raises(IntegrityError) as caught:
                call()
            assert caught.value.case == "state"
            assert caught.value.do
            assert "many" not in str(caught.value)

    def test_an_edited_chain_column_breaks_the_chain(self, tmp_path: Path) -> None:
        ledger = SqliteLedger(tmp_path / "state.db")
        made = history(4)
        ledger.append(made)
        conn = sqlite3.connect(tmp_path / "state.db")
        for number, value in enumerate(["00", "", "00" * 32], start=1):
            conn.execute("UPDATE ledger SET chain = ? WHERE id = ?", (value, number))
        conn.commit()
        conn.close()
        before = [GENESIS, *(entry.chain for entry in made)]
        broken = [verify_chain(KEY, [entry], before[n]) for n, entry in enumerate(ledger.entries())]
        assert broken == [0, 0, 0, None]
        assert verify_chain(KEY, ledger.entries()) == 0

    def test_foreign_errors_are_mapped(self, tmp_path: Path) -> None:
        (tmp_path / "noise.db").write_bytes(os.urandom(8192))
        (tmp_path / "folder").mkdir()
        for path in (tmp_path / "noise.db", tmp_path / "folder", tmp_path / "no" / "such" / "state.db"):
            with pytest.raises(IntegrityError) as caught:
                SqliteLedger(path)
            assert str(path) in str(caught.value)
            assert caught.value.case == "state"
