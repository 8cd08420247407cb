"""The floors of the design: an import only ever goes down, and the core knows no framework."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FRAMEWORKS = {
    *("langgraph", "langchain", "langchain_core", "mem0", "letta", "letta_client", "agents", "openai"),
    *("llama_index", "mcp", "qdrant_client", "psycopg", "numpy", "scipy", "torch", "onnxruntime", "agmi"),
}
# What talks to the outside. The integrity core is bytes in, verified objects or errors out.
OUTSIDE = {
    *("asyncio", "fcntl", "io", "multiprocessing", "os", "pathlib", "random", "secrets", "shutil", "socket"),
    *("sqlite3", "subprocess", "tempfile", "threading", "time", "urllib", "http", "logging"),
}


def files(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found, f"no Python file under {folder}: this test would pass on nothing"
    return found


def imports(path: Path, *, lazy: bool) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of what a file imports; with lazy=False only what importing the file imports."""
    todo: list[ast.AST] = [ast.parse(path.read_text(), str(path))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; write the full name"
            yield node.lineno, node.module or ""
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo.extend(node.orelse)
        elif lazy or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            todo.extend(ast.iter_child_nodes(node))


def offences(folder: str, names: set[str], *, lazy: bool) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in files(folder)
        for line, name in imports(path, lazy=lazy)
        if name.split(".")[0] in names
    ]


def test_the_core_imports_no_framework_not_even_lazily() -> None:
    assert offences("memguard", FRAMEWORKS - {"psycopg"}, lazy=True) == []


def test_one_module_knows_the_driver_of_postgresql_and_imports_it_on_first_use() -> None:
    assert offences("memguard", {"psycopg"}, lazy=False) == []
    found = offences("memguard", {"psycopg"}, lazy=True)
    assert {line.partition(":")[0] for line in found} == {"memguard/postgres/link.py"}


def test_adapters_and_bench_import_frameworks_only_on_first_use() -> None:
    packages = [p for folder in ("integrations", "bench") for p in files(folder) if p.name == "__init__.py"]
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in packages
        for line, name in imports(path, lazy=False)
        if name.split(".")[0] in FRAMEWORKS
    ]
    assert found == []


def test_the_integrity_core_and_the_pipeline_do_no_io() -> None:
    assert offences("memguard/integrity", OUTSIDE, lazy=True) == []
    pipeline = ROOT / "memguard" / "pipeline.py"
    assert [name for _, name in imports(pipeline, lazy=True) if name.split(".")[0] in OUTSIDE] == []


def test_nothing_below_imports_the_facade() -> None:
    """`from memguard import X` in the core would go up through __init__, which no floor can see."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in files("memguard")
        if "cli" not in path.relative_to(ROOT / "memguard").parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "memguard"
        for alias in node.names
        if not (ROOT / "memguard" / f"{alias.name}.py").exists()
        and not (ROOT / "memguard" / alias.name).is_dir()
    ]
    assert found == []


@pytest.mark.xdist_group("wheel")
def test_floors(unpacked: Path) -> None:
    """import-linter on the wheel: at the root of the repository it would not see the two mapped folders."""
    run = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", str(ROOT / "pyproject.toml")],
        cwd=unpacked,
        env={**os.environ, "PYTHONPATH": str(unpacked), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    analysed = re.search(r"Analyzed (\d+) files", run.stdout)
    assert analysed, run.stdout
    assert int(analysed[1]) == len(list((unpacked / "memguard").rglob("*.py"))), run.stdout
    assert re.search(r"Contracts: [1-9]\d* kept, 0 broken", run.stdout), run.stdout
