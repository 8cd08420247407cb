"""A result in the forms that a maintainer keeps: a table, Markdown, JUnit and a badge. Pure functions of the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from memguard.bench.conformance.findings import judge
from memguard.bench.integrity import score
from memguard.bench.integrity.cases import BY_ID
from memguard.bench.integrity.catalogue import DRAFT, SUITE

Suites = Sequence[Mapping[str, Any]]
_WIDTH = 110


def rows_of(suites: Suites) -> list[Mapping[str, Any]]:
    """All rows, in order."""
    return [row for suite in suites for row in suite["rows"]]


def _numbers(row: Mapping[str, Any]) -> str:
    if not row["evaluable"]:
        return f"not evaluable: {row['reason']}"
    of = sum(c["verdict"] != "N/A" and c["landed"] for k, c in row["cells"].items() if k in DRAFT)
    kept = sum(c["strict_verdict"] == "REJECTED" for k, c in row["cells"].items() if k in DRAFT)
    return f"metric {row['strict_metric']:.2f} ({kept} of {of} refused) · level {row['strict_level']}"


def _where(row: Mapping[str, Any]) -> str:
    alive = "" if row["stopped"] else ", edited under the running store"
    return f"{row['detection_point']} path{alive}; {row['witness']}"


def _head(row: Mapping[str, Any]) -> str:
    column = "guarded" if row["guarded"] else "bare"
    return f"{column} audit" if row["detection_point"] == "audit" else column


def table(suites: Suites) -> str:
    """The result for a terminal."""
    lines = [f"memguard conformance · suite {SUITE}"]
    for suite in suites:
        rows = suite["rows"]
        first = rows[0]
        versions = ", ".join(f"{k} {v}" for k, v in first["versions"].items())
        lines += [
            "",
            f"{suite['suite']} · {first['sut']} · {versions or 'no version stated'} · {first['backend']}",
        ]
        for row in rows:
            held = "  ".join(f"{n} {'ok' if c['ok'] else 'FAILED'}" for n, c in row["controls"].items())
            lines += [f"  {row['sut']}, {_where(row)}"[:_WIDTH], f"    controls  {held}"]
            failed = [f"{n}: {c['detail']}" for n, c in row["controls"].items() if not c["ok"]]
            lines += [f"      {line}"[:_WIDTH] for line in failed]
        cases = [k for k in first["cells"] if any(r["cells"][k]["verdict"] != "N/A" for r in rows)]
        heads = [_head(row) for row in rows]
        lines.append("    " + f"{'':56}" + "".join(f"{head:<12}" for head in heads).rstrip())
        for case in cases:
            words = "".join(f"{r['cells'][case]['strict_verdict']:<12}" for r in rows).rstrip()
            lines.append(f"    {case:<4}{BY_ID[case].plain[:50]:<52}{words}")
        lines += [f"    {row['sut']}: {_numbers(row)}" for row in rows]
    return "\n".join(lines)


def markdown(suites: Suites) -> str:
    """The result for a README or a job's summary."""
    lines = [f"### Memory integrity (memguard conformance, suite {SUITE})"]
    for suite in suites:
        rows = suite["rows"]
        names = [f"{r['sut']} ({r['detection_point']})" for r in rows]
        lines += ["", "| what the adversary did | " + " | ".join(names) + " |", "|---|" + "---|" * len(rows)]
        for case in rows[0]["cells"]:
            words = [r["cells"][case]["strict_verdict"] for r in rows]
            if any(word != "N/A" for word in words):
                lines.append(f"| {case}: {BY_ID[case].plain} | " + " | ".join(words) + " |")
        lines.append("| level | " + " | ".join(str(r["strict_level"]) for r in rows) + " |")
        lines += ["", *(f"- {r['sut']}: {_numbers(r)}; {_where(r)}" for r in rows)]
    return "\n".join(lines) + "\n"


def junit(suites: Suites) -> str:
    """The result for a CI: a suite a row, a test a case; an edit that nobody claims to refuse is skipped, and named."""
    parts = []
    for suite in suites:
        for row in suite["rows"]:
            parts.append(_testsuite(suite, row))
    body = "\n".join(parts)
    return f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites>\n{body}\n</testsuites>\n'


def _testsuite(suite: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    name = f"{row['sut']} {row['detection_point']}"
    tests, count = [], {"failure": 0, "skipped": 0, "error": 0}
    for control, held in row["controls"].items():
        body = "" if held["ok"] else f"<failure message={quoteattr(held['detail'])}/>"
        count["failure"] += not held["ok"]
        tests.append(_testcase(name, control, body))
    for case in row["cells"]:
        said = judge(row, case, suite["needs"], all_cases=row["guarded"])
        tag = {"kept": "", "finding": "failure", "astray": "error"}.get(said.kind, "skipped")
        count[tag] = count.get(tag, 0) + 1
        script = escape(row["cells"][case]["script"])
        body = f"<{tag} message={quoteattr(said.text)}>{script}</{tag}>" if tag else ""
        tests.append(_testcase(name, case, body))
    numbers = (
        f'tests="{len(tests)}" failures="{count["failure"]}" errors="{count["error"]}" '
        f'skipped="{count["skipped"]}"'
    )
    return f"<testsuite name={quoteattr(name)} {numbers}>\n" + "\n".join(tests) + "\n</testsuite>"


def _testcase(suite: str, name: str, body: str) -> str:
    return f"<testcase classname={quoteattr(suite)} name={quoteattr(name)}>{body}</testcase>"


_COLOURS = {"L0": "#b3261e", "L1": "#a15c00", "L2": "#7a6a00", "L3": "#2f6f3e", "L4": "#1a5f2e"}
_GREY = "#5f6368"
_LEFT = "memory integrity"


def badge(row: Mapping[str, Any]) -> str:
    """A badge of one row: its level and where its head is witnessed, one self-contained SVG."""
    level = str(row["strict_level"]).partition(" ")[0]
    known = level in _COLOURS
    right = f"{level} {str(row['witness']).partition(' ')[0]}" if known else score.NOT_EVALUABLE
    left_px, right_px = 7 * len(_LEFT) + 10, 7 * len(right) + 14
    whole = left_px + right_px
    text = f"{_LEFT}: {right}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="20" role="img" '
        f"aria-label={quoteattr(text)}>\n<title>{escape(text)} ({escape(str(row['sut']))})</title>\n"
        f'<rect width="{whole}" height="20" rx="3" fill="#3c4043"/>\n'
        f'<rect x="{left_px}" width="{right_px}" height="20" rx="3" fill="{_COLOURS.get(level, _GREY)}"/>\n'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">\n'
        f'<text x="{left_px / 2:g}" y="14">{_LEFT}</text>\n'
        f'<text x="{left_px + right_px / 2:g}" y="14">{escape(right)}</text>\n</g>\n</svg>\n'
    )
