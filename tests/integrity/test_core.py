"""The pure core, by properties: framing, canonical JSON, seals, the index, sums, the log's view."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memguard.anchorlog import AnchorLog
from memguard.errors import AnchorError, IntegrityError, RollbackError, TamperedError, UnknownKeyError
from memguard.integrity.audit import examine, extra, findings
from memguard.integrity.canonical import canonical_json, frame, unframe
from memguard.integrity.head import MODULUS, UNCOUNTED, Accumulator, Head
from memguard.integrity.index import CELL, MAIN, MEMBER, Index, newest, not_after, pack_key, split, unpack_key
from memguard.integrity.logview import HeadRecord, Intent, LogView, Note
from memguard.integrity.records import CARRIED, HEAD, STATED, read_head, say_head
from memguard.integrity.tag import NOTHING, Seal, Sealer, parse
from memguard.integrity.verifier import Claim, Context, Observation
from memguard.testing.anchors import FaultyAnchor, MemoryAnchor
from memguard.testing.keys import MemoryKeyRing

RING = MemoryKeyRing("k", secret=bytes(32))
CONTEXT = '["ck","t",""]'
texts = st.text(max_size=12)
keys = st.one_of(st.uuids().map(str), texts, st.uuids().map(lambda u: str(u).upper()))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)
)
tags = st.binary(min_size=16, max_size=16)


# -- framing and canonical JSON ----------------------------------------------------------------------


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_a_frame_gives_its_parts_back(parts: list[bytes]) -> None:
    assert unframe(frame(*parts)) == parts


@given(st.lists(st.binary(max_size=9), max_size=4), st.lists(st.binary(max_size=9), max_size=4))
def test_different_parts_never_give_one_frame(one: list[bytes], two: list[bytes]) -> None:
    assert (frame(*one) == frame(*two)) == (one == two)


@given(st.binary(max_size=40))
def test_whatever_is_no_frame_is_a_value_error(data: bytes) -> None:
    try:
        parts = unframe(data)
    except ValueError:
        return
    assert frame(*parts) == data


@given(values)
def test_canonical_json_survives_a_json_column(value: Any) -> None:
    for indent in (None, 1):
        for keep_order in (False, True):
            stored = json.dumps(value, indent=indent, sort_keys=keep_order)
            assert canonical_json(json.loads(stored)) == canonical_json(value)


@pytest.mark.parametrize(
    "value",
    [
        {10: "a", 9: "b"},
        {True: 1, None: 2, 1.5: 3},
        ("a", ("b",)),
        {"\ud800": "\udfff"},
        {"n": float("inf")},
        10**40,
    ],
    ids=repr,
)
def test_canonical_json_of_what_json_changes_on_the_way(value: Any) -> None:
    assert canonical_json(json.loads(json.dumps(value))) == canonical_json(value)


@pytest.mark.parametrize("value", [{1, 2}, b"x", object(), {(1, 2): 3}], ids=lambda v: type(v).__name__)
def test_canonical_json_refuses_what_is_not_json(value: Any) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises((ValueError, RecursionError)):
        canonical_json(loop)


# -- seals -------------------------------------------------------------------------------------------

seals = st.builds(
    Seal,
    st.from_regex(r"[a-z0-9-]{1,32}", fullmatch=True),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    tags,
    tags,
    st.binary(min_size=32, max_size=32),
    tags,
    st.binary(max_size=40),
)


@given(seals)
def test_a_seal_reads_back_and_has_one_spelling(seal: Seal) -> None:
    text = seal.encode()
    assert parse(text, "r") == seal
    for other in (
        text + "=",
        text + "A",
        text[:-1],
        text + "\n",
        " " + text,
        text.replace("mg1.", "mg2."),
        text.lower(),
    ):
        if other != text:
            try:
                again = parse(other, "r")
            except TamperedError:
                continue
            assert again != seal
            assert again.encode() == other


@given(st.one_of(st.none(), st.integers(), st.binary(max_size=9), texts, texts.map(lambda t: "mg1.k." + t)))
def test_whatever_is_no_seal_is_tampering(text: Any) -> None:
    try:
        seal = parse(text, "r")
    except TamperedError:
        return
    assert seal.encode() == text


@given(st.data())
def test_each_field_of_a_row_is_bound(data: st.DataObject) -> None:
    fields = {
        "store": data.draw(texts),
        "context": data.draw(texts),
        "kind": data.draw(st.binary(min_size=2, max_size=2)),
        "key": data.draw(st.binary(max_size=12)),
        "bound": tuple(data.draw(st.lists(st.binary(max_size=6), max_size=3))),
    }
    position = {
        "generation": data.draw(st.integers(0, 2**64 - 1)),
        "fence": data.draw(st.integers(0, 2**32 - 1)),
    }
    rest = {"size": data.draw(st.integers(0, 9)), "prev": data.draw(tags), "replaced": data.draw(tags)}
    content, more = data.draw(st.binary(min_size=32, max_size=32)), data.draw(st.binary(max_size=6))

    def sealer(f: dict[str, Any]) -> Sealer:
        return Sealer(RING.subkey("row"), "k", f["kind"], f["store"], f["context"])

    seal = sealer(fields).seal(
        fields["key"], content=content, bound=fields["bound"], extra=more, **position, **rest
    )
    sealer(fields).check(seal, fields["key"], fields["bound"], "r")
    changed = dict(fields)
    which = data.draw(st.sampled_from([*fields, *(n for n in Seal._fields if n != "kid")]))
    other = seal
    if which in fields:
        old = fields[which]
        new = old + ("x" if isinstance(old, str) else (b"",) if isinstance(old, tuple) else b"x")  # type: ignore[operator]
        changed[which] = new
    else:
        old = getattr(seal, which)
        other = seal._replace(
            **{which: old ^ 1 if isinstance(old, int) else bytes([(old or b"\0")[0] ^ 1]) + old[1:]}
        )
    with pytest.raises(TamperedError):
        sealer(changed).check(other, changed["key"], changed["bound"], "r")


# -- keys and the index ---------------------------------------------------------------------------------


@given(keys, keys)
def test_packed_keys_keep_text_order(one: str, two: str) -> None:
    assert unpack_key(pack_key(one)) == one
    assert not_after(pack_key(one), pack_key(two)) == (one <= two)
    assert newest([pack_key(one), pack_key(two)]) == pack_key(max(one, two))
    assert (pack_key(one) == pack_key(two)) == (one == two)


members = st.binary(min_size=MEMBER, max_size=MEMBER)
pairs = st.tuples(st.sampled_from([pack_key(k) for k in "abc"]), members, tags)


@given(st.lists(st.tuples(st.booleans(), pairs), max_size=40))
def test_the_index_is_a_set_of_cells_with_one_of_each_member(
    steps: list[tuple[bool, tuple[bytes, bytes, bytes]]],
) -> None:
    index, model = Index(), dict[tuple[bytes, bytes], bytes]()
    for add, (group, member, state) in steps:
        if add:
            old = index.add(group, member + state)
            assert old == (member + model[group, member] if (group, member) in model else None)
            model[group, member] = state
        else:
            there = model.get((group, member)) == state
            assert index.remove(group, member + state) == there
            if there:
                del model[group, member]
    assert dict(((g, c[:MEMBER]), c[MEMBER:]) for g, c in index.items()) == model
    assert index.cells == len(model)
    for group, packed in index.groups.items():
        cells = split(packed)
        assert cells == sorted(cells)
        assert packed
        for cell in cells:
            assert len(cell) == CELL
            assert index.member(group, cell[:MEMBER]) == cell


# -- heads -------------------------------------------------------------------------------------------------

heads = st.builds(
    Head,
    texts,
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    tags,
    st.integers(0, 2**64 - 1),
    st.integers(0, MODULUS - 1),
    st.binary(max_size=20),
    st.binary(max_size=20),
    st.binary(min_size=32, max_size=32),
)


@given(heads, st.binary(min_size=32, max_size=32))
def test_a_head_reads_back_and_hides_its_sum(head: Head, key: bytes) -> None:
    record = HeadRecord("store", "recover", 1.5, "k", head, None)
    data = say_head(STATED, "k", record, key)
    kind, kid, *parts = unframe(data)
    assert (kind, kid) == (STATED, b"k")
    assert read_head(kind, "k", parts, lambda store, kid: key) == record
    assert read_head(kind, "k", parts, lambda store, kid: key[::-1] + b"x").head.total != head.total
    assert head.total == 0 or head.total.to_bytes(32, "big") not in data


cells = st.lists(st.tuples(st.binary(max_size=9), st.binary(min_size=CELL, max_size=CELL)), max_size=4).map(
    tuple
)


@given(heads, cells, cells)
def test_a_head_reads_back_with_its_cells_and_without_its_sum(head: Head, adds: Any, removes: Any) -> None:
    record = HeadRecord("store", "put", 1.5, "k", head._replace(total=UNCOUNTED), (adds, removes))
    kind, _, *parts = unframe(say_head(HEAD, "k", record._replace(head=head), None))
    assert read_head(kind, "k", parts, lambda store, kid: b"") == record


@given(st.lists(st.binary(max_size=100), max_size=9), st.sampled_from([HEAD, STATED, CARRIED]))
def test_bytes_that_are_no_head_are_a_value_error(parts: list[bytes], kind: bytes) -> None:
    with pytest.raises(ValueError):
        read_head(kind, "k", parts, lambda store, kid: bytes(32))


@given(
    st.lists(st.tuples(st.binary(max_size=9), st.binary(min_size=CELL, max_size=CELL)), max_size=8),
    st.randoms(),
)
def test_a_sum_does_not_depend_on_the_order_and_shrinks_as_it_grew(
    cells: list[tuple[bytes, bytes]], random: Any
) -> None:
    accumulator = Accumulator(RING.subkey("accumulator"), CONTEXT)
    total = sum(accumulator.term(*pair) for pair in cells) % MODULUS
    shuffled = random.sample(cells, len(cells))
    assert sum(accumulator.term(*pair) for pair in shuffled) % MODULUS == total
    for pair in shuffled:
        total = (total - accumulator.term(*pair)) % MODULUS
    assert total == 0


# -- contexts and findings -----------------------------------------------------------------------------------


def claims_of(made: list[Any]) -> list[Claim]:
    return [
        Claim(b"xx", s.group, s.member, s.group, s.seal, (s.member,), s.group[1:].decode())
        for s, _, _ in made
    ]


@pytest.fixture
def counted(seal_rows: Callable[..., Any]) -> tuple[Context, list[Any]]:
    """A context of six rows in three groups, and the rows."""
    context = Context(RING, "store", CONTEXT, "k", None)
    made: list[Any] = []
    for number in "123":
        made += seal_rows(context, [(number, "", b"x"), (number, "w", b"y")])
        seen = context.observe(claims_of(made))
        context.adopt(
            Head(
                CONTEXT,
                int(number),
                1,
                bytes(16),
                seen.index.cells,
                seen.total,
                chain=bytes([int(number)] * 32),
            ),
            seen.index,
        )
    return context, made


def test_an_audit_names_what_is_wrong(counted: Any, seal_rows: Callable[..., Any]) -> None:
    context, made = counted
    claims = claims_of(made)

    def cases(now: list[Claim]) -> list[tuple[str, str]]:
        return [
            (f.case, f.record.split()[-1]) for f in findings(context, examine(context, now), ["1", "2", "3"])
        ]

    assert cases(claims) == []
    assert cases(claims[:4]) == [("T2", "3")]
    changed = claims[2]._replace(bound=(b"other",))
    assert cases([*claims[:2], changed, *claims[3:]]) == [("T1", "2")]
    untagged = claims[0]._replace(seal=None)
    assert cases([untagged, *claims[1:]]) == [("untagged", "1")]
    forged = claims_of(seal_rows(context, [("9", "", b"z")]))
    assert cases([*claims, *forged]) == [("T5", "9")]
    unknown = claims[0]._replace(seal=parse(claims[0].seal, "")._replace(kid="gone"))
    assert cases([unknown, *claims[1:]])[0][0] == "key"
    assert cases(claims[:5]) == [
        ("T2", CONTEXT.split()[-1])
    ]  # a row of a group: the context as a whole does not add up


@pytest.mark.parametrize("count", [1, 2])
def test_repair_finds_the_rows_that_the_head_does_not_count(
    counted: Any, seal_rows: Callable[..., Any], count: int
) -> None:
    context, made = counted
    claims = claims_of(made)
    strays = claims_of(seal_rows(context, [("0", str(n), b"z") for n in range(count)], generation=1))
    found = extra(context, examine(context, [*strays, *claims]))
    assert {row.group for row in found} == {pack_key("0")}
    assert len(found) == count
    assert extra(context, examine(context, claims[:-1])) == []


def test_a_group_is_served_whole_or_not_at_all(counted: Any) -> None:
    context, made = counted
    one = [context.check(claim) for claim in claims_of(made)[:2]]
    group = one[0].group
    context.verify_group(one, group, "r")
    with pytest.raises(RollbackError) as caught:
        context.verify_group([], group, "r")
    assert caught.value.case == "T2"
    with pytest.raises(RollbackError) as caught:
        context.verify_group(one[:1], group, "r")
    assert caught.value.case == "T3"
    other = [context.check(claim) for claim in claims_of(made)[2:4]]
    with pytest.raises(TamperedError) as caught2:
        context.verify_group([*one, other[1]], group, "r")
    assert caught2.value.case == "T7"
    with pytest.raises(TamperedError) as caught2:
        context.verify_group(other, pack_key("7"), "r")
    assert caught2.value.case == "T5"


def test_two_rows_of_one_place_and_unknown_keys(counted: Any) -> None:
    context, made = counted
    claims = claims_of(made)
    with pytest.raises(TamperedError):
        context.observe([*claims, claims[0]])
    stranger = Context(MemoryKeyRing("other", secret=bytes(32)), "store", CONTEXT, "other", None)
    with pytest.raises(UnknownKeyError):
        stranger.observe(claims)
    for store, name in (("another", CONTEXT), ("store", '["ck","u",""]')):
        with pytest.raises(TamperedError):
            Context(RING, store, name, "k", None).observe(claims)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.binary(min_size=16, max_size=16)), max_size=25
    ),
    st.integers(0, 25),
    st.randoms(),
)
def test_a_head_is_compared_without_the_terms_of_what_stands_on_both_sides(
    writes: list[tuple[int, int, bytes]], stated: int, random: Any
) -> None:
    """The sum is stated after ``stated`` writes and follows from there on; the verdict is that of the sums."""
    accumulator, index = Accumulator(RING.subkey("accumulator"), CONTEXT), Index()
    total, deltas = 0, []
    for number, (group, member, tag) in enumerate(writes):
        adds: list[tuple[bytes, bytes]] = []
        removes: list[tuple[bytes, bytes]] = []
        key, cell = bytes([group]), bytes([member]) * 8 + tag
        held = index.member(key, cell[:8])
        if held is not None and random.random() < 0.3:
            index.remove(key, held)
            removes.append((key, held))
        else:
            old = index.add(key, cell)
            adds.append((key, cell))
            removes += [(key, old)] if old is not None else []
        if number < stated:
            total = accumulator.added_up(total, [(adds, removes)])
        else:
            deltas.append((tuple(adds), tuple(removes)))

    def judged(cells: list[tuple[bytes, bytes]]) -> tuple[bool, bool]:
        found = Index()
        for pair in cells:
            found.add(*pair)
        head = Head(CONTEXT, generation=len(writes), cells=index.cells, total=UNCOUNTED)
        direct = Context(RING, "store", CONTEXT, "k", head, (total, deltas))
        summed = Context(RING, "store", CONTEXT, "k", head, (total, deltas))
        assert summed.total == accumulator.added_up(total, deltas)
        seen, counted = Observation(found, direct.term), Observation(found, direct.term)
        assert counted.total >= 0
        verdicts = direct.matches(seen), summed.matches(counted)
        assert seen.counted is None or seen.total == counted.total
        return verdicts

    cells = list(index.items())
    assert judged(cells) == (True, True)
    if cells:
        at = random.randrange(len(cells))
        group, cell = cells[at]
        other = [*cells[:at], (group, cell[:-1] + bytes([cell[-1] ^ 1])), *cells[at + 1 :]]
        assert judged(other) == (False, False)  # as many rows, one of another time
        assert judged(cells[:at] + cells[at + 1 :]) == (False, False)
        if writes[0][2] != cell[8:]:
            older = (bytes([writes[0][0]]), bytes([writes[0][1]]) * 8 + writes[0][2])
            assert older in cells or judged([*cells[:at], older, *cells[at + 1 :]]) == (False, False)


# -- the log ---------------------------------------------------------------------------------------------------


def small_log() -> tuple[LogView, list[bytes]]:
    view = LogView(RING)
    records = [view.start(1, "created")]
    for number in range(1, 4):
        records.append(view.intent(Intent("store", CONTEXT, "put", number)))
        records.append(view.head(HeadRecord("store", "put", float(number), "k", Head(CONTEXT, number), None)))
    records.append(view.note(Note("store", "accept", {"reason": "x"})))
    view = LogView(RING)
    view.feed(records)
    return view, records


@given(st.data())
def test_records_cut_out_moved_or_doubled_break_the_log(data: st.DataObject) -> None:
    _, records = small_log()
    end = data.draw(st.integers(1, len(records)))
    assert len(LogView(RING).feed(records[:end])) == sum(
        1 for n in range(end) if n in (2, 4, 6)
    )  # a prefix is a log
    one = data.draw(st.integers(0, len(records) - 1))
    two = data.draw(st.integers(0, len(records) - 1))
    for changed in (
        records[:one] + records[one + 1 :] if one < len(records) - 1 else None,
        [*records[:one], records[two], *records[one:]],
        [*records[:one], records[two], *records[one + 1 :]] if one != two else None,
    ):
        if changed is not None:
            with pytest.raises(AnchorError):
                LogView(RING).feed(changed)


def test_a_log_of_another_key_is_unknown_and_of_another_secret_damaged() -> None:
    _, records = small_log()
    with pytest.raises(UnknownKeyError):
        LogView(MemoryKeyRing("other")).feed(records)
    with pytest.raises(AnchorError):
        LogView(MemoryKeyRing("k", secret=bytes(31) + b"\x01")).feed(records)


def test_a_compacted_log_may_not_be_older_than_what_was_seen() -> None:
    view, records = small_log()
    fresh = view.compacted(1.0)
    assert view.feed(fresh, reset=True)[0].head.generation == 3
    older = LogView(RING)
    older.feed(records[:3])
    with pytest.raises(AnchorError) as caught:
        view.feed(older.compacted(1.0), reset=True)
    assert caught.value.code == "MG414"


def test_what_an_anchor_refused_is_taken_back() -> None:
    """The records were made, and linked; then the anchor did not take them. The log goes on as if they never were."""
    inner = MemoryAnchor()
    AnchorLog.begin(inner, RING)
    anchor = FaultyAnchor(inner, {})
    log = AnchorLog(anchor, RING)
    place = ("store", CONTEXT)
    log.write([HeadRecord("store", "put", 1.0, "k", Head(CONTEXT, 1), None)], sync=True)
    for items in (
        [Intent("store", CONTEXT, "delete", 2)],
        [HeadRecord("store", "put", 1.0, "k", Head(CONTEXT, 2), None), Note("store", "accept", {})],
    ):
        anchor._left = {"append": 0}
        with pytest.raises(AnchorError):
            log.write(items, sync=True)
        assert log.head(place)[1].generation == 1
        assert log.intent(place) is None
        assert log.notes() == []
    log.write([HeadRecord("store", "put", 1.0, "k", Head(CONTEXT, 2), None)], sync=True)
    assert (
        AnchorLog(inner.second(), RING).head(place)[1].generation == 2
    )  # another process reads an unbroken log


def test_a_writer_that_escaped_the_lock_is_caught_by_compare_and_set() -> None:
    anchor = MemoryAnchor()
    AnchorLog.begin(anchor, RING)
    one, two = AnchorLog(anchor.second(), RING), AnchorLog(anchor.second(), RING)
    place = ("store", CONTEXT)
    one.write([HeadRecord("store", "put", 1.0, "k", Head(CONTEXT, 1), None)], sync=True, expect=[(place, 0)])
    with pytest.raises(AnchorError) as caught:
        two.write(
            [HeadRecord("store", "put", 1.0, "k", Head(CONTEXT, 1), None)], sync=True, expect=[(place, 0)]
        )
    assert caught.value.code == "MG416"
    assert two.head(place)[1].generation == 1


def test_listeners_hear_every_writer_and_are_held_weakly() -> None:
    anchor = MemoryAnchor()
    AnchorLog.begin(anchor, RING)
    log, other = AnchorLog(anchor.second(), RING), AnchorLog(anchor.second(), RING)

    class Ear:
        def __init__(self) -> None:
            self.heard: list[int] = []

        def hear(self, record: HeadRecord) -> None:
            self.heard.append(record.head.generation)

    ears = [Ear(), Ear()]
    for ear in ears:
        log.listen("store", ear.hear)
    log.listen("another", ears[0].hear)
    log.write([HeadRecord("store", "put", 1.0, "k", Head(CONTEXT, 1), None)], sync=True)
    other.write([HeadRecord("store", "put", 1.0, "k", Head(CONTEXT, 2), None)], sync=True)
    log.refresh()
    assert [ear.heard for ear in ears] == [[1, 2], [1, 2]]
    del ears[1], ear
    log.listen("store", ears[0].hear)
    assert len(log._listeners["store"]) == 2  # the dead one went


def test_a_log_cut_to_nothing_is_no_new_log() -> None:
    with pytest.raises(AnchorError) as caught:
        AnchorLog(MemoryAnchor(), RING)
    assert caught.value.code == "MG413"


def test_every_integrity_error_says_what_where_why_and_what_to_do(counted: Any) -> None:
    context, made = counted
    claims = claims_of(made)
    raised: list[IntegrityError] = []
    for call in (
        lambda: parse(None, "r"),
        lambda: parse("mg1.k.A", "r"),
        lambda: context.check(claims[0]._replace(bound=())),
        lambda: context.check(claims[0]._replace(content=bytes(32))),
        lambda: context.verify_group([], claims[0].group, "r"),
        lambda: LogView(RING).feed([b"x"]),
    ):
        with pytest.raises(IntegrityError) as caught:
            call()
        raised.append(caught.value)
    for error in raised:
        assert error.what
        assert error.why
        assert error.do
        assert error.case
        assert NOTHING.hex() not in str(error)


def test_main_sorts_first() -> None:
    assert bytes(MEMBER) == MAIN
