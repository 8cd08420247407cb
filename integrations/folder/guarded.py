"""A memory folder, guarded: the same commands; what is read is proved first, what is written is screened and sealed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from memguard.collection import Collection, Entry, Put, members
from memguard.collection.beside import assigns_trust, cell_of
from memguard.collection.faces import arun, run
from memguard.collection.writes import Moved, Part
from memguard.context import current_source
from memguard.decision import Disposition
from memguard.effects import Block, Operation
from memguard.errors import IntegrityError, MemguardError, RefusedError, UnsupportedError
from memguard.integrations.face import Face
from memguard.integrations.folder import edits
from memguard.integrations.folder.disk import not_text
from memguard.integrations.folder.folder import MemoryFolder, check_free, taken_apart
from memguard.integrations.folder.paths import context_of, inner, refuse
from memguard.labels import Label, render
from memguard.record import Lineage, Record, Source, Trust, inherited

T = TypeVar("T")
#: Tries of an edit while others edit the same file.
_TRIES = 8


class GuardedFolder(Face):
    """A memory folder that cannot be changed behind its back.

    Each command has an async twin: ``aview``, ``acreate``, …, ``aexecute``.

    Attributes:
        inner: the wrapped folder, unguarded.

    Raises (from every command): IntegrityError if the folder does not hold what was written;
    RejectedError (and QuarantinedError where so configured) from a write that a guard refused; UnsupportedError
    (MG610 to MG615) for paths and commands that cannot be carried out.
    """

    inner: MemoryFolder

    def __init__(self, folder: MemoryFolder, collection: Collection) -> None:
        self.inner, self._of = folder, collection

    def __repr__(self) -> str:
        return f"guarded {self.inner!r} {self._of.store!r}"

    @property
    def path(self) -> str:
        """Where the folder is."""
        return self.inner.path

    @property
    def prefix(self) -> str:
        """What it is called in paths."""
        return self.inner.prefix

    # -- commands ----------------------------------------------------------------------------

    def view(self, path: str, view_range: Any = None) -> str:
        """A file with line numbers, or what is in a folder; text that is trusted less stands fenced, as data."""
        return self._run(self._view(path, view_range))

    def create(self, path: str, file_text: str) -> str:
        """Make a file that is not there yet."""
        return self._run(self._create(path, file_text))

    def str_replace(self, path: str, old_str: str, new_str: str = "") -> str:
        """Replace the only occurrence of a text."""
        return self._run(self._str_replace(path, old_str, new_str))

    def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """Insert text after a line (0: in front)."""
        return self._run(self._insert(path, insert_line, insert_text))

    def delete(self, path: str) -> str:
        """Delete a file, or a folder with all that is in it, a file at a time."""
        return self._run(self._delete(path))

    def rename(self, old_path: str, new_path: str) -> str:
        """Give a file or a folder another path, a file at a time."""
        return self._run(self._rename(old_path, new_path))

    def clear_all_memory(self) -> str:
        """Delete every file."""
        return self._run(self._clear())

    def execute(self, command: object) -> str:
        """Carry out a command as the memory tool has it: a mapping, or an object with these attributes."""
        name, members = taken_apart(command)
        operation: Operation[str] = getattr(self, f"_{name}")(**members)
        return self._run(operation)

    def answer(self, command: object) -> tuple[str, bool]:
        """:meth:`execute` for a loop of one's own: the text for the model, and whether it is an error."""
        try:
            return self.execute(command), False
        except MemguardError as error:
            return str(error), True

    def names(self) -> list[str]:
        """Paths of all files, proved to be the ones that were left."""
        entries: list[Entry] = self._run(self._all())
        return [entry.key for entry in entries]

    def texts(self) -> list[str]:
        """The text of every file that is served."""
        entries: list[Entry] = self._run(self._all())
        return [str(entry.value) for entry in self._run(self._of.served(entries)) if entry.value is not None]

    def label(self, path: str) -> Label | None:
        """The label of a file; None if there is none."""
        name = inner(path, self.prefix)
        entry: Entry | None = self._run(self._get(name))
        return None if entry is None else entry.label

    # -- the bodies --------------------------------------------------------------------------

    def _run(self, operation: Operation[T]) -> T:
        result: T = run(_told(operation, self._of.store))
        return result

    async def _arun(self, operation: Operation[T]) -> T:
        result: T = await arun(_told(operation, self._of.store))
        return result

    def _view(self, path: str, view_range: Any = None) -> Operation[str]:
        name = inner(path, self.prefix)
        entry = (yield from self._get(name)) if name else None
        if entry is not None:
            served = yield from self._served(entry)
            shown = edits.numbered(_text(entry), view_range)
            return f"{path}, with line numbers:\n{self._shown(shown, served.label)}"
        under = f"{name}/" if name else ""
        contexts = [context_of(f"{name}/x")] if name else None
        entries = yield from self._all(contexts)
        below = [e for e in entries if e.key.startswith(under)]
        if not below and name and not (yield Block(self.inner.disk.is_folder, name)):
            raise edits.missing()
        shown_here = yield from self._of.served(below)
        return self._listed(path.rstrip("/"), under, shown_here)

    def _create(self, path: str, file_text: str) -> Operation[str]:
        name, data = self._file(path), self.inner.encoded(file_text)
        self._check_name(name)
        yield from self._check_free(name)
        note = yield from self._save(name, file_text, data, None)
        return note or f"{path} was created."

    def _str_replace(self, path: str, old_str: str, new_str: str = "") -> Operation[str]:
        def change(text: str) -> tuple[str, str]:
            made, line = edits.replaced(text, old_str, new_str)
            return made, f"{path} was edited. Around the change:\n{{}}{line}"

        made, answer = yield from self._edit(path, change)
        if not answer.startswith(f"{path} was edited."):
            return answer
        entry = yield from self._get(self._file(path))
        served = [] if entry is None else (yield from self._of.served([entry]))
        head, _, line = answer.partition("{}")
        if not served:  # the edit itself may have put it below what the reader's purpose asks for
            return f"{path} was edited."
        return head + self._shown(edits.around(made, int(line)), served[0].label)

    def _insert(self, path: str, insert_line: int, insert_text: str) -> Operation[str]:
        def change(text: str) -> tuple[str, str]:
            return edits.inserted(text, insert_line, insert_text), f"{path} was edited."

        _, answer = yield from self._edit(path, change)
        return answer

    def _edit(self, path: str, change: Callable[[str], tuple[str, str]]) -> Operation[tuple[str, str]]:
        """Read, proved; change; write, if it is still what was read."""
        name = self._file(path)
        for _ in range(_TRIES):
            entry = yield from self._get(name)
            if entry is None:
                raise edits.missing()
            # Whether a text occurs, where and how often is as good as reading it.
            yield from self._served(entry)
            made, answer = change(_text(entry))
            try:
                note = yield from self._save(name, made, self.inner.encoded(made), entry)
            except Moved:
                continue
            return made, note or answer
        raise _busy(name)

    def _delete(self, path: str) -> Operation[str]:
        name = self._file(path)
        entries = yield from self._under(name)
        if not entries and not (yield Block(self.inner.disk.is_folder, name)):
            raise edits.missing()
        for entry in entries:
            yield from self._of.delete(entry.context, [entry.key])
        yield Block(self.inner.disk.prune, name)
        return f"{path} was deleted."

    def _rename(self, old_path: str, new_path: str) -> Operation[str]:
        old, new = self._file(old_path), self._file(new_path)
        self._check_name(new)
        entries = yield from self._under(old)
        if not entries:
            raise edits.missing()
        if new == old or new.startswith(f"{old}/"):
            refuse("a folder cannot be moved into itself.")
        yield from self._check_free(new, but=[entry.key for entry in entries])
        for entry in entries:
            yield from self._move(entry, new + entry.key[len(old) :])
        yield Block(self.inner.disk.prune, old)
        return f"{old_path} is now {new_path}."

    def _move(self, entry: Entry, name: str) -> Operation[None]:
        """One file to another name, with its label: in its own context at one stroke, else written and then deleted."""
        put = Put(context_of(name), name, entry.value, entry.stored.content, "")
        put.own = members(entry.stored.own)
        here, there = entry.context, put.context
        expect: dict[str, bytes | None] = {name: None}
        try:
            if here == there:
                part = Part([put], deletes=[entry.key], expect={**expect, **self._state(entry)})
                yield from self._of._operate({here: part})
                return
            yield from self._of._operate({there: Part([put], expect=expect)})
            yield from self._of._operate({here: Part(deletes=[entry.key], expect=self._state(entry))})
        except Moved:
            raise _busy(entry.key) from None

    def _clear(self) -> Operation[str]:
        for entry in (yield from self._all()):
            yield from self._of.delete(entry.context, [entry.key])
            yield Block(self.inner.disk.prune, entry.key.partition("/")[0])
        return "All memory was deleted."

    # -- inside ------------------------------------------------------------------------------

    def _save(self, name: str, text: str, data: bytes, old: Entry | None) -> Operation[str | None]:
        """Screen and store a file; None, or what to say where it was withheld."""
        declared = current_source()
        put = Put(context_of(name), name, text, data, text)
        if declared is None:
            put.source = Source.parse(self.inner.source)
        if old is not None:  # what is left of the old text is worth no more than it was
            before = (old.label or Label()).provenance
            parents = declared.lineage.parents if declared is not None else ()
            put.lineage = Lineage.of(*parents, *inherited(before, key=name))
        written = yield from self._of._screened([put])
        if written.withheld:
            held = written.withheld[0]
            return (
                f"Nothing was written: memguard keeps this text for review as {held.entry} "
                f"({held.decision.code or 'withheld'}). {'The file is as it was.' if old else ''}".rstrip()
            )
        expect = {name: None} if old is None else self._state(old)
        try:
            yield from self._of._operate({put.context: Part(written.stored, expect=expect)})
        except Moved:
            if old is None:
                raise edits.taken() from None
            raise
        return None

    def _shown(self, text: str, label: Label | None) -> str:
        """A text as the model sees it: quoted, where it is trusted less than a user."""
        return render([(text, label or Label())]) if assigns_trust(self._of.mg) else text

    def _served(self, entry: Entry) -> Operation[Entry]:
        """A file as it is served to whoever reads here.

        Raises:
            RefusedError: MG619, it is not.
        """
        served = yield from self._of.served([entry])
        if not served:
            raise RefusedError(
                "this file is kept from whoever reads it here.",
                code="MG619",
                where=entry.key,
                why="A guard withholds it, or its trust is below what the purpose asks for.",
                do="memguard quarantine and the [read] section of the configuration say more.",
            )
        return served[0]

    def _listed(self, title: str, under: str, entries: Sequence[Entry]) -> str:
        """A listing in which names that are trusted less than a user stand quoted: a name is text that is read."""
        labels = {e.key[len(under) :]: e.label or Label() for e in entries}
        for name, label in list(labels.items()):  # a folder's name is worth what the best of its files is
            parts = name.split("/")
            for at in range(1, len(parts)):
                folder = "/".join(parts[:at]) + "/"
                labels[folder] = max(labels.get(folder, label), label, key=lambda one: one.trust)
        plain: list[str] = []
        quoted: dict[tuple[Source, Trust], list[str]] = {}
        sizes = {e.key[len(under) :]: len(e.stored.content) for e in entries}
        for name, line in edits.rows(title, sizes).items():
            label = labels.get(name, Label(trust=Trust.SYSTEM))  # the title is what the reader asked for
            if label.trust >= Trust.USER or not assigns_trust(self._of.mg):
                plain.append(line)
            else:
                quoted.setdefault((label.source, label.trust), []).append(line)
        blocks = [("\n".join(lines), Label(*of)) for of, lines in quoted.items()]
        return edits.listed(title, [*plain, *([render(blocks)] if blocks else [])])

    def _state(self, entry: Entry) -> dict[str, bytes | None]:
        """The state in which a file must still be; nothing is asked where nobody vouches for it."""
        cell = cell_of(entry) if self._of.custody.enforcing else None
        return {} if cell is None else {entry.key: cell}

    def _get(self, name: str) -> Operation[Entry | None]:
        found = yield from self._of.get(context_of(name), [name])
        return found.get(name)

    def _all(self, contexts: Sequence[str] | None = None) -> Operation[list[Entry]]:
        """Every file of these contexts (default: all), nothing missing, nothing extra."""
        entries: list[Entry] = []
        for context in (yield from self._of.names()):
            if contexts is None or context in contexts:
                entries += yield from self._of.all(context)
        return sorted(entries, key=lambda entry: entry.key)

    def _under(self, name: str) -> Operation[list[Entry]]:
        """The file of that name, or the files of the folder of that name."""
        contexts = list(dict.fromkeys([context_of(name), context_of(f"{name}/x")]))
        entries = yield from self._all(contexts)
        return [e for e in entries if e.key == name or e.key.startswith(f"{name}/")]

    def _file(self, path: str) -> str:
        return inner(path, self.prefix) or refuse("the folder itself is not what this command is for.")

    def _check_free(self, name: str, but: Sequence[str] = ()) -> Operation[None]:
        there: list[str] = yield Block(self.inner.names)
        # Who is refused here learns no more than that; whether they belong there, a read of them says.
        check_free(name, [n for n in there if n not in but])
        if (yield Block(self.inner.disk.is_folder, name)):
            raise edits.taken("there is a folder at this path already.")

    def _check_name(self, name: str) -> None:
        """A path is read by the model too.

        Raises:
            UnsupportedError: MG610.
        """
        plain = name.replace("/", " ").replace("-", " ").replace("_", " ")
        if self._of.mg.screening.writes:
            decision = self._of.mg.screening.check(Record(plain))
            if decision.disposition >= Disposition.QUARANTINE:
                refuse(
                    "a path reads like an instruction.",
                    why=f"The guards would withhold it ({decision.code}).",
                )


def _twin(name: str) -> Callable[..., Any]:
    async def command(self: GuardedFolder, *args: Any, **kwargs: Any) -> Any:
        return await self._arun(getattr(self, f"_{name}")(*args, **kwargs))

    command.__name__ = command.__qualname__ = f"a{name}"
    command.__doc__ = f"Async :meth:`{name}`."
    return command


for _name in ("view", "create", "str_replace", "insert", "delete", "rename"):
    setattr(GuardedFolder, f"a{_name}", _twin(_name))


async def _aexecute(self: GuardedFolder, command: object) -> str:
    """Async :meth:`execute`."""
    name, members = taken_apart(command)
    return await self._arun(getattr(self, f"_{name}")(**members))


GuardedFolder.aexecute = _aexecute  # type: ignore[attr-defined]


def _told(operation: Operation[T], store: str) -> Operation[T]:
    """The operation; a refusal says what a person does who edited the file by hand."""
    try:
        return (yield from operation)
    except IntegrityError as error:
        hand = f"If you edited the files yourself: memguard adopt {store} shows what changed, --apply takes it over."
        if error.code != "MG600" and hand not in (error.do or ""):
            error.do = f"{error.do} {hand}" if error.do else hand
        raise


def _text(entry: Entry) -> str:
    if not isinstance(entry.value, str):
        raise not_text(entry.key)
    return entry.value


def _busy(name: str) -> UnsupportedError:
    return UnsupportedError(
        "a file is being edited by others.",
        code="MG613",
        where=name,
        why="Every time it was looked at it had changed again.",
        do="Try again.",
    )
