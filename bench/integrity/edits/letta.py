"""Edits of the tables of a Letta server: ``archival_passages`` with their vectors, and ``block``.

Order of passages is ``created_at``; an agent's blocks have none beside their labels, so T4 lets two of them exchange
what they hold. What a guard keeps stands in its home, in ``letta.db``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memguard.bench.integrity.edits.raw import Raw, canonical
from memguard.bench.integrity.edits.scene import COPY, FORGED, Kind, Scene
from memguard.bench.integrity.edits.steps import Remove, Replace, Restore, Sql, Step
from memguard.bench.suts import letta_cell

STORE = "store/agent.json"
BOOK = "home/letta.db"
FACT_AT = 3
Row = dict[str, Any]
_PAST, _FUTURE = "2001-01-01T00:00:00+00:00", "2099-01-01T00:00:00+00:00"


@dataclass(frozen=True, slots=True)
class LettaSql:
    """A SQL script in the server's database."""

    script: str
    file: str = STORE
    live = False

    def run(self, cell: Path) -> None:
        """On the rows of the stopped cell."""
        letta_cell.edit(cell, cell / self.file, self.script)

    def text(self) -> str:
        """The step as a shell command."""
        return f"psql \"$MEMGUARD_LETTA_PG\" <<'SQL'\n{self.script}\nSQL"


def sql(*statements: str) -> list[Step]:
    """One script."""
    return [LettaSql("\n".join(statements))]  # type: ignore[list-item]


def literal(value: Any) -> str:
    """A PostgreSQL literal; objects and lists as JSON."""
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else repr(value)
    text = json.dumps(value) if isinstance(value, dict | list) else str(value)
    return "'" + text.replace("'", "''") + "'"


def _owners(cell: Path, file: str = "agent.json") -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = letta_cell.ids(cell)["agents"].get(file, {})
    return found


def _found(scene: Scene, *, copied: bool = False) -> Any:
    return letta_cell.rows(scene.cell / (f"{COPY}/{STORE}" if copied else STORE))


def _parts(row: Row, text: str) -> tuple[str, dict[str, Any]]:
    """What a record says and of whom, and what else stands beside it."""
    beside = dict(row["metadata_"] or {})
    return canonical([text, beside.pop("owner", None), beside.pop("ts", None)]), beside


# --- passages ---------------------------------------------------------------------------------------------


def passages_state(cell: Path) -> list[Raw]:
    """Every passage of the organisation, and its vector."""
    if not (cell / STORE).exists():
        return []
    owner = {a["archive"]: name for name, a in _owners(cell).items()}
    raw: list[Raw] = []
    for row in letta_cell.rows(cell / STORE)["archival_passages"]:
        who = owner.get(row["archive_id"], str(row["archive_id"]))
        content, beside = _parts(row, row["text"])
        meta = canonical([beside, row["tags"], row["is_deleted"]])
        raw.append(Raw("archival_passages", who, row["id"], str(row["created_at"]), content, meta))
        if row["embedding"] is not None:
            digest = hashlib.sha256(str(row["embedding"]).encode()).hexdigest()
            raw.append(Raw("vectors", who, row["id"], "", digest))
    return raw


def passages(scene: Scene, who: str, *, copied: bool = False) -> list[Row]:
    """The passages of a context, oldest first."""
    archive = _owners(scene.cell)[scene.owners[who]]["archive"]
    mine = [r for r in _found(scene, copied=copied)["archival_passages"] if r["archive_id"] == archive]
    return sorted(mine, key=lambda r: (r["created_at"], r["id"]))


def update(row: Row, table: str = "archival_passages", **changes: Any) -> str:
    """UPDATE of one row."""
    sets = ", ".join(f"{column} = {literal(value)}" for column, value in changes.items())
    return f"UPDATE {table} SET {sets} WHERE id = {literal(row['id'])};"


def insert(row: Row, table: str = "archival_passages") -> str:
    """INSERT of one row."""
    values = ", ".join(literal(value) for value in row.values())
    columns = ", ".join(f'"{column}"' for column in row)
    return f"INSERT INTO {table} ({columns}) VALUES ({values});"


def _delete(row: Row, table: str = "archival_passages") -> str:
    return f"DELETE FROM {table} WHERE id = {literal(row['id'])};"


def _forged(row: Row, at: str) -> Row:
    ident = f"passage-{hashlib.sha256(at.encode()).hexdigest()[:8]}-0000-4000-8000-000000000000"
    return {**row, "id": ident, "text": FORGED, "created_at": at, "embedding": None}


def p1(scene: Scene) -> list[Step]:
    """Change the fact."""
    return sql(update(passages(scene, "A")[FACT_AT], text=FORGED))


def p2(scene: Scene) -> list[Step]:
    """Delete the newest passage."""
    return sql(_delete(passages(scene, "A")[-1]))


def p3(scene: Scene) -> list[Step]:
    """Delete a middle passage."""
    return sql(_delete(passages(scene, "A")[2]))


def p4(scene: Scene) -> list[Step]:
    """Exchange the moments that order two passages."""
    rows = passages(scene, "A")
    one, two = rows[2], rows[FACT_AT]
    return sql(update(one, created_at=two["created_at"]), update(two, created_at=one["created_at"]))


def p5(scene: Scene) -> list[Step]:
    """Add an authored passage after the newest."""
    return sql(insert(_forged(passages(scene, "A")[-1], _FUTURE)))


def _over(victim: Row, donor: Row) -> list[Step]:
    return sql(update(victim, text=donor["text"], metadata_=donor["metadata_"], tags=donor["tags"]))


def p6(scene: Scene) -> list[Step]:
    """Copy what A's newest says over B's newest."""
    return _over(passages(scene, "B")[-1], passages(scene, "A")[-1])


def p7(scene: Scene) -> list[Step]:
    """Copy what an older passage of A says over A's newest."""
    rows = passages(scene, "A")
    return _over(rows[-1], rows[1])


def p8(scene: Scene) -> list[Step]:
    """Name another source."""
    row = passages(scene, "A")[FACT_AT]
    return sql(update(row, metadata_={**row["metadata_"], "source": "system", "role": "system"}))


def _brought_back(scene: Scene) -> list[Step]:
    there = {r["id"] for r in passages(scene, "A")}
    return sql(*(insert(r) for r in passages(scene, "A", copied=True) if r["id"] not in there))


def _handed(scene: Scene, who: str, to: str) -> list[str]:
    archive = _owners(scene.cell)[scene.owners[to]]["archive"]
    return [update(row, archive_id=archive) for row in passages(scene, who)]


def _context_restored(scene: Scene) -> list[Step]:
    gone = [_delete(r) for r in passages(scene, "A")]
    return sql(*gone, *(insert(r) for r in passages(scene, "A", copied=True)))


def _attracts(scene: Scene) -> list[Step]:
    rows = passages(scene, "A")
    return sql(update(rows[0], embedding=rows[FACT_AT]["embedding"]))


def _suppresses(scene: Scene) -> list[Step]:
    row = passages(scene, "A")[FACT_AT]
    return sql(update(row, embedding=[-x for x in json.loads(row["embedding"])]))


def _neutralised(scene: Scene) -> list[Step]:
    row = passages(scene, "A")[-1]
    kept = {name: row["metadata_"][name] for name in ("key", "owner", "ts")}
    return sql(update(row, metadata_=kept))


def _copied_again(scene: Scene) -> list[Step]:
    rows = passages(scene, "A")
    return sql(insert({**_forged(rows[1], _FUTURE), "text": rows[1]["text"]}))


def _to_other(scene: Scene) -> list[Step]:
    archive = _owners(scene.cell)[scene.owners["B"]]["archive"]
    row = passages(scene, "A")[1]
    return sql(insert({**_forged(row, _FUTURE), "text": row["text"], "archive_id": archive}))


def _in_the_middle(scene: Scene) -> list[Step]:
    return sql(insert(_forged(passages(scene, "A")[2], passages(scene, "A")[2]["created_at"])))


def _emptied(scene: Scene) -> list[Step]:
    return sql(*(_delete(r) for r in passages(scene, "A")))


# --- blocks -----------------------------------------------------------------------------------------------


def blocks_state(cell: Path) -> list[Raw]:
    """Every block of the organisation, and what it is attached to."""
    if not (cell / STORE).exists():
        return []
    found = letta_cell.rows(cell / STORE)
    owner = {a["agent"]: name for name, a in _owners(cell).items()}
    at = {
        link["block_id"]: owner.get(link["agent_id"], str(link["agent_id"]))
        for link in found["blocks_agents"]
    }
    raw: list[Raw] = []
    for row in found["block"]:
        who, label = at.get(row["id"], "nobody"), str(row["label"])
        content, beside = _parts(row, row["value"])
        meta = canonical([beside, row["description"], row["limit"], row["read_only"]])
        order = f"{label.rpartition('-')[2]:>6}"
        raw.append(Raw("block", who, row["id"], order, content, meta))
    return raw


def blocks(scene: Scene, who: str, *, copied: bool = False) -> list[Row]:
    """The blocks of a context, by their numbers."""
    found = _found(scene, copied=copied)
    agent = _owners(scene.cell)[scene.owners[who]]["agent"]
    mine = {link["block_id"] for link in found["blocks_agents"] if link["agent_id"] == agent}
    rows = [r for r in found["block"] if r["id"] in mine]
    return sorted(rows, key=lambda r: int(str(r["label"]).rpartition("-")[2]))


def _set(row: Row, **changes: Any) -> str:
    return update(row, "block", **changes)


def _link(row: Row, agent: str) -> str:
    values = ", ".join(literal(v) for v in (agent, row["id"], row["label"]))
    return f"INSERT INTO blocks_agents (agent_id, block_id, block_label) VALUES ({values});"


def _gone(row: Row) -> list[str]:
    return [f"DELETE FROM blocks_agents WHERE block_id = {literal(row['id'])};", _delete(row, "block")]


def b1(scene: Scene) -> list[Step]:
    """Change the fact."""
    return sql(_set(blocks(scene, "A")[FACT_AT], value=FORGED))


def b2(scene: Scene) -> list[Step]:
    """Delete the newest block."""
    return sql(*_gone(blocks(scene, "A")[-1]))


def b3(scene: Scene) -> list[Step]:
    """Delete a middle block."""
    return sql(*_gone(blocks(scene, "A")[2]))


def b4(scene: Scene) -> list[Step]:
    """Let two blocks exchange all that they hold."""
    rows = blocks(scene, "A")
    one, two = rows[2], rows[FACT_AT]
    return sql(_hold(one, two), _hold(two, one))


def _hold(place: Row, donor: Row) -> str:
    return _set(place, value=donor["value"], metadata_=donor["metadata_"])


def b5(scene: Scene) -> list[Step]:
    """Add an authored block and attach it."""
    tip = blocks(scene, "A")[-1]
    forged = {**tip, "id": "block-00000000-0000-4000-8000-000000000090", "label": "m-90", "value": FORGED}
    forged["id"] = forged["id"][:-12] + tip["id"][-12:]
    agent = _owners(scene.cell)[scene.owners["A"]]["agent"]
    return sql(insert(forged, "block"), _link(forged, agent))


def b6(scene: Scene) -> list[Step]:
    """Copy what A's newest holds over B's newest."""
    return sql(_hold(blocks(scene, "B")[-1], blocks(scene, "A")[-1]))


def b7(scene: Scene) -> list[Step]:
    """Copy what an older block of A holds over A's newest."""
    rows = blocks(scene, "A")
    return sql(_hold(rows[-1], rows[1]))


def b8(scene: Scene) -> list[Step]:
    """Name another source."""
    row = blocks(scene, "A")[FACT_AT]
    return sql(_set(row, metadata_={**row["metadata_"], "source": "system", "role": "system"}))


def _block_back(scene: Scene) -> list[Step]:
    there = {r["id"] for r in blocks(scene, "A")}
    agent = _owners(scene.cell)[scene.owners["A"]]["agent"]
    back = [r for r in blocks(scene, "A", copied=True) if r["id"] not in there]
    return sql(*(insert(r, "block") for r in back), *(_link(r, agent) for r in back))


def _blocks_handed(scene: Scene, who: str, to: str) -> list[str]:
    agent = _owners(scene.cell)[scene.owners[to]]["agent"]
    return [
        f"UPDATE blocks_agents SET agent_id = {literal(agent)} WHERE block_id = {literal(row['id'])};"
        for row in blocks(scene, who)
    ]


def _older_version(scene: Scene) -> list[Step]:
    old = next(r for r in blocks(scene, "A", copied=True) if r["label"] == "m-2")
    return sql(_hold(old, old))


def _blocks_restored(scene: Scene) -> list[Step]:
    old = blocks(scene, "A", copied=True)
    kept = {r["id"] for r in old}
    gone = [statement for r in blocks(scene, "A") if r["id"] not in kept for statement in _gone(r)]
    return sql(*gone, *(_hold(r, r) for r in old))


# --- what both share --------------------------------------------------------------------------------------


def _stripped(rows: Callable[..., list[Row]], change: Callable[[Scene], list[Step]], kind: str) -> Any:
    """``change``, and the seal of the changed record removed from the guard's home."""

    def steps(scene: Scene) -> list[Step]:
        scene.need_guard("seal that could be removed")
        row = rows(scene, "A")[FACT_AT]
        where = (
            f"key = {literal(row['id'])}"
            if kind == "archive"
            else f"context = {literal('block:' + row['id'])}"
        )
        return [*change(scene), Sql(BOOK, f"DELETE FROM kept WHERE {where};")]

    return steps


def _all_stripped(change: Callable[[Scene], list[Step]]) -> Any:
    def steps(scene: Scene) -> list[Step]:
        scene.need_guard("seals that could be removed")
        return [*change(scene), Sql(BOOK, "DELETE FROM kept;")]

    return steps


def _config_edited(change: Callable[[Scene], list[Step]]) -> Any:
    def steps(scene: Scene) -> list[Step]:
        scene.need_guard("configuration beside it")
        return [Replace("home/memguard.toml", 'preset = "balanced"', 'preset = "off"'), *change(scene)]

    return steps


_NO_WRITES = "memory of an agent has no pending writes"
_WHY_NOT = {
    "X03": _NO_WRITES,
    "X04": _NO_WRITES,
    "X05": _NO_WRITES,
    "X06": "blocks and passages have no parent links",
    "X18": "there is no type under which a value is decoded",
    "X19": "a column of text decodes to itself",
    "X20": "a column of text calls nothing when it is read",
    "X25": "the history table of blocks is written only by checkpoints, which the client does not make",
    "X38": "the server's database is not a file of the store",
    "X41": "the change is in the server's database, whichever of its files it lies in",
    "X43": _NO_WRITES,
    "X52": "the server's database is not swapped: the sister lives in it too",
    "X55": _NO_WRITES,
}
_SHARED: dict[str, Callable[[Scene], list[Step]]] = {
    "T9": Scene.whole,
    "X12": Scene.whole,
    "X13": Scene.whole,
    "X14": lambda scene: [Remove((scene.need_anchor(),))],
    "X15": lambda scene: [Restore((scene.need_anchor(),))],
    "X56": lambda scene: [Restore(("store",))],
}

PASSAGES = Kind(
    name="letta-passages",
    main="archival_passages",
    state=passages_state,
    context=lambda owner: owner,
    edits={
        **_SHARED,
        "T1": p1,
        "T2": p2,
        "T3": p3,
        "T4": p4,
        "T5": p5,
        "T6": p6,
        "T7": p7,
        "T8": p8,
        "X01": lambda scene: sql(update(passages(scene, "A")[-1], text=FORGED)),
        "X02": _brought_back,
        "X07": lambda scene: sql(*_handed(scene, "A", "C")),
        "X08": lambda scene: sql(*_handed(scene, "A", "B"), *_handed(scene, "B", "A")),
        "X09": _context_restored,
        "X10": p6,
        "X11": p2,
        "X16": _stripped(passages, p1, "archive"),
        "X17": _all_stripped(p1),
        "X21": _attracts,
        "X22": _suppresses,
        "X23": lambda scene: sql(update(passages(scene, "A")[1], created_at=_FUTURE)),
        "X26": _neutralised,
        "X33": _config_edited(p1),
        "X35": _in_the_middle,
        "X36": _copied_again,
        "X37": _emptied,
        "X42": _to_other,
        "X50": _emptied,
    },
    why_not={
        **_WHY_NOT,
        "X32": "a passage is never written again: the API has no update",
        "X24": "a passage has no expiry",
    },
)

BLOCKS = Kind(
    name="letta-blocks",
    main="block",
    state=blocks_state,
    context=lambda owner: owner,
    edits={
        **_SHARED,
        "T1": b1,
        "T2": b2,
        "T3": b3,
        "T4": b4,
        "T5": b5,
        "T6": b6,
        "T7": b7,
        "T8": b8,
        "X01": lambda scene: sql(_set(blocks(scene, "A")[-1], value=FORGED)),
        "X02": _block_back,
        "X07": lambda scene: sql(*_blocks_handed(scene, "A", "C")),
        "X08": lambda scene: sql(
            "SET LOCAL session_replication_role = replica;",
            *_blocks_handed(scene, "A", "C"),
            *_blocks_handed(scene, "B", "A"),
            *_blocks_handed(scene, "A", "B"),
        ),
        "X09": _blocks_restored,
        "X10": b6,
        "X11": b2,
        "X16": _stripped(blocks, b1, "block"),
        "X17": _all_stripped(b1),
        "X32": _older_version,
        "X33": _config_edited(b1),
        "X37": lambda scene: sql(*(line for row in blocks(scene, "A") for line in _gone(row))),
    },
    why_not={
        **_WHY_NOT,
        "X21": "a block has no vector",
        "X22": "a block has no vector",
        "X23": "blocks are not ranked: all of them are in the prompt",
        "X24": "a block has no expiry",
    },
)
