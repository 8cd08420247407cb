"""URIs to anchors, and what plug-ins add."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from memguard import anchors
from memguard.anchors import SCHEMES, open_anchor, register
from memguard.errors import AnchorError, ConfigError
from memguard.ports import Anchor
from memguard.testing.anchors import MemoryAnchor


def test_the_table_names_classes_that_exist_and_keep_the_port(
    tmp_path: Path, new_database: Callable[[], str]
) -> None:
    assert set(SCHEMES) == {"file", "sqlite", "memory", "postgres", "postgresql"}
    for number, scheme in enumerate(sorted(SCHEMES)):
        rest = new_database().partition(":")[2] if scheme.startswith("postgres") else tmp_path / str(number)
        anchor = open_anchor(f"{scheme}:{rest}", create=True)
        assert isinstance(anchor, Anchor)
        assert type(anchor).__doc__
        anchor.close()


class Plug(MemoryAnchor):
    """A backend of another package."""


def test_a_plug_in_adds_a_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anchors, "SCHEMES", dict(SCHEMES))
    register("x-plug", f"{__name__}:Plug")
    register("x-plug", f"{__name__}:Plug")  # twice the same is no conflict
    monkeypatch.setitem(__import__("sys").modules, __name__, __import__("types").SimpleNamespace(Plug=Plug))
    assert isinstance(open_anchor("x-plug:", create=True), Plug)
    with pytest.raises(ConfigError, match="already"):
        register("file", f"{__name__}:Plug")
    for scheme, target in (("", "a:B"), ("Up", "a:B"), ("a b", "a:B"), ("1a", "a:B"), ("ok", "no-class")):
        with pytest.raises(ConfigError):
            register(scheme, target)


@pytest.mark.parametrize("uri", ["", "anchor", "/some/folder", "nfs:/x", "FILE:/x", ":x"])
def test_an_unknown_scheme_lists_those_there_are(uri: str) -> None:
    with pytest.raises(ConfigError, match="file:…, memory:…, postgres:…, postgresql:…, sqlite:…"):
        open_anchor(uri)


def test_a_backend_that_cannot_be_imported_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        anchors, "SCHEMES", {"gone": "memguard.no_such:Thing", "odd": "memguard.ports:Nothing"}
    )
    for scheme in ("gone", "odd"):
        with pytest.raises(ConfigError, match="cannot be imported"):
            open_anchor(f"{scheme}:x")


def test_memory_without_a_name_cannot_be_opened_again() -> None:
    assert open_anchor("memory:", create=True).read(None)[0] == []
    with pytest.raises(AnchorError, match="died with its process"):
        open_anchor("memory:")
