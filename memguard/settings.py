"""The configuration model and the presets: every option, its type, its bounds and its default.

All of it is frozen; an unknown key, a wrong word or a wrong type is refused. :mod:`memguard.config`
finds, reads and merges files and turns refusals into errors with a place; import from there.

Every limit on untrusted input is a field of :class:`Limits` or :class:`Integrity`.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

#: What a guard may do: nothing at all; report only; what its rules say; or at most the word.
Mode = Literal["off", "observe", "enforce", "flag", "rewrite", "quarantine", "reject"]
_MODE: object = Mode
#: What happens to a record when a guard raises on it.
FailMode = Literal["closed", "quarantine", "open"]
Level = Literal["untrusted", "unknown", "tool", "user", "system"]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.\-]{0,63}$")]
Owner = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=r"^[^*\x00-\x1f\x7f]+$")]
#: Where a row says whose it is: a segment of the namespace, the thread id or a part of it, a field of the metadata.
Place = Annotated[
    str,
    StringConstraints(
        pattern=r"^(namespace\.[0-9]{1,2}|thread(\.[0-9]{1,2})?|metadata\.[A-Za-z0-9_\-]{1,64})$"
    ),
]
Uri = Annotated[str, StringConstraints(min_length=1, max_length=2048, pattern=r"^[^\x00-\x1f\x7f]+$")]


class Part(BaseModel):
    """Base of all tables: frozen, no extra keys, no silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    def modes(self) -> dict[str, Mode]:
        """The guards of this table with their modes, in the order in which they run."""
        return {
            name: getattr(self, name)
            for name, field in type(self).model_fields.items()
            if field.annotation == _MODE
        }


class Integrity(Part):
    """[integrity]: verification of what is read, and the head that it is verified against."""

    mode: Literal["enforce", "report", "off"] = Field(
        default="enforce", description="refuse what does not verify, serve and report it, or do not look"
    )
    level: Literal["head", "chain", "tag"] = Field(
        default="head", description="which mechanisms are on; less than head is for the bench's ladder"
    )
    sync: Literal["strict", "lag"] = Field(
        default="strict", description="strict: the head is durable before the write returns"
    )
    lag_ops: int = Field(
        default=16, ge=1, le=100_000, description="with lag: at most so many unsynced operations"
    )
    lag_ms: int = Field(
        default=50, ge=1, le=600_000, description="with lag: at most so many unsynced milliseconds"
    )
    forks: Literal["record", "refuse"] = Field(default="record", description="two writers from one parent")
    scrub_seconds: float = Field(
        default=0.0, ge=0, description="seconds between background scrubs; 0 is none"
    )
    compact_bytes: int = Field(
        default=64 * 1024**2, ge=4096, description="anchor log size that starts a compaction"
    )
    max_rows: int = Field(
        default=10_000_000, ge=1, description="rows of one context that a scan will look at"
    )


class Write(Part):
    """[write]: the guards of the write stage, in the order in which they run."""

    provenance: Mode = "enforce"
    scope: Mode = "enforce"
    sanitizer: Mode = "enforce"
    anomaly: Mode = "flag"


class Read(Part):
    """[read]: the guards of the read stage, and the purpose filter of the engine."""

    provenance: Mode = "enforce"
    scope: Mode = "enforce"
    validity: Mode = "enforce"
    reranker: Mode = "flag"
    purpose: Literal["off", "observe", "enforce"] = "enforce"
    max_withheld_ratio: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="a guard that withholds more than this falls back to observe, loudly",
    )
    withheld_window: int = Field(
        default=200, ge=1, le=100_000, description="records of a store over which that share is taken"
    )
    withheld_least: int = Field(
        default=50, ge=1, le=100_000, description="records before the share says anything"
    )
    overfetch: int = Field(
        default=3,
        ge=1,
        le=100,
        description="times the asked number of candidates that are looked at where trusted and untrusted ones meet",
    )
    fusion: Literal["off", "lexical"] = Field(
        default="off",
        description="lexical: a search is ordered by the store's relevance and the question's words together",
    )
    fusion_window: int = Field(
        default=5, ge=1, le=100, description="times the asked number of candidates that fusion orders"
    )
    max_candidates: int = Field(
        default=1000,
        ge=1,
        le=1_000_000,
        description="candidates of one search, at most, however many are taken out",
    )


class Act(Part):
    """[act]: the guards of the act stage."""

    constraints: Mode = "enforce"


class Limits(Part):
    """[guards.limits]: bounds on untrusted input."""

    max_chars: int = Field(
        default=100_000, ge=100, le=100_000_000, description="characters of one memory that the rules look at"
    )
    max_nodes: int = Field(
        default=10_000, ge=10, description="nodes of one nested value that are read for text"
    )
    max_evidence: int = Field(default=20, ge=1, le=1000, description="pieces of evidence kept per guard")
    max_decoded: int = Field(
        default=20_000, ge=0, le=10_000_000, description="characters of one memory that are decoded, in all"
    )
    max_decode_depth: int = Field(
        default=3, ge=0, le=10, description="encodings inside each other that are taken off"
    )
    max_pieces: int = Field(
        default=32, ge=0, le=10_000, description="encoded pieces of one memory that are read"
    )
    statistical_chars: int = Field(
        default=4_000, ge=100, le=1_000_000, description="characters of one text that are scored"
    )
    max_parents: int = Field(
        default=256, ge=1, le=100_000, description="parents of one record that are looked up"
    )


class Recall(Part):
    """[guards.recall]: when a new record counts as text that came out of another one."""

    min_words: int = Field(
        default=10, ge=4, le=1000, description="words of a passage that count as taken over, at least"
    )
    share: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="part of the new record that must be taken over (or four fifths of the old one)",
    )
    records: int = Field(
        default=4096, ge=1, le=1_000_000, description="records below user trust that a process remembers"
    )
    stored: int = Field(
        default=100_000, ge=0, description="digests kept in the home for other processes; 0 keeps none"
    )


class Corroboration(Part):
    """[guards.corroboration]: when agreement of independent sources raises trust."""

    sources: int = Field(
        default=2, ge=0, le=100, description="independent sources that must say the same; 0 never raises"
    )
    among: Literal["attested", "declared"] = Field(
        default="attested", description="sources that sign, or also tools and users by their declared name"
    )
    ceiling: Level = Field(default="user", description="the highest level that agreement can give")


class Anomaly(Part):
    """[guards.anomaly]: when a memory stands out from those of its scope."""

    near_duplicate: float = Field(default=0.95, gt=0, le=1, description="cosine from which on it repeats one")
    drift: float = Field(
        default=4.0, ge=1, description="standard deviations from the scope's centre that count as far"
    )
    burst: int = Field(default=30, ge=2, description="records of one source in a minute that count as many")
    warm_up: int = Field(
        default=30, ge=2, description="records of a scope before its statistics say anything"
    )
    judge_tokens: int = Field(default=100, ge=10, le=10_000, description="longest answer of the judge")
    judge_confidence: float = Field(
        default=0.8, ge=0, le=1, description="confidence from which on its verdict counts"
    )


class ValidityFields(Part):
    """[guards.validity]: the members of a stored value by which it declares when it holds."""

    since: str = Field(
        default="valid_from", min_length=1, max_length=100, description="from when on: ISO 8601, or seconds"
    )
    until: str = Field(
        default="valid_until", min_length=1, max_length=100, description="until when (exclusive)"
    )
    supersedes: str = Field(
        default="supersedes", min_length=1, max_length=100, description="key, or keys, of what it replaces"
    )


class Calibration(Part):
    """[guards.sanitizer.calibration]: thresholds of the statistical tier, from a deployment's own memories."""

    flag: float = Field(ge=0, le=1, description="score from which on a text is flagged")
    quarantine: float = Field(
        ge=0, le=1, description="score from which on it is withheld if a rule flags it too"
    )
    n: int = Field(default=0, ge=0, description="memories that they were taken from")
    date: datetime.date | None = Field(default=None, strict=False, description="when they were taken")


class Screening(Part):
    """[guards.sanitizer]: the rules and the statistical tier of the sanitizer."""

    rules_files: list[str] = Field(
        default_factory=list, max_length=100, description="rule files to read beside the built-in rules"
    )
    rules: Mapping[str, Mode] = Field(
        default_factory=dict, description="mode by code, where it is not the rule's own"
    )
    statistical: Literal["enforce", "observe", "off"] = Field(
        default="enforce", description="the statistical tier"
    )
    calibration: Calibration | None = None


class Guards(Part):
    """[guards]: settings shared by all guards."""

    validity: ValidityFields = ValidityFields()
    embedder: Name = Field(
        default="hashing",
        description="what turns texts into vectors: hashing, or minilm of the extra [minilm]",
    )

    limits: Limits = Limits()
    sanitizer: Screening = Screening()
    anomaly: Anomaly = Anomaly()
    recall: Recall = Recall()
    corroboration: Corroboration = Corroboration()


class Policy(Part):
    """[policy]: what follows from trust and from failure."""

    act_level: Level = Field(default="user", description="least trust that is served for purpose act")
    on_hold: Literal["report", "raise"] = Field(
        default="report", description="how a quarantined write answers"
    )
    fail_mode: FailMode = Field(default="quarantine", description="what a raising guard's record becomes")
    fail_modes: Mapping[Name, FailMode] = Field(
        default_factory=dict, description="fail mode by guard, where it differs"
    )
    effect_seconds: float = Field(
        default=5.0,
        gt=0,
        le=600,
        description="how long a guard may wait for a model before it counts as failed",
    )


class Store(Part):
    """[stores.NAME]: a store that the CLI can open and that ``guard`` can take its name from."""

    kind: Name
    uri: Uri
    scope: Mapping[Literal["tenant", "user"], Place] = Field(
        default_factory=dict,
        description='where its rows say whose they are, such as "namespace.1", "thread" or "metadata.user"',
    )


class Attested(Part):
    """[attested."KIND:ID"]: a source that signs what it says. What is not signed is not from it."""

    public_key: str = Field(description="its Ed25519 public key, 64 hexadecimal digits")
    level: Level = Field(default="user", description="trust of what it signed")
    scope: Mapping[Literal["tenant", "user"], Owner] = Field(
        default_factory=dict, description="the only owner that it may speak about; empty is any"
    )
    max_age: float = Field(
        default=0.0, ge=0, description="seconds after which a signature is too old to be used; 0 is never"
    )

    @field_validator("public_key")
    @classmethod
    def _sound(cls, value: str) -> str:
        if not re.fullmatch(r"[0-9a-f]{64}", value):
            raise ValueError("an Ed25519 public key is 64 hexadecimal digits in lower case")
        from memguard.curve import (
            sound_point,
        )  # nacl is not worth its import time to whoever registers nobody

        if not sound_point(bytes.fromhex(value)):
            raise ValueError("the public key is not a canonical point of the prime-order group")
        return value


class Quarantine(Part):
    """[quarantine]: where withheld writes are sealed, and for how long and how many."""

    review_key: Uri | None = Field(
        default=None,
        description="URI of the review key, whose private half opens what is withheld; writers need the public half",
    )
    review_public: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        default=None, description="its public half, 64 hex digits: what entries are sealed to"
    )
    max_age_days: float = Field(
        default=90.0, gt=0, le=36_500, description="days after which a waiting entry's content is destroyed"
    )
    undo_days: float = Field(
        default=7.0, ge=0, le=36_500, description="days for which a release or a drop can be undone"
    )
    max_entries: int = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="entries that hold content; at the limit writes are refused",
    )
    max_bytes: int = Field(
        default=64 * 1024**2, ge=1024, description="sealed bytes kept; at the limit writes are refused"
    )
    max_digests: int = Field(
        default=64,
        ge=1,
        le=10_000,
        description="strings of one entry that the keyed content index can find it by",
    )


class Judge(Part):
    """[judge]: a model that the guards may ask. Absent unless configured: a question carries memory content away."""

    url: str = Field(min_length=1, description="base URL of an endpoint for chat completions, ending in /v1")
    model: str = Field(min_length=1, description="its name there")
    key: str = Field(default="", description='where its API key is: "env:NAME"; empty for none')
    budget_tokens: int = Field(
        default=0, ge=0, description="tokens that one process may use; 0 is without limit"
    )


class Observe(Part):
    """[observe]: how long observing is meant to last."""

    expires: datetime.date | None = Field(
        default=None, strict=False, description="after this day status and doctor warn"
    )


class Letta(Part):
    """[letta]: what an agent on a Letta server may do to its own memory."""

    server_edits: Literal["approve", "read_only", "verify"] = Field(
        default="approve",
        description="the guard approves each call of its memory tools, or blocks are read-only to it, "
        "or it edits freely and every difference is reported after the turn",
    )


class Log(Part):
    """[log]: what logs may hold of a memory."""

    content: Literal["never", "hash", "full"] = "never"


#: Source pattern (``kind:id``, with ``*``) to trust, as DESIGN orders it. ``summary`` has no level
#: of its own: it is worth what its parents are worth, and unknown without any.
SOURCES: Mapping[str, Level] = MappingProxyType(
    {
        "web:*": "untrusted",
        "document:*": "untrusted",
        "unknown:*": "unknown",
        "summary:*": "unknown",
        "tool:*": "tool",
        "user:*": "user",
        "assistant:*": "user",
        "system:*": "system",
    }
)


class Config(Part):
    """A whole configuration. ``Config()`` is the preset ``balanced``."""

    schema_version: Literal[1] = Field(default=1, alias="schema", description="version of this file's format")
    preset: Literal["off", "observe", "balanced", "strict"] = "balanced"
    keys: Uri | None = Field(default=None, description="key URI: file:PATH, env:NAME or memory:")
    anchor: Uri | None = Field(
        default=None, description="anchor URI: file:FOLDER, sqlite:PATH, postgresql://USER@HOST/DB or memory:"
    )
    state: Literal["home", "anchor"] | None = Field(
        default=None,
        description="where the guard's own tables are: home/state.db, or the anchor's database (the default where "
        "the anchor is PostgreSQL)",
    )
    integrity: Integrity = Integrity()
    write: Write = Write()
    read: Read = Read()
    act: Act = Act()
    guards: Guards = Guards()
    policy: Policy = Policy()
    stores: Mapping[Name, Store] = Field(default_factory=dict)
    quarantine: Quarantine = Quarantine()
    observe: Observe = Observe()
    judge: Judge | None = None
    sources: Mapping[str, Level] = Field(
        default_factory=lambda: dict(SOURCES), description="trust by source; the longest match wins"
    )
    attested: Mapping[str, Attested] = Field(
        default_factory=dict,
        description="sources that sign, by kind:id (with * for many); the longest match wins",
    )
    letta: Letta = Letta()
    log: Log = Log()

    @field_validator("attested")
    @classmethod
    def _attested_kinds(cls, value: Mapping[str, Attested]) -> Mapping[str, Attested]:
        for pattern in value:
            _kind_of(pattern)
            if pattern.endswith(":*") or ":" not in pattern:
                raise ValueError(f"{pattern[:80]!r} names a whole kind, not a source")
        return value

    @field_validator("sources")
    @classmethod
    def _known_kinds(cls, value: Mapping[str, Level]) -> Mapping[str, Level]:
        for pattern in value:
            _kind_of(pattern)
        # Every kind keeps a level: a table that names one pattern does not forget the others.
        return {**SOURCES, **value}

    def plain(self) -> dict[str, Any]:
        """The configuration as JSON values, by the names used in files."""
        values: dict[str, Any] = self.model_dump(mode="json", by_alias=True)
        return values

    def digest(self) -> str:
        """SHA-256 of the canonical JSON of :meth:`plain`, in hex; it goes into every report."""
        return digest_of(self.plain())


def _kind_of(pattern: str) -> None:
    kind = pattern.partition(":")[0]
    if f"{kind}:*" not in SOURCES:
        raise ValueError(f"{kind[:40]!r} is not a kind of source")


def digest_of(plain: Mapping[str, Any]) -> str:
    """SHA-256 over sorted, compact, ASCII JSON (a closed domain: strings, numbers, booleans, null)."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _modes(mode: str, verification: str, **other: Any) -> dict[str, Any]:
    purpose = mode if mode in ("off", "observe") else "enforce"
    return {
        "integrity": {"mode": verification},
        "write": dict.fromkeys(("provenance", "scope", "sanitizer", "anomaly"), mode),
        "read": {**dict.fromkeys(("provenance", "scope", "validity", "reranker"), mode), "purpose": purpose},
        "act": {"constraints": mode},
        **other,
    }


#: What each preset says, over the defaults of the model. "flag" is DESIGN's "report, may lower
#: trust" and "enforce order and labels, report withholding": act up to a flag, report the rest.
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "off": _modes("off", "off"),
        "observe": _modes("observe", "report", policy={"fail_mode": "open"}),
        "balanced": {},
        "strict": _modes("enforce", "enforce", policy={"fail_mode": "closed"}),
    }
)


def json_schema() -> dict[str, Any]:
    """JSON Schema of memguard.toml, for editors (``memguard config schema``)."""
    return Config.model_json_schema(by_alias=True)
