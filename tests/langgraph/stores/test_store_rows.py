"""The form of a stored value: taken apart without parsing, put together to the byte."""

from __future__ import annotations

import json
import random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import get_text_at_path

from memguard.integrations.langgraph.store_forms import SealedValue, TextForm
from memguard.integrations.langgraph.store_rows import (
    Stored,
    claim_of,
    context_of,
    namespace_of,
    place_of,
    told,
)
from memguard.integrations.langgraph.store_values import Forms, ObjectForms

FORM = TextForm()
SEAL = "mg1.k1.AAAA"
_TEXT = st.text() | st.sampled_from(
    ['"memguard":{"seal":"', ',"memguard":{"seal":"mg1.k.AA"}}', "}}", "\\", '"']
)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(_TEXT | st.just("memguard"), inner, max_size=4)
    ),
    max_leaves=10,
)
_OWN = st.fixed_dictionaries(
    {}, optional={"label": st.dictionaries(_TEXT, _TEXT, max_size=3), "exp": st.integers(0, 2**40)}
)


@given(st.dictionaries(_TEXT.filter(lambda key: key != "memguard"), _VALUES, max_size=5), _OWN)
def test_a_value_is_taken_apart_as_it_was_put_together(value: dict[str, Any], own: dict[str, Any]) -> None:
    try:
        orjson.dumps(value)
    except TypeError:  # lone surrogates: no store takes them
        return
    handed = FORM.handed(value, {"seal": SEAL, **own})
    stored = orjson.dumps(dict(handed))
    assert FORM.matches(stored, FORM.joined(FORM.body(value), FORM.own(own), SEAL))
    opened = FORM.open(stored)
    assert opened.seal == SEAL
    assert opened.content == FORM.content(FORM.body(value))
    assert opened.own == FORM.own(own)
    assert FORM.decode(opened) == orjson.loads(orjson.dumps(value))
    assert FORM.joined(opened.body, opened.own, SEAL) == stored
    assert FORM.lenient(stored)[0] == FORM.decode(opened)


@given(st.binary(max_size=60) | _TEXT.map(lambda text: text.encode("utf-8", "replace")))
def test_anything_else_carries_no_seal_and_raises_nothing(junk: bytes) -> None:
    for raw in (
        junk,
        b'{"memguard":{"seal":"' + junk,
        b'{"a":1,"memguard":{"seal":"x"' + junk + b"}}",
        junk.decode("latin-1"),
    ):
        opened = FORM.open(raw)
        assert opened.seal is None or isinstance(opened.seal, str)


def test_no_byte_of_a_stored_value_can_be_changed_unnoticed() -> None:
    value, own = (
        {"text": "tea", "n": 1, "x": {}},
        {"label": {"source": "web:x", "trust": "untrusted"}, "exp": 5, "ttl": 1.0},
    )
    stored = orjson.dumps(dict(FORM.handed(value, {"seal": SEAL, **own})))
    whole = FORM.open(stored)
    rng = random.Random(7)
    for at in range(len(stored)):
        changed = bytearray(stored)
        changed[at] = (changed[at] + rng.randrange(1, 256)) % 256
        opened = FORM.open(bytes(changed))
        assert opened.seal is None or (opened.seal, opened.content, opened.own) != (
            whole.seal,
            whole.content,
            whole.own,
        )
        for edited in (stored[:at] + stored[at + 1 :], stored[:at] + b" " + stored[at:]):
            opened = FORM.open(edited)
            assert opened.seal is None or (opened.seal, opened.content, opened.own) != (
                whole.seal,
                whole.content,
                whole.own,
            )


def test_a_sealed_value_is_stored_with_its_seal_and_looked_into_without() -> None:
    user = {"b": {"c": ["x", 2]}, "a": "text"}
    sealed = SealedValue(user, {"seal": SEAL})
    assert list(dict(sealed)) == ["b", "a", "memguard"]
    assert {**sealed}["memguard"] == {"seal": SEAL}
    assert json.dumps(sealed, sort_keys=True) == json.dumps(user, sort_keys=True)
    for path in ("$", "", "a", "b.c[*]", "*", "{a,b}", "memguard", "memguard.seal", "*.seal"):
        assert get_text_at_path(sealed, path) == get_text_at_path(user, path)


@pytest.mark.parametrize("namespace", [("a",), ("a", "b"), ("ü", '"', "\\"), ('","',)])
def test_context_ids(namespace: tuple[str, ...]) -> None:
    assert namespace_of(context_of(namespace)) == namespace
    assert context_of(namespace).startswith('["it",')


def test_context_ids_are_distinct() -> None:
    namespaces = [("a", "b"), ("a,b",), ('a","b',), ("ab",), ("a",), ("A",)]
    assert len({context_of(namespace) for namespace in namespaces}) == len(namespaces)


NOW = 1_800_000_000.0
STAMP = "'2027-01-15 08:00:00'"


@pytest.mark.parametrize(
    ("expires", "own", "right"),
    [
        ("NULL", {}, True),
        (STAMP, {}, False),
        ("NULL", {"exp": int(NOW), "ttl": 1}, False),
        (STAMP, {"exp": int(NOW), "ttl": 1}, True),
        ("'2027-01-15 08:00:00.700000+00:00'", {"exp": int(NOW), "ttl": 1}, True),
        ("'2027-01-15 07:59:59'", {"exp": int(NOW), "ttl": 1}, True),  # SQLite cuts its clock to seconds
        ("'2027-01-15 07:59:50'", {"exp": int(NOW), "ttl": 1}, False),
        ("'2027-01-15 08:01:00'", {"exp": int(NOW), "ttl": 1}, True),  # moved by a read at this moment
        ("'2027-01-15 08:01:09'", {"exp": int(NOW), "ttl": 1}, False),
        ("X'3230'", {"exp": int(NOW), "ttl": 1}, False),
        ("1800000000", {"exp": int(NOW), "ttl": 1}, False),
        (STAMP, {"exp": "soon", "ttl": 1}, False),
    ],
)
def test_expiry_columns(expires: str, own: dict[str, Any], right: bool) -> None:
    bound = FORM.own(own)
    odd = place_of(Stored("k", b"", STAMP, STAMP, "NULL", expires), bound, NOW)
    assert (odd == place_of(Stored("k", b"", STAMP, STAMP, "NULL", None), bound, NOW)) is right


def test_a_key_that_is_not_text_is_never_genuine() -> None:
    claim, _ = claim_of(("a",), Stored(b"k", b"{}", STAMP, STAMP), FORM, NOW)  # type: ignore[arg-type]
    assert claim.seal is None


# -- objects ---------------------------------------------------------------------------------------


def test_digests_of_objects() -> None:
    forms = ObjectForms()
    base = {"a": [1, "x", None, True, 2.5], "b": {"c": (1, 2)}, "d": {3, 1, 2}, "e": b"x"}
    assert forms.digest(base) == forms.digest(dict(reversed(base.items())))
    seen = {forms.digest(base)}
    for key, other in [
        ("a", [1, "x", None, 1, 2.5]),
        ("b", {"c": [1, 2]}),
        ("d", {1, 2}),
        ("e", "x"),
        ("e", bytearray(b"y")),
    ]:
        seen.add(forms.digest({**base, key: other}))
    assert len(seen) == 6
    one, two = object(), object()
    assert forms.digest({"x": one}) == forms.digest({"x": one})
    assert forms.digest({"x": one}) != forms.digest({"x": two})
    loop: dict[str, Any] = {}
    loop["self"] = loop
    with pytest.raises(Exception, match="MG145"):
        forms.digest(loop)


def test_digests_of_parsed_json() -> None:
    forms = Forms()
    assert forms.digest({"a": (1, 2), "b": 1}) == forms.digest({"b": 1, "a": [1, 2]})
    with pytest.raises(TypeError):
        forms.digest({"a": object()})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        ("NULL", "'NULL'"),
        ("2027", "'2027'"),
        (2027, "2027"),
        (1.0, "1.0"),
        (1, "1"),
        (b"2027", "X'32303237'"),
    ],
)
def test_a_column_is_told_with_its_storage_class(value: object, text: str) -> None:
    assert told(value) == text
