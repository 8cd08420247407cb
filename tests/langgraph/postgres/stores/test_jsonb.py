"""The text that a jsonb column will show, reckoned before anything is stored, is the one that PostgreSQL shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memguard.integrations.langgraph.store_jsonb import JsonbForm, Split, jsonb_text
from memguard.integrations.langgraph.store_postgres_seen import Seen, Versions

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
_NUMBER = (
    st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0.0, -0.0, 1e16, 1e-5, 123456789012345680.0, 5e-324, 1.7976931348623157e308])
)
_VALUE = st.recursive(
    st.none() | st.booleans() | _NUMBER | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=5),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def server(postgres_server: Any) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_server.uri(), autocommit=True) as connection:
        yield connection


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(value=st.dictionaries(_TEXT, _VALUE, max_size=6))
def test_any_value(server: psycopg.Connection, value: dict[str, Any]) -> None:
    shown = server.execute("SELECT %s::jsonb::text", (json.dumps(value),)).fetchone()
    assert shown is not None
    text = jsonb_text(value)
    assert text == shown[0]
    assert JsonbForm().decode(JsonbForm().open(Split(text, None, "{}"))) == json.loads(shown[0])


def test_numbers_of_an_application_that_writes_decimals(server: psycopg.Connection) -> None:
    def dumps(value: Any) -> str:
        return json.dumps(value, default=float)

    for number in ("1.10", "0.00", "-0.0", "1E+3", "1.5E-7", "100"):
        text = '{"n": ' + number + "}"
        shown = server.execute("SELECT %s::jsonb::text", (text,)).fetchone()
        assert (jsonb_text(text, lambda said: said),) == shown
    assert jsonb_text({"n": Decimal("1.5")}, dumps) == '{"n": 1.5}'


def test_of_two_members_of_one_name_the_last_stays(server: psycopg.Connection) -> None:
    shown = server.execute("SELECT %s::jsonb::text", (json.dumps({1: "a", "1": "b", "0": "c"}),)).fetchone()
    assert shown == ('{"0": "c", "1": "b"}',)
    assert jsonb_text({1: "a", "1": "b", "0": "c"}) == shown[0]


def test_what_was_seen_is_carried_on_only_from_what_was_taken() -> None:
    """A row that this process wrote moves its sum; a sum that the custody did not take is left alone."""

    class Held:
        reads: Any = ("start", 2, 30)

    seen, held = Seen(), Held()
    seen.read("c", [("a", 1, 10), ("b", 1, 20)])
    seen.expect("c", "a")
    seen.wrote("c", held, [("a", 2, 11), ("b", 9, 99)])  # only what was put counts, whatever else was read
    assert held.reads == ("start", 3, 31)
    seen.deleted("c", held, "b")
    assert held.reads == ("start", 2, 11)
    held.reads = ("start", 2, 12)  # somebody else's change: not ours to follow
    seen.deleted("c", held, "a")
    assert held.reads == ("start", 2, 12)
    seen.expect("c", "x")
    seen.read("c", [])
    assert not seen.expecting("c")
    versions = Versions([("a", 1, 5)])
    versions.put("a", (0, 0))
    assert (versions.count, versions.total, versions.rows) == (0, 0, {})


def test_sums_are_asked_for_again_when_the_server_was_started_again() -> None:
    seen = Seen()
    assert seen.snapshot(["p"]) is None
    assert seen.tell(("s1", "t1"), None, ["p", "q"], [("p", 2, 9), (None, None, None)])
    assert (seen.sums("p"), seen.sums("q")) == (("t1", 2, 9), ("t1", 0, 0))
    assert seen.snapshot(["p", "q"]) == "s1"
    assert seen.tell(("s1", "t1"), "s1", ["p"], [(None, None, None)])
    assert seen.sums("p") == ("t1", 2, 9)
    assert not seen.tell(("s1", "t2"), "s1", ["p"], [(None, None, None)])
    assert seen.snapshot(["p"]) is None
    assert seen.tell(("s1", "t2"), None, ["p"], [("p", 2, 9)])
    assert seen.sums("p") == ("t2", 2, 9)
