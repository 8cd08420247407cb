"""Edits of tables that keep one message a row: ``agent_messages`` of the Agents SDK, LlamaIndex's chat table.

A message is JSON text; the guard's part is a member of it. The adversary is adaptive: where messages are encrypted
they write plain ones instead, in the form that the framework writes without encryption.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memguard.bench.integrity.edits.raw import Raw, canonical, literal
from memguard.bench.integrity.edits.scene import (
    DATABASE,
    Inexpressible,
    Scene,
    pairs,
    read_only,
    schema_rows,
    without_seal,
)
from memguard.bench.integrity.edits.steps import Sql, Step

Row = dict[str, Any]
FACT_AT = 3


@dataclass(frozen=True, slots=True)
class Layout:
    """One such table.

    Args:
        table: its name.
        who: the column that names the context.
        data: the column of the message.
        columns: all columns but the id.
        order: SQL of what rows are ordered by.
        meta: columns that stand beside the message: times, role, status.
        stamp: the column whose change moves a row in the order, if that is not the id.
        index: the index by which rows of a context are found.
        held: path of members to what holds the guard's part; empty for the message itself.
        text: changes the text of a parsed message.
        fresh: a message that says something, as the framework writes it.
        others: other tables whose rows belong to a context: table -> its column.
        encrypted: messages are ciphertext.
        logs: the database keeps a write-ahead log.
    """

    table: str
    who: str
    data: str
    columns: tuple[str, ...]
    order: str
    meta: tuple[str, ...]
    index: str
    held: tuple[str, ...]
    text: Callable[[Any, str], Any]
    fresh: Callable[[str], Any]
    stamp: str = ""
    others: Mapping[str, str] | None = None
    encrypted: bool = False
    logs: bool = False

    # -- raw rows for C3 ---------------------------------------------------------------------

    def _raw(self, row: Row) -> Raw:
        try:
            own, seal = self._parted(pairs(row[self.data]))
        except (ValueError, TypeError):
            own, seal = {"unreadable": row[self.data]}, None
        stamp = f"{int(row[self.stamp]):024d}/" if self.stamp else ""
        return Raw(
            self.table,
            str(row[self.who]),
            str(row["id"]),
            f"{stamp}{int(row['id']) + 10**12:024d}",
            canonical(own),
            canonical([row[column] for column in self.meta]),
            seal=canonical(seal),
        )

    def _parted(self, found: Any) -> tuple[Any, Any]:
        if not self.held:
            return without_seal(found)
        seal = None
        made = []
        for pair in found:
            if isinstance(pair, list) and len(pair) == 2 and pair[0] == self.held[0]:
                inner, seal = without_seal(pair[1])
                pair = [pair[0], inner]
            made.append(pair)
        return made, seal

    def state(self, cell: Path) -> list[Raw]:
        """Every row of the database, and its schema."""
        file = cell / DATABASE
        if not file.exists():
            return []
        found = [self._raw(row) for row in read_only(file, f"SELECT * FROM {self.table}")]
        for table, column in (self.others or {}).items():  # when they were last touched, nobody is told
            rows = read_only(file, f"SELECT {column} AS who FROM {table}")
            found += [Raw(table, str(row["who"]), "", "", "") for row in rows]
        return found + schema_rows(file)

    # -- tools of the edits ------------------------------------------------------------------

    def rows(self, scene: Scene, who: str, *, copied: bool = False, sister: bool = False) -> list[Row]:
        """The messages of a context in the store's order, oldest first."""
        sql_ = f"SELECT * FROM {self.table} WHERE {self.who} = ? ORDER BY {self.order}"
        return scene.rows(sql_, (scene.owners[who],), copied=copied, sister=sister)

    def update(self, row: Row, **changes: Any) -> str:
        """UPDATE of one row."""
        sets = ", ".join(f"{column} = {literal(value)}" for column, value in changes.items())
        return f"UPDATE {self.table} SET {sets} WHERE id = {row['id']};"

    def insert(self, row: Row, *, ident: int | None = None) -> str:
        """INSERT of one row, its id given or the next one."""
        columns = self.columns if ident is None else ("id", *self.columns)
        values = [literal(ident if column == "id" else row[column]) for column in columns]
        return f"INSERT INTO {self.table} ({', '.join(columns)}) VALUES ({', '.join(values)});"

    def later(self, row: Row, by: int = 1) -> Row:
        """The row a little later in the order, where a column of it decides that."""
        return {**row, self.stamp: row[self.stamp] + by} if self.stamp else dict(row)

    def delete(self, row: Row) -> str:
        """DELETE of one row."""
        return f"DELETE FROM {self.table} WHERE id = {row['id']};"

    def saying(self, row: Row, text: str) -> str:
        """The message with another text, its seal as it was; where it is encrypted, a plain one."""
        if self.encrypted:
            return json.dumps(self.fresh(text))
        return json.dumps(self.text(json.loads(row[self.data]), text))

    def seal(self, row: Row) -> Any:
        """The guard's part of a message."""
        found = json.loads(row[self.data])
        for member in self.held:
            found = found.get(member, {})
        return found.get("memguard")

    def sealed(self, row: Row, seal: Any, text: str | None = None) -> str:
        """A message under another seal (None for none), perhaps with another text.

        Raises:
            Inexpressible: the seal is encrypted with the message.
        """
        if self.encrypted:
            raise Inexpressible("the seal is encrypted with its message")
        found = json.loads(row[self.data])
        if text is not None:
            found = self.text(found, text)
        holder = found
        for member in self.held:
            holder = holder.setdefault(member, {})
        holder.pop("memguard", None)
        if seal is not None:
            holder["memguard"] = seal
        return json.dumps(found)

    @staticmethod
    def sql(*statements: str, keep_log: bool = False) -> list[Step]:
        """One script on the database."""
        return [Sql(DATABASE, "\n".join(statements), keep_log=keep_log)]


def _said(item: dict[str, Any], text: str) -> dict[str, Any]:
    return {**item, "content": text}


def _blocks(message: dict[str, Any], text: str) -> dict[str, Any]:
    return {**message, "blocks": [{"block_type": "text", "text": text}]}


def session(*, encrypted: bool = False) -> Layout:
    """The tables of ``SQLiteSession``."""
    return Layout(
        table="agent_messages",
        who="session_id",
        data="message_data",
        columns=("session_id", "message_data", "created_at"),
        order="id",
        meta=("created_at",),
        index="idx_agent_messages_session_id",
        held=(),
        text=_said,
        fresh=lambda text: {"role": "user", "content": text},
        others={"agent_sessions": "session_id"},
        encrypted=encrypted,
        logs=True,
    )


CHAT = Layout(
    table="llama_index_memory",
    who="key",
    data="data",
    columns=("key", "timestamp", "role", "status", "data"),
    order="timestamp, id",
    meta=("role", "status"),
    index="ix_llama_index_memory_key",
    held=("additional_kwargs",),
    text=_blocks,
    fresh=lambda text: {
        "role": "user",
        "additional_kwargs": {},
        "blocks": [{"block_type": "text", "text": text}],
    },
    stamp="timestamp",
)
