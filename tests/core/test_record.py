"""Values: sources, trust, principals, and the text inside arbitrary values."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memguard.errors import ConfigError, ScopeError
from memguard.record import (
    INHERITED,
    KINDS,
    Lineage,
    Parent,
    Principal,
    Provenance,
    Record,
    Scope,
    Source,
    Trust,
    Validity,
    inherited,
    text_of,
)

printable = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=60)


@given(st.sampled_from(KINDS), printable)
def test_a_source_reads_back_from_its_own_form(kind: str, ident: str) -> None:
    source = Source(kind, ident)
    assert Source.parse(str(source)) == source


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("webb:x", '"web"'),
        ("User:1", '"user"'),
        ("", "Use one of"),
        ("https://x", "Use one of"),
        (7, "kind:id"),
    ],
)
def test_what_is_no_source_is_refused_with_a_suggestion(text: object, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Source.parse(text)  # type: ignore[arg-type]
    assert caught.value.code == "MG141"
    assert hint in str(caught.value)


@pytest.mark.parametrize("ident", ["a\nb", "\x00", "\ud800", "x" * 2049, 5, "\x9b31m"])
def test_an_id_is_one_printable_line(ident: object) -> None:
    with pytest.raises(ConfigError) as caught:
        Source("web", ident)  # type: ignore[arg-type]
    assert caught.value.code == "MG142"


def test_trust_is_ordered_as_the_design_says() -> None:
    assert [str(level) for level in sorted(reversed(Trust))] == [
        "untrusted",
        "unknown",
        "tool",
        "user",
        "system",
    ]
    assert Trust.TOOL < Trust.USER <= "user" < Trust.SYSTEM
    assert max(Trust) is Trust.SYSTEM
    assert Trust.USER == "user"
    assert pickle.loads(pickle.dumps(Trust.USER)) is Trust.USER
    with pytest.raises(ValueError, match="nobody"):
        _ = Trust.USER < "nobody"


@given(st.lists(st.sampled_from(list(Trust))), st.lists(st.sampled_from(list(Trust))))
def test_the_least_trust_does_not_depend_on_order_or_grouping(left: list[Trust], right: list[Trust]) -> None:
    whole = Trust.least(left + right)
    assert whole == Trust.least(right + left)
    parts = [level for level in (Trust.least(left), Trust.least(right)) if level is not None]
    assert whole == Trust.least(parts)
    assert (whole is None) == (not left and not right)


@pytest.mark.parametrize(
    "identity",
    [
        {},
        {"user": ""},
        {"user": " \t"},
        {"tenant": "*"},
        {"user": "a*"},
        {"user": "%"},
        {"user": 7},
        {"user": "a\n"},
    ],
)
def test_a_principal_names_exactly_one_owner(identity: dict[str, str]) -> None:
    with pytest.raises(ScopeError):
        Principal(**identity)


def test_a_principal_has_a_scope_and_a_known_purpose() -> None:
    assert Principal("acme", "alice").scope == Scope("acme", "alice")
    with pytest.raises(ConfigError, match='Did you mean "act"'):
        Principal("acme", purpose="acts")


def test_lineage_keeps_each_parent_once() -> None:
    assert Lineage.of("a", "b", "a", Parent("c", Trust.TOOL)).parents == (
        Parent("a"),
        Parent("b"),
        Parent("c", Trust.TOOL),
    )
    assert not Lineage.of()


def test_validity_ends_before_its_end() -> None:
    assert Validity(1.0, 2.0).at(1.0)
    assert not Validity(1.0, 2.0).at(2.0)
    assert Validity().at(0)


def test_no_value_shows_content_in_its_repr() -> None:
    secret = "the passphrase is heron"
    shown = repr(Record(secret, data={"claims": [secret]})) + repr(Source("web", "x", b"sig-heron"))
    assert "heron" not in shown


def test_text_of_reads_strings_keys_and_numbers_in_order() -> None:
    value = {"a": [1, {"b": "two"}, b"three", None, True], "c": {"d": ("four", 5.5)}}
    assert text_of(value).split("\n") == ["a", "1", "b", "two", "three", "c", "d", "four", "5.5"]


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(json_like)
def test_text_of_takes_any_value(value: object) -> None:
    assert isinstance(text_of(value), str)


def test_text_of_is_bounded_in_depth_nodes_and_characters() -> None:
    deep: object = "end"
    for _ in range(100_000):
        deep = [deep]
    assert text_of(deep) == ""  # stopped after max_items nodes, without recursion
    assert text_of(deep, max_items=200_000) == "end"
    assert len(text_of(list(range(50_000)), max_items=1000).split("\n")) == 999
    assert len(text_of(["x" * 100] * 1000, max_chars=1000)) <= 1100
    loop: list[object] = []
    loop.append(loop)
    assert text_of(loop) == ""
    assert text_of(10**5000) == "number"


def test_text_of_finds_the_text_of_message_like_objects() -> None:
    class Message:
        content = ({"type": "text", "text": "hello"},)

    assert "hello" in text_of({"messages": [Message()]})
    assert text_of(object()) == ""


def test_what_is_made_of_a_record_inherits_its_sources_at_its_own_level() -> None:
    web, user = Source("web", "x", b"signed"), Source("user")
    poisoned = Provenance(web, Lineage.of("gone", Parent("page", Trust.SYSTEM)), Trust.UNTRUSTED)
    low = Trust.UNTRUSTED
    made = inherited(poisoned, key="page")
    assert made == (Parent("page", low), Parent("web:x", low), Parent("gone", low))
    both = inherited(Provenance(user, trust=Trust.USER), poisoned, key="history")
    assert both[0] == Parent("history", low)
    assert set(both[1:]) == {*made, Parent("user", Trust.USER)}
    assert inherited(Provenance()) == (Parent("unknown", Trust.UNKNOWN),)
    assert inherited(key="history") == (Parent("history", Trust.UNKNOWN),)
    # Whoever adds many sources pushes out his own level at most, never what is trusted less.
    many = [Provenance(Source("tool", str(n)), trust=Trust.TOOL) for n in range(2 * INHERITED)]
    kept = inherited(*many, poisoned)
    assert len(kept) == INHERITED
    assert set(made) <= set(kept)
