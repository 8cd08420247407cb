"""Letters that look like others, in words that mix scripts.

A word of one script is honest whatever it looks like, so Cyrillic and Greek text is never touched. In a word that
mixes scripts, lookalikes become letters of the script that the word's other letters belong to: a Latin word
with Cyrillic letters becomes Latin, a Russian word with Latin letters becomes Russian.
"""

from __future__ import annotations

import re

# Lower case, because it is applied to the normalised copy. One letter stands for one letter.
_CYRILLIC = dict(zip("асеорхуіјѕԁһӏвкмнтгѵԛԝьпиг", "aceopxyijsdhlbkmhtrvqwbnur", strict=True))
_CYRILLIC |= {
    "в": "b",
    "н": "h",
    "т": "t",
    "м": "m",
    "к": "k",
    "г": "r",
    "ё": "e",
    "ї": "i",
    "ү": "y",
    "ғ": "f",
}
_GREEK = dict(zip("ονιαερτυκχγηωβμνς", "oviaeptukxynwbuvs", strict=True))
_GREEK |= {
    "ν": "v",
    "ρ": "p",
    "η": "n",
    "ϲ": "c",
    "σ": "o",
    "μ": "u",
    "δ": "d",
    "ζ": "z",
    "φ": "f",
    "λ": "l",
    "θ": "o",
    "π": "n",
}
_OTHER = dict(zip("օսոցհւաɑɡıɩʟⲟᴏօ", "ounghiaagiiloooo"[:15], strict=True))
_SMALL = dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘǫʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnopqrstuvwyz", strict=True))
_TO_LATIN = str.maketrans({**_CYRILLIC, **_GREEK, **_OTHER, **_SMALL})
_TO_CYRILLIC = str.maketrans(
    {
        "a": "а",
        "c": "с",
        "e": "е",
        "o": "о",
        "p": "р",
        "x": "х",
        "y": "у",
        "k": "к",
        "b": "в",
        "h": "н",
        "t": "т",
        "m": "м",
    }
)
_SMALL_CAPS = str.maketrans(_SMALL)
_IS_SMALL = re.compile("[" + "".join(_SMALL) + "]")

#: A run of letters that holds one outside ASCII. (No digits: "5g-сети" mixes nothing.)
_WORD = re.compile(r"[^\W\d_]{2,}")
_LATIN = re.compile(r"[a-z\u00df-\u024f]")
_FOREIGN = re.compile("[\u0370-\u03ff\u0400-\u052f\u0530-\u058f\u2c80-\u2cffɑɡɩʟ]")
#: Cyrillic letters that no Latin one looks like: they say which script the word is written in.
_ONLY_CYRILLIC = re.compile("[бджзийлфцчшщъыэюя]")
#: Letters of living scripts that look like no Latin one: a text that has them is written in that script too.
_ONLY_FOREIGN = re.compile("[бджзийлфцчшщъыэюяξψωγδθλπφ]")
_FOREIGN_WORD = re.compile("[\u0370-\u03ff\u0400-\u052f\u0530-\u058f\u2c80-\u2cffɑɡɩʟ]+")


def unmix(copy: str) -> str:
    """The copy with lookalikes resolved in words that mix scripts. Keeps every position."""
    if copy.isascii():
        return copy
    if _IS_SMALL.search(copy):
        copy = copy.translate(_SMALL_CAPS)
    if not (_FOREIGN.search(copy) and _LATIN.search(copy)):
        return copy
    mixed = False

    def resolve(match: re.Match[str]) -> str:
        nonlocal mixed
        word = match.group()
        if word.isascii() or not _LATIN.search(word) or not _FOREIGN.search(word):
            return word
        if _ONLY_CYRILLIC.search(word):
            return word.translate(_TO_CYRILLIC)
        mixed = True
        return word.translate(_TO_LATIN)

    copy = _WORD.sub(resolve, copy)
    if mixed or not _ONLY_FOREIGN.search(copy):
        # Beside mixed words, or in a text that is Latin otherwise, a word all of lookalikes ("асе") is one of them.
        copy = _FOREIGN_WORD.sub(lambda m: _whole(m.group()), copy)
    return copy


def _whole(word: str) -> str:
    if word.isascii() or _ONLY_CYRILLIC.search(word):
        return word
    latin = word.translate(_TO_LATIN)
    return latin if latin.isascii() else word
