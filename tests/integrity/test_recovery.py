"""Which rows ahead of a head are believed: each branch of the rule as a function, then crashes through custody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from memguard.errors import AnchorError, IntegrityError, RollbackError, TamperedError
from memguard.integrity.head import Head
from memguard.integrity.index import pack_key
from memguard.integrity.logview import Intent
from memguard.integrity.recovery import decide
from memguard.integrity.verifier import Claim, Context, Observation
from memguard.testing.keys import MemoryKeyRing

CONTEXT = '["ck","t",""]'


class World:
    """A context with a head over some rows, as decide sees it; rows are added and taken by hand."""

    def __init__(self, seal_rows: Callable[..., Any]) -> None:
        self._seal_rows = seal_rows
        self.context = Context(MemoryKeyRing(secret=bytes(32), kid="k"), "store", CONTEXT, "k", None)
        self.rows: dict[Any, Any] = {}
        self.commit(("1", "", b"one"))
        self.commit(("2", "", b"two"), ("2", "w", b"w"))

    def ahead(self, *items: Any, **position: Any) -> list[Any]:
        """Rows that an operation would write now; nothing is stored."""
        return list(self._seal_rows(self.context, items, **position))

    def store(self, made: list[Any]) -> None:
        for stored, _, _ in made:
            self.rows[stored.group, stored.member] = stored

    def advance(self, made: list[Any], chain: int = 0) -> None:
        """Count rows: the head that the operation leads to."""
        c = self.context
        total, index = c.head.total, c.index
        for _, (group, cell), _ in made:
            old = index.add(group, cell)
            total += c.term(group, cell) - (c.term(group, old) if old else 0)
        generation = c.head.generation + 1
        head = Head(
            c.id,
            generation,
            c.head.fence,
            b"b" * 16,
            index.cells,
            total % (1 << 256),
            chain=bytes([generation + chain]) * 32,
        )
        c.adopt(head, index)

    def commit(self, *items: Any) -> None:
        made = self.ahead(*items)
        self.store(made)
        self.advance(made)

    def take(self, key: str) -> None:
        for place in [p for p in self.rows if p[0] == pack_key(key)]:
            del self.rows[place]

    def look(self) -> Observation:
        claims = [
            Claim(b"xx", r.group, r.member, r.group, r.seal, (r.member,), "a record")
            for r in self.rows.values()
        ]
        return self.context.observe(claims)

    def cells(self, *keys: str) -> tuple[tuple[bytes, bytes], ...]:
        return tuple(pair for pair in self.context.index.items() if pair[0] in map(pack_key, keys))

    def decide(
        self,
        operation: str | None = None,
        *,
        removes: Any = (),
        boot: bool = False,
        window: int = 1,
        failed: bool = False,
    ) -> Any:
        intent = operation and Intent("store", CONTEXT, operation, self.context.head.generation + 1, removes)
        verdict = decide(
            self.context, self.look(), intent or None, new_boot=boot, window=window, failed=failed
        )
        return (
            verdict.action,
            verdict.generation - self.context.head.generation if verdict.generation else None,
        )


@pytest.fixture
def world(seal_rows: Callable[..., Any]) -> World:
    return World(seal_rows)


def refused(call: Callable[[], Any]) -> type[BaseException]:
    with pytest.raises(IntegrityError) as caught:
        call()
    return caught.type


# -- R1 ----------------------------------------------------------------------------------------------


def test_r1_a_context_that_is_as_its_head_says(world: World) -> None:
    assert world.decide() == ("clean", None)
    assert world.decide("put") == ("burn", 0)  # announced, and never happened
    assert world.decide(boot=True) == ("burn", 0)


def test_r1_in_a_clean_session_a_row_ahead_is_an_attack(world: World) -> None:
    world.store(world.ahead(("3", "", b"three")))
    assert refused(world.decide) is AnchorError
    assert world.decide("put") == ("adopt", 1)
    assert world.decide(boot=True) == ("adopt", 1)


def test_r1_rows_that_are_missing_or_brought_back_are_refused_whatever_was_announced(world: World) -> None:
    old = dict(world.rows)
    world.take("1")
    for intent, boot in ((None, False), ("put", False), (None, True)):
        assert refused(lambda i=intent, b=boot: world.decide(i, boot=b)) is RollbackError
    world.rows = old
    made = world.ahead(("1", "", b"other"))
    before = dict(world.rows)
    world.store(made)
    world.advance(made)
    world.rows = before  # the replaced row comes back
    for intent, boot in ((None, False), ("put", False), (None, True)):
        assert refused(lambda i=intent, b=boot: world.decide(i, boot=b)) is RollbackError


# -- R2 ----------------------------------------------------------------------------------------------


def test_r2_an_announced_delete_is_completed(world: World) -> None:
    assert world.decide("delete") == ("delete", 1)
    world.take("1")
    assert world.decide("delete") == ("delete", 1)  # half of it was done
    world.take("2")
    assert world.decide("delete") == ("adopt", 1)


def test_r2_a_delete_that_the_store_refused_to_its_caller_is_undone(world: World) -> None:
    assert world.decide("delete", failed=True) == ("burn", 0)
    world.take("1")
    assert world.decide("delete", failed=True) == ("delete", 1)  # but not if any of it happened


def test_r2_removing_some_rows_is_completed_pruning_may_stop_anywhere(world: World) -> None:
    removes = world.cells("1", "2")
    assert world.decide("remove", removes=removes) == ("delete", 1)
    assert world.decide("prune", removes=removes) == ("burn", 0)
    world.take("1")
    assert world.decide("remove", removes=removes) == ("delete", 1)
    assert world.decide("prune", removes=removes) == ("adopt", 1)
    assert refused(lambda: world.decide("prune", removes=world.cells("2"))) is RollbackError  # not announced
    world.take("2")
    assert world.decide("remove", removes=removes) == ("adopt", 1)


# -- R3 ----------------------------------------------------------------------------------------------


def test_r3_half_of_an_operation_is_not_one(world: World) -> None:
    made = world.ahead(("3", "a", b"1"), ("3", "b", b"2"), ("3", "c", b"3"))
    for count in (1, 2):
        world.store(made[:count])
        for intent, boot in (("put_writes", False), (None, True)):
            assert refused(lambda i=intent, b=boot: world.decide(i, boot=b)) is AnchorError
    world.store(made)
    assert world.decide("put_writes") == ("adopt", 1)


def test_r3_another_fence_generation_or_commitment_is_refused(world: World) -> None:
    generation = world.context.head.generation
    for position in ({"fence": 0}, {"fence": 2}, {"generation": generation + 2}):
        made = world.ahead(("3", "", b"three"), **position)
        world.store(made)
        assert refused(lambda: world.decide("put")) is AnchorError
        world.take("3")
    made = world.ahead(("3", "", b"three"))
    world.advance(world.ahead(("4", "", b"four")), chain=9)  # another history went on from there
    world.store(made)
    assert refused(lambda: world.decide("put", boot=True))


def test_r3_a_replacement_is_explained_by_the_tag_it_replaced(world: World) -> None:
    made = world.ahead(("1", "", b"one again"))
    world.store(made)
    assert world.decide("put") == ("adopt", 1)
    world.take("2")
    assert refused(lambda: world.decide("put"))  # but not the row that went with it


def test_r3_a_row_ahead_does_not_cover_for_one_that_is_missing(world: World) -> None:
    world.store(world.ahead(("3", "", b"three")))
    world.take("1")
    assert refused(lambda: world.decide("put"))
    assert refused(lambda: world.decide(boot=True))


def test_r3_the_tail_of_lag_mode(world: World) -> None:
    start = dict(world.rows)
    twin = World(world._seal_rows)
    tails = []
    for number in range(3, 7):  # four operations that the durable head does not know
        made = twin.ahead((str(number), "", b"x"), (str(number), "w", b"y"))
        tails.append(made)
        twin.advance(made)
    for count in range(5):
        world.rows = dict(start)
        for made in tails[:count]:
            world.store(made)
        assert world.decide(boot=True, window=4) == (("adopt", count) if count else ("burn", 0))
        if count > 1:
            assert refused(lambda: world.decide(boot=True, window=1)) is AnchorError
            assert refused(lambda: world.decide("put", window=4)) is AnchorError  # no power loss, no tail
    world.take("4")  # an operation in the middle is cut out
    assert refused(lambda: world.decide(boot=True, window=4)) is AnchorError
    world.store(tails[1][:1])  # half of it
    assert refused(lambda: world.decide(boot=True, window=4)) is AnchorError


def test_r3_a_tail_in_which_one_operation_replaced_another(world: World) -> None:
    twin = World(world._seal_rows)
    for content in (b"first", b"second"):
        made = twin.ahead(("3", "", content))
        twin.advance(made)
        world.store(made)
    assert world.decide(boot=True, window=4) == ("adopt", 2)


# -- whole crashes -----------------------------------------------------------------------------------


def test_a_write_that_died_before_or_after_the_commit(desk: Any, died: Any) -> None:
    desk.put("1", "one")
    for key, die in (("2", "before"), ("3", "after")):
        with pytest.raises(died):
            desk.put(key, key, die=die)
        for heir in (desk, desk.crash(), desk.power_cut()):
            expected = {"before": {"1"}, "after": {"1", "3"}}[die]
            table = heir.table.copy()
            heir.table.rows = table.rows
            assert set(heir.read()) == expected


def test_a_new_context_that_died_in_its_first_write(new_desk: Any, died: Any) -> None:
    for die in ("before", "after"):
        for end in ("crash", "power_cut"):
            desk = new_desk()
            with pytest.raises(died):
                desk.put("1", "one", die=die)
            heir = getattr(desk, end)()  # its announcement was durable, or it would be a forgery now
            assert heir.read() == ({"1": b"one"} if die == "after" else {})
            heir.put("2", "two")
            assert "2" in heir.read()


def test_a_new_context_whose_announcement_was_never_made_is_a_forgery(desk: Any, new_desk: Any) -> None:
    desk.put("1", "one")
    heir = new_desk()
    heir.table.rows = desk.table.copy().rows
    other = heir.power_cut(keys=desk.keys)
    with pytest.raises(IntegrityError):
        other.read()


def test_half_of_a_put_writes_is_refused_and_the_context_only(desk: Any, died: Any) -> None:
    desk.put("1", "one")
    desk.put("1", "other", context="other")
    with pytest.raises(died):
        desk.write(("1", "a", b"1"), ("1", "b", b"2"), die="after", commit=1)
    for heir in (desk.crash(), desk.power_cut()):
        with pytest.raises(AnchorError):
            heir.read()
        with pytest.raises(AnchorError):
            heir.put("2", "two")
        assert heir.read("other") == {"1": b"other"}


@pytest.mark.parametrize("rows", [0, 1, None])
@pytest.mark.parametrize("end", ["crash", "power_cut"])
def test_a_lost_delete_is_completed(desk: Any, died: Any, rows: int | None, end: str) -> None:
    for number in range(3):
        desk.put(str(number), "x")
    before = desk.table.copy()
    with pytest.raises(died):
        desk.delete(die="after", rows=rows)
    heir = getattr(desk, end)()
    assert heir.read() == {}
    assert heir.head().horizon == pack_key("2")  # a late write that names it is known for one
    heir.table.rows = before.rows
    heir = heir.crash()
    with pytest.raises(IntegrityError):
        heir.read()  # what was deleted does not come back


@pytest.mark.parametrize("rows", [0, 1, None])
def test_a_prune_that_died_keeps_what_is_left(desk: Any, died: Any, rows: int | None) -> None:
    for number in range(4):
        desk.put(str(number), "x")
    with pytest.raises(died):
        desk.prune(["0", "1"], die="after", rows=rows)
    heir = desk.crash()
    left = {"0", "1", "2", "3"} - {str(n) for n in range(2 if rows is None else rows)}
    assert set(heir.read()) == left
    heir.put("4", "x")
    assert set(heir.crash().read()) == left | {"4"}


def test_an_orphan_that_surfaces_late_is_dead(desk: Any, died: Any) -> None:
    """Power loss: the row was in the operating system's cache, the store came up without it, and then it appears."""
    desk.put("1", "one")
    lost = desk.table.copy()
    with pytest.raises(died):
        desk.put("2", "two", die="after")
    orphan = desk.table.copy()
    heir = desk.power_cut(table=lost)
    assert set(heir.read()) == {"1"}
    heir.table.rows = orphan.rows
    for later in (heir.crash(), heir.power_cut()):
        with pytest.raises(AnchorError):
            later.read()


def test_the_rest_of_a_lag_tail_does_not_resurface_at_a_second_crash(new_desk: Any) -> None:
    desk = new_desk(sync="lag", lag_ops=8, lag_ms=600_000)
    desk.put("0", "x")
    tables = [desk.table.copy()]
    for number in range(1, 5):
        desk.put(str(number), "x")
        tables.append(desk.table.copy())
    first = desk.power_cut(table=tables[2].copy())
    assert set(first.read()) == {"0", "1", "2"}  # the tail that reached the disk
    second = first.power_cut(table=tables[4].copy(), boot=b"boot-3".ljust(16))
    with pytest.raises(AnchorError):
        second.read()  # 3 and 4 were given up when first was served
    assert set(first.power_cut(table=tables[2].copy(), boot=b"boot-3".ljust(16)).read()) == {"0", "1", "2"}


def test_rolled_forward_in_a_clean_session_is_refused(desk: Any, died: Any) -> None:
    """Rows of an operation that was undone are put back while the process runs."""
    desk.put("1", "one")
    with pytest.raises(died):
        desk.put("2", "two", die="after")
    ahead = desk.table.copy()
    del desk.table.of(CONTEXT)[next(p for p in desk.table.of(CONTEXT) if p[0] == pack_key("2"))]
    assert set(desk.read()) == {"1"}  # undone, and the fence raised
    desk.table.rows = ahead.rows
    with pytest.raises(TamperedError):
        desk.read()
    with pytest.raises(AnchorError):
        desk.crash().read()


def test_rolled_back_and_an_identical_record_written_again(desk: Any) -> None:
    desk.put("1", "one")
    old = desk.table.copy()
    desk.put("2", "two")
    desk.table.rows = old.rows
    with pytest.raises(RollbackError):
        desk.read()
    heir = desk.crash()
    with pytest.raises(RollbackError):
        heir.put("2", "two")  # the same words do not make it the same row
    assert set(heir.table.of(CONTEXT)) == {(pack_key("1"), bytes(8))}


def test_a_fence_is_raised_once_for_each_recovery_and_written_before_anything_is_served(
    desk: Any, died: Any
) -> None:
    desk.put("1", "one")
    assert desk.head().fence == 1
    heir = desk.power_cut()
    heir.read()
    assert (heir.head().fence, heir.head().generation) == (2, 1)
    assert heir.anchor.after_power_cut()._log.records == heir.anchor._log.records
    heir.read()
    assert heir.head().fence == 2
    assert heir.crash().read() == {"1": b"one"}
    assert heir.crash().head().fence == 2  # no new boot: nothing to recover


def test_another_process_finishes_what_a_dead_one_left_behind(desk: Any, died: Any) -> None:
    desk.put("1", "one")
    other = desk.crash()
    assert set(other.read()) == {"1"}
    with pytest.raises(died):
        desk.put("2", "two", die="after")
    assert set(other.read()) == {"1", "2"}
    other.put("3", "three")
    assert set(desk.crash().read()) == {"1", "2", "3"}


def test_a_note_that_was_lost_or_made_up_makes_a_recovery_stricter_and_nothing_else(
    desk: Any, died: Any
) -> None:
    desk.put("1", "one")
    with pytest.raises(died):
        desk.put("2", "two", die="after")
    noted = desk.slot.read()
    for raw in (b"", b"MGI1", noted[:-1] + bytes([noted[-1] ^ 1]), b"\xff" * 64):
        desk.slot.write(raw)
        with pytest.raises(AnchorError):
            desk.crash().read()
    desk.slot.write(noted)
    assert set(desk.crash().read()) == {"1", "2"}


def test_keys_rotated_between_the_crash_and_the_next_start(desk: Any, died: Any) -> None:
    with pytest.raises(died):
        desk.put("1", "one", die="after")
    desk.keys.rotate()
    heir = desk.power_cut()
    assert heir.read() == {"1": b"one"}
    heir.put("2", "two")
    with pytest.raises(died):
        heir.put("3", "three", die="after")
    heir.keys.rotate()
    assert set(heir.crash().read()) == {"1", "2", "3"}


# -- any order of these ---------------------------------------------------------------------------------


class Life(RuleBasedStateMachine):
    """Writes, deletes, crashes, power cuts and edits in any order, against a dictionary that cannot be wrong."""

    make: Callable[[], Any]
    died: type[BaseException]

    @initialize()
    def begin(self) -> None:
        self.desk = type(self).make()
        self.truth: dict[str, bytes] = {}
        self.number = 0
        self.past: list[Any] = []

    def _next(self) -> str:
        self.number += 1
        return f"{self.number:03}"

    def _run(self, call: Callable[[], None], after: dict[str, bytes], die: str) -> None:
        self.past.append(self.desk.table.copy())
        try:
            call()
        except self.died:
            self.truth = after if die == "after" else self.truth
            return
        self.truth = after

    @rule(die=st.sampled_from(["", "before", "after"]))
    def put(self, die: str) -> None:
        key = self._next()
        self._run(lambda: self.desk.put(key, key, die=die), {**self.truth, key: key.encode()}, die)

    @precondition(lambda self: self.truth)
    @rule(die=st.sampled_from(["", "before", "after"]), data=st.data())
    def replace(self, die: str, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.truth)))
        new = self._next()
        self._run(lambda: self.desk.put(key, new, die=die), {**self.truth, key: new.encode()}, die)

    @precondition(lambda self: self.truth)
    @rule(die=st.sampled_from(["", "after"]))
    def delete(self, die: str) -> None:
        self._run(lambda: self.desk.delete(die=die), {}, "after")

    @rule(end=st.sampled_from(["crash", "power_cut"]))
    def restart(self, end: str) -> None:
        self.desk = getattr(self.desk, end)()

    @precondition(lambda self: self.past)
    @rule(data=st.data(), power=st.booleans())
    def rollback(self, data: st.DataObject, power: bool) -> None:
        """An older table: refused in every way of coming up, unless it is what stands there anyway."""
        self.desk.read()  # settles what is open: from here on the truth has a head
        old = data.draw(st.sampled_from(self.past))
        if old.rows.get(CONTEXT, {}) == self.desk.table.rows.get(CONTEXT, {}):
            return
        now, self.desk.table.rows = self.desk.table.rows, old.copy().rows
        for heir in (self.desk, self.desk.crash(), self.desk.power_cut() if power else self.desk.crash()):
            with pytest.raises(IntegrityError):
                heir.read()
            with pytest.raises(IntegrityError):
                heir.crash().put("999", "laundered")
        self.desk.table.rows = now
        self.desk = self.desk.crash()

    @invariant()
    def truth_is_served(self) -> None:
        if hasattr(self, "desk"):
            assert self.desk.crash().read() == self.truth


def test_no_order_of_crashes_and_edits_serves_what_is_not_true(new_desk: Any, died: Any) -> None:
    kind = type("ThisLife", (Life,), {"make": staticmethod(new_desk), "died": died})
    run_state_machine_as_test(kind, settings=settings(max_examples=40, stateful_step_count=14, deadline=None))


@given(choices=st.lists(st.integers(0, 3), max_size=6), cut=st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_any_subset_of_a_tail_is_a_prefix_or_refused(
    seal_rows: Callable[..., Any], choices: list[int], cut: int
) -> None:
    """In lag mode after a power loss exactly the prefixes of the acknowledged tail are explained."""
    base, twin = World(seal_rows), World(seal_rows)
    tails = []
    for number, choice in enumerate(choices):
        made = twin.ahead(*((f"9{number}", f"m{i}" if i else "", bytes([i])) for i in range(choice + 1)))
        tails.append(made)
        twin.advance(made)
    kept = [made for number, made in enumerate(tails) if number != cut]
    for made in kept:
        base.store(made)
    is_prefix = kept == tails[: len(kept)]
    try:
        action, _ = base.decide(boot=True, window=8)
    except IntegrityError:
        assert not is_prefix
    else:
        assert is_prefix
        assert action == ("adopt" if kept else "burn")
