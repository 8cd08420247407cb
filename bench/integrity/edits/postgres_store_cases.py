"""T1-T9 and X01.. for LangGraph's PostgresStore."""

from __future__ import annotations

from memguard.bench.integrity.edits.postgres_saver import CopyTree, PgSql
from memguard.bench.integrity.edits.postgres_store import (
    FACT_AT,
    ITEM,
    KEY,
    VECTOR,
    delete,
    insert,
    items,
    literal,
    prefix,
    seal_of,
    sql,
    state,
    update,
    value,
    vectors,
    where,
)
from memguard.bench.integrity.edits.scene import (
    DATABASE,
    FORGED,
    VIEW_WAITS,
    Inexpressible,
    Kind,
    Scene,
)
from memguard.bench.integrity.edits.steps import Remove, Replace, Restore, Step

_FUTURE, _PAST = "2099-01-01 00:00:00+00", "2001-01-01 00:00:00+00"


# --- the nine edits ---------------------------------------------------------------------------------------


def t1(scene: Scene) -> list[Step]:
    """Change the fact in one item."""
    row = items(scene, "A")[FACT_AT]
    return sql(update(row, value=value(row, text=FORGED)))


def t2(scene: Scene) -> list[Step]:
    """Delete the newest item."""
    return sql(delete(items(scene, "A")[-1]))


def t3(scene: Scene) -> list[Step]:
    """Delete a middle item."""
    return sql(delete(items(scene, "A")[2]))


def t4(scene: Scene) -> list[Step]:
    """Exchange the stamps that order two items."""
    rows = items(scene, "A")
    one, two = rows[2], rows[FACT_AT]
    return sql(update(one, updated_at=two["updated_at"]), update(two, updated_at=one["updated_at"]))


def t5(scene: Scene) -> list[Step]:
    """Add an authored item after the newest, in the store's own format, with the newest one's seal."""
    tip = items(scene, "A")[-1]
    return sql(insert({**tip, "key": "m-90", "value": value(tip, text=FORGED)}))


def t6(scene: Scene) -> list[Step]:
    """Copy A's newest value over B's newest, in B's place."""
    return sql(update(items(scene, "B")[-1], value=items(scene, "A")[-1]["value"]))


def t7(scene: Scene) -> list[Step]:
    """Copy an older value of A over A's newest."""
    rows = items(scene, "A")
    return sql(update(rows[-1], value=rows[1]["value"]))


def t8(scene: Scene) -> list[Step]:
    """Date one item back."""
    return sql(update(items(scene, "A")[FACT_AT], created_at=_PAST))


# --- cases of our own -------------------------------------------------------------------------------------


def _newest_changed(scene: Scene) -> list[Step]:
    row = items(scene, "A")[-1]
    return sql(update(row, value=value(row, text=FORGED)))


def _brought_back(scene: Scene) -> list[Step]:
    there = {r["key"] for r in items(scene, "A")}
    gone = [r for r in items(scene, "A", copied=True) if r["key"] not in there]
    lost = {r["key"] for r in gone}
    back = [insert(r) for r in gone]
    back += [insert(r, "store_vectors", VECTOR) for r in vectors(scene, "A", copied=True) if r["key"] in lost]
    return sql(*back)


def _rename(old: str, new: str) -> list[str]:
    """Rename a namespace in both tables; the foreign key that ties them is looked at when all is done."""
    what = f"SET prefix = {literal(new)} WHERE prefix = {literal(old)};"
    return [f"UPDATE {table} {what}" for table in ("store", "store_vectors")]


def _renamed(*pairs: tuple[str, str]) -> list[Step]:
    statements = ["ALTER TABLE store_vectors ALTER CONSTRAINT store_vectors_prefix_key_fkey DEFERRABLE;",
                  "SET CONSTRAINTS ALL DEFERRED;"]  # fmt: skip
    for old, new in pairs:
        statements += _rename(old, new)
    back = "ALTER TABLE store_vectors ALTER CONSTRAINT store_vectors_prefix_key_fkey NOT DEFERRABLE;"
    return sql(*statements, "SET CONSTRAINTS ALL IMMEDIATE;", back)


def _relabelled(scene: Scene) -> list[Step]:
    return _renamed((prefix(scene.owners["A"]), prefix(scene.owners["C"])))


def _exchanged(scene: Scene) -> list[Step]:
    a, b = prefix(scene.owners["A"]), prefix(scene.owners["B"])
    return _renamed((a, "exchange"), (b, a), ("exchange", b))


def _context_restored(scene: Scene) -> list[Step]:
    back = [insert(r) for r in items(scene, "A", copied=True)]
    back += [insert(r, "store_vectors", VECTOR) for r in vectors(scene, "A", copied=True)]
    return sql(_gone(scene), *back)


def _gone(scene: Scene) -> str:
    return f"DELETE FROM store WHERE prefix = {literal(prefix(scene.owners['A']))};"


def _stripped(scene: Scene) -> list[Step]:
    scene.need_guard("tag that could be stripped")
    row = items(scene, "A")[FACT_AT]
    return sql(update(row, value=value(row, memguard=None, text=FORGED)))


def _all_stripped(scene: Scene) -> list[Step]:
    scene.need_guard("tags that could be stripped")
    rows = items(scene, "A")
    statements = [update(r, value=value(r, memguard=None)) for r in rows[:-1]]
    return sql(*statements, update(rows[-1], value=value(rows[-1], memguard=None, text=FORGED)))


def _unreadable(scene: Scene) -> list[Step]:
    """A value that is JSON and no item of a store: a list."""
    return sql(update(items(scene, "A")[-1], value=["not", "an", "item"]))


def _attracts(scene: Scene) -> list[Step]:
    """Give a harmless item the vector of the one that a query is about, and the reverse does not happen."""
    rows = vectors(scene, "A")
    return sql(update(rows[0], "store_vectors", embedding=rows[FACT_AT]["embedding"]))


def _suppresses(scene: Scene) -> list[Step]:
    """Turn the vector of the item that a query is about away from every query."""
    row = vectors(scene, "A")[FACT_AT]
    numbers = [-float(n) for n in row["embedding"].strip("[]").split(",")]
    return sql(update(row, "store_vectors", embedding="[" + ",".join(map(repr, numbers)) + "]"))


def _ranked_first(scene: Scene) -> list[Step]:
    return sql(update(items(scene, "A")[1], updated_at=_FUTURE))


def _expired(scene: Scene) -> list[Step]:
    return sql(update(items(scene, "A")[FACT_AT], expires_at=_PAST, ttl_minutes=1))


def _label(scene: Scene, trust: str, kind: str) -> list[Step]:
    scene.need_guard("label")
    row = items(scene, "A")[-1]
    part = seal_of(row)
    label = {**(part.get("label") or {}), "trust": trust, "source": kind}
    return sql(update(row, value=value(row, memguard={**part, "label": label})))


def _swap_keep(scene: Scene) -> list[Step]:
    """Exchange the values of two keys; the seals stay with the keys."""
    scene.need_guard("seal")
    rows = items(scene, "A")
    one, two = rows[2], rows[FACT_AT]
    return sql(
        update(one, value=value(two, memguard=seal_of(one))),
        update(two, value=value(one, memguard=seal_of(two))),
    )


def _cross_keep(scene: Scene) -> list[Step]:
    scene.need_guard("seal")
    victim, donor = items(scene, "B")[-1], items(scene, "A")[-1]
    return sql(update(victim, value=value(donor, memguard=seal_of(victim))))


def _older_keep(scene: Scene) -> list[Step]:
    scene.need_guard("seal")
    rows = items(scene, "A")
    return sql(update(rows[-1], value=value(rows[1], memguard=seal_of(rows[-1]))))


def _older_version(scene: Scene) -> list[Step]:
    old = next(r for r in items(scene, "A", copied=True) if r["key"] == "m-2")
    return sql(update(old, **{c: old[c] for c in ITEM[2:]}))


def _config_edited(scene: Scene) -> list[Step]:
    scene.need_guard("configuration beside it")
    return [Replace("home/memguard.toml", 'preset = "balanced"', 'preset = "off"'), *t1(scene)]


def _state_removed(scene: Scene) -> list[Step]:
    scene.need_guard("state file")
    files = sorted(p.relative_to(scene.cell).as_posix() for p in (scene.cell / "home").glob("state.db*"))
    return [Remove(tuple(files)), *_brought_back(scene)]


def _backdated(scene: Scene) -> list[Step]:
    base = items(scene, "A")[2]
    return sql(insert({**base, "key": "m-91", "value": value(base, text=FORGED)}))


def _put_again(scene: Scene) -> list[Step]:
    rows = items(scene, "A")
    return sql(insert({**rows[1], "key": "m-92", "updated_at": rows[-1]["updated_at"]}))


def _emptied(scene: Scene) -> list[Step]:
    return sql(_gone(scene))


def _on_insert(scene: Scene, body: str) -> list[Step]:
    who = literal(prefix(scene.owners["A"]))
    return sql(
        "CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF NEW.prefix = {who} THEN {body} END IF; RETURN NEW; END $$;",
        "CREATE TRIGGER later BEFORE INSERT ON store FOR EACH ROW EXECUTE FUNCTION later();",
    )


def _trigger(scene: Scene) -> list[Step]:
    return _on_insert(scene, "NEW.value := replace(NEW.value::text, 'added note', 'approved every')::jsonb;")


def _swallowing(scene: Scene) -> list[Step]:
    return _on_insert(scene, "RETURN NULL;")


def _left_in_log(scene: Scene) -> list[Step]:
    row = items(scene, "A")[-1]
    return [PgSql(update(row, value=value(row, text=FORGED)), crash=True)]  # type: ignore[list-item]


def _added_to_other(scene: Scene) -> list[Step]:
    donor, tip = items(scene, "A")[-1], items(scene, "B")[-1]
    return sql(insert({**donor, "prefix": tip["prefix"], "key": "m-93", "updated_at": tip["updated_at"]}))


def _unknown_owner(scene: Scene) -> list[Step]:
    tip = items(scene, "A")[-1]
    return sql(insert({**tip, "prefix": prefix(scene.owners["C"]), "value": value(tip, text=FORGED)}))


def _of_sister(scene: Scene) -> list[Step]:
    return sql(update(items(scene, "A")[-1], value=items(scene, "A", sister=True)[-1]["value"]))


def _sister_copied(scene: Scene) -> list[Step]:
    return [CopyTree()]  # type: ignore[list-item]


def _vector_added(scene: Scene) -> list[Step]:
    rows = vectors(scene, "A")
    second = {**rows[0], "field_name": f"{rows[0]['field_name']}.1", "embedding": rows[FACT_AT]["embedding"]}
    return sql(insert(second, "store_vectors", VECTOR))


def _vector_dropped(scene: Scene) -> list[Step]:
    row = vectors(scene, "A")[FACT_AT]
    return sql(f"DELETE FROM store_vectors WHERE {where(KEY, row)};")


def _state_rolled_back(scene: Scene) -> list[Step]:
    scene.need_guard("state file")
    if not scene.changed_since_copy("home"):
        raise Inexpressible("this configuration keeps nothing about the deletion in the guard's folder")
    return [Restore(("home",)), *_brought_back(scene)]


def _view(scene: Scene, hidden: str) -> list[str]:
    tip = items(scene, "A")[-1]
    return [
        "ALTER TABLE store RENAME TO kept;",
        f"CREATE VIEW store AS SELECT * FROM kept WHERE NOT ({where(KEY, tip)}{hidden});",
    ]


def _hiding_view(scene: Scene) -> list[Step]:
    return sql(*_view(scene, ""))


def _waiting_view(scene: Scene) -> list[Step]:
    wait = f" AND clock_timestamp() > (SELECT moment FROM planted) + interval '{VIEW_WAITS} seconds'"
    return sql("CREATE TABLE planted AS SELECT clock_timestamp() AS moment;", *_view(scene, wait))


_NO_WRITES = "a store has no pending writes"

KIND = Kind(
    name="postgres-store",
    main="store",
    state=state,
    context=prefix,
    edits={
        "T1": t1,
        "T2": t2,
        "T3": t3,
        "T4": t4,
        "T5": t5,
        "T6": t6,
        "T7": t7,
        "T8": t8,
        "T9": Scene.whole,
        "X01": _newest_changed,
        "X02": _brought_back,
        "X07": _relabelled,
        "X08": _exchanged,
        "X09": _context_restored,
        "X10": t6,
        "X11": t2,
        "X12": Scene.whole,
        "X13": Scene.whole,
        "X14": lambda scene: [Remove((scene.need_anchor(),))],
        "X15": lambda scene: [Restore((scene.need_anchor(),))],
        "X16": _stripped,
        "X17": _all_stripped,
        "X19": _unreadable,
        "X21": _attracts,
        "X22": _suppresses,
        "X23": _ranked_first,
        "X24": _expired,
        "X27": lambda scene: _label(scene, "system", "system"),
        "X28": lambda scene: _label(scene, "untrusted", "unknown"),
        "X29": _swap_keep,
        "X30": _cross_keep,
        "X31": _older_keep,
        "X32": _older_version,
        "X33": _config_edited,
        "X34": _state_removed,
        "X35": _backdated,
        "X36": _put_again,
        "X37": _emptied,
        "X38": lambda scene: [Remove((DATABASE,))],
        "X39": _trigger,
        "X41": _left_in_log,
        "X42": _added_to_other,
        "X44": _state_rolled_back,
        "X45": _hiding_view,
        "X46": _waiting_view,
        "X47": _swallowing,
        "X49": _unknown_owner,
        "X50": _emptied,
        "X51": _of_sister,
        "X52": _sister_copied,
        "X53": _vector_added,
        "X54": _vector_dropped,
        "X56": lambda scene: [Restore(("store",))],
    },
    why_not={
        "X03": _NO_WRITES,
        "X04": _NO_WRITES,
        "X05": _NO_WRITES,
        "X06": "items of a store have no parent links",
        "X18": "a store has no type column: every value is JSON",
        "X20": "a value is JSON, which calls nothing when it is decoded",
        "X25": "LangGraph keeps no history table beside the items",
        "X26": "an item has no owner, role or source beside its value; timestamps are T8",
        "X40": "a jsonb column keeps one of two members of the same name",
        "X43": _NO_WRITES,
        "X48": "no SQL makes an index of PostgreSQL disagree with its table",
        "X55": _NO_WRITES,
    },
)
