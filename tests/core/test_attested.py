"""Attested sources: what is signed, which labels hold, and that a signature is good once, at its own place."""

from __future__ import annotations

import json
import os
import runpy
from pathlib import Path
from typing import Any

import nacl.signing
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memguard import ConfigError
from memguard.attested import Used, attest, digest_of, message
from memguard.config import preset
from memguard.curve import sound_point
from memguard.decision import Decision
from memguard.guard import GuardContext, Spend, Stage
from memguard.guards.provenance import Provenance
from memguard.pipeline import Pipeline, Seat
from memguard.record import Record, Scope, Source, Trust
from memguard.runtime import run

VECTORS = Path(__file__).parents[1] / "vectors"
KEY, OTHER = nacl.signing.SigningKey(bytes(range(32))), nacl.signing.SigningKey(bytes(range(1, 33)))
PUBLIC = bytes(KEY.verify_key).hex()
NOW = 1_800_000_000.0
PLACE = ("users", "alice", "k")
CONFIG = {
    "attested": {
        "tool:crm": {"public_key": PUBLIC, "level": "user"},
        "web:https://docs.example/*": {"public_key": PUBLIC, "level": "tool", "max_age": 3600.0},
        "tool:acme-only": {"public_key": PUBLIC, "level": "system", "scope": {"tenant": "acme"}},
    }
}
GUARD = Provenance.from_config(preset("balanced", CONFIG))


class Memory:
    """What a home keeps of used signatures, in a dict."""

    def __init__(self) -> None:
        self.last: dict[str, int] = {}

    def spend(self, effect: Spend) -> bool:
        new = effect.at > self.last.get(effect.place, 0)
        if new:
            self.last[effect.place] = effect.at
        return new


def judged(
    value: Any = "Ships on Friday",
    token: bytes | None = None,
    *,
    source: str = "tool:crm",
    store: str = "memories",
    place: tuple[str, ...] = PLACE,
    owner: Scope | None = None,
    memory: Memory | None = None,
    now: float = NOW,
    **data: Any,
) -> Decision:
    where = {"value": value, "place": place, "owner": owner or Scope()} if token is not None else {}
    record = Record("t", store, place[-1], Source.parse(source, signature=token), data={**where, **data})
    handlers: Any = {Spend: (memory or Memory()).spend}
    chain = Pipeline(Stage.WRITE, (Seat(GUARD, fail_mode="closed"),))
    outcome = run(chain.run(record, GuardContext(Stage.WRITE, None, now)), handlers)
    assert outcome.events == ()
    return outcome.decision


def signed(content: Any = "Ships on Friday", key: Any = KEY, **changed: Any) -> bytes:
    about: dict[str, Any] = {"source": "tool:crm", "store": "memories", "place": PLACE, "at": NOW}
    return attest(key, content, **{**about, **changed})


def test_a_signed_record_is_worth_what_its_source_is_registered_for() -> None:
    decision = judged(token=signed())
    assert (decision.trust, decision.flagged) == (Trust.USER, False)
    web = signed(source="web:https://docs.example/a")
    assert judged(token=web, source="web:https://docs.example/a").trust is Trust.TOOL


def test_sources_that_nobody_registered_need_not_sign() -> None:
    assert judged(source="tool:erp").trust is Trust.TOOL
    assert judged(source="web:https://docs.example.evil/").trust is Trust.UNTRUSTED


FORGERIES: dict[str, tuple[dict[str, Any], str]] = {
    "unsigned": ({"token": None}, "MG303"),
    "empty": ({"token": b""}, "MG303"),
    "another key": ({"token": signed(key=OTHER)}, "MG304"),
    "another content": ({"token": signed("Ships on Monday")}, "MG304"),
    "another source": ({"token": signed(source="tool:erp")}, "MG304"),
    "another store": ({"token": signed(store="other")}, "MG304"),
    "another key of the store": ({"token": signed(place=(*PLACE[:2], "j"))}, "MG304"),
    "another namespace": ({"token": signed(place=("users", "bob", "k"))}, "MG304"),
    "segments joined": ({"token": signed(place=("users.alice", "k"))}, "MG304"),
    "an owner where there is none": ({"token": signed(scope={"user": "alice"})}, "MG304"),
    "no owner where there is one": ({"token": signed(), "owner": Scope(None, "alice")}, "MG304"),
    "tenant for user": (
        {"token": signed(scope={"tenant": "alice"}), "owner": Scope(None, "alice")},
        "MG304",
    ),
    "cut": ({"token": signed()[:-1]}, "MG304"),
    "longer": ({"token": signed() + b"\0"}, "MG304"),
    "another version": ({"token": b"\x02" + signed()[1:]}, "MG304"),
    "another time pasted in": ({"token": signed(at=NOW - 9)[:9] + signed()[9:]}, "MG304"),
    "S not below the order": (
        {
            "token": signed()[:41]
            + (
                int.from_bytes(signed()[41:], "little") + 2**252 + 27742317777372353535851937790883648493
            ).to_bytes(32, "little")
        },
        "MG304",
    ),
    "from the future": ({"token": signed(at=NOW + 301)}, "MG306"),
    "no form to sign": ({"token": signed(), "value": float("nan")}, "MG304"),
    "a lone surrogate": ({"token": signed(), "value": "\ud800"}, "MG304"),
    "an object": ({"token": signed(), "value": object()}, "MG304"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_label_that_its_source_did_not_sign_is_worth_nothing(forgery: str) -> None:
    arguments, code = FORGERIES[forgery]
    decision = judged(**arguments)
    assert (decision.trust, decision.disposition, decision.code) == (Trust.UNTRUSTED, "flag", code)


@pytest.mark.parametrize(
    "name", ["tool:CRM", "tool: crm", "tool:ｃｒｍ", "tool:c\u200brm", "tool:crm ", "tool:cr\u00adm"]
)
def test_a_name_that_looks_like_a_registered_one_must_sign_too(name: str) -> None:
    assert judged(source=name).code == "MG303"
    # And what the registered one signed is not good under the other spelling.
    assert judged(token=signed(), source=name).code == "MG304"


def test_an_old_signature_and_an_owner_that_is_not_the_sources_business() -> None:
    page = "web:https://docs.example/a"
    assert judged(token=signed(source=page, at=NOW - 3601), source=page).code == "MG306"
    assert judged(token=signed(source=page, at=NOW - 3599), source=page).trust is Trust.TOOL
    acme, other = Scope("acme", "alice"), Scope("acme2", "alice")
    for owner, code in ((acme, ""), (other, "MG307"), (Scope(), "MG307")):
        token = signed(source="tool:acme-only", scope=owner)
        assert judged(token=token, source="tool:acme-only", owner=owner).code == code


def test_a_signature_is_good_once_and_never_after_a_newer_one() -> None:
    memory = Memory()
    first, second = signed(at=NOW), signed("Ships on Monday", at=NOW + 1)
    assert judged(token=first, memory=memory).trust is Trust.USER
    assert judged(token=first, memory=memory).code == "MG305"
    assert judged("Ships on Monday", second, memory=memory).trust is Trust.USER
    assert judged(token=first, memory=memory).code == "MG305", "the older statement does not come back"
    elsewhere = signed(place=(*PLACE[:2], "j"))
    assert judged(token=elsewhere, place=(*PLACE[:2], "j"), memory=memory).trust is Trust.USER


def test_where_nobody_remembers_what_was_used_nothing_is_new() -> None:
    record = Record(
        "t",
        "memories",
        "k",
        Source.parse("tool:crm", signature=signed()),
        data={"value": "Ships on Friday", "place": PLACE},
    )
    chain = Pipeline(Stage.WRITE, (Seat(GUARD),))
    decision = run(chain.run(record, GuardContext(Stage.WRITE, None, NOW))).decision
    assert (decision.code, decision.trust) == ("MG305", Trust.UNTRUSTED)


def test_a_forged_signature_uses_nothing_up() -> None:
    memory = Memory()
    assert judged(token=signed(key=OTHER, at=NOW + 200), memory=memory).code == "MG304"
    assert memory.last == {}
    assert judged(token=signed(), memory=memory).trust is Trust.USER


def test_a_label_in_the_payload_stays_a_forgery_under_a_good_signature() -> None:
    assert judged(token=signed(), claims=({"trust": "system"},)).code == "MG301"


def test_a_registration_made_later_lowers_what_is_stored() -> None:
    record = Record("t", source=Source("tool", "acme-only"), trust=Trust.TOOL)
    web = Record("t", source=Source("web", "https://docs.example/a"), trust=Trust.SYSTEM)
    for one, trust in ((record, Trust.TOOL), (web, Trust.TOOL)):
        steps = Pipeline(Stage.READ, (Seat(GUARD),)).run(one, GuardContext(Stage.READ))
        assert run(steps).decision.trust is trust


def test_golden_vectors() -> None:
    document = json.loads((VECTORS / "attestation.json").read_text(encoding="utf-8"))
    assert document == json.loads(
        json.dumps(runpy.run_path(str(VECTORS / "make_attestation.py"))["vectors"]())
    )
    key = nacl.signing.SigningKey(bytes.fromhex(document["seed"]))
    assert bytes(key.verify_key).hex() == document["public_key"]
    for case in document["vectors"]:
        scope = Scope(case["tenant"], case["user"])
        about: dict[str, Any] = {"source": case["source"], "store": case["store"], "place": case["place"]}
        assert digest_of(case["content"]).hex() == case["digest"]
        said = message(
            bytes(key.verify_key), digest=digest_of(case["content"]), scope=scope, at=case["at_ms"], **about
        )
        assert said.hex() == case["message"], case["name"]
        token = attest(key, case["content"], scope=scope, at=case["at_ms"] / 1000, **about)
        assert token.hex() == case["token"], case["name"]
        assert attest(bytes(key), case["content"], scope=scope, at=case["at_ms"] / 1000, **about) == token


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
fields = st.tuples(
    texts, texts, st.lists(texts, max_size=3), st.none() | texts, st.none() | texts, st.integers(0, 2**63)
)


@given(fields, fields)
def test_no_two_statements_are_signed_by_the_same_bytes(one: Any, other: Any) -> None:
    def said(
        source: str, store: str, place: list[str], tenant: str | None, user: str | None, at: int
    ) -> bytes:
        scope = Scope(tenant, user)
        return message(
            bytes(32), digest=bytes(32), source=source, store=store, place=place, scope=scope, at=at
        )

    assert (said(*one) == said(*other)) == (one == other)


def test_what_cannot_be_signed_is_refused_where_it_is_signed() -> None:
    for content in (float("inf"), 2**60, "\ud800", {1: 2}, object(), b"bytes"):
        with pytest.raises(ConfigError):
            signed(content)
    with pytest.raises(ConfigError):
        attest(KEY, "x", source="tool:crm", store="m", place="users")


# -- keys ------------------------------------------------------------------------------------------


def test_unsound_public_keys_cannot_be_registered() -> None:
    """C2SP's collection: every key that is not canonical, of small order or mixed is refused, every other taken."""
    path = Path(os.environ.get("MEMGUARD_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))
    path = path / "vectors" / "ed25519_edge_cases.json"
    if not path.exists():
        pytest.skip(
            "not run: vectors/ed25519_edge_cases.json is absent (set MEMGUARD_TEST_DATA to its folder)"
        )
    odd = {"low_order_A", "low_order_component_A", "non_canonical_A"}
    keys = {case["key"]: not odd & set(case["flags"] or ()) for case in json.loads(path.read_text())}
    assert sum(keys.values()) > 0
    assert len(keys) - sum(keys.values()) > 20
    for key, sound in keys.items():
        assert sound_point(bytes.fromhex(key)) == sound, key
        config = {"attested": {"tool:x": {"public_key": key}}}
        if sound:
            preset("balanced", config)
        else:
            with pytest.raises(ConfigError):
                preset("balanced", config)


SMALL = [bytes(32), b"\1" + bytes(31), b"\xec" + b"\xff" * 30 + b"\x7f", b"\xed" + b"\xff" * 30 + b"\x7f"]


@pytest.mark.parametrize(
    "key", [*(k.hex() for k in SMALL), PUBLIC.upper(), PUBLIC[:-2], PUBLIC + "00", "x" * 64, "ff" * 32, ""]
)
def test_what_is_no_public_key_is_refused(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        preset("balanced", {"attested": {"tool:x": {"public_key": key}}})
    assert caught.value.code == "MG104"
    if key:
        assert key not in str(caught.value)


@pytest.mark.parametrize("pattern", ["web:*", "tool", "wob:x", "*"])
def test_a_registration_names_a_source(pattern: str) -> None:
    with pytest.raises(ConfigError):
        preset("balanced", {"attested": {pattern: {"public_key": PUBLIC}}})


# -- what was used, in the anchor's log ---------------------------------------------------------------


def test_used_signatures_survive_the_process_and_whoever_edits_the_home(tmp_path: Path) -> None:
    from memguard import MemGuard

    uris = {"anchor": f"file:{tmp_path / 'anchor'}", "keys": f"file:{tmp_path / 'key.json'}"}
    effect = Spend("place", 17, bytes(64))
    with MemGuard.create(tmp_path / "home", **uris) as mg:
        used = Used(mg._log)
        assert used.spend(effect) is True
        assert used.spend(effect) is False
        assert used.spend(Spend("other place", 17, bytes(64))) is True
    for file in (tmp_path / "home").glob("state.db*"):
        file.unlink()
    with MemGuard.open(tmp_path / "home", **uris) as mg, MemGuard.open(tmp_path / "home", **uris) as twin:
        assert Used(mg._log).spend(effect) is False
        assert Used(mg._log).spend(Spend("place", 16, bytes(64))) is False
        assert Used(mg._log).spend(Spend("place", 18, bytes(64))) is True
        assert Used(twin._log).spend(Spend("place", 18, bytes(64))) is False, "another process is heard of"


def test_a_rotation_takes_the_memory_along(tmp_path: Path) -> None:
    from memguard import MemGuard
    from memguard.keys.file import FileKeyRing

    uris = {"anchor": f"file:{tmp_path / 'anchor'}", "keys": f"file:{tmp_path / 'key.json'}"}
    with MemGuard.create(tmp_path / "home", **uris) as mg:
        Used(mg._log).spend(Spend("place", 17, bytes(64)))
    ring = FileKeyRing.open(tmp_path / "key.json")
    old, new = ring.current, ring.rotate()
    assert old != new
    with MemGuard.open(tmp_path / "home", **uris) as mg:
        used = Used(mg._log)
        used.rekey()
        head = mg._log.head((Used.STORE, "place"))
        assert head is not None
        assert (head[0], head[1].generation) == (new, 17)
        assert used.spend(Spend("place", 17, bytes(64))) is False
