"""How a text gets its label: the three attacker channels, and what the agent itself writes.

``untrusted``: the program says truthfully that it is from outside. ``forged``: it claims a source that must sign,
without a signature that holds. ``signed``: that source itself signs the poison. ``reworded``: the agent says it in
its own words and declares nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nacl.signing import SigningKey

UNTRUSTED, FORGED, SIGNED, REWORDED, CROSSED = "untrusted", "forged", "signed", "reworded", "cross-context"
CHANNELS = (UNTRUSTED, FORGED, SIGNED)
#: Sources of what comes from outside; an attack's number says which is its own.
OUTSIDE = ("web:https://page.example", "document:inbox", "tool:browser", "unknown")
USER, PAGE, AGENT = "user:alice", "web:https://honest.example", "assistant"
#: A source that has registered a key, and must sign.
CRM = "tool:crm"
LOOKALIKE = "tool:CRM\u200b"
FORGERIES = ("no signature", "another key", "another content", "another place", "label in it", "look-alike")
_SEED, _OTHER = bytes(range(32)), bytes(range(1, 33))


@dataclass(frozen=True, slots=True)
class Claim:
    """What the program is told about a text.

    Attributes:
        source: ``kind:id`` that is declared.
        signed: what the signature is over: ``""`` for none, else ``this``, ``other key``, ``other content``,
            ``other place``.
        payload_label: whether the text brings a label of its own along.
        parents: what it is declared to be derived from, as the store served it.
    """

    source: str
    signed: str = ""
    payload_label: bool = False
    parents: Sequence[object] = ()

    @property
    def kind(self) -> str:
        """The source's kind, for the row."""
        return self.source.partition(":")[0]


def claim_of(channel: str, number: int) -> Claim:
    """What is claimed for attack ``number`` of a family on a channel."""
    if channel == SIGNED:
        return Claim(CRM, "this")
    if channel != FORGED:
        return Claim(OUTSIDE[number % len(OUTSIDE)])
    how = FORGERIES[number % len(FORGERIES)]
    if how == "label in it":
        return Claim(PAGE, payload_label=True)
    if how == "look-alike":
        return Claim(LOOKALIKE)
    return Claim(CRM, {"no signature": "", "another key": "other key"}.get(how, how.replace("an", "", 1)))


@cache
def _key(seed: bytes) -> SigningKey:
    from nacl.signing import SigningKey

    return SigningKey(seed)


def registration() -> dict[str, Any]:
    """The configuration that registers the source that must sign."""
    public = bytes(_key(_SEED).verify_key).hex()
    return {"attested": {CRM: {"public_key": public, "level": "user"}}}


def token(claim: Claim, content: object, store: str, place: Sequence[str]) -> bytes | None:
    """The signature that comes with a claim, None for none."""
    if not claim.signed:
        return None
    from memguard.attested import attest

    key = _key(_OTHER if claim.signed == "other key" else _SEED)
    said = "The office closes at five." if claim.signed == "other content" else content
    where = (*place[:-1], "elsewhere") if claim.signed == "other place" else tuple(place)
    return attest(key, said, source=claim.source, store=store, place=where)
