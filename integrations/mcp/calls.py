"""The tools of the reference memory server, guarded: what they write is screened and sealed, what they read proved.

Each call is an operation; its body is the same for the proxy, whose calls end in the server, and for
:class:`~memguard.integrations.mcp.graph.KnowledgeGraph`, which changes the file itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memguard.collection import Collection, Entry, Put, Stored, Withheld
from memguard.collection.writes import Moved, _parts
from memguard.context import current_source
from memguard.effects import Block, Operation
from memguard.errors import MemguardError
from memguard.integrations.mcp.arguments import entity_names, one_each, remaining, shaped, shown, unfenced
from memguard.integrations.mcp.lines import (
    DAMAGED,
    ENTITY,
    RELATIONS,
    context_of,
    entity_content,
    observation_content,
    observation_key,
    relation_content,
    relation_key,
)
from memguard.integrations.mcp.table import GraphTable, not_its_file
from memguard.labels import Label
from memguard.record import Source, text_of

#: Tries of a call while others change the file.
_TRIES = 8
WRITES = ("create_entities", "create_relations", "add_observations")
DELETES = ("delete_entities", "delete_observations", "delete_relations")
READS = ("read_graph", "search_nodes", "open_nodes")
TOOLS = (*WRITES, *DELETES, *READS)


@dataclass(slots=True)
class Answer:
    """What came of a call.

    Attributes:
        given: the server's own answer; of a read only what was proved is taken from it.
        entities, relations: what a read serves: (entity, its observations) and relations, with their labels.
        withheld: writes that were not stored.
        hidden: records that were proved and are kept from this reader.
    """

    given: Any = None
    entities: list[tuple[Entry, list[Entry]]] = field(default_factory=list)
    relations: list[Entry] = field(default_factory=list)
    withheld: list[Withheld] = field(default_factory=list)
    dropped: int = 0
    hidden: int = 0

    def graph(self, shown: Callable[[str, Label | None], str] = lambda text, label: text) -> dict[str, Any]:
        """What a read serves, in the form of the server's answer.

        Args:
            shown: makes of a text and its label what the reader sees.
        """
        return {
            "entities": [
                {
                    "name": head.value["name"],
                    "entityType": shown(head.value["entityType"], head.label),
                    "observations": [shown(entry.value, entry.label) for entry in texts],
                }
                for head, texts in self.entities
            ],
            "relations": [
                {**r.value, "relationType": shown(r.value["relationType"], r.label)} for r in self.relations
            ],
        }

    def entries(self) -> list[Entry]:
        """Every record that is served."""
        return [*(e for head, texts in self.entities for e in (head, *texts)), *self.relations]


class GraphCalls:
    """The guarded tools over one graph file.

    Args:
        source: where text is from that a call writes while the program declares nothing.
    """

    def __init__(self, collection: Collection, table: GraphTable, source: str = "assistant") -> None:
        self.of, self.table, self.source = collection, table, source

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Operation[Answer]:
        """One call of a tool.

        Raises:
            MemguardError: MG606, the arguments are not the tool's. IntegrityError: the file is not as it was left.
            RejectedError, QuarantinedError: a guard refused; nothing of the call was stored.
        """
        given = shaped(tool, arguments)
        body: Callable[[str, Any], Operation[Answer]]
        body = self._read if tool in READS else self._delete if tool in DELETES else self._write
        for _ in range(_TRIES):
            yield from self.of.all(DAMAGED)  # first: what the server says of a damaged line may quote it
            try:
                return (yield from body(tool, given))
            except Moved:
                continue
            finally:
                self.table.planned = None
        raise MemguardError(
            "the memory file is being changed by others.",
            code="MG606",
            why="Every time it was looked at it had changed again.",
            do="Try again.",
        )

    # -- writes ------------------------------------------------------------------------------

    def _write(self, tool: str, given: Mapping[str, Any]) -> Operation[Answer]:
        picture: bytes = yield Block(self.table.picture)
        puts = yield from getattr(self, f"_{tool}")(given)
        answer = Answer()
        stored: list[Put] = []
        #: What the guards made of a text or a value: another one, or nothing.
        made: dict[tuple[str, str], Any] = {}
        lost: set[str] = set()
        for put in puts:
            if put.context in lost:
                answer.dropped += 1
                continue
            said = yield from self.of.screen(put)
            if isinstance(said, Withheld):
                answer.withheld.append(said)
                made[put.context, put.name] = None
                if put.key == ENTITY:  # without it there is nothing that its observations could be of
                    lost.add(put.context)
                continue
            if said.key != put.key or said.content != put.content:
                made[put.context, put.name] = said.value
            if said.key == put.key or not self._there(said, stored):
                stored.append(said)
        passed = remaining(tool, given, made)
        self.table.answer = None
        if stored:
            self.table.planned = picture, tool, passed
            yield from self.of._operate(_parts(stored, {}))
            answer.given = self.table.answer
        else:  # the server is asked all the same, for its answer; alone, so that it stays nothing
            contexts = list(dict.fromkeys(put.context for put in puts)) or [DAMAGED]
            answer.given = yield from self.of.custody.alone(
                contexts, lambda: self._asked(picture, tool, passed)
            )
        return answer

    def _asked(self, picture: bytes, tool: str, passed: Mapping[str, Any]) -> Operation[Any]:
        if (yield Block(self.table.picture)) != picture:
            raise Moved
        return (yield Block(self.table.backend.apply, tool, passed))

    def _there(self, put: Put, stored: Sequence[Put]) -> bool:
        """Whether what a guard made of a record is there already: the server would keep one of both."""
        held = {s.key for s in self.table.look().records.get(put.context, ())}
        return put.key in held | {other.key for other in stored if other.context == put.context}

    def _create_entities(self, given: Mapping[str, Any]) -> Operation[list[Put]]:
        one_each([entity["name"] for entity in given["entities"]], "entity")
        puts: list[Put] = []
        for entity in given["entities"]:
            name, kind = entity["name"], entity["entityType"]
            context = context_of(name)
            if any(e.key == ENTITY for e in (yield from self.of.all(context))):
                continue
            value = {"name": name, "entityType": kind}
            puts.append(self._put(context, ENTITY, value, entity_content(name, kind), text_of(value), name))
            puts += self._observations(name, entity["observations"], {})
        return puts

    def _add_observations(self, given: Mapping[str, Any]) -> Operation[list[Put]]:
        puts: list[Put] = []
        held: dict[str, dict[str, int]] = {}
        for item in given["observations"]:
            name = item["entityName"]
            if name not in held:
                entries = yield from self.of.all(context_of(name))
                if not any(entry.key == ENTITY for entry in entries):
                    raise _no_entity(context_of(name))
                held[name] = {e.value: 1 for e in entries if e.key != ENTITY}
            # As the server: what is there is not added; what stands twice in one list is added twice.
            new = [text for text in item["contents"] if text not in held[name]]
            puts += self._observations(name, new, held[name])
        return puts

    def _create_relations(self, given: Mapping[str, Any]) -> Operation[list[Put]]:
        one_each([relation_key(relation) for relation in given["relations"]], "relation")
        there = {entry.key for entry in (yield from self.of.all(RELATIONS))}
        return [
            self._put(RELATIONS, relation_key(r), r, relation_content(r), text_of(r), r["from"])
            for r in given["relations"]
            if relation_key(r) not in there
        ]

    def _observations(self, name: str, texts: Sequence[str], times: dict[str, int]) -> list[Put]:
        puts = []
        for text in texts:
            times[text] = times.get(text, 0) + 1
            key = observation_key(text, times[text])
            puts.append(self._put(context_of(name), key, text, observation_content(name, text), text, name))
        return puts

    def _put(self, context: str, key: str, value: Any, content: bytes, text: str, name: str) -> Put:
        put = Put(context, key, value, content, text, place=(name, key))
        if current_source() is None:
            put.source = Source.parse(self.source)
        return put

    # -- deletes -----------------------------------------------------------------------------

    def _delete(self, tool: str, given: Mapping[str, Any]) -> Operation[Answer]:
        picture: bytes = yield Block(self.table.picture)
        deletes: dict[str, list[str]] = {}
        relations = yield from self.of.all(RELATIONS)
        if tool == "delete_relations":
            wanted = {relation_key(relation) for relation in given["relations"]}
            deletes[RELATIONS] = [entry.key for entry in relations if entry.key in wanted]
        elif tool == "delete_entities":
            names = set(given["entityNames"])
            for name in names:
                deletes[context_of(name)] = [e.key for e in (yield from self.of.all(context_of(name)))]
            deletes[RELATIONS] = [e.key for e in relations if names & {e.value["from"], e.value["to"]}]
        else:
            for item in given["deletions"]:
                context = context_of(item["entityName"])
                held = [e for e in (yield from self.of.all(context)) if e.key != ENTITY]
                gone = {key for text in item["observations"] for key in _named(held, text)}
                deletes.setdefault(context, []).extend(sorted(gone))
        deletes = {context: keys for context, keys in deletes.items() if keys}
        answer = Answer()
        self.table.answer = None
        if deletes:
            self.table.planned = picture, "", {}
            yield from self.of.write([], deletes)
            answer.given = self.table.answer
        else:
            empty: dict[str, list[str]] = {name: [] for name in given}
            answer.given = yield from self.of.custody.alone([], lambda: self._asked(picture, tool, empty))
        return answer

    # -- reads -------------------------------------------------------------------------------

    def _read(self, tool: str, given: Mapping[str, Any]) -> Operation[Answer]:
        picture = yield Block(self.table.picture)
        said = yield Block(self.table.backend.apply, tool, given)
        names = entity_names(said)
        asked = [context_of(name) for name in given.get("names", ())]
        contexts = asked if tool == "open_nodes" else (yield from self.of.names())
        proved: dict[str, list[Entry]] = {}
        for context in dict.fromkeys([*contexts, *map(context_of, names), RELATIONS, DAMAGED]):
            proved[context] = yield from self.of.all(context)
        if (yield Block(self.table.picture)) != picture:
            raise Moved
        answer = Answer(said)
        for entity in said["entities"]:
            entries = proved[context_of(entity["name"])]
            if not _same(entity, entries):
                if self.of.custody.enforcing:
                    raise not_its_file()
                entries = _as_said(entity)
            answer.entities.append((entries[0], entries[1:]))
        relations = {entry.key: entry for entry in proved[RELATIONS]}
        for relation in said["relations"]:
            if relation_key(relation) not in relations:
                raise not_its_file()
            answer.relations.append(relations[relation_key(relation)])
        if self.of.custody.enforcing:
            self._whole(tool, names, proved, answer)
        yield from self._served(answer)
        return answer

    def _whole(
        self, tool: str, names: Sequence[str], proved: Mapping[str, list[Entry]], answer: Answer
    ) -> None:
        """That the server left nothing out, where that is known from the question."""
        if tool == "search_nodes":
            return
        there = [c for c, entries in proved.items() if entries and c not in (RELATIONS, DAMAGED)]
        ends = [entry.value for entry in proved[RELATIONS]]
        if tool == "open_nodes":
            ends = [r for r in ends if r["from"] in names or r["to"] in names]
        if len(there) != len(names) or len(ends) != len(answer.relations):
            raise not_its_file()

    def _served(self, answer: Answer) -> Operation[None]:
        """Through the read chain: what it withholds is left out."""
        every = answer.entries()
        served = yield from self.of.served(every)
        if len(served) == len(every) and all(a.label == b.label for a, b in zip(served, every, strict=False)):
            return
        by_place = {(entry.context, entry.key): entry for entry in served}

        def kept(entries: Sequence[Entry]) -> list[Entry]:
            return [by_place[e.context, e.key] for e in entries if (e.context, e.key) in by_place]

        answer.entities = [
            (heads[0], kept(texts)) for head, texts in answer.entities if (heads := kept([head]))
        ]
        answer.relations = kept(answer.relations)
        answer.hidden = len(every) - len(answer.entries())


def _named(held: Sequence[Entry], text: str) -> list[str]:
    """Keys of the observations that a text names: itself, or as it was shown fenced."""
    exact = [entry.key for entry in held if entry.value == text]
    if exact:
        return exact
    plain = unfenced(text)
    return [] if plain is None else [entry.key for entry in held if shown(entry.value) == plain]


def _same(entity: Mapping[str, Any], entries: Sequence[Entry]) -> bool:
    if not entries or entries[0].key != ENTITY or entries[0].value["entityType"] != entity["entityType"]:
        return False
    return [entry.value for entry in entries[1:]] == list(entity["observations"])


def _as_said(entity: Mapping[str, Any]) -> list[Entry]:
    """An entity as the server shows it, for report and off modes: nobody vouches for it."""
    name = entity["name"]
    context = context_of(name)
    value = {"name": name, "entityType": entity["entityType"]}
    found = [Entry(context, Stored(ENTITY, b"", None, value=value), None)]
    for text in entity["observations"]:
        found.append(Entry(context, Stored(observation_key(text), b"", None, value=text), None))
    return found


def _no_entity(context: str) -> MemguardError:
    return MemguardError(
        "there is no such entity to add observations to.", code="MG606", where=context, do="Create it first."
    )
