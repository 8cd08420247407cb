"""The commands: a suite that is written runs, its result is recounted, and each way to fail has its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

LEAKY = """
from pathlib import Path
import pytest
from memguard.testing.conformance import StoreConformance
import importlib.util, sys
spec = importlib.util.spec_from_file_location("template", Path(__file__).with_name("template_suite.py"))
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)

class TestClaims(StoreConformance):
    claims = "L1"
    guarded = False

    @pytest.fixture
    def subject(self):
        return module.NotesSubject
"""


def memguard(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    code = "from memguard.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=300
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    done = memguard("conformance", "init", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_the_template_runs_and_every_form_says_the_same(project: Path) -> None:
    files = ("--json", "r.json", "--junit", "r.xml", "--md", "r.md", "--badge", "b.svg")
    cases = ("--case", "T1", "--case", "T4", "--case", "T9")
    done = memguard("conformance", "run", "tests/test_memory_store.py", *cases, *files, cwd=project)
    assert done.returncode == 0, done.stderr
    document = json.loads((project / "r.json").read_text())
    assert document["exit"] == {"code": 0, "reason": ""}
    words = {
        row["sut"]: [row["cells"][c]["strict_verdict"] for c in ("T1", "T4", "T9")]
        for row in document["rows"]
    }
    assert words == {"notes-file": ["ACCEPTED"] * 3, "notes-file+memguard": ["REJECTED"] * 3}
    assert memguard("bench", "verify", "r.json", cwd=project).returncode == 0
    suites = ET.parse(project / "r.xml").getroot().findall("testsuite")
    assert [suite.attrib["failures"] for suite in suites] == ["0", "0"]
    assert (
        "| T9: put an older copy of all they hold back | ACCEPTED | REJECTED |"
        in (project / "r.md").read_text()
    )
    assert ET.parse(project / "b.svg").getroot().attrib["aria-label"].startswith("memory integrity: L")
    assert "T9  put an older copy of all they hold back" in done.stdout


def test_a_claim_that_is_not_kept_fails_in_both_runners(project: Path) -> None:
    suite = project / "tests" / "test_claims.py"
    (project / "tests" / "test_memory_store.py").rename(project / "tests" / "template_suite.py")
    suite.write_text(LEAKY)
    done = memguard("conformance", "run", suite, "--case", "T1", "--case", "T2", cwd=project)
    assert done.returncode == 1
    [line] = [line for line in done.stderr.splitlines() if line.startswith("notes-file")]
    assert line.startswith("notes-file T1")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", str(suite)]
    own = subprocess.run(words, cwd=project, capture_output=True, text=True, timeout=300)
    assert own.returncode == 1
    last = own.stdout.strip().splitlines()[-1]
    assert "3 failed" in last  # T1, T3 and T5 are claimed by L1
    assert "xfailed" in last
    assert "skipped" in last


def test_nothing_is_written_over_without_being_told(project: Path) -> None:
    file = project / "tests" / "test_memory_store.py"
    file.write_text("mine")
    done = memguard("conformance", "init", cwd=project)
    assert (done.returncode, "MG620" in done.stderr, file.read_text()) == (2, True, "mine")
    assert memguard("conformance", "init", "--force", cwd=project).returncode == 0
    assert "StoreConformance" in file.read_text()


@pytest.mark.parametrize(
    ("text", "code"), [("def test_other():\n    pass\n", "MG622"), ("import no_such_module_here\n", "MG623")]
)
def test_a_file_without_a_suite_and_one_that_breaks_are_told_apart(
    tmp_path: Path, text: str, code: str
) -> None:
    (tmp_path / "test_it.py").write_text(text)
    done = memguard("conformance", "run", "test_it.py", cwd=tmp_path)
    assert (done.returncode, code in done.stderr) == (2, True), done.stderr


def test_an_unknown_case_is_a_mistake_of_usage(project: Path) -> None:
    done = memguard("conformance", "run", "tests/test_memory_store.py", "--case", "T99", cwd=project)
    assert (done.returncode, "T99" in done.stderr) == (2, True)
