"""Scope maps bind principals to places, segment by segment, and refuse everything that names no one owner."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memguard import ConfigError, ScopeError
from memguard.guard import GuardContext, Stage
from memguard.guards.scope import ScopeGuard
from memguard.record import Principal, Record, Scope
from memguard.scopes import ScopeMap

BOTH = ScopeMap.parse("m", {"tenant": "namespace.0", "user": "namespace.1"})
USER = ScopeMap.parse("m", {"user": "namespace.1"})
GAP = ScopeMap.parse("m", {"tenant": "namespace.0", "user": "namespace.2"})
ALICE = Scope("acme", "alice")

#: What can stand where an owner should, and names no one.
NOBODY = [
    "",
    " ",
    "\t",
    "*",
    "al*",
    "**",
    "%",
    " % ",
    "a\x00b",
    "a\nb",
    "\ud800",
    None,
    7,
    True,
    b"alice",
    ["alice"],
]
#: Other owners that some backend takes for alice.
LOOKALIKES = [
    "Alice", "ALICE", "alice ", " alice", "alic", "alicee", "alice2", "alice.bob", "alice/..", "al_ce", "a%",
    "аlice", "alice\u0301", "ａｌｉｃｅ", "alice'--", "bob' OR '1'='1",
]  # fmt: skip


@pytest.mark.parametrize("principal", [None, Principal(tenant="acme"), Principal(user="alice")])
def test_a_principal_names_every_mapped_owner(principal: Principal | None) -> None:
    with pytest.raises(ScopeError) as caught:
        BOTH.bound(principal)
    assert caught.value.code == "MG222"


def test_parts_that_the_map_leaves_out_bind_nothing() -> None:
    assert USER.bound(Principal("acme", "alice")) == Scope(None, "alice")
    assert BOTH.bound(Principal("acme", "alice")) == ALICE


@pytest.mark.parametrize("name", NOBODY)
def test_a_segment_that_names_no_one_is_refused(name: Any) -> None:
    for namespace in (("acme", name), (name, "alice")):
        with pytest.raises(ScopeError) as caught:
            BOTH.owns(ALICE, namespace)
        assert caught.value.code == "MG221"
        with pytest.raises(ScopeError):
            BOTH.narrowed(ALICE, namespace)
        assert not BOTH.holds(ALICE, namespace)
    with pytest.raises(ScopeError):
        ScopeMap.parse("m", {"user": "thread"}).owns_thread(
            Scope(None, "alice"), [name] if name == 7 else name
        )


@pytest.mark.parametrize("name", LOOKALIKES)
def test_only_the_very_same_characters_are_the_owner(name: str) -> None:
    assert not BOTH.owns(ALICE, ("acme", name))
    assert not BOTH.holds(ALICE, ("acme", name))
    assert BOTH.narrowed(ALICE, ("acme", name)) is None
    assert not ScopeMap.parse("m", {"user": "thread"}).owns_thread(Scope(None, "alice"), name)
    assert not ScopeMap.parse("m", {"user": "metadata.u"}).holds_metadata(Scope(None, "alice"), {"u": name})


def test_a_namespace_that_ends_above_its_owner_is_refused() -> None:
    for namespace in ((), ("acme",)):
        with pytest.raises(ScopeError):
            BOTH.owns(ALICE, namespace)
        assert not BOTH.holds(ALICE, namespace)
    assert BOTH.owns(ALICE, ("acme", "alice"))
    assert BOTH.owns(ALICE, ("acme", "alice", "notes"))


def test_a_search_is_narrowed_to_the_owner_or_refused() -> None:
    for prefix, narrowed in [
        ((), ("acme", "alice")),
        (("acme",), ("acme", "alice")),
        (("acme", "alice"), ("acme", "alice")),
        (("acme", "alice", "x"), ("acme", "alice", "x")),
        (("other",), None),
        (("acme", "bob"), None),
    ]:
        assert BOTH.narrowed(ALICE, prefix) == narrowed
    assert GAP.narrowed(ALICE, ("acme", "notes")) == ("acme", "notes", "alice")
    for scopes, prefix in ((GAP, ()), (GAP, ("acme",)), (USER, ())):
        with pytest.raises(ScopeError) as caught:
            scopes.narrowed(ALICE, prefix)
        assert caught.value.code == "MG223"


segments = st.text(st.sampled_from("ab*%_."), max_size=3)


@given(st.lists(segments, max_size=4), segments, segments)
def test_what_a_narrowed_search_finds_is_the_owners(prefix: list[str], tenant: str, user: str) -> None:
    """Whatever is asked: below the narrowed prefix every namespace is the owner's, segment by segment."""
    scope = Scope(tenant, user)
    try:
        found = BOTH.narrowed(scope, prefix)
    except ScopeError:
        return
    if found is not None:
        assert BOTH.holds(scope, found)
        assert BOTH.holds(scope, (*found, "further"))
        assert found[: len(prefix)] == tuple(prefix)


def test_threads() -> None:
    whole = ScopeMap.parse("m", {"user": "thread"})
    parts = ScopeMap.parse("m", {"tenant": "thread.0", "user": "thread.1"})
    assert whole.owns_thread(Scope(None, "alice"), "alice")
    assert whole.owns_thread(Scope(None, "7"), 7), "LangGraph makes text of a number"
    assert parts.owns_thread(ALICE, "acme:alice")
    assert parts.owns_thread(ALICE, "acme:alice:session-1")
    for thread in ("acme:alice2", "acme", "alice:acme", "acme::alice", "x:acme:alice", "acme:bob:alice"):
        assert not parts.owns_thread(ALICE, thread)
    with pytest.raises(ScopeError) as caught:
        parts.bound(Principal("acme", "alice:admin"))
    assert caught.value.code == "MG221"
    assert whole.bound(Principal(user="alice:admin")) == Scope(None, "alice:admin")


@pytest.mark.parametrize(
    "places",
    [
        {"tenant": "namespace"}, {"tenant": "namespace.-1"}, {"tenant": "namespace.x"}, {"user": "metadata."},
        {"user": "thread.x"}, {"user": "value.user"}, {"team": "namespace.0"}, {"user": "namespace.²"},
        {"tenant": "namespace.0", "user": "namespace.0"}, {"user": ""}, {"user": "namespace.100"},
    ],
)  # fmt: skip
def test_a_map_that_cannot_be_used_guards_nothing(places: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        ScopeMap.parse("m", places)
    assert caught.value.code == "MG225"


def test_a_map_of_another_kind_of_store() -> None:
    for scopes, places in (
        (BOTH, ("thread", "metadata")),
        (ScopeMap.parse("m", {"user": "thread"}), ("namespace",)),
    ):
        with pytest.raises(ConfigError) as caught:
            scopes.only(*places)  # type: ignore[arg-type]
        assert caught.value.code == "MG225"


@pytest.mark.parametrize("stage", [Stage.WRITE, Stage.READ])
@pytest.mark.parametrize(
    ("scope", "principal", "code"),
    [
        (Scope(), None, ""),
        (Scope(), Principal("acme", "alice"), ""),
        (ALICE, Principal("acme", "alice"), ""),
        (Scope(None, "alice"), Principal("acme", "alice"), ""),
        (ALICE, None, "MG222"),
        (ALICE, Principal(user="alice"), "MG220"),
        (ALICE, Principal("acme", "bob"), "MG220"),
        (ALICE, Principal("acme2", "alice"), "MG220"),
        (Scope("acme", ""), Principal("acme", "alice"), "MG220"),
    ],
)
def test_the_guard_looks_again(stage: Stage, scope: Scope, principal: Principal | None, code: str) -> None:
    decision = ScopeGuard().decide(Record("t", scope=scope), GuardContext(stage, principal))
    refused = "reject" if stage is Stage.WRITE else "quarantine"
    assert (decision.code, decision.disposition) == (code, refused if code else "allow")
