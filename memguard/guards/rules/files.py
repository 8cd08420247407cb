"""Rule files of users: TOML, one ``[[rule]]`` per row, checked whole before any of it is used.

    [[rule]]
    code = "ACME-1"                # yours: two capitals or more, a dash, capitals and digits
    name = "freight-desk"
    reason = "an order to write to the old freight desk"
    disposition = "flag"           # flag, rewrite, quarantine or reject
    score = 0.8                    # in (0, 1]; 0.7 if left out
    words = ["freight"]            # one of these must occur; may be left out
    pattern = 'freight desk [^.]{0,40}\\bnow\\b'
    must = ["The freight desk is now at 9 King Street."]
    must_not = ["The freight desk was nice."]

Patterns are those of :mod:`re` over the normalised copy (lower case, single blanks) and cost linear time: repeats
are bounded, and none stands inside another. Both lists of examples are tried when the file is read. A path may end
in ``#sha256:`` and the file's digest; then another file is refused.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from memguard.decision import Disposition
from memguard.errors import ConfigError
from memguard.guards.lookalikes import unmix
from memguard.guards.normal import normalise
from memguard.guards.rules.rule import Rule, faults

CODE = "MG107"
#: A rule file is read whole into memory.
MAX_BYTES = 1_000_000
_PIN = re.compile(r"(?P<path>.+)#sha256:(?P<digest>[0-9a-f]{64})")
_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*rule[ \t]*\]\]", re.MULTILINE)
_Text = Annotated[str, StringConstraints(min_length=1, max_length=2000)]


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    code: Annotated[str, StringConstraints(pattern=r"^[A-Z]{2,16}-[A-Z0-9-]{1,16}$")]
    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,64}$")]
    reason: Annotated[str, StringConstraints(min_length=3, max_length=200)]
    disposition: Literal["flag", "rewrite", "quarantine", "reject"]
    score: float = Field(default=0.7, gt=0, le=1)
    words: list[_Text] = Field(default_factory=list, max_length=200)
    pattern: Annotated[str, StringConstraints(min_length=1, max_length=20_000)]
    must: list[_Text] = Field(min_length=1)
    must_not: list[_Text] = Field(default_factory=list)


def read_rules(names: Iterable[str]) -> tuple[Rule, ...]:
    """The rules of these files, in order.

    Args:
        names: paths, each as it is or with ``#sha256:`` and 64 hexadecimal digits after it.

    Raises:
        ConfigError: MG107 with file, line and reason: a file cannot be read, is not the pinned one, is no TOML,
            or a rule in it is wrong; or a code occurs twice.
    """
    rules: list[Rule] = []
    for name in names:
        for rule, place in _read(name):
            if any(rule.code == other.code for other in rules):
                raise _wrong(place, f"the code {rule.code} is taken by an earlier rule")
            rules.append(rule)
    return tuple(rules)


def _read(name: str) -> list[tuple[Rule, str]]:
    pinned = _PIN.fullmatch(name)
    path = Path(pinned["path"] if pinned else name)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _wrong(str(path), f"it cannot be read ({type(error).__name__})") from error
    if len(content) > MAX_BYTES:
        raise _wrong(str(path), f"it has more than {MAX_BYTES} bytes")
    if pinned and hashlib.sha256(content).hexdigest() != pinned["digest"]:
        raise _wrong(str(path), "it is not the file whose digest the configuration names")
    try:
        text = content.decode("utf-8")
        values = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise _wrong(str(path), "it is not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        place = f"{path}:{line.group(1)}" if line else str(path)
        raise _wrong(place, f"it is no TOML: {str(error).partition(' (at')[0]}") from error
    rows = values.pop("rule", None)
    if values or not isinstance(rows, list) or not rows:
        extra = f"it has {', '.join(sorted(values))[:80]}" if values else "it has no [[rule]]"
        raise _wrong(f"{path}:1", f"{extra}; a rule file is a list of [[rule]] tables")
    starts = [text.count("\n", 0, match.start()) + 1 for match in _HEADER.finditer(text)]
    lines = text.splitlines()
    found = []
    for number, row in enumerate(rows):
        first = starts[number] if number < len(starts) else 1
        last = starts[number + 1] if number + 1 < len(starts) else len(lines) + 1
        found.append((_rule(row, path, first, lines[first - 1 : last - 1]), f"{path}:{first}"))
    return found


def _rule(row: object, path: Path, first: int, lines: list[str]) -> Rule:
    def place(key: str = "") -> str:
        start = re.compile(rf"\s*{re.escape(key)}\s*=")
        for offset, line in enumerate(lines):
            if key and start.match(line):
                return f"{path}:{first + offset}"
        return f"{path}:{first}"

    try:
        valid = _Row.model_validate(row)
    except ValidationError as error:
        item = error.errors(include_url=False, include_input=False)[0]
        key = str(item["loc"][0]) if item["loc"] else ""
        reason = "is not a key of a rule" if item["type"] == "extra_forbidden" else item["msg"].lower()
        raise _wrong(place(key), f"{key or 'rule'}: {reason}") from error
    try:
        reasons = faults(valid.pattern)
        rule = Rule(
            valid.code,
            valid.name,
            valid.reason,
            Disposition(valid.disposition),
            valid.score,
            tuple(valid.words),
            valid.pattern,
            tuple(valid.must),
            tuple(valid.must_not),
            unless="",
            language="",
        )
    except (re.error, RecursionError, OverflowError) as error:
        raise _wrong(place("pattern"), f"pattern: {str(error)[:200] or type(error).__name__}") from error
    if reasons:
        raise _wrong(place("pattern"), f"pattern: {reasons[0]}, so that a hostile text could stop the guard")
    for key, texts, wanted in (("must", valid.must, True), ("must_not", valid.must_not, False)):
        for text in texts:
            copy = unmix(normalise(text))
            hit = rule.compiled.search(copy) is not None and (
                not rule.words or any(word in copy for word in rule.words)
            )
            if hit != wanted:
                what = "does not match" if wanted else "matches"
                raise _wrong(place(key), f"{key}: the rule {what} example {texts.index(text) + 1}")
    return rule


def _wrong(where: str, why: str) -> ConfigError:
    return ConfigError(
        "a rule file of the sanitizer is wrong",
        code=CODE,
        where=where,
        why=why[0].upper() + why[1:] + ".",
        do="Correct it, or take it out of [guards.sanitizer] rules_files. Nothing was guarded yet.",
    )
