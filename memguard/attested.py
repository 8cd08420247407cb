"""Attested sources: what is signed, and whether a signature is good for this record, at this place, once.

A source registers an Ed25519 public key in ``[attested."KIND:ID"]`` and signs what it says. The signed
message names the content, the time, the owner and the place, so a signature proves nothing anywhere else
(docs/spec/attestation.md). Used signatures are remembered as heads of the anchor's log: whoever edits the
store or the home cannot make one fresh again.
"""

from __future__ import annotations

import hashlib
import struct
import threading
import time
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from memguard.errors import ConfigError
from memguard.integrity.canonical import frame
from memguard.record import Record, Scope, Source, Trust

if TYPE_CHECKING:
    from nacl.signing import SigningKey

    from memguard.anchorlog import AnchorLog
    from memguard.guard import Spend
    from memguard.settings import Attested

DOMAIN: Final = b"memguard/attestation/1"
#: First byte of a token; then the time (8 bytes) and the signature (64 bytes).
VERSION: Final = 1
TOKEN: Final = 73
#: Codes of a label that does not hold: unsigned; signed for something else or by somebody else; used before;
#: outside of its time; not the source's business.
UNSIGNED, MISMATCH, REPLAYED, UNTIMELY, OUT_OF_SCOPE = "MG303", "MG304", "MG305", "MG306", "MG307"
#: How far ahead a source's clock may be, seconds. A time far ahead would block all later ones.
SKEW: Final = 300.0

_time = struct.Struct(">Q")


def message(
    public_key: bytes, *, digest: bytes, source: str, store: str, place: Sequence[str], scope: Scope, at: int
) -> bytes:
    """The bytes that a source signs.

    Args:
        public_key: 32 bytes; inside, so that a signature cannot be claimed for another key.
        digest: :func:`digest_of` the content.
        source: ``kind:id`` as registered or matched.
        place: the namespace's segments and the key of an item; thread and message id of a message.
        at: milliseconds since the epoch.
    """
    owner = [b"" if part is None else b"=" + _utf8(part) for part in (scope.tenant, scope.user)]
    where = frame(*(_utf8(part) for part in place))
    return frame(DOMAIN, public_key, _utf8(source), _utf8(store), where, *owner, _time.pack(at), digest)


def digest_of(content: object) -> bytes:
    """SHA-256 of the content's canonical JSON (RFC 8785); a text is a JSON string.

    Raises:
        ValueError: the content has no such form (an object, NaN, an integer beyond 2^53, a lone surrogate).
    """
    import rfc8785

    try:
        return hashlib.sha256(rfc8785.dumps(content)).digest()  # type: ignore[arg-type]
    except (rfc8785.CanonicalizationError, UnicodeError, RecursionError, TypeError) as error:
        raise ValueError("the content has no canonical JSON form") from error


def attest(
    signing_key: SigningKey | bytes,
    content: object,
    *,
    source: str | Source,
    store: str,
    place: Sequence[str],
    scope: Scope | Mapping[str, str] | None = None,
    at: float | None = None,
) -> bytes:
    """What a source hands out beside what it says, for ``source(..., signature=token)``.

    Args:
        signing_key: a ``nacl.signing.SigningKey``, or its 32 bytes of seed.
        content: the text of a message; the whole value of a store item, as JSON values.
        source: ``kind:id``.
        store: the name under which the store is guarded.
        place: ``(*namespace, key)`` of an item; ``(thread id, message id)`` of a message.
        scope: owner of the memory, where the store or the principal names one: ``{"tenant": …, "user": …}``.
        at: seconds since the epoch; default now. A later statement for the same place needs a later time.

    Raises:
        ConfigError: MG101, the content has no canonical JSON form, or the place is one string.
    """
    from nacl.signing import SigningKey

    key = signing_key if isinstance(signing_key, SigningKey) else SigningKey(signing_key)
    if isinstance(place, str):
        raise ConfigError("place is a sequence, not one string", do='Write place=("users", "alice", "key").')
    if not isinstance(scope, Scope):
        scope = Scope(**(scope or {}))
    moment = int((time.time() if at is None else at) * 1000)
    try:
        digest = digest_of(content)
    except ValueError as error:
        raise ConfigError(f"{error}", do="Sign JSON values: text, numbers, lists, objects.") from None
    said = message(
        bytes(key.verify_key),
        digest=digest,
        source=str(source),
        store=store,
        place=place,
        scope=scope,
        at=moment,
    )
    return bytes([VERSION]) + _time.pack(moment) + key.sign(said).signature


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a record is from the source it names. ``code`` is empty where it is, so far as a signature tells."""

    code: str = ""
    reason: str = ""
    #: What a :class:`~memguard.guard.Spend` must still find new.
    place: str = ""
    at: int = 0
    signature: bytes = b""


class Registry:
    """The registered sources of a configuration. Immutable; threads may share it."""

    def __init__(self, sources: Mapping[str, Attested]) -> None:
        order = sorted(sources, key=lambda pattern: (-len(pattern), pattern))
        self._rules = [(folded(p).replace("[", "[[]").replace("?", "[?]"), sources[p]) for p in order]
        self.of = lru_cache(maxsize=4096)(self._of) if order else _nobody

    def _of(self, kind: str, ident: str) -> Attested | None:
        # Folded: a name that only looks like a registered one has to sign as well.
        text = folded(f"{kind}:{ident}")
        return next((entry for pattern, entry in self._rules if fnmatchcase(text, pattern)), None)

    def verify(self, record: Record, entry: Attested, now: float) -> Verdict:
        """Judge a record whose source is registered. Its ``data`` must hold ``value`` and ``place``, and may hold
        ``owner``, on whose behalf it is written (default: the record's scope).

        Everything but whether the signature was used before, which needs memory (``Spend``).
        """
        token = record.source.signature
        if not token:
            return Verdict(UNSIGNED, "its source must sign and did not")
        if "place" not in record.data:
            return Verdict(MISMATCH, "a signature cannot be checked here")
        if len(token) != TOKEN or token[0] != VERSION:
            return Verdict(MISMATCH, "the signature is not in a form that this version knows")
        (at,) = _time.unpack(token[1:9])
        if at > (now + SKEW) * 1000 or (entry.max_age and at < (now - entry.max_age) * 1000):
            return Verdict(UNTIMELY, "the signature is from another time")
        scope: Scope = record.data.get("owner", record.scope)
        if any(getattr(scope, part) != owner for part, owner in entry.scope.items()):
            return Verdict(OUT_OF_SCOPE, "the source is not registered for this owner")
        place: Sequence[str] = record.data["place"]
        try:
            digest = digest_of(record.data.get("value"))
        except ValueError:
            return Verdict(MISMATCH, "the content has no form that could be signed")
        from memguard.keys.ring import verify_signature

        key, source = bytes.fromhex(entry.public_key), str(record.source)
        said = message(key, digest=digest, source=source, store=record.store, place=place, scope=scope, at=at)
        if not verify_signature(key, said, token[9:]):
            return Verdict(MISMATCH, "the signature is not this source's over this record at this place")
        where = frame(_utf8(source), _utf8(record.store), *(_utf8(part) for part in place))
        owner = frame(*(b"" if p is None else b"=" + _utf8(p) for p in (scope.tenant, scope.user)))
        name = hashlib.sha256(frame(b"memguard/attested-place/1", key, where, owner)).hexdigest()[:40]
        return Verdict(place=name, at=at, signature=token[9:])


class Used:
    """Which signatures were used: for each place the time of the last one, as a head of the anchor's log.

    It survives the deletion of the record and everything done to the store or the home. Times only go up, so
    an older statement cannot be brought back over a newer one either.
    """

    #: The store name of these heads; no store of a user can be called so.
    STORE: Final = "@attested"

    def __init__(self, log: AnchorLog) -> None:
        self._log, self._mutex = log, threading.Lock()

    def spend(self, effect: Spend) -> bool:
        """Use a signature up; False if the place has seen one of that time or later.

        Raises:
            AnchorError: the anchor failed; the signature must not count as new.
        """
        from memguard.errors import AnchorError
        from memguard.integrity.head import Head
        from memguard.integrity.logview import HeadRecord

        place = (self.STORE, effect.place)
        with self._mutex:
            self._log.refresh()
            known = self._log.head(place)
            before = known[1].generation if known else 0
            if effect.at <= before:
                return False
            chain = hashlib.sha256(effect.signature).digest()
            head = Head(effect.place, generation=effect.at, chain=chain)
            record = HeadRecord(self.STORE, "attest", time.time(), self._log.keys.current, head, None)
            try:
                # The head of the write that follows is synced after it in the same log.
                self._log.write([record], sync=False, expect=[(place, before)])
            except AnchorError as error:
                if error.code == "MG416":  # another process used one at this moment
                    return False
                raise
            return True

    def rekey(self) -> None:
        """After a rotation: the heads under the current key, so that the old one may go."""
        from memguard.integrity.logview import HeadRecord

        kid = self._log.keys.current
        with self._mutex:
            for name in self._log.places(self.STORE):
                known = self._log.head((self.STORE, name))
                if known is not None and known[0] != kid:
                    record = HeadRecord(self.STORE, "rekey", time.time(), kid, known[1], None)
                    place = (self.STORE, name)
                    self._log.write([record], sync=False, expect=[(place, known[1].generation)])


def level_of(entry: Attested) -> Trust:
    """The trust of what a registered source signed."""
    return Trust(entry.level)


@lru_cache(maxsize=4096)
def folded(text: str) -> str:
    """A name without what makes two of them look alike: case, width, invisible characters, spaces at the ends."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(c for c in plain if unicodedata.category(c) not in ("Cf", "Mn", "Zs"))


def _nobody(kind: str, ident: str) -> None:
    return None


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
