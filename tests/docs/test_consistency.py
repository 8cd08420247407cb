"""What the pages say about the code is what the code says: help, codes, settings, names, links, installs."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "SECURITY.md",
    ROOT / "CONTRIBUTING.md",
]
TEXTS = [*(page for page in PAGES if page.exists()), *sorted((ROOT / "examples").glob("*.py"))]
REFRESH = runpy.run_path(str(Path(__file__).with_name("refresh.py")))
CODE = re.compile(r"\bMG\d{3}\b")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", REFRESH["pages_with_parts"](), ids=name)
def test_generated_parts_are_current(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert REFRESH["refreshed"](text) == text, "python tests/docs/refresh.py writes it anew"


def test_every_part_is_on_a_page_and_holds_something() -> None:
    joined = "".join(page.read_text(encoding="utf-8") for page in REFRESH["pages_with_parts"]())
    for part, make in REFRESH["PARTS"].items():
        assert f"<!-- generated: {part} -->" in joined
        if part != "overhead" or (REFRESH["RESULTS"] / "overhead.json").exists():
            assert len(make().strip().splitlines()) > 3, f"{part} is an empty table"


def test_the_published_result_is_recounted_and_of_the_versions_that_are_measured() -> None:
    from memguard.bench.integrity.verify import verify

    path = ROOT / "docs" / "results" / "integrity.json"
    found = verify(path)
    assert found.ok, [str(reason) for reason in found.rejections]
    assert found.rows >= 6
    known = tomllib.loads((ROOT / "tests" / "measured_versions.toml").read_text(encoding="utf-8"))
    for row in REFRESH["result"]("integrity")["rows"]:
        stated = {n: v for n, v in row["versions"].items() if n in known}
        assert stated
        assert stated == {n: known[n]["version"] for n in stated}, "measure again, then refresh the pages"


def test_the_help_does_not_depend_on_what_ran_before() -> None:
    """A command called without its root, as a test may do, remembers a help option without -h."""
    from click.testing import CliRunner

    from memguard.bench.cli import bench

    before = REFRESH["helps"]()
    for command in (bench, *bench.commands.values()):
        command._help_option = None
        assert CliRunner().invoke(command, ["--help"]).exit_code == 0
    assert REFRESH["helps"]() == before
    assert before.count("-h, --help") == before.count("## memguard")


def test_the_shown_help_is_what_the_command_prints() -> None:
    """The generator must not have its own idea of the help: compare with the installed program."""
    shown = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for command in (["memguard"], ["memguard", "audit"], ["memguard", "keys", "rotate"]):
        done = subprocess.run(
            [sys.executable, "-c", "from memguard.cli import main; main()", *command[1:], "--help"],
            capture_output=True,
            text=True,
            env={"COLUMNS": "102", "PATH": "", "NO_COLOR": "1", "LANG": "C.UTF-8"},
            timeout=60,
            check=True,
        )
        text = "\n".join(line.rstrip() for line in done.stdout.splitlines())
        assert text.strip() in shown, f"{' '.join(command)} --help is not on the page"


def test_every_code_on_a_page_exists() -> None:
    from memguard.cli.explain import pages

    for text in TEXTS:
        unknown = set(CODE.findall(text.read_text(encoding="utf-8"))) - set(pages())
        assert not unknown, f"{name(text)} names {sorted(unknown)}, which memguard explain does not know"


def test_every_command_on_a_page_exists() -> None:
    """``memguard VERB`` in a console block or in backticks names a command that is there."""
    known = {
        path
        for path, _ in REFRESH["commands"](__import__("memguard.cli.app", fromlist=["cli"]).cli, "memguard")
    }
    groups = {path.rpartition(" ")[0] for path in known if path.count(" ") > 1}
    for page in PAGES:
        if not page.exists():
            continue
        for line in re.findall(
            r"(?:^\$ |`)(memguard [a-z][^`\n#]*)", page.read_text(encoding="utf-8"), re.MULTILINE
        ):
            tokens = line.split()
            path = " ".join(tokens[:2])
            assert path in known, f"{name(page)}: {line}"
            if path in groups and len(tokens) > 2 and re.fullmatch(r"[a-z]+", tokens[2]):
                assert " ".join(tokens[:3]) in known, f"{name(page)}: {line}"


def test_every_error_class_is_in_the_drawn_tree() -> None:
    from memguard import errors

    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    tree = page[page.index("```text") : page.index("```", page.index("```text") + 3)]
    drawn = re.findall(r"\b\w+Error\b", tree)
    exist = [
        cls.__name__
        for cls in vars(errors).values()
        if isinstance(cls, type) and issubclass(cls, errors.MemguardError)
    ]
    assert sorted(drawn) == sorted(exist)


def test_no_page_installs_the_other_project() -> None:
    """The bare name on the index is somebody else's; ours is always followed by "-middleware"."""
    wrong = re.compile(
        r"(?:pip|uv|pipx|poetry)[^\n]*\b(?:install|add)\b[^\n]*[\s'\"]memguard(?![-\w./])", re.IGNORECASE
    )
    assert wrong.search("pip install memguard")
    assert wrong.search("uv add 'memguard[langgraph]'")
    assert not wrong.search("pip install 'memguard-middleware[langgraph]'")
    for text in TEXTS:
        found = wrong.search(text.read_text(encoding="utf-8"))
        assert found is None, f"{name(text)}: {found and found.group()}"


def test_relative_links_lead_somewhere() -> None:
    for page in PAGES:
        if not page.exists():
            continue
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", text):
            assert (page.parent / target).exists(), f"{name(page)} links to {target}"


def test_every_decision_record_is_in_the_index() -> None:
    folder = ROOT / "docs" / "adr"
    index = (folder / "index.md").read_text(encoding="utf-8")
    records = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert records
    assert sorted(set(re.findall(r"\((\d{4}-[\w-]+\.md)\)", index))) == records
    numbers = [record[:4] for record in records]
    assert len(numbers) == len(set(numbers)), "two records share a number"


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="the docs tools are not installed (make docs)")
def test_the_site_builds_strictly(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--quiet",
            "--site-dir",
            str(tmp_path / "site"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "index.html").exists()


def test_the_pages_say_where_a_configuration_is_looked_for(tmp_path: Path) -> None:
    """Every place that is looked at is on the page, and a folder above is none."""
    from memguard.config import discover

    below = tmp_path / "project" / "below"
    below.mkdir(parents=True)
    (tmp_path / "project" / "memguard.toml").write_text("")
    assert tmp_path not in [parent for path in discover(below) for parent in path.parents]
    page = (ROOT / "docs" / "integrations" / "langgraph.md").read_text(encoding="utf-8")
    for place in ("./memguard.toml", "./.memguard/memguard.toml", "./pyproject.toml", "user file"):
        assert place in page
    assert "upwards" not in page


def test_every_install_of_ours_has_the_one_from_a_clone_before_it() -> None:
    """As long as no index has the distribution, the line that works stands first."""
    for page in (
        ROOT / "README.md",
        ROOT / "docs" / "quickstart.md",
        ROOT / "docs" / "integrations" / "langgraph.md",
    ):
        lines = page.read_text(encoding="utf-8").splitlines()
        published = [
            n for n, line in enumerate(lines) if line.startswith("$ pip install 'memguard-middleware")
        ]
        assert published, name(page)
        assert all(lines[n - 1].startswith("$ pip install '.[langgraph]'") for n in published), name(page)
