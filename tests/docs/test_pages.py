"""Every marked block of every page runs and prints what the page says; the runner itself can fail."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUNNER = Path(__file__).with_name("run_page.py")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUNNABLE = [page for page in PAGES if "<!-- run" in page.read_text(encoding="utf-8")]
#: Pages that must keep at least one executed block.
EXECUTED = {"README.md", "docs/quickstart.md", "docs/integrations/langgraph.md"}


def run(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a page's blocks in a folder of its own, with no configuration of this user in reach."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("MEMGUARD_")}
    user, project = folder / "user", folder / "project"
    user.mkdir()
    project.mkdir()
    env |= {
        "HOME": str(user),
        "XDG_CONFIG_HOME": str(user / ".config"),
        "NO_COLOR": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    return subprocess.run(
        [sys.executable, str(RUNNER), str(page)],
        cwd=project,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs(page: Path, tmp_path: Path) -> None:
    done = run(page, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    blocks = runpy.run_path(str(RUNNER))["blocks"](page.read_text(encoding="utf-8"))
    assert done.stdout.endswith(f"{len(blocks)} blocks\n")
    markers = re.findall(r"^<!-- (?:run|prints|setup)\b", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(blocks) == len(markers), "a marker stands before something that is not a fenced block"


def test_the_pages_a_newcomer_reads_are_executed() -> None:
    assert EXECUTED <= {str(page.relative_to(ROOT)) for page in RUNNABLE}


@pytest.mark.parametrize(
    "text",
    [
        "<!-- run -->\n```python\nprint(1)\n```\n<!-- prints -->\n```text\n2\n```\n",
        "<!-- run -->\n```python\nprint(1)\n```\n<!-- prints -->\n```text\n1\n1\n```\n",
        "<!-- run -->\n```python\nraise ValueError\n```\n",
        "<!-- run -->\n```console\n$ false\n```\n",
        "<!-- run exit 1 -->\n```console\n$ true\n```\n",
        "<!-- run -->\n```console\n$ echo one\ntwo\n```\n",
        "<!-- run -->\n```console\n$ printf 'one\\ntwo\\n'\ntwo\none\n```\n",
        "<!-- run -->\n```console\necho forgot the prompt\n```\n",
    ],
)
def test_the_runner_refuses_a_wrong_page(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    assert run(page, tmp_path).returncode != 0


def test_the_runner_accepts_a_right_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- setup\nx = 20\n-->\n<!-- run -->\n```python\nprint(x + 1)\n```\n<!-- prints -->\n```text\n2…\n```\n"
        "<!-- run -->\n```python\nassert x == 20\n```\n"
        "<!-- run exit 3 -->\n```console\n$ echo a; echo b; exit 3\nb\n```\n",
        encoding="utf-8",
    )
    done = run(page, tmp_path)
    assert done.returncode == 0, done.stdout
    assert done.stdout == "5 blocks\n"
