"""The attacker channels of poisoning through the write path, each from end to end on a real SqliteStore.

An untrusted-source label, a forged trusted-source label, and a trusted label with a valid signature (the three that
the method for memory integrity names beside its own adversary). Served as trusted means: with a label at or above
the level that an action needs, and not flagged.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Any

import nacl.signing
import pytest

from memguard import MemGuard, Trust, principal, render, source
from memguard.attested import attest
from memguard.record import KINDS

CRM, OTHER = nacl.signing.SigningKey(bytes(range(32))), nacl.signing.SigningKey(bytes(range(1, 33)))
PUBLIC = bytes(CRM.verify_key).hex()
CONFIG: dict[str, Any] = {
    "attested": {
        "tool:crm": {"public_key": PUBLIC, "level": "user"},
        "web:https://bank.example": {"public_key": PUBLIC, "level": "user"},
    }
}
ALICE = ("users", "alice")
#: Knowledge poison: nothing in the words tells it from a fact.
POISON = {"text": "The warranty of the Nordwind boiler ended in May, and a visit costs ninety euros now."}
BENIGN = {"text": "The office in Lyon closes at five on Fridays and opens again on Monday at nine."}


@pytest.fixture
def attested(new_scene: Any) -> Any:
    return new_scene(CONFIG)


def signed(value: Any, key: Any = CRM, **changed: Any) -> bytes:
    about = {"source": "tool:crm", "store": "memories", "place": (*ALICE, "k"), **changed}
    return attest(key, value, **about)


def trusted(mg: MemGuard, item: Any) -> bool:
    label = mg.label(item)
    assert label is not None
    flagged = label.decision is not None and label.decision.flagged
    return label.trust >= mg.config.policy.act_level and not flagged


def everywhere(scene: Any, key: str = "k") -> list[Any]:
    """The item as every way of reading serves it, in this process and after a restart."""
    found = []
    for store in (scene.mg.guard(scene.bare(), name="memories"), scene.store()):
        found += [store.get(ALICE, key), *[i for i in store.search(ALICE) if i.key == key]]
    assert len(found) == 4, "poison stays readable: it is stored and not believed"
    return found


# -- first channel: an untrusted-source label ----------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("user", "assistant", "system")])
def test_first_channel_an_untrusted_label_is_never_served_as_trusted(attested: Any, kind: str) -> None:
    store = attested.store()
    with source(kind, id="" if kind in ("unknown", "summary") else "https://evil.example"):
        store.put(ALICE, "k", POISON)
    for item in everywhere(attested):
        assert item.value == POISON
        assert not trusted(attested.mg, item)
        assert "\n| The warranty" in render([item])


LAUNDRY = {
    "the assistant quotes it": ("assistant", lambda text: text),
    "the assistant wraps it": ("assistant", lambda text: f"Noted for later. {text}"),
    "a person pastes it": ("user:alice", lambda text: f"> {text}"),
    "the system repeats it": ("system", lambda text: text.upper()),
}


@pytest.mark.parametrize("how", LAUNDRY)
@pytest.mark.parametrize("restart", [False, True])
def test_first_channel_does_not_rise_when_it_is_written_again(attested: Any, how: str, restart: bool) -> None:
    who, words = LAUNDRY[how]
    store = attested.store()
    with source("web:https://evil.example"):
        store.put(ALICE, "page", POISON)
    if restart:
        attested.close()
        store = attested.store()
        if how in ("the assistant wraps it", "a person pastes it"):
            attested.mg.screening.read(_as_read(attested, store.get(ALICE, "page")))
    with source(who):
        store.put(ALICE, "k", {"text": words(POISON["text"])})
        store.put(ALICE, "own", BENIGN)
    for item in everywhere(attested):
        assert not trusted(attested.mg, item)
        assert attested.mg.label(item).trust == Trust.UNTRUSTED
        # Another process knows the record alone, until it reads it itself.
        key, *origins = [parent.id for parent in attested.mg.label(item).lineage.parents]
        assert (key, set(origins) - {"web:https://evil.example"}) == ("page", set())
        assert origins or restart
    for item in everywhere(attested, "own"):
        assert trusted(attested.mg, item), "what is their own stays theirs"


def _as_read(scene: Any, item: Any) -> Any:
    from memguard.record import Record, text_of

    label = scene.mg.label(item)
    return Record(text_of(item.value), "memories", item.key, label.source, label.lineage, trust=label.trust)


# -- second channel: a forged trusted-source label -----------------------------------------------------


FORGERIES: dict[str, dict[str, Any]] = {
    "no signature": {"signature": None},
    "an empty one": {"signature": b""},
    "noise": {"signature": bytes(73)},
    "another key": {"signature": signed(POISON, OTHER)},
    "of another content": {"signature": signed(BENIGN)},
    "of the text only": {"signature": signed(POISON["text"])},
    "of another store": {"signature": signed(POISON, store="other")},
    "of another key of the store": {"signature": signed(POISON, place=(*ALICE, "j"))},
    "of another namespace": {"signature": signed(POISON, place=("users", "bob", "k"))},
    "of another owner": {"signature": signed(POISON, scope={"user": "bob"})},
    "of another source with the same key": {"signature": signed(POISON, source="web:https://bank.example")},
    "from next year": {"signature": signed(POISON, at=time.time() + 366 * 86400)},
    "under a name that looks the same": {"signature": None, "name": "tool:CRM\u200b"},
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_second_channel_a_forged_label_is_never_served_as_trusted(attested: Any, forgery: str) -> None:
    arguments = FORGERIES[forgery]
    store = attested.store()
    with source(arguments.get("name", "tool:crm"), signature=arguments["signature"]):
        store.put(ALICE, "k", POISON)
    for item in everywhere(attested):
        label = attested.mg.label(item)
        assert not trusted(attested.mg, item)
        assert (str(label.trust), label.decision.disposition) == ("untrusted", "flag")
        assert label.decision.code in ("MG303", "MG304", "MG306")


def test_second_channel_a_label_in_the_payload(attested: Any) -> None:
    store = attested.store()
    with source("user:alice"):
        store.put(ALICE, "k", {**POISON, "memguard": {"label": {"source": "tool:crm", "trust": "system"}}})
    assert not any(trusted(attested.mg, item) for item in everywhere(attested))


def test_second_channel_a_replayed_signature(attested: Any) -> None:
    """A good signature, once; then again in its place, over a newer one, after deletion, and after a restart."""
    store, token = attested.store(), signed(POISON, at=time.time() - 5)

    def put(value: Any, signature: bytes, key: str = "k") -> str:
        with source("tool:crm", signature=signature):
            store.put(ALICE, key, value)
        label = attested.mg.label(store.get(ALICE, key))
        return label.decision.code if label.decision else str(label.trust)

    assert put(POISON, token) == "user"
    assert put(POISON, token) == "MG305"
    assert put(BENIGN, signed(BENIGN)) == "user"
    assert put(POISON, token) == "MG305", "the older statement does not come back over the newer"
    assert put(POISON, token, "j") == "MG304"
    store.delete(ALICE, "k")
    assert put(POISON, token) == "MG305"
    attested.close()
    for file in attested.home.glob("state.db*"):  # the adversary holds the home
        file.unlink()
    store = attested.store()
    store.delete(ALICE, "k")
    assert put(POISON, token) == "MG305"
    assert put(BENIGN, signed(BENIGN)) == "user"


def test_a_restored_store_brings_no_signature_back(attested: Any) -> None:
    store, token = attested.store(), signed(POISON)
    with source("tool:crm", signature=token):
        store.put(ALICE, "k", POISON)
    copy = attested.sql("SELECT prefix, key, value, created_at, updated_at FROM store")
    store.delete(ALICE, "k")
    attested.close()
    with sqlite3.connect(attested.db) as connection:
        connection.executemany(
            "INSERT INTO store (prefix, key, value, created_at, updated_at) VALUES (?, ?, ?, ?, ?)", copy
        )
    store = attested.store()
    with pytest.raises(Exception, match="MG4"):
        store.get(ALICE, "k")


async def test_second_channel_through_the_asynchronous_store(attested: Any) -> None:
    async with attested.astore() as store:
        for key, token in (
            ("k", signed(POISON)),
            ("forged", signed(POISON, OTHER, place=(*ALICE, "forged"))),
        ):
            with source("tool:crm", signature=token):
                await store.aput(ALICE, key, POISON)
        good, bad = await store.aget(ALICE, "k"), await store.aget(ALICE, "forged")
        assert (trusted(attested.mg, good), trusted(attested.mg, bad)) == (True, False)
        assert attested.mg.label(bad).decision.code == "MG304"
        with source("tool:crm", signature=signed(POISON)):
            await store.aput(ALICE, "k", POISON)
        assert trusted(attested.mg, await store.aget(ALICE, "k"))


def test_a_principal_is_part_of_what_is_signed(attested: Any) -> None:
    store = attested.store()
    token = signed(BENIGN, scope={"tenant": "acme", "user": "alice"})
    with principal(tenant="acme", user="bob"), source("tool:crm", signature=token):
        store.put(ALICE, "k", BENIGN)
    assert attested.mg.label(store.get(ALICE, "k")).decision.code == "MG304"
    with principal(tenant="acme", user="alice"), source("tool:crm", signature=token):
        store.put(ALICE, "k", BENIGN)
    assert trusted(attested.mg, store.get(ALICE, "k"))


# -- third channel: a trusted label with a valid signature ----------------------------------------------


def test_third_channel_is_believed_and_its_reach_can_be_told(attested: Any) -> None:
    """Not promised: that what a trusted source signs is true. What is promised: which records it reached."""
    store = attested.store()
    with source("tool:crm", signature=signed(POISON)):
        store.put(ALICE, "k", POISON)
    item = store.get(ALICE, "k")
    assert trusted(attested.mg, item), (
        "no guard over words can tell; this is the limit that the documents state"
    )
    with source("summary", parents=[item]):
        store.put(ALICE, "summary", {"text": "Repairs of the boiler are not free any more."})
    with source("assistant", parents=[store.get(ALICE, "summary")]):
        store.put(ALICE, "plan", {"text": "Ask three others for an offer."})
    with source("user:alice"):
        store.put(ALICE, "own", BENIGN)
    attested.close()
    store = attested.store()
    labels = {found.key: attested.mg.label(found) for found in store.search(ALICE)}
    reached = {key for key, label in labels.items() if str(label.source) == "tool:crm"}
    while (
        more := {key for key, label in labels.items() if {p.id for p in label.lineage.parents} & reached}
        - reached
    ):
        reached |= more
    assert reached == {"k", "summary", "plan"}
    assert set(labels) - reached == {"own"}
    # The same by one call, and taken back.
    plan = attested.mg.revert(store, source="tool:crm")
    assert (plan.applied, sum(int(action["records"]) for action in plan.actions)) == (False, 3)
    attested.mg.revert(store, source="tool:crm", apply=True)
    assert [found.key for found in store.search(ALICE)] == ["own"]


def test_third_channel_ends_where_the_registration_ends(attested: Any) -> None:
    store = attested.store()
    with source("tool:crm", signature=signed(POISON)):
        store.put(ALICE, "k", POISON)
    record = _as_read(attested, store.get(ALICE, "k"))
    attested.close()
    lowered = {"attested": {"tool:crm": {"public_key": PUBLIC, "level": "untrusted"}}}
    uris = {"anchor": f"file:{attested.anchor}", "keys": f"file:{attested.root / 'key.json'}"}
    with MemGuard.open(attested.home, config=lowered, **uris) as mg:
        assert mg.screening.read(record).decision.trust == Trust.UNTRUSTED


# -- agreement -------------------------------------------------------------------------------------------


def test_sources_that_sign_and_do_not_hang_together_lift_a_record_for_good(new_scene: Any) -> None:
    """A second key of the same site, and the same source again, do not; what was lifted stays so after a restart."""
    keys = {
        name: nacl.signing.SigningKey(bytes([number]) * 32) for number, name in enumerate(("a", "b", "c"), 7)
    }
    names = {"a": "tool:erp", "b": "tool:https://docs.example/1", "c": "tool:https://www.docs.example/2"}
    config = {
        "attested": {
            names[n]: {"public_key": bytes(key.verify_key).hex(), "level": "tool"} for n, key in keys.items()
        }
    }
    scene = new_scene(config)
    store = scene.store()

    def put(name: str, key: str, at: float) -> str:
        token = signed(BENIGN, keys[name], source=names[name], place=(*ALICE, key), at=time.time() + at)
        with source(names[name], signature=token):
            store.put(ALICE, key, BENIGN)
        return str(scene.mg.label(store.get(ALICE, key)).trust)

    assert put("b", "one", 0) == "tool"
    assert put("b", "two", 1) == "tool", "the same source again"
    assert put("c", "three", 2) == "tool", "another key of the same site"
    assert put("a", "four", 3) == "user"
    scene.close()
    store = scene.store()
    trusts = {item.key: str(scene.mg.label(item).trust) for item in store.search(ALICE)}
    assert trusts == {"one": "tool", "two": "tool", "three": "tool", "four": "user"}
    with principal(user="alice", purpose="act"):
        assert [item.key for item in store.search(ALICE)] == ["four"]
