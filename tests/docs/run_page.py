"""Execute the marked blocks of one documentation page, in order, in the current folder.

A block counts when the line before its fence is a marker (an HTML comment, so that
neither GitHub nor mkdocs shows it):

    <!-- run -->      python: executed, all blocks of a page in one namespace
                      console: each line that starts with "$ " is run by the shell and
                      must exit 0; ``<!-- run exit 1 -->`` expects another code. Lines
                      under a command must be a part of its output, in that order.
    <!-- prints -->   text: must equal what the Python block before it printed
    <!-- setup        Python up to the end of the comment: what the page takes for granted

``…`` in expected text stands for anything within the line: ids, dates, paths.
Usage: ``python run_page.py PAGE``; exits 1 with the block and the difference.
"""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

MARKED = re.compile(
    r"^<!-- (?P<mark>run(?: exit (?P<code>\d+))?|prints) -->\n+```(?P<lang>\w+)\n(?P<body>.*?)^```$"
    r"|^<!-- setup\n(?P<setup>.*?)^-->$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A marked block: what to do with it, its text, and its line in the page."""

    mark: str
    language: str
    body: str
    line: int
    code: int = 0


def blocks(text: str) -> list[Block]:
    """The marked blocks of a page, in order."""
    found = []
    for match in MARKED.finditer(text):
        part = "setup" if match["setup"] is not None else "body"
        line = text.count("\n", 0, match.start(part)) + 1
        mark, language = ("run", "python") if part == "setup" else (match["mark"].split()[0], match["lang"])
        found.append(Block(mark, language, match[part], line, int(match["code"] or 0)))
    return found


def matches(expected: str, line: str) -> bool:
    """Whether an expected line, with ``…`` as a wildcard, equals a line of output."""
    pattern = ".*".join(re.escape(part) for part in expected.rstrip().split("…"))
    return re.fullmatch(pattern, line.rstrip()) is not None


def missing(expected: list[str], output: list[str]) -> str | None:
    """The first expected line that does not follow, in order, in the output; columns may be of any width."""
    rest = iter(" ".join(line.split()) for line in output)
    for wanted in expected:
        if wanted.strip() and not any(matches(" ".join(wanted.split()), line) for line in rest):
            return wanted
    return None


def run_console(block: Block) -> None:
    """Run a console block's commands; raise AssertionError on another exit code or output."""
    steps: list[tuple[str, list[str]]] = []
    for line in block.body.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        elif steps:
            steps[-1][1].append(line)
    assert steps, f"line {block.line}: a console block without a '$ ' line proves nothing"
    for command, expected in steps:
        done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120, check=False)
        shown = done.stdout + done.stderr
        assert done.returncode == block.code, (
            f"line {block.line}: `{command}` exited {done.returncode}, not {block.code}:\n{shown}"
        )
        lost = missing(expected, shown.splitlines())
        assert lost is None, f"line {block.line}: `{command}` did not print {lost!r}. It printed:\n{shown}"


def run_page(page: Path) -> int:
    """Execute a page. Returns the number of blocks executed.

    Raises:
        AssertionError: a block failed, or printed something else than the page says.
    """
    namespace: dict[str, object] = {"__name__": "__page__"}
    printed: str | None = None
    done = 0
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.mark == "prints":
            assert printed is not None, f"line {block.line}: nothing ran before this output"
            shown, wanted = printed.splitlines(), block.body.splitlines()
            same = len(shown) == len(wanted) and all(map(matches, wanted, shown))
            assert same, f"line {block.line}: the page says\n{block.body}\nbut it printed\n{printed}"
            printed = None
        elif block.language == "python":
            out = io.StringIO()
            # Padding keeps the page's own line numbers in tracebacks.
            code = compile("\n" * (block.line - 1) + block.body, str(page), "exec", dont_inherit=True)
            with contextlib.redirect_stdout(out):
                exec(code, namespace)
            printed = out.getvalue()
        elif block.language == "console":
            run_console(block)
        else:
            raise AssertionError(f"line {block.line}: a {block.language} block cannot be run")
        done += 1
    return done


if __name__ == "__main__":
    try:
        count = run_page(Path(sys.argv[1]).resolve())
    except AssertionError as error:
        print(f"{sys.argv[1]}: {error}")
        raise SystemExit(1) from None
    print(f"{count} blocks")
