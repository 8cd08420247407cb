"""The anchor that fails on demand does fail, once, where it was told to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memguard.errors import AnchorError
from memguard.ports import Anchor, Cursor
from memguard.testing.anchors import FaultyAnchor, MemoryAnchor

CALLS: dict[str, Callable[[FaultyAnchor], object]] = {
    "acquire": lambda a: a.acquire(),
    "read": lambda a: a.read(None),
    "changed": lambda a: a.changed(Cursor(1, 0)),
    "append": lambda a: a.append([b"x"], sync=True),
    "append-after": lambda a: a.append([b"x"], sync=True),
    "sync": lambda a: a.append([b"x"], sync=True),
    "compact": lambda a: a.compact([]),
}
WRITTEN = {"append-after", "sync"}


def test_every_failure_has_a_case_here() -> None:
    assert set(CALLS) == set(FaultyAnchor.NAMES)


@pytest.mark.parametrize("name", FaultyAnchor.NAMES)
@pytest.mark.parametrize("after", [0, 2])
def test_it_strikes_once_after_so_many_calls(name: str, after: int) -> None:
    inner = MemoryAnchor()
    anchor = FaultyAnchor(inner, {name: after})
    assert isinstance(anchor, Anchor)
    if name != "acquire":
        anchor.acquire()
    for _ in range(after):
        CALLS[name](anchor)
        if name == "acquire":
            anchor.release()
    assert anchor.struck == []
    before = inner.read(None)[0]
    with pytest.raises(AnchorError, match=f"Injected failure: {name}"):
        CALLS[name](anchor)
    assert anchor.struck == [name]
    assert len(inner.read(None)[0]) - len(before) == (name in WRITTEN)
    if name in WRITTEN:
        with pytest.raises(AnchorError, match="failed before"):
            anchor.read(None)
        anchor.reopen()
    CALLS[name](anchor)  # only once


def test_a_misspelt_failure_is_refused() -> None:
    with pytest.raises(ValueError, match="no such failure"):
        FaultyAnchor(MemoryAnchor(), {"apend": 0})
