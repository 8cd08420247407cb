"""Where a LangGraph object keeps its rows, if that can be said from outside."""

from __future__ import annotations

import os
import sqlite3
from typing import Any


def place_of(obj: Any) -> str | None:
    """A name for the place of an object's rows, None where they live in this process only.

    It tells two stores under one name apart within a process; it is never bound into a tag,
    because a database may be moved.
    """
    conn = getattr(obj, "conn", None)
    if isinstance(conn, sqlite3.Connection):
        return _sqlite_file(conn)
    raw = getattr(conn, "_conn", None)  # aiosqlite, once its thread has connected
    if isinstance(raw, sqlite3.Connection):
        return _path_asked(conn)
    if type(conn).__module__.startswith("aiosqlite"):
        return _path_asked(conn)
    if type(conn).__module__.partition(".")[0] in ("psycopg", "psycopg_pool"):
        return _database(conn)
    if type(obj).__module__.startswith(("langgraph.checkpoint.memory", "langgraph.store.memory")):
        return None
    return f"{type(obj).__module__}.{type(obj).__qualname__}"


def _sqlite_file(conn: sqlite3.Connection) -> str | None:
    for _, schema, path in conn.execute("PRAGMA database_list"):
        if schema == "main":
            return os.path.realpath(path) if path else None
    return None


def _path_asked(conn: Any) -> str | None:
    """The path an aiosqlite connection was asked to open: it connects in a thread of its own."""
    connector = getattr(conn, "_connector", None)
    cells = getattr(connector, "__closure__", None) or ()
    names = getattr(getattr(connector, "__code__", None), "co_freevars", ())
    found = dict(zip(names, (cell.cell_contents for cell in cells), strict=False)).get("database")
    path = os.fspath(found) if found is not None else ""
    path = path.decode() if isinstance(path, bytes) else path
    return None if path in ("", ":memory:") else os.path.realpath(path)


def _database(conn: Any) -> str:
    """Host, port and database of a connection to PostgreSQL, or of a pool of them; never a password."""
    from psycopg.conninfo import conninfo_to_dict

    info = getattr(conn, "info", None)
    if info is not None:
        host, port, name = info.host or info.hostaddr, info.port, info.dbname
    else:
        text = conn.conninfo if isinstance(conn.conninfo, str) else ""
        told = {**conninfo_to_dict(text), **{k: v for k, v in (conn.kwargs or {}).items() if k in _PLACE}}
        host, port, name = told.get("host") or told.get("hostaddr"), told.get("port"), told.get("dbname")
    return f"postgresql://{host or ''}:{port or 5432}/{name or ''}"


_PLACE = ("host", "hostaddr", "port", "dbname")
