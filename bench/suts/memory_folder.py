"""A folder of Markdown files, bare or guarded: one context is one folder of an owner, one record one file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memguard.bench.integrity.edits.document_cases import FOLDER_KIND
from memguard.bench.integrity.edits.documents import HERE, META, Doc, markdown, parsed_markdown
from memguard.bench.integrity.seeding import OWNERS
from memguard.bench.suts.guarding import Guarded
from memguard.bench.suts.names import Name
from memguard.bench.suts.protocol import Item, Record
from memguard.errors import UnsupportedError
from memguard.integrations.folder import MemoryFolder


def doc_of(record: Record) -> Doc:
    """A record as a document."""
    values = {name: str(getattr(record, name)) for name in META}
    return Doc(f"m-{record.n}", record.text, tuple(values.items()))


class FolderSut(Guarded):
    """``MemoryFolder``, through the commands of the memory tool."""

    kind = "memory-folder"
    edits = FOLDER_KIND

    def __init__(self, cell: Path, name: Name) -> None:
        super().__init__(cell, name, "memories")
        self._file = HERE
        self._folder: Any = None

    def versions(self) -> dict[str, str]:
        """The files are nobody's component; the guard's version where it is used."""
        return self.package_versions("memguard-middleware")

    def backend(self) -> str:
        """Markdown files."""
        return "Markdown files with front matter, one folder an owner"

    def features(self) -> dict[str, str]:
        """Only the guard."""
        return self.guard_features()

    def start(self) -> None:
        """Open the folder, guard it."""
        self._folder = self.wrap(MemoryFolder(self.database))

    def stop(self) -> None:
        """Close the guard."""
        self.unwrap()
        self._folder = None

    def _path(self, context: str, slot: str) -> str:
        return f"/memories/{OWNERS[context]}/{slot}.md"

    def write(self, record: Record) -> None:
        """``create``."""
        doc = doc_of(record)
        self._folder.create(self._path(record.context, doc.slot), markdown(doc).decode())
        self.records.setdefault(record.context, []).append(record)

    def delete(self, context: str) -> None:
        """``delete`` of the context's second file."""
        self._folder.delete(self._path(context, "m-1"))

    def replace(self, context: str) -> None:
        """``str_replace`` in the third file."""
        text = self.records[context][2].text
        self._folder.str_replace(self._path(context, "m-2"), text, f"{text} (withdrawn, ask first)")

    def key(self, record: Record) -> str:
        """The file's path."""
        return self._path(record.context, f"m-{record.n}")

    def body(self, record: Record) -> Mapping[str, Any]:
        """Text and front matter."""
        doc = doc_of(record)
        return {"text": doc.text, **dict(doc.meta)}

    def paths(self) -> tuple[str, ...]:
        """By name, and by the listing of the owner's folder."""
        return ("get", "list")

    def wide_paths(self) -> tuple[str, ...]:
        """By the listing of the whole folder."""
        return ("everywhere",)

    def read(self, context: str, path: str) -> list[Item]:
        """Serve one path of a context, or all of them."""
        if path == "get":
            names = [self.key(record) for record in self.records.get(context, [])]
        else:
            root = "/memories" if path == "everywhere" else f"/memories/{OWNERS[context]}"
            names = self._listed(root)
        found = [self._item(name) for name in names]
        return [item for item in found if item is not None]

    def _listed(self, root: str) -> list[str]:
        try:
            lines = self._folder.view(root).split("\n")
        except UnsupportedError as error:
            if error.code == "MG611":  # nobody's folder
                return []
            raise
        return [path for line in lines if (path := line.partition("\t")[2]).endswith(".md")]

    def _item(self, name: str) -> Item | None:
        try:
            shown = self._folder.view(name)
        except UnsupportedError as error:
            if error.code == "MG611":
                return None
            raise
        text = "\n".join(line.partition("\t")[2] for line in shown.split("\n")[1:])
        doc = parsed_markdown(name, text.encode())
        body = {"text": doc.text, **dict(doc.meta)} if doc.raw is None else {"unreadable": text}
        return Item(name, body)


def folder(cell: Path, name: Name) -> FolderSut:
    """A memory folder."""
    return FolderSut(cell, name)
