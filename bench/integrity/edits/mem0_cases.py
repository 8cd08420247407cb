"""T1-T9 and X01.. for Mem0 on Qdrant, FAISS, Chroma and pgvector, each edit in the store's own format."""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memguard.bench.integrity.edits.mem0_rows import (
    FACT_AT,
    FORMATS,
    Chroma,
    Format,
    PgVector,
    Qdrant,
    Row,
    rows,
    state,
)
from memguard.bench.integrity.edits.raw import literal
from memguard.bench.integrity.edits.scene import (
    DATABASE,
    FORGED,
    LATER,
    MARKER,
    NOTE_MOMENT,
    SISTER,
    VIEW_WAITS,
    Inexpressible,
    Kind,
    Scene,
)
from memguard.bench.integrity.edits.steps import CopyTree, Remove, Replace, Restore, Sql
from memguard.bench.suts.mem0_offline import COLLECTION

_PAST, _FUTURE = "2001-01-01", "2099-01-01T00:00:00+00:00"
_HISTORY = f"{DATABASE}/history.db"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows written and removed in a vector store that is closed."""

    of: Format
    put: Sequence[Row] = ()
    drop: Sequence[str] = ()

    def run(self, cell: Path) -> None:
        """Write them in the store's own format."""
        base = cell / DATABASE
        if self.drop:
            self.of.drop(base, self.drop)
        if self.put:
            self.of.put(base, self.put)

    def text(self) -> str:
        """The step in words; the values as JSON."""
        said = [f"# {self.of.provider}: remove {id}" for id in self.drop]
        for row in self.put:
            said.append(f"# {self.of.provider}: write {row.id} {json.dumps(row.payload, default=repr)}")
            said.append(f"#   vectors {json.dumps(row.vectors, default=repr)}")
        return "\n".join(said)


@dataclass(frozen=True, slots=True)
class Psql:
    """SQL on the server whose data folder lies in the cell."""

    script: str
    crash: bool = field(default=False)

    def run(self, cell: Path) -> None:
        """Run it; with ``crash`` the change stays in the server's log."""
        PgVector().run(cell / DATABASE, self.script, crash=self.crash)

    def text(self) -> str:
        """The step as a shell command."""
        end = "\n# and end the server with SIGQUIT" if self.crash else ""
        return f"psql <<'SQL'\n{self.script}\nSQL{end}"


class _Payload:
    """Sets a variable of the environment when it is unpickled."""

    def __reduce__(self) -> Any:
        return (exec, (f"import os; os.environ[{MARKER!r}] = '1'",))


Edit = Callable[[Scene], list[Any]]


def _edits(of: Format) -> dict[str, Edit]:
    def mine(scene: Scene, who: str, **more: Any) -> list[Row]:
        return rows(of, scene, who, **more)

    def put(*made: Row) -> list[Any]:
        return [Rows(of, made)]

    def drop(*gone: Row) -> list[Any]:
        return [Rows(of, drop=[row.id for row in gone])]

    def seal(row: Row) -> Any:
        return row.payload.get("memguard")

    def forged(row: Row, **changes: Any) -> Row:
        made = row.saying(**changes)
        return Row(str(uuid.uuid5(uuid.NAMESPACE_OID, f"{row.id} forged")), made.payload, made.vectors)

    def over(victim: Row, donor: Row, *, keep: bool = False) -> Row:
        """The donor's payload in the victim's place; ``keep`` leaves the victim's seal."""
        about = {"user_id": victim.payload["user_id"]}
        if keep:
            about["memguard"] = seal(victim)
        return Row(victim.id, donor.saying(**about).payload, dict(victim.vectors))

    def t1(scene: Scene) -> list[Any]:
        return put(mine(scene, "A")[FACT_AT].saying(data=FORGED))

    def t2(scene: Scene) -> list[Any]:
        return drop(mine(scene, "A")[-1])

    def t3(scene: Scene) -> list[Any]:
        return drop(mine(scene, "A")[2])

    def t4(scene: Scene) -> list[Any]:
        one, two = mine(scene, "A")[2], mine(scene, "A")[FACT_AT]
        return put(one.saying(created_at=two.order), two.saying(created_at=one.order))

    def t5(scene: Scene) -> list[Any]:
        tip = mine(scene, "A")[-1]
        return put(forged(tip, data=FORGED, created_at=f"{tip.order[:-7]}9{tip.order[-6:]}"))

    def t6(scene: Scene) -> list[Any]:
        return put(over(mine(scene, "B")[-1], mine(scene, "A")[-1]))

    def t7(scene: Scene) -> list[Any]:
        found = mine(scene, "A")
        return put(over(found[-1], found[1]))

    def t8(scene: Scene) -> list[Any]:
        return put(mine(scene, "A")[FACT_AT].saying(role="system"))

    def brought_back(scene: Scene) -> list[Any]:
        there = {row.id for row in mine(scene, "A")}
        return put(*[row for row in mine(scene, "A", copied=True) if row.id not in there])

    def handed(scene: Scene, *pairs: tuple[str, str]) -> list[Any]:
        moved = [r.saying(user_id=scene.owners[to]) for who, to in pairs for r in mine(scene, who)]
        return put(*moved)

    def restored(scene: Scene) -> list[Any]:
        old = {row.id for row in mine(scene, "A", copied=True)}
        gone = [row for row in mine(scene, "A") if row.id not in old]
        listed = ", ".join(literal(row.id) for row in gone)
        return [*drop(*gone), Sql(_HISTORY, f"DELETE FROM history WHERE memory_id IN ({listed});")]

    def stripped(scene: Scene) -> list[Any]:
        scene.need_guard("tag that could be stripped")
        return put(mine(scene, "A")[FACT_AT].saying(memguard=None, data=FORGED))

    def all_stripped(scene: Scene) -> list[Any]:
        scene.need_guard("tags that could be stripped")
        found = mine(scene, "A")
        bare = [row.saying(memguard=None) for row in found[:-1]]
        return put(*bare, found[-1].saying(memguard=None, data=FORGED))

    def attracts(scene: Scene) -> list[Any]:
        found = mine(scene, "A")
        return put(Row(found[0].id, found[0].payload, {**found[0].vectors, "": found[FACT_AT].vectors[""]}))

    def hides(scene: Scene) -> list[Any]:
        row = mine(scene, "A")[FACT_AT]
        return put(Row(row.id, row.payload, {**row.vectors, "": [-x for x in row.vectors[""]]}))

    def without_vector(scene: Scene) -> list[Any]:
        row = mine(scene, "A")[FACT_AT]
        return put(Row(row.id, row.payload, {}))

    def second_vector(scene: Scene) -> list[Any]:
        found = mine(scene, "A")
        more: Any = found[FACT_AT].vectors[""]
        if of.provider == "qdrant":
            more = {"indices": [1, 2], "values": [0.5, 0.5]}
        name = "bm25" if of.provider == "qdrant" else "1"
        return put(Row(found[0].id, found[0].payload, {**found[0].vectors, name: more}))

    def label(scene: Scene, trust: str, kind: str) -> list[Any]:
        scene.need_guard("label")
        row = mine(scene, "A")[-1]
        part = json.loads(seal(row))
        part["label"] = {**(part.get("label") or {}), "trust": trust, "source": kind}
        return put(row.saying(memguard=json.dumps(part, separators=(",", ":"))))

    def swapped(scene: Scene) -> list[Any]:
        scene.need_guard("seal")
        one, two = mine(scene, "A")[2], mine(scene, "A")[FACT_AT]

        def as_other(row: Row, other: Row) -> Row:
            kept = {name: row.payload.get(name) for name in ("created_at", "updated_at", "role", "memguard")}
            return Row(row.id, other.saying(**kept).payload, dict(row.vectors))

        return put(as_other(one, two), as_other(two, one))

    def crossed(scene: Scene) -> list[Any]:
        scene.need_guard("seal")
        return put(over(mine(scene, "B")[-1], mine(scene, "A")[-1], keep=True))

    def older(scene: Scene) -> list[Any]:
        scene.need_guard("seal")
        found = mine(scene, "A")
        return put(over(found[-1], found[1], keep=True))

    def older_version(scene: Scene) -> list[Any]:
        return put(next(row for row in mine(scene, "A", copied=True) if row.payload["n"] == 2))

    def config_edited(scene: Scene) -> list[Any]:
        scene.need_guard("configuration beside it")
        return [Replace("home/memguard.toml", 'preset = "balanced"', 'preset = "off"'), *t1(scene)]

    def state_removed(scene: Scene) -> list[Any]:
        scene.need_guard("state file")
        files = sorted(p.relative_to(scene.cell).as_posix() for p in (scene.cell / "home").glob("state.db*"))
        return [Remove(tuple(files)), *brought_back(scene)]

    def state_rolled_back(scene: Scene) -> list[Any]:
        scene.need_guard("state file")
        if not scene.changed_since_copy("home"):
            raise Inexpressible("this configuration keeps nothing about the deletion in the guard's folder")
        return [Restore(("home",)), *brought_back(scene)]

    def backdated(scene: Scene) -> list[Any]:
        base = mine(scene, "A")[2]
        return put(forged(base, data=FORGED))

    def put_again(scene: Scene) -> list[Any]:
        found = mine(scene, "A")
        return put(forged(found[1], created_at=found[-1].order))

    def to_other(scene: Scene) -> list[Any]:
        donor, tip = mine(scene, "A")[-1], mine(scene, "B")[-1]
        return put(forged(donor, user_id=tip.payload["user_id"], created_at=tip.order))

    def of_sister(scene: Scene) -> list[Any]:
        row, other = mine(scene, "A")[-1], mine(scene, "A", sister=True)[-1]
        return put(Row(row.id, other.saying(created_at=row.order).payload, dict(row.vectors)))

    def history(scene: Scene) -> list[Any]:
        row = mine(scene, "A")[-1]
        change = f"UPDATE history SET new_memory = {literal(FORGED)} WHERE memory_id = {literal(row.id)};"
        return [Sql(_HISTORY, change)]

    def newest_changed(scene: Scene) -> list[Any]:
        return put(mine(scene, "A")[-1].saying(data=FORGED))

    return {
        "T1": t1, "T2": t2, "T3": t3, "T4": t4, "T5": t5, "T6": t6, "T7": t7, "T8": t8, "T9": Scene.whole,
        "X01": newest_changed,
        "X02": brought_back,
        "X07": lambda scene: handed(scene, ("A", "C")),
        "X08": lambda scene: handed(scene, ("A", "B"), ("B", "A")),
        "X09": restored,
        "X10": t6,
        "X11": t2,
        "X12": Scene.whole,
        "X13": Scene.whole,
        "X14": lambda scene: [Remove((scene.need_anchor(),))],
        "X15": lambda scene: [Restore((scene.need_anchor(),))],
        "X16": stripped,
        "X17": all_stripped,
        "X19": lambda scene: put(mine(scene, "A")[-1].saying(data=7)),
        "X20": lambda scene: put(mine(scene, "A")[-1].saying(more=_Payload())),
        "X21": attracts,
        "X22": hides,
        "X23": lambda scene: put(mine(scene, "A")[1].saying(created_at=_FUTURE)),
        "X24": lambda scene: put(mine(scene, "A")[FACT_AT].saying(expiration_date=_PAST)),
        "X25": history,
        "X26": lambda scene: put(mine(scene, "A")[-1].saying(role=None, updated_at=None)),
        "X27": lambda scene: label(scene, "system", "system"),
        "X28": lambda scene: label(scene, "untrusted", "unknown"),
        "X29": swapped,
        "X30": crossed,
        "X31": older,
        "X32": older_version,
        "X33": config_edited,
        "X34": state_removed,
        "X35": backdated,
        "X36": put_again,
        "X37": lambda scene: drop(*mine(scene, "A")),
        "X38": lambda scene: [Remove((DATABASE,))],
        "X39": lambda scene: _rewriting(of),
        "X41": lambda scene: [Psql(PgVector().script([mine(scene, "A")[-1].saying(data=FORGED)]), crash=True)],
        "X42": to_other,
        "X44": state_rolled_back,
        "X45": lambda scene: _view(of, mine(scene, "A")[-1], waits=False),
        "X46": lambda scene: _view(of, mine(scene, "A")[-1], waits=True),
        "X47": lambda scene: _swallowing(of),
        "X51": of_sister,
        "X52": lambda scene: [CopyTree(SISTER, DATABASE)],
        "X53": second_vector,
        "X54": without_vector,
        "X56": lambda scene: [Restore(("store",))],
    }  # fmt: skip


def _database(of: Format) -> str:
    file = of.file(Path(DATABASE)) if isinstance(of, Qdrant | Chroma) else Path(DATABASE)
    return file.as_posix()


def _rewriting(of: Format) -> list[Any]:
    """What is written next becomes what was written before."""
    if of.provider == "pgvector":
        other = f"(SELECT payload FROM {COLLECTION} ORDER BY id LIMIT 1)"
        what = f"UPDATE {COLLECTION} SET payload = {other} WHERE id = NEW.id"
        return [Psql(f"CREATE RULE later AS ON INSERT TO {COLLECTION} DO ALSO {what};")]
    body = "UPDATE points SET point = (SELECT point FROM points ORDER BY id LIMIT 1) WHERE id = NEW.id;"
    table = "points"
    if of.provider == "chroma":
        table = "embedding_metadata"
        body = f"UPDATE embedding_metadata SET string_value = {literal(FORGED)} WHERE id = NEW.id AND key = 'data';"
    return [Sql(_database(of), f"CREATE TRIGGER later AFTER INSERT ON {table} BEGIN\n  {body}\nEND;")]


def _swallowing(of: Format) -> list[Any]:
    if of.provider == "pgvector":
        return [Psql(f"CREATE RULE later AS ON INSERT TO {COLLECTION} DO INSTEAD NOTHING;")]
    table = "points" if of.provider == "qdrant" else "embeddings"
    return [
        Sql(
            _database(of),
            f"CREATE TRIGGER later BEFORE INSERT ON {table} BEGIN\n  SELECT RAISE(IGNORE);\nEND;",
        )
    ]


def _view(of: Format, row: Row, *, waits: bool) -> list[Any]:
    if of.provider == "pgvector":
        later = f" AND clock_timestamp() > (SELECT moment FROM planted) + interval '{VIEW_WAITS} seconds'"
        note = "CREATE TABLE planted AS SELECT clock_timestamp() AS moment;\n" if waits else ""
        kept = f"id = {literal(row.id)}{later if waits else ''}"
        return [
            Psql(
                f"{note}ALTER TABLE {COLLECTION} RENAME TO kept;\n"
                f"CREATE VIEW {COLLECTION} AS SELECT * FROM kept WHERE NOT ({kept});"
            )
        ]
    import base64

    hidden = f" AND {LATER}" if waits else ""
    note = f"{NOTE_MOMENT}\n" if waits else ""
    if of.provider == "qdrant":
        key = base64.b64encode(pickle.dumps(row.id, protocol=4)).decode()
        script = (
            f"{note}ALTER TABLE points RENAME TO kept;\n"
            "CREATE VIEW points AS SELECT rowid AS rowid, id, point FROM kept"
            f" WHERE NOT (id = {literal(key)}{hidden});"
        )
    else:
        script = (
            f"{note}ALTER TABLE embeddings RENAME TO kept;\n"
            f"CREATE VIEW embeddings AS SELECT * FROM kept WHERE NOT (embedding_id = {literal(row.id)}{hidden});"
        )
    return [Sql(_database(of), script)]


_NO_WRITES = "a memory has no pending writes"
_NOBODY = "nothing in Mem0 reads over all owners; an owner that never was is read in X07"
_COMMON = {
    "X03": _NO_WRITES,
    "X04": _NO_WRITES,
    "X05": _NO_WRITES,
    "X06": "memories have no parent links",
    "X18": "a payload has no type column",
    "X43": _NO_WRITES,
    "X49": _NOBODY,
    "X50": _NOBODY,
    "X55": _NO_WRITES,
}
_JSON = "a payload is JSON, which calls nothing when it is decoded"
_ONE = "a member stands once: the file or column is parsed into an object before anything filters by it"
_JOURNAL = "this store keeps a rollback journal, in which no finished change can be left behind"
_FILES = "the store is two files, without a schema"
_INDEX = "the store asks no index that could be rebuilt by SQL: what is searched is its own file or memory"
_VECTOR = "a record has exactly one vector here"
_WHY_NOT = {
    "qdrant": {"X40": _ONE, "X41": _JOURNAL, "X48": _INDEX},
    "faiss": {
        "X20": _JSON, "X39": _FILES, "X40": _ONE, "X41": "files have no log", "X45": _FILES, "X46": _FILES,
        "X47": _FILES, "X48": _INDEX,
    },
    "chroma": {
        "X20": _JSON, "X40": "metadata are rows with key and record as their primary key", "X41": _JOURNAL,
        "X48": "no edit is written: Chroma's filters go through SQLite, and the guard asks by the same ones",
        "X53": _VECTOR,
    },
    "pgvector": {
        "X20": _JSON, "X40": "jsonb keeps a member once",
        "X48": "PostgreSQL's indexes are files of its own; SQL cannot make one that lies", "X53": _VECTOR,
    },
}  # fmt: skip


def _kind(of: Format) -> Kind:
    why_not = {**_COMMON, **_WHY_NOT[of.provider]}
    return Kind(
        name=f"mem0-{of.provider}",
        main=COLLECTION,
        state=state(of),
        context=lambda owner: owner,
        edits={case: edit for case, edit in _edits(of).items() if case not in why_not},
        why_not=why_not,
    )


KINDS = {provider: _kind(of) for provider, of in FORMATS.items()}
