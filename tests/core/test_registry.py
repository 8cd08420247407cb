"""Names to things: imported on first use, open to plug-ins, and honest about what is missing."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from memguard import registry
from memguard.errors import ConfigError, UnsupportedError
from memguard.registry import ALL, Registry


def test_an_entry_is_imported_when_it_is_asked_for() -> None:
    table = Registry("thing", {"q": "queue:Queue"})
    import queue

    assert table.get("q") is queue.Queue
    table.add("direct", int, help="a number")
    assert table.get("direct") is int
    assert (table.describe("direct"), table.describe("q")) == ("a number", "")
    assert "q" in table
    assert "absent" not in table
    assert table.names() == ("direct", "q")


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(ConfigError, match='Did you mean "sanitizer"') as caught:
        registry.guards.get("sanitiser")
    assert caught.value.code == "MG105"
    with pytest.raises(
        ConfigError, match="Use one of anomaly, provenance, reranker, sanitizer, scope, validity"
    ):
        registry.guards.get("zzz")


def test_a_missing_library_names_the_extra_that_brings_it() -> None:
    table = Registry("adapter", {"x": "no_such_library_here.part:X"}, extras={"x": "langgraph"})
    with pytest.raises(UnsupportedError, match=r"pip install 'memguard-middleware\[langgraph\]'") as caught:
        table.get("x")
    assert caught.value.code == "MG133"
    assert "no_such_library_here" in str(caught.value)
    plain = Registry("adapter", {"x": "no_such_library_here.part:X"})
    with pytest.raises(UnsupportedError, match="Install no_such_library_here"):
        plain.get("x")


def test_a_broken_installation_is_not_called_a_missing_extra() -> None:
    table = Registry("guard", {"x": "memguard.guards.no_such:X"}, extras={"x": "langgraph"})
    with pytest.raises(ModuleNotFoundError):
        table.get("x")


def test_a_name_is_never_replaced() -> None:
    with pytest.raises(ConfigError) as caught:
        registry.guards.add("sanitizer", int)
    assert caught.value.code == "MG106"
    assert registry.guards.get("sanitizer").__name__ == "Sanitizer"


def test_an_adapter_is_found_by_the_nearest_type_without_importing_anything() -> None:
    class Base:
        pass

    class Middle(Base):
        pass

    class Leaf(Middle):
        pass

    def name(cls: type) -> str:
        return f"{cls.__module__}.{cls.__qualname__}"

    table = Registry("adapter", {name(Base): "never_imported:A", name(Middle): "never_imported:B"})
    assert table.match(Leaf()) == name(Middle)
    assert table.match(Base()) == name(Base)
    assert table.match(7) is None
    assert "builtins.object" not in table


def test_tables_of_other_modules_are_the_same_tables() -> None:
    from memguard import anchors, keys

    assert set(registry.anchors.names()) == set(anchors.SCHEMES)
    assert set(registry.names("key")) == set(keys.SCHEMES)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, table in ALL.items() for name in table.names()]
)
def test_everything_that_is_named_exists(kind: str, name: str) -> None:
    assert registry.load(kind, name) is not None


def test_commands_say_what_they_do_without_being_imported() -> None:
    for name in registry.names("command"):
        command = registry.load("command", name)
        assert registry.describe("command", name) == command.help.partition("\n")[0]


def test_plugins_add_names_and_a_broken_one_is_noted(tmp_path: Path) -> None:
    info = tmp_path / "plug-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[memguard.plugins]\nbad = plug:bad\ngone = plug_that_is_not:x\nrude = plug:rude\ngood = plug:good\n"
    )
    (tmp_path / "plug.py").write_text(
        textwrap.dedent(
            """
            from memguard import registry
            class Length:
                pass
            def good():
                registry.guards.add("length", "plug:Length", help="how long")
            def bad():
                raise OSError("heron")
            def rude():
                registry.guards.add("sanitizer", Length)
            """
        )
    )
    code = """
        from memguard import registry
        assert registry.guards.get("sanitizer").__module__ == "memguard.guards.sanitizer"
        assert not registry._loaded  # what is built in does not wait for plug-ins
        assert registry.guards.get("length").__module__ == "plug"
        assert registry.describe("guard", "length") == "how long"
        own = ("anomaly", "provenance", "reranker", "sanitizer", "scope", "validity")
        assert registry.names("guard") == tuple(sorted((*own, "length")))
        assert registry.broken == {"bad": "OSError", "gone": "ModuleNotFoundError", "rude": "ConfigError"}
        assert registry.guards.get("sanitizer").__module__ == "memguard.guards.sanitizer"
    """
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{textwrap.dedent(code)}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
