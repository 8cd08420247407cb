"""The files of a memory folder as records: one file is one record, one folder of the first level one context."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memguard.collection import Put, Stored
from memguard.effects import Block, Operation
from memguard.errors import TamperedError
from memguard.integrations.folder.disk import Disk, Look, flaw_of
from memguard.integrations.folder.paths import context_of


class FolderTable:
    """A plain table (:class:`~memguard.collection.beside.Plain`): the value of a record is the file's text.

    A record's key is the path of its file below the folder; its content are the file's bytes.
    """

    ordered = False
    #: Every file is an operation of its own; only a rename is one operation on two names.
    atomic = False

    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    def contexts(self) -> Operation[Sequence[str]]:
        looks: list[Look] = yield Block(self.disk.looks)
        return list(dict.fromkeys(context_of(look.name) for look in looks))

    def rows(self, context: str) -> Operation[Sequence[Stored]]:
        found: list[Stored] = yield Block(self._rows, context)
        return found

    def fetch(self, context: str, keys: Sequence[str]) -> Operation[Mapping[str, Stored]]:
        found: dict[str, Stored] = yield Block(self._fetch, context, keys)
        return found

    def hint(self, contexts: Iterable[str]) -> Operation[object]:
        return (yield Block(self.disk.signature))

    def commit(self, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> Operation[None]:
        yield Block(self._commit, puts, deletes)

    def remade(self, put: Put, value: Any) -> Put:
        return replace(put, value=value, content=value.encode("utf-8"), text=value)

    # -- blocking ----------------------------------------------------------------------------

    def _rows(self, context: str) -> list[Stored]:
        found = []
        for look in self.disk.looks():
            if context_of(look.name) == context:
                stored = self._stored(look.name, flaw_of(look))
                if stored is not None:
                    found.append(stored)
        return found

    def _fetch(self, context: str, keys: Sequence[str]) -> dict[str, Stored]:
        found = {}
        for key in keys:
            stored = self._stored(key) if context_of(key) == context else None
            if stored is not None:
                found[key] = stored
        return found

    def _stored(self, name: str, flaw: TamperedError | None = None) -> Stored | None:
        data: bytes | None = b""
        if flaw is None:
            try:
                data = self.disk.read(name)
            except TamperedError as error:
                flaw = error
        if data is None:
            return None
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            text = None
        return Stored(name, data, None, value=text, flaw=flaw)

    def _commit(self, puts: Sequence[Put], deletes: Mapping[str, Sequence[str]]) -> None:
        gone = [key for keys in deletes.values() for key in keys]
        try:
            for put in puts:
                source = gone[0] if len(puts) == len(gone) == 1 else ""
                if source and self.disk.read(source) == put.content:
                    self.disk.rename(source, put.name)  # at one stroke: never both, never neither
                    gone = []
                else:
                    self.disk.write(put.name, put.content)
            for key in gone:
                self.disk.remove(key)
        except OSError as error:
            raise TamperedError(
                "a file of a memory folder cannot be written.",
                case="state",
                record=os.path.basename(puts[0].name if puts else gone[0]),
                code="MG614",
                why=f"{error.strerror}: a link or a file may stand where a folder was, or the disk refuses.",
                do="Look at the folder; memguard audit STORE shows what differs.",
            ) from None
