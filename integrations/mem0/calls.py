"""What the methods of a guarded Memory do, as operations: one body for Memory and AsyncMemory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memguard.binding import Binding
from memguard.context import current_principal
from memguard.effects import Block, Call, Operation
from memguard.errors import MemguardError
from memguard.integrations.mem0.keeping import Keeping, Refusal
from memguard.integrations.mem0.owners import (
    ENTITY,
    HISTORY,
    IDENTITIES,
    MEMORY,
    MESSAGES,
    Owner,
    checked_filters,
    given,
)
from memguard.integrations.mem0.session import Session
from memguard.integrations.mem0.speaking import Speaking, Updating
from memguard.labels import Label
from memguard.reading import Page
from memguard.record import Scope, check_identity
from memguard.scopes import foreign

if TYPE_CHECKING:
    from memguard.engine import MemGuard


class Item(dict[str, Any]):
    """A result of Mem0, and the label of its memory."""

    memguard_label: Label | None = None


def item(values: Mapping[str, Any], label: Label | None) -> Item:
    """Mem0's own result with a label."""
    made = Item(values)
    made.memguard_label = label
    return made


class Calls:
    """The operations of one guarded Memory.

    Args:
        bound: the scope map; ``soft`` where it is the one that Mem0's own names give, which binds only principals
            that name a user.
    """

    def __init__(
        self, mg: MemGuard, keeping: Keeping, inner: Any, bound: Binding | None, *, soft: bool
    ) -> None:
        self._mg, self.keeping, self._inner = mg, keeping, inner
        self._bound, self._soft = bound, soft

    def session(self, **more: Any) -> Session:
        """What one call works on, within what the principal may see."""
        scope = self._scope("read")
        if scope is not None:
            more["mine"] = self._mine(scope)
        return Session(self.keeping, self._inner, **more)

    # -- writes --------------------------------------------------------------------------------

    def add(self, messages: Any, options: Mapping[str, Any]) -> Operation[Any]:
        """See ``Memory.add``."""
        owner = given(options)
        self._own(owner)
        procedural = options.get("memory_type") is not None and options.get("agent_id") is not None
        derived = bool(options.get("infer", True)) or procedural
        speaking = Speaking(self._mg, self.keeping.store, owner, derived=derived)
        session = self.session(speaking=speaking, raises=derived and not procedural)
        listed = _listed(messages)
        if listed is not None:
            if derived:
                messages = yield from speaking.admit(listed)
                if speaking.refused and not any(_says(message) for message in messages):
                    return _nothing([*speaking.refused.values()])
            else:
                session.order = [at for at, message in enumerate(listed) if _stored_raw(message)]
        try:
            result = yield from self._mem0(session, "add", messages, **options)
        except MemguardError:
            raise
        except Exception:
            if session.refused and not session.stored:
                return _nothing([*speaking.refused.values(), *session.refused.values()])
            raise
        refused = [*speaking.refused.values(), *session.refused.values()]
        if not refused:
            return result
        if session.refused and not session.stored:
            return _nothing(refused)
        kept = [found for found in result.get("results", ()) if str(found.get("id")) not in session.refused]
        return {**result, "results": kept, "memguard": report(refused)}

    def update(self, memory_id: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Operation[Any]:
        """See ``Memory.update``."""
        speaking = Updating(self._mg, self.keeping.store, Owner(), derived=False)
        session = self.session(speaking=speaking)
        try:
            return (yield from self._mem0(session, "update", memory_id, *args, **options))
        except Exception:
            if session.refused and not session.raised:
                return _nothing([*session.refused.values()], message="Memory not updated!")
            raise

    def delete(self, memory_id: Any) -> Operation[Any]:
        """See ``Memory.delete``."""
        return (yield from self._mem0(self.session(), "delete", memory_id))

    def delete_all(self, named: Mapping[str, Any]) -> Operation[Any]:
        """See ``Memory.delete_all``."""
        owner = given(named)
        filters = self._narrowed({**owner.fields()}, "write")
        if filters is None:
            return {"message": "Memories deleted successfully!"}  # as where there are none
        return (yield from self._mem0(self.session(), "delete_all", **filters))

    def reset(self) -> Operation[Any]:
        """See ``Memory.reset``."""
        if self._scope("write") is not None and self._bound is not None:
            self._bound.refused("write", foreign(self.keeping.store, "all of the store"))
        inner = self._inner
        if inner._entity_store is None and (yield from self.keeping.of_kind(ENTITY)):
            _ = inner.entity_store  # Mem0 forgets entities of other processes
        yield from self.keeping.clear((MEMORY, ENTITY, HISTORY, MESSAGES), inner.reset)
        return None

    def close(self) -> None:
        """Close the wrapped Memory."""
        self.keeping.table.close()
        self._inner.close()

    # -- reads ---------------------------------------------------------------------------------

    def search(self, query: Any, options: Mapping[str, Any]) -> Operation[Any]:
        """See ``Memory.search``."""
        return (yield from self._listed("search", (query,), options))

    def get_all(self, options: Mapping[str, Any]) -> Operation[Any]:
        """See ``Memory.get_all``."""
        return (yield from self._listed("get_all", (), options))

    def get(self, memory_id: Any) -> Operation[Any]:
        """See ``Memory.get``."""
        session = self.session()
        found = yield from self._mem0(session, "get", memory_id)
        if found is None:
            return None
        page: Page = yield from self._judged(self._mg.reading.search(1), [found], session)
        return item(found, page.labels[0]) if page.served else None

    def history(self, memory_id: Any) -> Operation[Any]:
        """See ``Memory.history``."""
        session = self.session()
        found = yield from self._mem0(session, "history", memory_id)
        return [item(row, session.labels.get(row["id"])) for row in found]

    def _listed(self, name: str, args: tuple[Any, ...], options: Mapping[str, Any]) -> Operation[Any]:
        """A search or a list: as many as were asked for, made up from those behind where some are taken out."""
        options = dict(options)
        if not any(
            key in options for key in IDENTITIES
        ):  # Mem0 says itself that they belong into the filters
            filters = self._narrowed(checked_filters(options.get("filters")), "read")
            if filters is None:
                return {"results": []}
            options["filters"] = filters
        asked = options.get("top_k", 20)
        if not isinstance(asked, int) or isinstance(asked, bool) or asked <= 0:
            return (
                yield from self._mem0(self.session(), name, *args, **options)
            )  # Mem0 has its word on these
        search = self._mg.reading.search(asked, str(args[0]) if args else None)
        window = search.window
        while True:
            session = self.session()
            result = yield from self._mem0(session, name, *args, **{**options, "top_k": window})
            found = result["results"]
            page: Page = yield from self._judged(search, found, session, tell=False)
            more = search.more(page, self._candidates(found, session), len(found) < window)
            if more is None:
                break
            window = more
        self._tell(page, found)
        return {**result, "results": [item(found[at], page.labels[at]) for at in page.served]}

    # -- inside --------------------------------------------------------------------------------

    def _mem0(self, session: Session, name: str, *args: Any, **options: Any) -> Operation[Any]:
        """Mem0's own method on guarded stores.

        Raises:
            MemguardError: what memguard raised in there, also where Mem0 logged it and went on.
        """
        try:
            result = yield Call(getattr(session.memory, name), *args, **options)
        except Exception as error:
            if session.raised and error is not session.raised[0]:
                raise session.raised[0] from None
            raise
        if session.raised:
            raise session.raised[0]
        return result

    def _candidates(self, found: Sequence[Mapping[str, Any]], session: Session) -> list[Any]:
        made = []
        for values in found:
            entry = session.entries.get(str(values["id"]))
            made.append(
                self._mg.reading.candidate(
                    self.keeping.store,
                    str(values["id"]),
                    str(values.get("memory") or ""),
                    None if entry is None else entry.label,
                    None if entry is None else entry.value,
                    space="" if entry is None else entry.context,
                )
            )
        return made

    def _judged(
        self, search: Any, found: Sequence[Mapping[str, Any]], session: Session, *, tell: bool = True
    ) -> Operation[Page]:
        entries = [session.entries.get(str(values["id"])) for values in found]
        labels = [None if entry is None else entry.label for entry in entries]
        candidates = self._candidates(found, session)
        if self._mg.reading.waits:  # guards of others may ask a model
            page: Page = yield Block(search.page, candidates, labels)
        else:
            page = search.page(candidates, labels)
        if tell:
            self._tell(page, found)
        return page

    def _tell(self, page: Page, found: Sequence[Mapping[str, Any]]) -> None:
        if page.remarkable:
            names = [f"memory {values['id']}" for values in found]
            self._mg.reading.tell(self.keeping.store, names, page)

    # -- whose -----------------------------------------------------------------------------------

    def _scope(self, stage: Any) -> Scope | None:
        if self._bound is None:
            return None
        if self._soft:
            who = current_principal()
            if who is None or who.user is None:
                return None
        return self._bound.scope(stage)

    def _mine(self, scope: Scope) -> Callable[[Owner], bool]:
        bound = self._bound
        assert bound is not None
        wanted = {key: getattr(scope, part) for part, key in bound.map.metadata.items()}

        def mine(owner: Owner) -> bool:
            if all(getattr(owner, key) == value for key, value in wanted.items()):
                return True
            return not bound.hidden("read", "another owner's memory was named")

        return mine

    def _own(self, owner: Owner) -> None:
        """Refuse to write what is another owner's.

        Raises:
            ScopeError: MG220, MG221, MG222.
        """
        scope = self._scope("write")
        if scope is None or self._bound is None:
            return
        for part, key in self._bound.map.metadata.items():
            named = getattr(owner, key)
            if named is None:
                check_identity(key, named)
            if named != getattr(scope, part):
                self._bound.refused("write", foreign(self.keeping.store, f"the {key} of a memory"))

    def _narrowed(self, filters: dict[str, Any], stage: Any) -> dict[str, Any] | None:
        """Filters within what is the principal's; None if they name another owner."""
        scope = self._scope(stage)
        if scope is None or self._bound is None:
            return filters
        made = dict(filters)
        for part, key in self._bound.map.metadata.items():
            owner, named = getattr(scope, part), made.get(key)
            several = named.get("in", [named.get("eq")]) if isinstance(named, Mapping) else named
            if named is not None and (
                owner not in several if isinstance(several, list) else several != owner
            ):
                if self._bound.hidden(stage, "another owner's memories were named"):
                    return None
                return filters
            made[key] = owner
        return made


def report(refused: Sequence[Refusal]) -> dict[str, Any]:
    """What was kept out, by id or by place in the call, with codes; no content."""
    return {
        "rejected": [refusal.what for refusal in refused if refusal.what["disposition"] == "reject"],
        "withheld": [refusal.what for refusal in refused if refusal.what["disposition"] != "reject"],
    }


def _nothing(refused: Sequence[Refusal], **more: Any) -> dict[str, Any]:
    """The answer of a call that stored nothing because of guards.

    Raises:
        RejectedError, QuarantinedError: one of them refuses by raising.
    """
    for refusal in refused:
        if refusal.error is not None:
            raise refusal.error
    return {**({} if more else {"results": []}), **more, "memguard": report(refused)}


def _listed(messages: Any) -> list[Any] | None:
    """Messages as Mem0 takes them; None for what it refuses."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    if isinstance(messages, dict):
        return [messages]
    return messages if isinstance(messages, list) else None


def _says(message: Any) -> bool:
    return isinstance(message, Mapping) and message.get("content") is not None


def _stored_raw(message: Any) -> bool:
    return (
        isinstance(message, Mapping)
        and message.get("role") not in (None, "system")
        and message.get("content") is not None
    )
