"""Bounded decoding: what is written in base64, hexadecimal, escapes and the like, as text.

A decoded text is judged like a visible one. Only what decodes to readable text counts; a checksum, a key or a
picture does not. Limits: characters decoded in all, how deep an encoding may lie in another, pieces per text.
"""

from __future__ import annotations

import base64
import binascii
import html
import quopri
import re
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """How much is decoded of one text."""

    chars: int = 20_000
    depth: int = 3
    pieces: int = 32


@dataclass(frozen=True, slots=True)
class Piece:
    """A decoded text and the span, in the outermost text, that it stands for."""

    text: str
    span: tuple[int, int]


_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16,}(?:\r?\n[A-Za-z0-9+/_-]+)*={0,2}")
_BASE32 = re.compile(r"(?<![A-Z0-9])[A-Z2-7]{16,}={0,6}")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-f]{2}[ :]?){8,}(?![0-9A-Za-z])", re.IGNORECASE)
_BINARY = re.compile(r"(?:[01]{8}[ ,]?){4,}")
_CODES = re.compile(r"(?<!\d)(?:\d{2,3}[ ,]{1,2}){8,}\d{2,3}")
_ESCAPES = re.compile(
    r"(?:\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|u\{[0-9a-f]{1,6}\}|[0-3][0-7]{2})[^\\]{0,2}){4,}", re.IGNORECASE
)
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|u\{([0-9a-f]{1,6})\}|([0-3][0-7]{2}))", re.IGNORECASE
)
_QUOTED = re.compile(r"=[0-9A-F]{2}")
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_ENTITY = re.compile(r"&(?:#\d{2,7}|#x[0-9a-f]{2,6}|[a-z]{2,8});", re.IGNORECASE)
#: What a person searched for is no order.
_SEARCH = re.compile(r"[?&](?:q|query|s|search|k|keywords?|term)=[^&\s]*", re.IGNORECASE)
_FORM = re.compile(r"[?&][\w-]{1,30}=([^&\s]*(?:\+|%20)[^&\s]*)")
_A85 = re.compile(r"<~([!-uz\s]{16,}?)~>")
_B85 = re.compile(r"(?<!\S)[0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]{25,}(?!\S)")
_DIGIT = re.compile(r"\d")
_MORSE = re.compile(r"(?:[.-]{1,6}[ /]{1,3}){8,}[.-]{0,6}")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{6,}")
_ZERO_WIDTH = re.compile("[\u200b\u200c\u200d\u2060\ufeff]{16,}")

_MORSE_LETTERS = dict(
    zip(
        (
            ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- "
            "...- .-- -..- -.-- --.. "
            "----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----."
        ).split(),
        "abcdefghijklmnopqrstuvwxyz0123456789",
        strict=True,
    )
)


def decoded(text: str, budget: Budget = Budget()) -> Iterator[Piece]:
    """Every readable text that ``text`` holds in an encoding, and what those hold, within the budget."""
    queue = [(Piece(text, (0, len(text))), 0)]
    chars, pieces = budget.chars, budget.pieces
    seen = {text}
    while queue:
        outer, depth = queue.pop(0)
        if depth >= budget.depth:
            continue
        for plain, start, end in _once(outer.text):
            if plain in seen:
                continue
            if len(plain) > chars or pieces <= 0:
                return
            seen.add(plain)
            chars -= len(plain)
            pieces -= 1
            # Inside a decoded text a place means nothing outside: the piece stands for all of its encoding.
            piece = Piece(plain, (start, end) if depth == 0 else outer.span)
            queue.append((piece, depth + 1))
            yield piece


def _once(text: str) -> Iterator[tuple[str, int, int]]:
    """Decode each run once: plain text, start, end. Cheap looks first: most texts hold no encoding."""
    if text.count("%") >= 3 and len(_PERCENT.findall(text)) >= 3:
        yield from _whole(text, urllib.parse.unquote(_SEARCH.sub(" ", text), errors="replace"))
    if "=" in text:
        if "+" in text or "%20" in text:
            for match in _FORM.finditer(_SEARCH.sub(lambda m: " " * len(m.group()), text)):
                yield (
                    urllib.parse.unquote_plus(match.group(1), errors="replace"),
                    match.start(1),
                    match.end(1),
                )
        if text.count("=") >= 3:
            if len(_QUOTED.findall(text)) >= 3:
                yield from _whole(text, _unquoted(text))
    if "&" in text and _ENTITY.search(text):
        yield from _whole(text, html.unescape(text))
    if text.count("\\") >= 4:
        yield from _runs(_ESCAPES, text, _unescape)
    if len(max(text.split(), key=len, default="")) >= 16:
        for pattern, decode in _LONG:
            yield from _runs(pattern, text, decode)
    if len(_DIGIT.findall(text)) >= 8:
        for pattern, decode in _NUMBERS:
            yield from _runs(pattern, text, decode)
    if "<~" in text:
        yield from _runs(_A85, text, _from_ascii85)
    if text.count("-") + text.count(".") >= 12:
        yield from _runs(_MORSE, text, _from_morse)
    if not text.isascii():
        yield from _runs(_SELECTORS, text, _from_selectors)
        yield from _runs(_ZERO_WIDTH, text, _from_zero_width)


def _whole(text: str, plain: str) -> Iterator[tuple[str, int, int]]:
    if plain != text:
        yield plain, 0, len(text)


def _runs(
    pattern: re.Pattern[str], text: str, decode: Callable[[str], str | None]
) -> Iterator[tuple[str, int, int]]:
    for match in pattern.finditer(text):
        plain = decode(match.group())
        if plain:
            yield plain, match.start(), match.end()


def _readable(data: bytes) -> str | None:
    """The text that bytes spell, if a person could read it: UTF-8 or UTF-16, mostly letters and blanks."""
    if len(data) < 6:
        return None
    zeros = data[:64].count(0)
    encodings = ("utf-16-le", "utf-16-be") if zeros * 3 > len(data[:64]) else ("utf-8",)
    for encoding in encodings:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        good = sum(c.isalpha() or c in " ,.'\n+/=%_-" or c.isdigit() for c in text)
        letters = sum(c.isalpha() for c in text)
        if good >= 0.85 * len(text) and letters >= 0.4 * len(text):
            return text
    return None


def _from_base64(run: str) -> str | None:
    bare = re.sub(r"\s", "", run).rstrip("=")
    # Words, slugs and hexadecimal digests have no upper and lower case mixed with the rest.
    if bare.islower() or bare.isupper() or bare.isdigit():
        return None
    plain = _try64(bare)
    if plain is None and "\n" in run:
        plain = _try64(run.split("\n", 1)[0].strip())
    return plain


def _try64(bare: str) -> str | None:
    bare = bare.replace("-", "+").replace("_", "/")
    try:
        return _readable(base64.b64decode(bare + "=" * (-len(bare) % 4)))
    except (binascii.Error, ValueError):
        return None


def _unquoted(text: str) -> str:
    return quopri.decodestring(text.encode("utf-8", "replace")).decode("utf-8", "replace")


def _from_base32(run: str) -> str | None:
    bare = run.rstrip("=")
    try:
        return _readable(base64.b32decode(bare + "=" * (-len(bare) % 8)))
    except (binascii.Error, ValueError):
        return None


def _from_hex(run: str) -> str | None:
    try:
        return _readable(bytes.fromhex(re.sub(r"[ :]", "", run)))
    except ValueError:
        return None


def _from_binary(run: str) -> str | None:
    bits = re.sub(r"[ ,]", "", run)
    return _readable(bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits) - 7, 8)))


def _from_codes(run: str) -> str | None:
    codes = [int(part) for part in re.findall(r"\d{2,3}", run)]
    return _readable(bytes(codes)) if all(code < 256 for code in codes) else None


def _from_ascii85(run: str) -> str | None:
    try:
        return _readable(base64.a85decode(run, adobe=True))
    except ValueError:
        return None


def _from_base85(run: str) -> str | None:
    if run.isalnum():
        return None
    try:
        return _readable(base64.b85decode(run))
    except ValueError:
        return None


def _from_morse(run: str) -> str | None:
    words = [[_MORSE_LETTERS.get(letter, "") for letter in word.split()] for word in run.split("/")]
    text = " ".join("".join(word) for word in words).strip()
    return text if len(text) >= 8 else None


def _unescape(run: str) -> str | None:
    # Escapes below 256 are bytes of UTF-8 when they spell such; others are code points.
    values = [int(a or b or c, 16) if (a or b or c) else int(d, 8) for a, b, c, d in _ESCAPE.findall(run)]
    if all(value < 256 for value in values) and (text := _readable(bytes(values))):
        return text
    return _ESCAPE.sub(_point, run)


def _point(match: re.Match[str]) -> str:
    a, b, c, d = match.groups()
    value = int(a or b or c, 16) if (a or b or c) else int(d, 8)
    return chr(value) if value < 0x110000 else " "


def _from_selectors(run: str) -> str | None:
    return _readable(
        bytes(ord(c) - 0xFE00 if ord(c) < 0xFE10 else ord(c) - 0xE0100 + 16 for c in run if ord(c) < 0xE01F0)
    )


def _from_zero_width(run: str) -> str | None:
    first, second = "\u200b", "\u200c" if "\u200c" in run else "\u200d"
    for zero, one in ((first, second), (second, first)):
        bits = "".join("0" if c == zero else "1" for c in run if c in (zero, one))
        if len(bits) >= 48 and (text := _from_binary(bits)):
            return text
    return None


_Decoders = tuple[tuple[re.Pattern[str], Callable[[str], str | None]], ...]
#: Encodings that are one long word, and encodings that are digits.
_LONG: _Decoders = ((_BASE64, _from_base64), (_BASE32, _from_base32), (_B85, _from_base85))
_NUMBERS: _Decoders = ((_HEX, _from_hex), (_BINARY, _from_binary), (_CODES, _from_codes))
