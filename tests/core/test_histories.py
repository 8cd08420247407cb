"""Histories of scopes: what a record is compared with, that scopes share nothing, and that state.db is not believed."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memguard import histories as module
from memguard.guard import Compare, Standing
from memguard.histories import KEPT, SAMPLED, SLOTS, SOURCES, Histories
from memguard.keys import open_keys
from memguard.ports import KeyRing
from memguard.record import Scope, Source
from memguard.slots import slots_of

ANN = Scope("acme", "ann")
WEB, USER = Source("web", "https://x.example"), Source("user", "ann")


@pytest.fixture(scope="module")
def keys() -> KeyRing:
    return open_keys("memory:", create=True)


def record(
    vector: tuple[float, ...] = (1.0, 0.0, 0.0),
    scope: Scope = ANN,
    source: Source = USER,
    moment: float = 0.0,
    trusted: bool = True,
    store: str = "memories",
    **said: str,
) -> Compare:
    text = ". ".join(f"The {name} is {value}" for name, value in said.items())
    return Compare(store, scope, vector, source, trusted, slots_of(text), moment)


class TestStanding:
    def test_the_first_of_a_scope(self, tmp_path: Path, keys: KeyRing) -> None:
        assert Histories(tmp_path / "s.db", keys, "e").compare(record()) == Standing(known_source=False)

    def test_nearest_is_a_cosine(self, tmp_path: Path, keys: KeyRing) -> None:
        made = Histories(tmp_path / "s.db", keys, "e")
        for vector, expected in [
            ((1, 0, 0), None),
            ((2, 0, 0), 1.0),
            ((1, 1, 0), 0.7071),
            ((0, 0, 1), 0.0),
            ((-1, -1, -5), -0.19),
        ]:
            nearest = made.compare(record(tuple(map(float, vector)))).nearest
            assert nearest == (None if expected is None else pytest.approx(expected, abs=0.01)), vector

    def test_only_the_last_ones_are_compared(self, tmp_path: Path, keys: KeyRing) -> None:
        made = Histories(tmp_path / "s.db", keys, "e")
        made.compare(record((0.0, 0.0, 1.0)))
        for _ in range(KEPT):
            made.compare(record((1.0, 0.0, 0.0)))
        assert made.look(record((0.0, 0.0, 1.0))).nearest == pytest.approx(0.0)
        assert made.look(record((0.0, 0.0, 1.0))).count == KEPT + 1

    def test_what_is_far_from_a_narrow_scope_drifts(self, tmp_path: Path, keys: KeyRing) -> None:
        made, rng = Histories(tmp_path / "s.db", keys, "e"), random.Random(1)
        for _ in range(50):
            made.compare(record((1.0, rng.gauss(0, 0.1), rng.gauss(0, 0.1))))
        assert made.look(record((1.0, 0.1, 0.1))).drift < 3
        assert made.look(record((-1.0, 0.0, 0.0))).drift > 10

    def test_bursts_are_counted_by_source_and_minute(self, tmp_path: Path, keys: KeyRing) -> None:
        made = Histories(tmp_path / "s.db", keys, "e")
        for moment in (0, 10, 20):
            standing = made.compare(record(source=WEB, moment=float(moment)))
        assert (standing.burst, standing.usual, standing.known_source) == (3, 0, True)
        made.compare(record(source=USER, moment=25.0))
        assert made.compare(record(source=WEB, moment=59.0)).burst == 4
        after = made.compare(record(source=WEB, moment=100.0))
        assert (after.burst, after.usual) == (1, 0)
        assert made.compare(record(source=WEB, moment=101.0)).usual == 4
        assert not made.compare(record(source=Source("tool", "new"), moment=101.0)).known_source

    def test_a_trusted_slot_is_contradicted_and_an_untrusted_one_is_not_kept(
        self, tmp_path: Path, keys: KeyRing
    ) -> None:
        made = Histories(tmp_path / "s.db", keys, "e")
        made.compare(record(trusted=False, city="Oslo"))
        assert not made.compare(record(city="Bern")).contradicts
        assert made.compare(record(trusted=False, city="Oslo", employer="Acme")).contradicts
        assert made.compare(record(city="Oslo")).contradicts, "a trusted one may change it"
        assert not made.compare(record(city="Oslo")).contradicts
        assert made.compare(record(city="Bern")).contradicts, "and then the newest word counts"

    def test_looking_leaves_nothing(self, tmp_path: Path, keys: KeyRing) -> None:
        made = Histories(tmp_path / "s.db", keys, "e")
        made.look(record())
        assert made.look(record()).count == 0

    def test_a_zero_vector_is_nothing_like_anything(self, tmp_path: Path, keys: KeyRing) -> None:
        made = Histories(tmp_path / "s.db", keys, "e")
        made.compare(record((0.0, 0.0, 0.0)))
        standing = made.compare(record((0.0, 0.0, 0.0)))
        assert (standing.nearest, standing.drift) == (0.0, 0.0)

    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e300])
    def test_a_vector_that_is_no_direction_is_nothing_like_anything(
        self, tmp_path: Path, keys: KeyRing, bad: float
    ) -> None:
        made = Histories(tmp_path / "s.db", keys, "e")
        made.compare(record((1.0, 0.0, 0.0)))
        assert made.compare(record((bad, 1.0, 0.0))).nearest == pytest.approx(0.0)
        assert made.compare(record((1.0, 0.0, 0.0))).nearest == pytest.approx(1.0, abs=0.01)
        made.close()
        assert Histories(tmp_path / "s.db", keys, "e").look(record()).nearest == pytest.approx(1.0, abs=0.01)


SCOPES = st.sampled_from(
    [Scope("a", "x"), Scope("a", "y"), Scope("b", "x"), Scope("a"), Scope(user="a"), Scope()]
)
RECORDS = st.builds(
    record,
    vector=st.tuples(*[st.floats(-1, 1) for _ in range(3)]),
    scope=SCOPES,
    source=st.sampled_from([WEB, USER]),
    moment=st.floats(0, 500),
    trusted=st.booleans(),
    store=st.sampled_from(["memories", "memor"]),
    city=st.sampled_from(["Oslo", "Bern"]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(RECORDS, max_size=25), st.integers(1, 3))
def test_no_scope_depends_on_another_even_where_few_are_kept_in_memory(
    tmp_path_factory: pytest.TempPathFactory, records: list[Compare], kept: int
) -> None:
    keys = open_keys("memory:", create=True)
    together = Histories(tmp_path_factory.mktemp("h") / "s.db", keys, "e")
    alone: dict[tuple[str, Scope], Histories] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SCOPES", kept)
        for one in records:
            place = (one.store, one.scope)
            if place not in alone:
                alone[place] = Histories(tmp_path_factory.mktemp("h") / "s.db", keys, "e")
            mine, theirs = together.compare(one), alone[place].compare(one)
            assert mine.drift == pytest.approx(theirs.drift, abs=1e-2)
            assert (mine.count, mine.burst, mine.usual, mine.known_source, mine.contradicts) == (
                theirs.count,
                theirs.burst,
                theirs.usual,
                theirs.known_source,
                theirs.contradicts,
            )


class TestAtRest:
    def test_it_survives_the_process(self, tmp_path: Path, keys: KeyRing) -> None:
        made = Histories(tmp_path / "s.db", keys, "e")
        made.compare(record(source=WEB, moment=5.0, city="Bern"))
        made.close()
        made.close()
        again = Histories(tmp_path / "s.db", keys, "e").look(
            record((1.0, 1.0, 0.0), source=WEB, moment=6.0, city="Oslo")
        )
        assert (again.count, again.burst, again.known_source, again.contradicts) == (1, 2, True, True)
        assert again.nearest == pytest.approx(0.7071, abs=0.01)
        assert Histories(tmp_path / "s.db", keys, "other").look(record()).count == 0, (
            "vectors of another embedder"
        )

    def test_no_name_stands_in_the_database(self, tmp_path: Path, keys: KeyRing) -> None:
        made = Histories(tmp_path / "s.db", keys, "e")
        made.compare(record(scope=Scope("tenant-acme", "user-ann"), source=Source("unknown")))
        made.close()
        raw = (tmp_path / "s.db").read_bytes()
        assert b"tenant-acme" not in raw
        assert b"user-ann" not in raw

    @pytest.mark.parametrize(
        "edit",
        ["value = replace(value, '1.0', '0.5')", "scope = hex(randomblob(16))", "kid = 'k'", "tag = 'x'"],
    )
    def test_an_edited_row_is_no_history(self, tmp_path: Path, keys: KeyRing, edit: str) -> None:
        made = Histories(tmp_path / "s.db", keys, "e")
        made.compare(record())
        made.close()
        with closing(sqlite3.connect(tmp_path / "s.db")) as conn, conn:
            assert conn.execute(f"UPDATE histories SET {edit}").rowcount == 1
        assert Histories(tmp_path / "s.db", keys, "e").compare(record()).count == 0

    def test_a_row_of_another_scope_is_no_history(self, tmp_path: Path, keys: KeyRing) -> None:
        made = Histories(tmp_path / "s.db", keys, "e")
        made.compare(record(scope=Scope("a")))
        made.compare(record(scope=Scope("b")))
        made.close()
        with closing(sqlite3.connect(tmp_path / "s.db")) as conn, conn:
            (one, _), (two, other) = conn.execute("SELECT scope, value FROM histories").fetchall()
            conn.execute("DELETE FROM histories WHERE scope = ?", (one,))
            conn.execute("UPDATE histories SET scope = ? WHERE scope = ?", (one, two))
            assert other
        found = [
            Histories(tmp_path / "s.db", keys, "e").look(record(scope=Scope(t))).count for t in ("a", "b")
        ]
        assert found == [0, 0]


def test_all_of_it_is_bounded(tmp_path: Path, keys: KeyRing) -> None:
    made = Histories(tmp_path / "s.db", keys, "e")
    for number in range(2 * max(KEPT, SLOTS, SOURCES)):
        made.compare(record(source=Source("web", f"s{number}"), **{f"code of room{number}": "4711"}))
    (history,) = made._scopes.values()
    assert (len(history.recent), len(history.slots), len(history.sources)) == (KEPT, SLOTS, SOURCES)
    newest = next(reversed(history.slots))
    assert f"room{2 * max(KEPT, SLOTS, SOURCES) - 1}" in newest.about


class TestSample:
    def bare(self, **more: Any) -> Compare:
        return replace(record(**more), vector=None)

    def test_of_trusted_records_one_in_four_is_embedded_once_the_centre_is_known(
        self, tmp_path: Path, keys: KeyRing
    ) -> None:
        made = Histories(tmp_path / "s.db", keys, "e")
        embedded = 0
        for _ in range(SAMPLED + 40):
            if made.compare(self.bare()).wanted:
                made.compare(record())
                embedded += 1
        assert embedded == SAMPLED + 10
        assert made.look(record()).count == SAMPLED + 10

    def test_what_is_not_embedded_still_tells_its_source_pace_and_slots(
        self, tmp_path: Path, keys: KeyRing
    ) -> None:
        made = Histories(tmp_path / "s.db", keys, "e")
        for _ in range(SAMPLED):
            made.compare(record())
        assert made.compare(self.bare()).wanted, "the 64th is a fourth one"
        made.compare(record())
        passed = self.bare(source=Source("user", "bo"), moment=5.0, city="Oslo")
        assert not made.compare(passed).wanted
        standing = made.look(record(trusted=False, source=Source("user", "bo"), moment=6.0, city="Bern"))
        assert (standing.known_source, standing.burst, standing.contradicts) == (True, 2, True)

    def test_one_that_is_wanted_is_not_remembered_before_it_comes(
        self, tmp_path: Path, keys: KeyRing
    ) -> None:
        made = Histories(tmp_path / "s.db", keys, "e")
        assert made.compare(self.bare(city="Oslo")).wanted
        assert made.look(record(trusted=False, city="Bern")) == Standing(known_source=False)

    def test_looking_wants_it_and_leaves_nothing(self, tmp_path: Path, keys: KeyRing) -> None:
        made = Histories(tmp_path / "s.db", keys, "e")
        for _ in range(SAMPLED + 1):
            made.compare(record())
        before = [h.as_json() for h in made._scopes.values()]
        assert made.look(self.bare(city="Oslo")).wanted
        assert [h.as_json() for h in made._scopes.values()] == before
