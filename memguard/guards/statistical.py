"""The statistical tier of the sanitizer: hashed word stems and pairs of them, weighed by a logistic regression.

It scores the normalised copy (:mod:`memguard.guards.normal`). A text is cut into windows of 48 words that
overlap by half, and the highest window counts, so that an order in the middle of a long page is weighed like one
that stands alone. In a window every stem (the first six letters of a word) and every pair of neighbours is a
feature, once; its name is hashed by CRC-32, which is the same everywhere, and looked up among the signed 8-bit
weights. With ``w`` the weights found, ``n`` the features of the window, ``b`` the bias and ``s`` the scale,

    score = 1 / (1 + exp(-(b + s * sum(w) / sqrt(max(n, 16)))))   Cox, 1958; a number in [0, 1]

What a feature says that training never saw is nothing: it only lengthens the window. Addresses, encoded data and
keys become one word of their class each, digits are one digit. A window of fewer than four words of a language
scores 0, and one of few features is weighed as if it had sixteen: no word decides alone. The weights are of
languages in Latin letters, so a window that is mostly written in others scores 0.

bench/attack/train.py makes the weights; docs/model-card.md says from what, and how well they do.
Code MG250 is a weight file that is not the one this version was released with.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

from memguard.errors import TamperedError

BAD_WEIGHTS = "MG250"
#: The rule code of what scores above a threshold.
CODE = "MG251"
REASON = "worded like memories that were planted"
FORMAT = "memguard-statistical-1"
WEIGHTS = Path(__file__).with_name("statistical.bin")
#: SHA-256 of the file that belongs to this version.
DIGEST = "21cbb49b53cd5af0a5f05dbbba37571a0ed94e681a07adffe7e982dda0b5874b"
#: Words in a window, and from the start of one to the start of the next.
WINDOW, STRIDE = 48, 24
#: Characters that are scored unless ``[guards.limits] statistical_chars`` says otherwise.
MAX_CHARS = 4_000
STEM = 6
#: Fewer words of a language than this say nothing; fewer features count as this many, so that no single one decides.
LEAST_WORDS, LEAST_FEATURES = 4, 16

_MAIL = re.compile(r"[\w.+-]{1,64}@[\w.-]{1,100}")
_URL = re.compile(r"(?:https?://|www\.)\S{1,200}")
_PERCENT = re.compile(r"\S{0,400}%[0-9a-f]{2}\S{0,400}")
_BLOB = re.compile(r"[\w+/=-]{24,}|\b(?=[a-z]{0,30}\d)[\w+/=-]{12,}")
_WORD = re.compile(r"\x01[bmu]|[^\W_]+(?:'[a-z]+)?")
_LATIN = re.compile(r"[\x01a-z0-9]")
_DIGITS = str.maketrans("123456789", "000000000")


def words(text: str) -> list[str]:
    """The words of a normalised text: addresses and encoded data as one word each, every digit as 0."""
    if "@" in text:
        text = _MAIL.sub(" \x01m ", text)
    if "://" in text or "www." in text:
        text = _URL.sub(" \x01u ", text)
    if "%" in text:
        text = _PERCENT.sub(" \x01b ", text)
    found: list[str] = _WORD.findall(_BLOB.sub(" \x01b ", text).translate(_DIGITS))
    return found


def windows(text: str) -> Iterator[frozenset[int]]:
    """The features of every window of a normalised text; a window of other letters is left out."""
    found = words(text)
    last = max(0, len(found) - STRIDE)
    for start in range(0, max(1, last), STRIDE):
        part = found[start : start + WINDOW]
        said = len([word for word in part if word[0].isalpha()])
        if said >= LEAST_WORDS and 2 * len([word for word in part if _LATIN.match(word)]) > len(part):
            yield features(part)


def features(part: list[str]) -> frozenset[int]:
    """The features of one window: CRC-32 of each stem, and of each pair of neighbours."""
    stems = [word[:STEM] for word in part]
    names = {*stems, *map(" ".join, zip(["^", *stems], stems, strict=False))}
    return frozenset([crc32(name.encode("utf-8", "replace")) for name in names])


@dataclass(frozen=True, slots=True)
class Scorer:
    """Weights, and the thresholds that they were calibrated to.

    ``flag`` is the 1 % calibration and ``quarantine`` the 0.1 % one: scores above which at most so many honest
    memories of the worst kind that was tried lie.
    """

    weights: Mapping[int, int] = field(repr=False)
    bias: float
    scale: float
    flag: float
    quarantine: float
    max_chars: int = MAX_CHARS

    def score(self, text: str) -> float:
        """How much a normalised text is worded like planted ones, in [0, 1].

        Time is linear in ``max_chars``; of a longer text both ends are scored. Deterministic; keeps no state.
        """
        if len(text) > self.max_chars:
            half = self.max_chars // 2
            text = f"{text[:half]} {text[-half:]}"
        best = max((self.logit(window) for window in windows(text)), default=-math.inf)
        return 0.0 if best < -500 else 1.0 / (1.0 + math.exp(-best))

    def logit(self, window: frozenset[int]) -> float:
        """The same of one window, before it is squeezed into [0, 1]."""
        get = self.weights.get
        total = sum([get(feature, 0) for feature in window])
        return self.bias + self.scale * total / math.sqrt(max(len(window), LEAST_FEATURES))


def pack(header: Mapping[str, Any], weights: Mapping[int, int]) -> bytes:
    """The weight file: a line of JSON, then the features in rising order (big-endian), then their weights."""
    order = sorted(weights)
    head = json.dumps({**header, "format": FORMAT, "n": len(order)}, sort_keys=True).encode("ascii")
    return (
        head
        + b"\n"
        + struct.pack(f">{len(order)}I", *order)
        + array("b", [weights[key] for key in order]).tobytes()
    )


def unpack(content: bytes, max_chars: int = MAX_CHARS) -> Scorer:
    """The scorer in the bytes of a weight file.

    Raises:
        ValueError: they are none.
    """
    line, _, rest = content.partition(b"\n")
    header = json.loads(line)
    n = header["n"]
    if header["format"] != FORMAT or len(rest) != 5 * n:
        raise ValueError("not a weight file of this version")
    keys = struct.unpack(f">{n}I", rest[: 4 * n])
    values = array("b", rest[4 * n :])
    return Scorer(
        dict(zip(keys, values, strict=True)),
        bias=header["bias"],
        scale=header["scale"],
        flag=header["flag"],
        quarantine=header["quarantine"],
        max_chars=max_chars,
    )


@lru_cache(maxsize=8)
def load(max_chars: int = MAX_CHARS) -> Scorer:
    """The scorer of this version; the file is read on the first call, and checked.

    Raises:
        TamperedError: MG250, the file is missing or is not the one of this version.
    """
    try:
        content = WEIGHTS.read_bytes()
    except OSError:
        content = b""
    if hashlib.sha256(content).hexdigest() != DIGEST:
        raise TamperedError(
            "the weights of the statistical tier are not those of this version.",
            case="state",
            record=WEIGHTS.name,
            code=BAD_WEIGHTS,
            why="The file is missing or its digest differs from the one in the code.",
            do='Install memguard-middleware again; until then [guards.sanitizer] statistical = "off".',
        )
    return unpack(content, max_chars)
