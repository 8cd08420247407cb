"""The table at the end: one line per edit, in plain words, bare and guarded side by side, 110 columns at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

WIDTH = 110
_COLUMN = 9
_RUNGS = ("", "@anchor-held", ":head-beside", ":chain", ":tag")
_HEADS = {"": "guarded", "@anchor-held": "anchor", ":head-beside": "head", ":chain": "chain", ":tag": "tags"}
_HEADS2 = {"": "", "@anchor-held": "held too", ":head-beside": "beside", ":chain": "only", ":tag": "only"}
_WHAT: dict[str | None, str] = {
    None: "without a guard",
    "": "tags, chain and head, the head in an anchor elsewhere",
    "@anchor-held": "the same",
    ":head-beside": "the same, but the head beside the store",
    ":chain": "tags and chain, no head",
    ":tag": "tags, no chain, no head",
}
Row = Mapping[str, Any]

WORDS = (
    "REJECTED: the read was refused with an integrity error and nothing edited was served.",
    "ACCEPTED: the edit was served as genuine memory (or what is missing was not missed).",
    "REPORTED: served, with a signal (read), or named by the audit only (audit; counts half).",
    "N/A: this store cannot express the edit; it is left out of the metric and never a pass.",
    "ERROR: stopped by an exception that is no integrity error, or the edit did not land; no pass.",
)


def base_of(sut: str) -> str:
    """The bare SUT's name."""
    return sut.split("+")[0].split("@")[0].split(":")[0]


def _suffix(sut: str) -> str | None:
    """``None`` for a bare SUT, else what follows ``+memguard``."""
    return sut.partition("+memguard")[2] if "+memguard" in sut else None


def columns(made: Sequence[Row], base: str) -> list[Row]:
    """The read rows of one base, bare first, then from the strongest mechanism down."""
    mine = [r for r in made if base_of(r["sut"]) == base and r["detection_point"] == "read" and r["stopped"]]
    order: dict[str | None, int] = {None: -1, **{s: i for i, s in enumerate(_RUNGS)}}
    return sorted(mine, key=lambda r: order.get(_suffix(r["sut"]), 99))


def render(document: Mapping[str, Any]) -> str:
    """The whole report as plain text."""
    made: list[Row] = document["rows"]
    blocks = [_header(document)]
    for base in dict.fromkeys(base_of(r["sut"]) for r in made):
        blocks.append(_block(document, base, made))
    audits = [r for r in made if r["detection_point"] == "audit"]
    if audits:
        blocks.append(_audits(audits))
    alive = [r for r in made if not r["stopped"]]
    if alive:
        blocks.append(_alive(alive))
    blocks.append("\n".join(_fit(line) for line in ("How to read this", *(f"  {w}" for w in WORDS))))
    blocks.append(_sentence(made))
    return "\n\n".join(blocks)


def _fit(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def _header(document: Mapping[str, Any]) -> str:
    tool = document["tool"]
    return (
        f"memguard bench integrity · suite {tool['suite']} · {document['date']}\n"
        "Somebody who may edit the store, but has no key, makes one edit while the agent is stopped.\n"
        "Then the agent starts again and reads. What does it get?"
    )


def _block(document: Mapping[str, Any], base: str, made: Sequence[Row]) -> str:
    rows = columns(made, base)
    first = rows[0]
    versions = ", ".join(f"{k} {v}" for k, v in first["versions"].items() if k != "memguard-middleware")
    space = min(WIDTH - 5 - _COLUMN * len(rows), 64)
    lines = [base, _fit(f"     {versions}"), _fit(f"     {first['backend']}"), ""]
    heads = [("bare", "") if _suffix(r["sut"]) is None else _head(_suffix(r["sut"]) or "") for r in rows]
    for at, title in ((0, "what the adversary did"), (1, "")):
        line = " " * 5 + f"{title:<{space}}" + "".join(f"{h[at]:<{_COLUMN}}" for h in heads)
        if line.strip():
            lines.append(line.rstrip())
    for case, about in document["cases"].items():
        verdicts = [r["cells"][case]["strict_verdict"] if r["evaluable"] else "-" for r in rows]
        if all(v == "N/A" for v in verdicts):
            continue
        if case == "X01":
            lines.append("     beyond the draft:")
        text = _fit(f"{about['edit']}")[: space - 1]
        lines.append((f"{case:<5}{text:<{space}}" + "".join(f"{v:<{_COLUMN}}" for v in verdicts)).rstrip())
    lines += [""] + [_total(title, rows, space, key) for title, key in _TOTALS]
    lines += ["", *(_fit(f"  {_label(r)}: {_what(r)}; the adversary holds {_holds(r)}") for r in rows)]
    skipped = [c for c in document["cases"] if all(r["cells"][c]["verdict"] == "N/A" for r in rows)]
    reasons: dict[str, list[str]] = {}
    for case in skipped:
        reasons.setdefault(first["cells"][case]["detail"], []).append(case)
    lines += [_fit(f"  N/A here: {' '.join(cases)}: {reason}") for reason, cases in reasons.items()]
    return "\n".join([*lines, *_absences(rows, skipped), *_differences(rows), *_failures(rows)])


_TOTALS = (
    ("metric T1-T9, strict", "strict_metric"),
    ("metric T1-T9, the draft's reading", "metric"),
    ("level L0-L4, strict", "strict_level"),
    ("level L0-L4, the draft's reading", "level"),
    ("edits served as genuine, T and X", "strict_accepted"),
)


def _head(suffix: str) -> tuple[str, str]:
    return (_HEADS.get(suffix, "guarded"), _HEADS2.get(suffix, suffix[: _COLUMN - 1]))


def _label(row: Row) -> str:
    suffix = _suffix(row["sut"])
    if suffix is None:
        return "bare"
    return " ".join(word for word in _head(suffix) if word)


def _total(title: str, rows: Sequence[Row], space: int, key: str) -> str:
    def show(row: Row) -> str:
        value = row[key]
        if value is None or not row["evaluable"]:
            return "void"
        if isinstance(value, float):
            return f"{value:.2f}"
        return str(value).split(" ")[0] if key.endswith("level") else str(value)

    return (f"     {title:<{space}}" + "".join(f"{show(r):<{_COLUMN}}" for r in rows)).rstrip()


def _what(row: Row) -> str:
    return _WHAT.get(_suffix(row["sut"]), "guarded")


def _holds(row: Row) -> str:
    return ", ".join(row["adversary_holds"])


def _absences(rows: Sequence[Row], skipped: Sequence[str]) -> list[str]:
    """Cells that are N/A in one guarded column though not in all."""
    found = []
    for row in rows:
        reasons: dict[str, list[str]] = {}
        for case, cell in row["cells"].items():
            if row["guarded"] and cell["verdict"] == "N/A" and case not in skipped:
                reasons.setdefault(cell["detail"], []).append(case)
        found += [_fit(f"  {_label(row)}: N/A: {' '.join(cases)}: {why}") for why, cases in reasons.items()]
    return found


def _differences(rows: Sequence[Row]) -> list[str]:
    """Cells that the draft's reading and the strict one see differently."""
    found = []
    for row in rows:
        by_pair: dict[tuple[str, str], list[str]] = {}
        for case, cell in row["cells"].items():
            if cell["verdict"] != cell["strict_verdict"] and row["evaluable"]:
                by_pair.setdefault((cell["verdict"], cell["strict_verdict"]), []).append(case)
        for (loose, hard), cases in by_pair.items():
            which = " ".join(cases)
            found.append(
                _fit(f"  {_label(row)}: the draft's reading of {which} is {loose}, the strict one {hard}")
            )
    return found


def _failures(rows: Sequence[Row]) -> list[str]:
    """Controls that failed; nothing is more important to see."""
    found = []
    for row in rows:
        if not row["evaluable"]:
            found.append(
                _fit(f"  {_label(row)}: NOT EVALUABLE, no number of it counts: CONTROL {row['reason']}")
            )
            continue
        for name, control in row["controls"].items():
            if name == "C4" and not control["ok"]:
                found.append(
                    _fit(
                        f"  {_label(row)}: FALSE ALARM on an ordinary day of writing (C4): {control['detail']}"
                    )
                )
            elif not control["ok"]:
                extra = f" ({', '.join(control['failed'])})" if control.get("failed") else ""
                found.append(_fit(f"  {_label(row)}: CONTROL {name} FAILED: {control['detail']}{extra}"))
        suffix = [row[k] for k in ("level", "strict_level") if "(" in str(row[k])]
        if suffix:
            found.append(_fit(f"  {_label(row)}: level in full: {suffix[0]}"))
    return found


def _audits(rows: Sequence[Row]) -> str:
    lines = ["The same edits, looked for by the audit command only (a REPORTED there counts half)", ""]
    for row in rows:
        cells = row["cells"].values()
        seen = sum(c["strict_verdict"] == "REPORTED" for c in cells)
        of = sum(c["verdict"] != "N/A" for c in cells)
        missed = [k for k, c in row["cells"].items() if c["strict_verdict"] in ("ACCEPTED", "ERROR")]
        value = "not evaluable" if row["strict_metric"] is None else f"metric {row['strict_metric']:.2f}"
        tail = f", not: {' '.join(missed)}" if missed else ""
        lines.append(_fit(f"  {row['sut']}: {value}, {seen} of {of} edits REPORTED{tail}"))
    return "\n".join(lines)


def _alive(rows: Sequence[Row]) -> str:
    lines = ["For comparison only, the edit made under the running process (not the metric)", ""]
    for row in rows:
        value = "not evaluable" if row["strict_metric"] is None else f"{row['strict_metric']:.2f}"
        served = [k for k, c in row["cells"].items() if c["strict_verdict"] == "ACCEPTED"]
        tail = f", ACCEPTED: {' '.join(served)}" if served else ""
        lines.append(_fit(f"  {row['sut']}: {value}{tail}"))
    return "\n".join(lines)


def _sentence(rows: Sequence[Row]) -> str:
    """One sentence made from the rows by rule."""
    read = [r for r in rows if r["detection_point"] == "read" and r["stopped"]]
    if any(not r["evaluable"] for r in read):
        return "At least one row is not evaluable: its controls failed, and no number of it means anything."
    bare = [r for r in read if not r["guarded"]]
    guarded = [r for r in read if r["guarded"] and _suffix(r["sut"]) == ""]
    parts = []
    if bare:
        worst = sum(r["strict_accepted"] for r in bare)
        of = sum(c["verdict"] != "N/A" for r in bare for c in r["cells"].values())
        parts.append(f"bare stores served {worst} of {of} edits as genuine memory")
    if guarded:
        worst = sum(r["strict_accepted"] for r in guarded)
        of = sum(c["verdict"] != "N/A" for r in guarded for c in r["cells"].values())
        parts.append(f"guarded ones served {worst} of {of}")
    return ("In one sentence: " + "; ".join(parts) + ".") if parts else "In one sentence: see the rows above."
