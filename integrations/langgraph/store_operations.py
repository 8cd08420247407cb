"""What a guarded store does on reads, written once for sync and async stores.

Translation only: namespaces to contexts, items to claims. What is true is decided in ``memguard.integrity``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    PutOp,
    SearchItem,
    SearchOp,
    validate_op_namespace,
)
from langgraph.store.base import ListNamespacesOp as ListOp

from memguard.custody import Custody
from memguard.effects import Operation
from memguard.errors import IntegrityError, UnsupportedError
from memguard.integrations.langgraph.store_items import (
    check_filter,
    listed,
    matches,
    search_item_of,
    served,
    under,
)
from memguard.integrations.langgraph.store_rows import (
    Namespace,
    Stored,
    claim_of,
    context_of,
    disordered,
    epoch,
    members,
    name,
    namespace_of,
    order_of,
)
from memguard.integrations.langgraph.store_table import Hit, Table, reading, stamp
from memguard.integrations.langgraph.store_writes import Writes
from memguard.integrity.index import pack_key
from memguard.integrity.verifier import Claim, Context
from memguard.labels import Label

T = TypeVar("T")
#: Search prefixes whose contexts are remembered.
_KEPT = 1024
#: Tries of a search without a writer's interference before writers are kept out.
_TRIES = 3


class StoreOperations(Writes):
    """The operations of one guarded store.

    Args:
        inner: the wrapped store.
        table: how its rows are read undecoded.
        is_async: it lives in an event loop of its own.
    """

    def __init__(self, inner: Any, table: Table, *, is_async: bool, native: bool) -> None:
        super().__init__()
        self.inner, self.table = inner, table
        self.is_async, self.native = is_async, native
        self.custody: Custody
        #: By search prefix: the moment when its contexts were looked up, and they.
        self._under: dict[Namespace, tuple[object, dict[str, Namespace]]] = {}

    def batch(self, ops: Iterable[Any]) -> Operation[list[Any]]:
        """Any mixture of operations; results in their order. Reads see the state before the puts."""
        ops = list(ops)
        for op in ops:
            validate_op_namespace(op)
        if len(ops) == 1 and type(ops[0]) is GetOp:
            return (yield from self._get(ops[0].namespace, ops))
        if len(ops) == 1 and type(ops[0]) is PutOp and ops[0].namespace:
            yield from self.put(ops)
            return [None]
        results: list[Any] = [None] * len(ops)
        gets: dict[Namespace, list[int]] = {}
        puts: list[PutOp] = []
        for at, op in enumerate(ops):
            if isinstance(op, GetOp):
                gets.setdefault(op.namespace, []).append(at)
            elif isinstance(op, PutOp):
                if not op.namespace:
                    raise InvalidNamespaceError("Namespace cannot be empty.")
                puts.append(op)
            elif isinstance(op, SearchOp):
                check_filter(op.filter, sql=self.table.sql)
            elif not isinstance(op, ListOp):
                raise UnsupportedError(
                    f"{type(op).__name__} is not an operation that memguard knows.",
                    code="MG130",
                    do="Use get, search, put, delete and list_namespaces.",
                )
        for namespace, places in gets.items():
            found = yield from self._get(namespace, [ops[at] for at in places])
            for at, item in zip(places, found, strict=True):
                results[at] = item
        for at, op in enumerate(ops):
            if isinstance(op, SearchOp):
                results[at] = yield from self._search(op)
            elif isinstance(op, ListOp):
                results[at] = yield from self._list(op)
        if puts:
            yield from self.put(puts)
        return results

    # -- get ---------------------------------------------------------------------------------

    def _get(self, namespace: Namespace, ops: Sequence[GetOp]) -> Operation[list[Item | None]]:
        """Read items of one namespace by key, check them and their place, then decode."""
        keys = list(dict.fromkeys([self.table.key(op.key) for op in ops]))

        def fetch() -> Operation[dict[str, Stored]]:
            return self.table.fetch(namespace, keys)

        def judge(context: Context, found: dict[str, Stored]) -> dict[str, Item | None]:
            return {key: self._judged(context, namespace, key, found.get(key)) for key in keys}

        def lenient(found: dict[str, Stored]) -> dict[str, Item | None]:
            return {key: self._lenient(namespace, row) for key, row in found.items()}

        record = name(namespace, keys[0])
        items = yield from self.custody.read(context_of(namespace), fetch, judge, lenient, record)
        if self._refreshing:
            yield from self._refresh([op for op in ops if op.refresh_ttl and items.get(op.key) is not None])
        return [items.get(op.key) for op in ops]

    def _judged(
        self,
        context: Context,
        namespace: Namespace,
        key: str,
        stored: Stored | None,
        result: Hit | None = None,
    ) -> Item | None:
        """The item, if it is there, as written, and alive; as a search result where it answers one.

        Raises:
            IntegrityError: it is not the one that the head counts.
        """
        if stored is None:
            group = pack_key(key)
            if group in context.index.groups:
                context.verify_group((), group, name(namespace, key))
            return None
        now = self.table.now()
        claim, opened = claim_of(namespace, stored, self.table.form, now)
        row = context.check(claim)
        if context.index.groups.get(row.group) != row.cell:
            context.verify_group((row,), row.group, row.record)
        own = members(opened.own)
        if _dead(own, stored, now, self._refreshing):
            return None
        label = Label.from_dict(own["label"]) if "label" in own else None
        value = self.table.form.decode(opened)
        moment = self.table.moment
        return served(namespace, key, value, moment(stored.created), moment(stored.updated), label, result)

    def _lenient(self, namespace: Namespace, stored: Stored, result: Hit | None = None) -> Item:
        """What is stored, unchecked (report and off modes)."""
        value, own = self.table.form.lenient(stored.value)
        label = members(own).get("label")
        created, updated = self.table.moment(stored.created), self.table.moment(stored.updated)
        found = Label.from_dict(label) if label else None
        return served(namespace, stored.key, value, created, updated, found, result)

    @property
    def _refreshing(self) -> bool:
        """Whether reads move expiries."""
        config = self.inner.ttl_config
        return bool(config and config.get("refresh_on_read", False))

    def _refresh(self, ops: Sequence[GetOp]) -> Operation[None]:
        """Have the store move the expiry of items that are alive (an expired one must not come back by being read)."""
        if ops:
            yield from self.table.batch([GetOp(op.namespace, op.key, refresh_ttl=True) for op in ops])

    # -- search ------------------------------------------------------------------------------

    def _search(self, op: SearchOp) -> Operation[list[SearchItem]]:
        """Search, check every result and that nothing was left out of what was searched."""
        prefix = tuple(op.namespace_prefix)
        check_filter(op.filter, sql=self.table.sql)
        if self.custody.settings.mode == "off":
            found, _ = yield from self._ask(op)
            return [self._lenient(f.namespace, f.stored, f) for f in found if f.stored is not None]  # type: ignore[misc]
        found, cut = yield from self._whole(prefix, lambda: self._ask(op))
        answer: list[SearchItem] = []
        for result in found:
            namespace = result.namespace
            if under(namespace, prefix):
                item = self._quickly(result)
                if item is None:
                    item = yield from self._again(namespace, result)
                if item is not None:
                    answer.append(item)
        if cut:
            answer = answer[op.offset : op.offset + op.limit]
        if op.refresh_ttl and self._refreshing:
            yield from self._refresh([GetOp(item.namespace, item.key) for item in answer])
        return answer

    def _ask(self, op: SearchOp) -> Operation[tuple[list[Hit], bool]]:
        """The store's own answer, each result with its row as stored, and whether more was asked for.

        The store must not move expiries here: that would bring expired items back. Where there are
        expired items, more is asked for, since they are taken out afterwards.
        """
        asked, cut = op._replace(refresh_ttl=False), False
        if self.table.expiring and op.limit >= 0 and not self.table.lasting:
            dead = yield from self.table.expired(stamp(self.table.now()))
            count = sum(under(namespace, op.namespace_prefix) for namespace, _ in dead)
            if count:
                asked, cut = asked._replace(limit=op.offset + op.limit + count, offset=0), True
        with reading(f"namespace {'/'.join(op.namespace_prefix)!r}"):
            found = yield from self.table.search(asked)
            wanted: dict[Namespace, list[str]] = {}
            for result in found:
                if result.stored is None:
                    wanted.setdefault(result.namespace, []).append(result.key)
        if wanted:
            rows: dict[tuple[Namespace, str], Stored] = {}
            for namespace, keys in wanted.items():
                for key, stored in (yield from self.table.fetch(namespace, keys)).items():
                    rows[namespace, key] = stored
            found = [hit._replace(stored=rows.get((hit.namespace, hit.key))) for hit in found]
        return found, cut

    def _quickly(self, result: Hit) -> SearchItem | None:
        """The result, if it checks out at first sight and is alive."""
        namespace, key, _, stored = result
        context = self.custody.peek(context_of(namespace))
        if context is None or context.flawed is not None or stored is None:
            return None
        try:
            return self._judged(context, namespace, key, stored, result)  # type: ignore[return-value]
        except IntegrityError:
            return None  # a writer may have been half-way

    def _again(self, namespace: Namespace, result: Hit) -> Operation[SearchItem | None]:
        """The result read by its key, with writers kept out where that is needed."""
        (item,) = yield from self._get(namespace, [GetOp(namespace, result.key, refresh_ttl=False)])
        return None if item is None else search_item_of(item, result.score)

    # -- completeness ------------------------------------------------------------------------

    def _whole(self, prefix: Namespace, ask: Callable[[], Operation[T]]) -> Operation[T]:
        """What ``ask`` answers, from a store whose contexts under ``prefix`` are complete."""
        names: Iterable[str] = ()
        for _ in range(_TRIES):
            hint = yield from self.table.hint(names)
            names = yield from self._names(prefix, hint)
            if not self.table.cached:  # what tells of changes depends on which names are meant
                hint = yield from self.table.hint(names)
            try:
                yield from self.table.sound(hint)
                yield from self.custody.complete(names, hint)
            except IntegrityError:
                if self.custody.enforcing:
                    raise
            found = yield from ask()
            if hint == (yield from self.table.hint(names)):
                return found  # nobody changed the store between the check and the read
        return (yield from self.custody.alone(names, ask))

    def _names(self, prefix: Namespace, hint: object) -> Operation[dict[str, Namespace]]:
        """Contexts at or below a prefix: those with a head, and those with rows."""
        moment = (hint, self.custody.extent)
        kept = self._under.get(prefix)
        if kept is not None and kept[0] == moment and self.table.cached:
            return kept[1]
        names = {context_of(ns): ns for ns in (yield from self.table.namespaces()) if under(ns, prefix)}
        for context in self.custody.known():
            namespace = namespace_of(context)
            if under(namespace, prefix):
                names.setdefault(context, namespace)
        if len(self._under) >= _KEPT:
            self._under.clear()
        self._under[prefix] = (moment, names)
        return names

    # -- list --------------------------------------------------------------------------------

    def _list(self, op: ListOp) -> Operation[list[Namespace]]:
        """The store's own list, without what no row stands behind."""

        def ask() -> Operation[list[Any]]:
            return self.table.batch([op])

        if self.custody.settings.mode == "off":
            return list((yield from ask())[0])
        (found,) = yield from self._whole((), ask)
        conditions = op.match_conditions or ()
        there: set[Namespace] = set()
        for context, namespace in (yield from self._names((), (yield from self.table.hint(())))).items():
            held = self.custody.peek(context)
            if (held is None or held.index.cells) and all(matches(namespace, c) for c in conditions):
                there.add(namespace[: op.max_depth])
        ghosts = not self.table.sql  # InMemoryStore lists namespaces whose last item was deleted
        return [ns for ns in found if ns in there or (ghosts and listed(ns, op))]

    # -- for custody -------------------------------------------------------------------------

    def scan(self, context: Context) -> Operation[Iterable[Claim]]:
        """Every row of the context. See :class:`~memguard.custody.Rows`."""
        namespace = namespace_of(context.id)
        stored = yield from self.table.rows(namespace)
        return self._claims(namespace, stored)

    def _claims(self, namespace: Namespace, stored: Sequence[Stored]) -> Iterator[Claim]:
        now, last = self.table.now(), b""
        for row in stored:
            claim, _ = claim_of(namespace, row, self.table.form, now)
            order = order_of(claim) if self.table.ordered else None
            if order is not None:
                if order <= last:
                    if self.custody.enforcing:
                        raise disordered(claim.record)
                    claim = claim._replace(place=claim.place + b"order")  # counts as a row of another time
                last = order
            yield claim


def _dead(own: dict[str, Any], stored: Stored, now: float, refreshing: bool) -> bool:
    """Whether an item has expired by its authenticated expiry, or by the one that reads moved since."""
    if "exp" not in own:
        return False
    if stored.expires is None:  # the column cannot be seen: only where reads do not move it
        return not refreshing and bool(own["exp"] + 1 < now)
    if not refreshing and own["exp"] + 1 < now:
        return True  # nobody here moves it: what the column says beyond that is not believed
    at = epoch(stored.expires)
    return at is None or at <= now
