"""T1-T9 and X01.. for LangGraph's PostgreSQL savers."""

from __future__ import annotations

from memguard.bench.integrity.edits.postgres_saver import (
    BLOB,
    CHECKPOINT,
    FACT_AT,
    FREE,
    TABLES,
    WRITE,
    CopyTree,
    PgSql,
    Row,
    altered,
    authored,
    checkpoints,
    context,
    copied,
    delete,
    insert,
    insert_checkpoint,
    later,
    literal,
    messages,
    metadata,
    packed,
    payload,
    sql,
    state,
    tables,
    thread,
    update,
    update_value,
    update_write,
    where,
    writes,
)
from memguard.bench.integrity.edits.scene import (
    COPY,
    DATABASE,
    FORGED,
    VIEW_WAITS,
    Inexpressible,
    Kind,
    Scene,
)
from memguard.bench.integrity.edits.steps import Remove, Replace, Restore, Step


def t1(scene: Scene) -> list[Step]:
    """Change the fact in the record that brought it."""
    return sql(altered(checkpoints(scene, "A")[FACT_AT], FACT_AT))


def t2(scene: Scene) -> list[Step]:
    """Delete the newest checkpoint."""
    return sql(delete(checkpoints(scene, "A")[-1]))


def t3(scene: Scene) -> list[Step]:
    """Delete a middle checkpoint."""
    return sql(delete(checkpoints(scene, "A")[2]))


def _swap(scene: Scene, *, keep_seals: bool) -> list[Step]:
    rows = checkpoints(scene, "A")
    statements = []
    for place, donor in ((rows[2], rows[FACT_AT]), (rows[FACT_AT], rows[2])):
        frame = {**donor["checkpoint"], "id": place["checkpoint_id"]}
        seal = (place if keep_seals else donor)["metadata"].get("memguard")
        statements.append(update(place, checkpoint=frame, metadata=metadata(donor, memguard=seal)))
    return sql(*statements)


def t4(scene: Scene) -> list[Step]:
    """Let two neighbours change places; ids and parent links stay with the places."""
    return _swap(scene, keep_seals=False)


def t5(scene: Scene) -> list[Step]:
    """Put an authored checkpoint on top, in the store's own format, with the newest one's seal."""
    tip = checkpoints(scene, "A")[-1]
    step = metadata(tip, step=tip["metadata"].get("step", 0) + 1)
    return sql(insert_checkpoint(authored(tip, [*messages(tip), FORGED], metadata=step)))


def t6(scene: Scene) -> list[Step]:
    """Copy A's newest record over B's newest, in B's place."""
    return sql(copied(checkpoints(scene, "A")[-1], checkpoints(scene, "B")[-1]))


def t7(scene: Scene) -> list[Step]:
    """Copy an older record of A over A's newest."""
    rows = checkpoints(scene, "A")
    return sql(copied(rows[1], rows[-1]))


def t8(scene: Scene) -> list[Step]:
    """Change owner, role and origin in one record's metadata."""
    row = checkpoints(scene, "A")[FACT_AT]
    return sql(update(row, metadata=metadata(row, owner="mallory", role="system", origin="system")))


def _head_only(scene: Scene) -> list[Step]:
    return sql(altered(checkpoints(scene, "A")[-1], FACT_AT))


def _brought_back(scene: Scene) -> list[Step]:
    return sql(*_all_of(scene, "A"))


def _all_of(scene: Scene, who: str) -> list[str]:
    """Every row of a context in the adversary's copy."""
    found, mine = tables(scene.cell / COPY / DATABASE), thread(scene.owners[who])
    made = []
    for table, columns in zip(TABLES, (CHECKPOINT, BLOB, WRITE), strict=True):
        made += [insert(table, columns, row) for row in found[table] if row["thread_id"] == mine]
    return made


def _write_changed(scene: Scene) -> list[Step]:
    row = _pending(scene)[0]
    return sql(update_write(row, blob=packed(FORGED)["blob"], type=_plain_type(row)))


def _pending(scene: Scene) -> list[Row]:
    return [w for w in writes(scene, "A") if w["idx"] >= 0]


def _plain_type(row: Row, kind: str = "msgpack") -> str:
    seal = str(row["type"]).partition("|")[2]
    return f"{kind}|{seal}" if seal else kind


def _resume_forged(scene: Scene) -> list[Step]:
    row = _pending(scene)[0]
    forged = {**row, "idx": -4, "channel": "__resume__", "blob": packed("yes, pay")["blob"]}
    return sql(insert("checkpoint_writes", WRITE, {**forged, "type": _plain_type(row)}))


def _writes_dropped(scene: Scene) -> list[Step]:
    tip = checkpoints(scene, "A")[-1]
    return sql(f"DELETE FROM checkpoint_writes WHERE {where(CHECKPOINT[:3], tip)};")


def _rewired(scene: Scene) -> list[Step]:
    rows = checkpoints(scene, "A")
    return sql(update(rows[-1], parent_checkpoint_id=rows[1]["checkpoint_id"]))


def _rename(old: str, new: str) -> list[str]:
    what = f"SET thread_id = {literal(new)} WHERE thread_id = {literal(old)};"
    return [f"UPDATE {table} {what}" for table in TABLES]


def _relabelled(scene: Scene) -> list[Step]:
    return sql(*_rename(thread(scene.owners["A"]), thread(scene.owners["C"])))


def _exchanged(scene: Scene) -> list[Step]:
    a, b = thread(scene.owners["A"]), thread(scene.owners["B"])
    return sql(*_rename(a, "exchange"), *_rename(b, a), *_rename("exchange", b))


def _emptied_of(scene: Scene, who: str) -> list[str]:
    mine = literal(thread(scene.owners[who]))
    return [f"DELETE FROM {table} WHERE thread_id = {mine};" for table in TABLES]


def _context_restored(scene: Scene) -> list[Step]:
    return sql(*_emptied_of(scene, "A"), *_all_of(scene, "A"))


def _stripped(scene: Scene) -> list[Step]:
    scene.need_guard("tag that could be stripped")
    row = checkpoints(scene, "A")[FACT_AT]
    return sql(update(row, metadata=metadata(row, memguard=None)), altered(row, FACT_AT))


def _all_stripped(scene: Scene) -> list[Step]:
    scene.need_guard("tags that could be stripped")
    rows = checkpoints(scene, "A")
    statements = [update(r, metadata=metadata(r, memguard=None)) for r in rows]
    statements += [update_write(w, type=str(w["type"]).partition("|")[0]) for w in writes(scene, "A")]
    return sql(*statements, altered(rows[-1], FACT_AT))


def _type_changed(scene: Scene) -> list[Step]:
    row = _pending(scene)[0]
    return sql(update_write(row, type=_plain_type(row, "bytes")))


def _undecodable(scene: Scene) -> list[Step]:
    return sql(update_value(checkpoints(scene, "A")[-1], "messages", blob=b"\xc1\xc1\xc1\xc1"))


def _runs_code(scene: Scene) -> list[Step]:
    return sql(update_value(checkpoints(scene, "A")[-1], "messages", type="msgpack", blob=payload()))


def _neutralised(scene: Scene) -> list[Step]:
    row = checkpoints(scene, "A")[-1]
    return sql(update(row, metadata=metadata(row, owner=None, role=None, origin=None)))


def _label(scene: Scene, trust: str, kind: str) -> list[Step]:
    scene.need_guard("label")
    row = checkpoints(scene, "A")[-1]
    part = row["metadata"]["memguard"]
    label = {**(part.get("label") or {}), "trust": trust, "source": kind}
    return sql(update(row, metadata=metadata(row, memguard={**part, "label": label})))


def _label_raised(scene: Scene) -> list[Step]:
    return _label(scene, "system", "system")


def _label_lowered(scene: Scene) -> list[Step]:
    return _label(scene, "untrusted", "unknown")


def _swap_keep(scene: Scene) -> list[Step]:
    scene.need_guard("seal")
    return _swap(scene, keep_seals=True)


def _cross_keep(scene: Scene) -> list[Step]:
    scene.need_guard("seal")
    return sql(copied(checkpoints(scene, "A")[-1], checkpoints(scene, "B")[-1], keep_seal=True))


def _older_keep(scene: Scene) -> list[Step]:
    scene.need_guard("seal")
    rows = checkpoints(scene, "A")
    return sql(copied(rows[1], rows[-1], keep_seal=True))


def _older_version(scene: Scene) -> list[Step]:
    old = next(w for w in writes(scene, "A", copied=True) if w["channel"] == "__interrupt__")
    return sql(update_write(old, type=old["type"], blob=old["blob"], task_path=old["task_path"]))


def _config_edited(scene: Scene) -> list[Step]:
    scene.need_guard("configuration beside it")
    return [Replace("home/memguard.toml", 'preset = "balanced"', 'preset = "off"'), *t1(scene)]


def _state_removed(scene: Scene) -> list[Step]:
    scene.need_guard("state file")
    files = sorted(p.relative_to(scene.cell).as_posix() for p in (scene.cell / "home").glob("state.db*"))
    return [Remove(tuple(files)), *_brought_back(scene)]


def _backdated(scene: Scene) -> list[Step]:
    base = checkpoints(scene, "A")[2]
    made = authored(base, [*messages(base), FORGED])
    made["checkpoint"]["channel_versions"]["messages"] = FREE
    made["values"]["messages"]["version"] = FREE
    return sql(insert_checkpoint(made))


def _put_again(scene: Scene) -> list[Step]:
    rows = checkpoints(scene, "A")
    tip = rows[-1]
    again = {**rows[1], "checkpoint_id": later(tip), "parent_checkpoint_id": tip["checkpoint_id"]}
    return sql(insert_checkpoint(again))


def _emptied(scene: Scene) -> list[Step]:
    return sql(*_emptied_of(scene, "A"))


def _function(name: str, body: str) -> str:
    return f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$;"


def _trigger(scene: Scene) -> list[Step]:
    owner = scene.owners["A"]
    changed = "jsonb_set(NEW.metadata, '{owner}', '\"mallory\"')"
    body = f"IF NEW.thread_id = {literal(thread(owner))} THEN NEW.metadata := {changed}; END IF; RETURN NEW;"
    return sql(
        _function("later", body),
        "CREATE TRIGGER later BEFORE INSERT ON checkpoints FOR EACH ROW EXECUTE FUNCTION later();",
    )


def _swallowing(scene: Scene) -> list[Step]:
    who = literal(thread(scene.owners["A"]))
    body = f"IF NEW.thread_id = {who} THEN RETURN NULL; END IF; RETURN NEW;"
    return sql(
        _function("later", body),
        "CREATE TRIGGER later BEFORE INSERT ON checkpoints FOR EACH ROW EXECUTE FUNCTION later();",
    )


def _left_in_log(scene: Scene) -> list[Step]:
    return [PgSql(altered(checkpoints(scene, "A")[-1], FACT_AT), crash=True)]  # type: ignore[list-item]


def _added_to_other(scene: Scene) -> list[Step]:
    donor, tip = checkpoints(scene, "A")[-1], checkpoints(scene, "B")[-1]
    frame = {**donor["checkpoint"]}
    frame["channel_versions"] = {**frame["channel_versions"], "messages": FREE}  # B has values of its own
    added = {
        **donor,
        "thread_id": tip["thread_id"],
        "checkpoint_id": later(tip),
        "parent_checkpoint_id": tip["checkpoint_id"],
        "checkpoint": frame,
        "values": {"messages": {**donor["values"]["messages"], "version": FREE}},
    }
    return sql(insert_checkpoint(added))


def _write_replayed(scene: Scene) -> list[Step]:
    row, older = _pending(scene)[0], checkpoints(scene, "A")[2]
    return sql(insert("checkpoint_writes", WRITE, {**row, "checkpoint_id": older["checkpoint_id"]}))


def _unknown_owner(scene: Scene) -> list[Step]:
    tip, owner = checkpoints(scene, "A")[-1], scene.owners["C"]
    made = authored(
        tip, [FORGED], thread_id=thread(owner), parent_checkpoint_id=None, checkpoint_id=tip["checkpoint_id"]
    )
    made["checkpoint"]["channel_values"]["owner"] = owner
    return sql(insert_checkpoint(made))


def _of_sister(scene: Scene) -> list[Step]:
    return sql(copied(checkpoints(scene, "A", sister=True)[-1], checkpoints(scene, "A")[-1]))


def _writes_reordered(scene: Scene) -> list[Step]:
    return sql(update_write(_pending(scene)[0], task_path="~last"))


def _state_rolled_back(scene: Scene) -> list[Step]:
    scene.need_guard("state file")
    if not scene.changed_since_copy("home"):
        raise Inexpressible("this configuration keeps nothing about the deletion in the guard's folder")
    return [Restore(("home",)), *_brought_back(scene)]


def _view(scene: Scene, hidden: str) -> list[str]:
    tip = checkpoints(scene, "A")[-1]
    shown = f"NOT (checkpoint_id = {literal(tip['checkpoint_id'])}{hidden})"
    return [
        "ALTER TABLE checkpoints RENAME TO kept;",
        f"CREATE VIEW checkpoints AS SELECT * FROM kept WHERE {shown};",
    ]


def _hiding_view(scene: Scene) -> list[Step]:
    mine = literal(thread(scene.owners["A"]))
    return sql(*_view(scene, f" AND thread_id = {mine}"))


def _waiting_view(scene: Scene) -> list[Step]:
    wait = f" AND clock_timestamp() > (SELECT moment FROM planted) + interval '{VIEW_WAITS} seconds'"
    return sql("CREATE TABLE planted AS SELECT clock_timestamp() AS moment;", *_view(scene, wait))


def _sister_copied(scene: Scene) -> list[Step]:
    return [CopyTree()]  # type: ignore[list-item]


KIND = Kind(
    name="postgres-saver",
    main="checkpoints",
    state=state,
    context=context,
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
        "X01": _head_only,
        "X02": _brought_back,
        "X03": _write_changed,
        "X04": _resume_forged,
        "X05": _writes_dropped,
        "X06": _rewired,
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
        "X18": _type_changed,
        "X19": _undecodable,
        "X20": _runs_code,
        "X26": _neutralised,
        "X27": _label_raised,
        "X28": _label_lowered,
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
        "X43": _write_replayed,
        "X44": _state_rolled_back,
        "X45": _hiding_view,
        "X46": _waiting_view,
        "X47": _swallowing,
        "X49": _unknown_owner,
        "X50": _emptied,
        "X51": _of_sister,
        "X52": _sister_copied,
        "X55": _writes_reordered,
        "X56": lambda scene: [Restore(("store",))],
    },
    why_not={
        "X21": "a checkpointer keeps no vectors",
        "X22": "a checkpointer keeps no vectors",
        "X23": "a checkpointer ranks by checkpoint id alone, which T4 and X35 edit",
        "X24": "checkpoints do not expire",
        "X25": "LangGraph keeps no history table beside the records",
        "X40": "a JSONB column keeps one of two members of the same name",
        "X48": "no SQL makes an index of PostgreSQL disagree with its table",
        "X53": "a checkpointer keeps no vectors",
        "X54": "a checkpointer keeps no vectors",
    },
)
