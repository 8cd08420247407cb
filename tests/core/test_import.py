"""``import memguard``: light, lazy, and one word that is both a function and a module."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

HEAVY = {
    *("pydantic", "cryptography", "nacl", "sqlite_utils", "click", "rfc8785", "sqlite3", "asyncio"),
    *("langgraph", "langchain_core", "numpy", "onnxruntime", "mem0", "openai"),
}


def python(code: str) -> Any:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def loaded(code: str) -> set[str]:
    return set(
        python(
            f"{code}\nimport json, sys; print(json.dumps(sorted({{m.partition('.')[0] for m in sys.modules}})))"
        )
    )


def test_importing_loads_no_library_and_no_framework() -> None:
    assert loaded("import memguard") & HEAVY == set()
    assert "pydantic" in loaded("import memguard, memguard.config")  # the check can see one


def test_declaring_a_source_loads_none_either() -> None:
    code = "from memguard import source, principal, render, ConfigError, Decision\nwith source('web:x'): pass"
    assert loaded(code) & HEAVY == set()


def test_guard_is_the_function_and_the_module_stays_importable() -> None:
    code = """
import json, memguard
early = "guard" in vars(memguard)
from memguard.guard import Stage
import memguard.guard, memguard.pipeline
from memguard import guard
print(json.dumps([early, callable(guard), callable(memguard.guard), guard.__name__, Stage.WRITE]))
"""
    assert python(code) == [False, True, True, "guard", "write"]


def test_an_unknown_name_is_an_attribute_error_and_dir_lists_the_rest() -> None:
    code = """
import json, memguard
try:
    memguard.gaurd
except AttributeError as error:
    said = str(error)
print(json.dumps([said, dir(memguard) == memguard.__all__]))
"""
    assert python(code) == ["module 'memguard' has no attribute 'gaurd'", True]
