"""What lies in files that a vector store unpickles when it is opened, looked at without unpickling it.

Qdrant in local mode keeps each point as a pickle in SQLite and loads every one on opening; loading a pickle runs what
it says. A look at its opcodes (:mod:`pickletools`) tells which names it would import, and nothing is run. FAISS's old
document store is one pickle; Mem0 loads that one with a restricted unpickler of its own.

An object that is handed to ``guard`` open has already been loaded: look before, with :func:`check_qdrant` or
:func:`memguard.integrations.mem0.from_config`.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from memguard.errors import IntegrityError, TamperedError

#: What a genuine point is made of.
ALLOWED = frozenset(
    {
        ("qdrant_client.http.models.models", "PointStruct"),
        ("qdrant_client.http.models.models", "SparseVector"),
    }
)
#: Opcodes that import by other ways than a pair of names on the stack.
_OTHER_WAYS = frozenset({"GLOBAL", "INST", "OBJ", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"})
#: Values of a pickle that are looked at: a point of Mem0 has a few dozen and its vector.
MAX_OPCODES = 2_000_000


class Point(NamedTuple):
    """A point as it lies in the file."""

    id: Any
    vector: Any
    payload: dict[str, Any]


def check_qdrant(path: str | Path) -> int:
    """Look at every pickle of a local Qdrant folder; how many there were.

    Args:
        path: the folder given to Qdrant as ``path``.

    Raises:
        TamperedError: MG540, one of them imports anything but what a point is made of, or cannot be read. Do not
            open the store.
    """
    seen = 0
    for file in sorted(Path(path).expanduser().glob("collection/*/storage.sqlite")):
        for where, raw in _points(file):
            check_pickle(raw, f"{file} {where}")
            seen += 1
    return seen


def check_files(provider: str, path: str | Path | None) -> int:
    """Look at the files of a vector store of Mem0 before it is opened; how many pickles there were.

    Raises:
        TamperedError: MG540.
    """
    if path is None:
        return 0
    if provider == "qdrant":
        return check_qdrant(path)
    if provider == "faiss":
        files = sorted(Path(path).expanduser().glob("*.pkl"))
        for file in files:
            check_pickle(file.read_bytes(), str(file))
        return len(files)
    return 0


def check_pickle(raw: object, where: str) -> None:
    """Refuse bytes whose unpickling would import anything but what a point is made of.

    Raises:
        TamperedError: MG540.
    """
    if not isinstance(raw, bytes):
        raise _bad(where, "it is no bytes")
    try:
        for name in _imports(raw):
            if name not in ALLOWED:
                raise _bad(where, f"it imports {'.'.join(name)[:120]}")
    except IntegrityError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a damaged pickle makes of the reader
        raise _bad(where, f"it cannot be read ({type(error).__name__})") from None


def _imports(raw: bytes) -> Iterator[tuple[str, str]]:
    """The names that a pickle would import.

    Strings on the stack are followed, through the memo too. Whatever else an opcode does counts as a value that is
    no name, so a name that was put together in another way is refused.
    """
    stack: list[str | None] = []
    memo: dict[int, str | None] = {}
    end = 0
    for at, (opcode, argument, place) in enumerate(pickletools.genops(raw)):
        if at > MAX_OPCODES:
            raise ValueError("too long")
        name = opcode.name
        end = (place or 0) + 1
        if name in _OTHER_WAYS:
            yield tuple(str(argument).partition(" ")[::2]) if name == "GLOBAL" else ("", name)  # type: ignore[misc]
            stack.append(None)
        elif name == "STACK_GLOBAL":
            attribute, module = (stack.pop() if stack else None), (stack.pop() if stack else None)
            yield (str(module), str(attribute))
            stack.append(None)
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1] if stack else None
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[int(str(argument))] = stack[-1] if stack else None
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo.get(int(str(argument))))
        elif isinstance(argument, str) and "UNICODE" in name:
            stack.append(argument)
        elif name not in ("FRAME", "PROTO"):
            stack.append(None)  # whatever it makes: it is no name
    if end != len(raw):
        raise ValueError("something stands behind its end")


class _Plain(pickle.Unpickler):
    """Loads a point as a bare object: nothing of any library is imported or run."""

    def find_class(self, module: str, name: str) -> Any:
        """A stand-in that only holds what it is given."""
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError("not a part of a point")
        return _Holder


class _Holder:
    """What a point or a sparse vector was given."""

    fields: dict[str, Any]

    def __setstate__(self, state: Any) -> None:
        """Models of pydantic keep their fields under ``__dict__``."""
        self.fields = dict(state["__dict__"])


def point_of(raw: object, where: str) -> Point:
    """The point in a pickle, its payload and vector as plain values.

    Raises:
        TamperedError: MG540.
    """
    check_pickle(raw, where)
    try:
        found = _Plain(io.BytesIO(raw)).load()  # type: ignore[arg-type]
        fields = found.fields
        return Point(str(fields["id"]), _vector(fields["vector"]), dict(fields["payload"] or {}))
    except Exception as error:  # noqa: BLE001 - as above
        raise _bad(where, f"it is no point ({type(error).__name__})") from None


def _vector(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: _vector(part) for name, part in found.items()}
    if isinstance(found, _Holder):
        return {name: list(found.fields[name]) for name in ("indices", "values")}
    return found


def _points(file: Path) -> Iterator[tuple[str, object]]:
    try:
        connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise _bad(str(file), f"it cannot be opened ({type(error).__name__})") from None
    try:
        yield from ((f"row {n}", raw) for n, raw in connection.execute("SELECT rowid, point FROM points"))
    except sqlite3.Error as error:
        raise _bad(str(file), f"it cannot be read ({type(error).__name__})") from None
    finally:
        connection.close()


def _bad(where: str, why: str) -> TamperedError:
    return TamperedError(
        "a file that is unpickled on opening holds more than plain values.",
        case="undecodable",
        record=where,
        code="MG540",
        why=f"Unpickling runs what the bytes say: {why}.",
        do="Do not open the store. Put a backup back, or take the row out with sqlite3 and then audit.",
    )
