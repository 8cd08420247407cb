"""T1-T9 and X01.. for LangGraph's SQLite savers."""

from __future__ import annotations

import json

from memguard.bench.integrity.edits.raw import literal, where
from memguard.bench.integrity.edits.scene import (
    DATABASE,
    FORGED,
    LATER,
    NOTE_MOMENT,
    SISTER,
    Inexpressible,
    Kind,
    Scene,
)
from memguard.bench.integrity.edits.sqlite_saver import (
    CHECKPOINT,
    FACT_AT,
    WRITE,
    Row,
    altered,
    checkpoints,
    context,
    delete,
    insert,
    later,
    metadata,
    packed,
    payload,
    plain_state,
    sql,
    state,
    thread,
    update,
    update_write,
    writes,
)
from memguard.bench.integrity.edits.steps import Copy, Remove, Replace, Restore, Sql, Step

_MOVED = ("type", "checkpoint", "metadata")


def _copied(donor: Row, keep_seal_of: Row | None = None) -> dict[str, object]:
    """A donor's content columns; with the guard's part of another row's metadata, if one is given."""
    columns: dict[str, object] = {c: donor[c] for c in _MOVED}
    if keep_seal_of is not None:
        columns["metadata"] = metadata(donor, memguard=json.loads(keep_seal_of["metadata"]).get("memguard"))
    return columns


def t1(scene: Scene) -> list[Step]:
    """Change the fact in the record that brought it."""
    row = checkpoints(scene, "A")[FACT_AT]
    return sql(update(row, **packed(altered(scene, "A", row, FACT_AT, FACT_AT))))


def t2(scene: Scene) -> list[Step]:
    """Delete the newest checkpoint."""
    return sql(delete(checkpoints(scene, "A")[-1]))


def t3(scene: Scene) -> list[Step]:
    """Delete a middle checkpoint."""
    return sql(delete(checkpoints(scene, "A")[2]))


def _swap(scene: Scene, *, keep_seals: bool) -> list[Step]:
    rows = checkpoints(scene, "A")
    pair = {2: rows[FACT_AT], FACT_AT: rows[2]}
    statements = []
    for n, donor in pair.items():
        columns = _copied(donor, rows[n] if keep_seals else None)
        if donor["type"] == "msgpack":  # the id inside follows the place; an encrypted one cannot be followed
            value = plain_state(scene, "A", donor, n)
            columns |= packed({**value, "id": rows[n]["checkpoint_id"]})
        statements.append(update(rows[n], **columns))
    return sql(*statements)


def t4(scene: Scene) -> list[Step]:
    """Let two neighbours change places; ids and parent links stay with the places."""
    return _swap(scene, keep_seals=False)


def t5(scene: Scene) -> list[Step]:
    """Put an authored checkpoint on top, in the store's own format, with the newest one's seal."""
    rows = checkpoints(scene, "A")
    tip = rows[-1]
    value = plain_state(scene, "A", tip, len(rows) - 1)
    value["id"] = later(tip)
    value["channel_values"]["messages"].append(FORGED)
    step = json.loads(tip["metadata"]).get("step", 0) + 1
    forged = {
        **tip,
        **packed(value),
        "checkpoint_id": value["id"],
        "parent_checkpoint_id": tip["checkpoint_id"],
        "metadata": metadata(tip, step=step),
    }
    return sql(insert("checkpoints", CHECKPOINT, forged))


def t6(scene: Scene) -> list[Step]:
    """Copy A's newest record over B's newest, byte for byte, in B's place."""
    return sql(update(checkpoints(scene, "B")[-1], **_copied(checkpoints(scene, "A")[-1])))


def t7(scene: Scene) -> list[Step]:
    """Copy an older record of A over A's newest."""
    rows = checkpoints(scene, "A")
    return sql(update(rows[-1], **_copied(rows[1])))


def t8(scene: Scene) -> list[Step]:
    """Change owner, role and origin in one record's metadata."""
    row = checkpoints(scene, "A")[FACT_AT]
    changed = metadata(row, owner="mallory", role="system", origin="system")
    return sql(update(row, metadata=changed))


def _head_only(scene: Scene) -> list[Step]:
    rows = checkpoints(scene, "A")
    last = len(rows) - 1
    return sql(update(rows[-1], **packed(altered(scene, "A", rows[-1], last, FACT_AT))))


def _brought_back(scene: Scene) -> list[Step]:
    statements = [insert("checkpoints", CHECKPOINT, r) for r in checkpoints(scene, "A", copied=True)]
    statements += [insert("writes", WRITE, r) for r in writes(scene, "A", copied=True)]
    return sql(*statements)


def _write_changed(scene: Scene) -> list[Step]:
    row = _pending(scene)[0]
    return sql(update_write(row, value=packed(FORGED)["checkpoint"], type=_plain_type(row)))


def _pending(scene: Scene) -> list[Row]:
    return [w for w in writes(scene, "A") if w["idx"] >= 0]


def _plain_type(row: Row) -> str:
    """The plain type with the row's seal kept; an encrypted value becomes a plain one."""
    seal = str(row["type"]).partition("|")[2]
    return f"msgpack|{seal}" if seal else "msgpack"


def _resume_forged(scene: Scene) -> list[Step]:
    row = _pending(scene)[0]
    forged = {**row, "idx": -4, "channel": "__resume__", "value": packed("yes, pay")["checkpoint"]}
    return sql(insert("writes", WRITE, {**forged, "type": _plain_type(row)}))


def _writes_dropped(scene: Scene) -> list[Step]:
    tip = checkpoints(scene, "A")[-1]
    return sql(f"DELETE FROM writes WHERE {where(CHECKPOINT[:3], [tip[c] for c in CHECKPOINT[:3]])};")


def _rewired(scene: Scene) -> list[Step]:
    rows = checkpoints(scene, "A")
    return sql(update(rows[-1], parent_checkpoint_id=rows[1]["checkpoint_id"]))


def _rename(old: str, new: str) -> list[str]:
    what = f"SET thread_id = {literal(new)} WHERE thread_id = {literal(old)};"
    return [f"UPDATE {table} {what}" for table in ("checkpoints", "writes")]


def _relabelled(scene: Scene) -> list[Step]:
    return sql(*_rename(thread(scene.owners["A"]), thread(scene.owners["C"])))


def _exchanged(scene: Scene) -> list[Step]:
    a, b = thread(scene.owners["A"]), thread(scene.owners["B"])
    return sql(*_rename(a, "exchange"), *_rename(b, a), *_rename("exchange", b))


def _context_restored(scene: Scene) -> list[Step]:
    who = literal(thread(scene.owners["A"]))
    gone = [f"DELETE FROM {t} WHERE thread_id = {who};" for t in ("checkpoints", "writes")]
    back = [insert("checkpoints", CHECKPOINT, r) for r in checkpoints(scene, "A", copied=True)]
    back += [insert("writes", WRITE, r) for r in writes(scene, "A", copied=True)]
    return sql(*gone, *back)


def _twin_crossed(scene: Scene) -> list[Step]:
    donor = checkpoints(scene, "A")[-1]
    return sql(update(checkpoints(scene, "B")[-1], **_copied(donor)))


def _stripped(scene: Scene) -> list[Step]:
    scene.need_guard("tag that could be stripped")
    row = checkpoints(scene, "A")[FACT_AT]
    return sql(
        update(
            row, metadata=metadata(row, memguard=None), **packed(altered(scene, "A", row, FACT_AT, FACT_AT))
        )
    )


def _all_stripped(scene: Scene) -> list[Step]:
    scene.need_guard("tags that could be stripped")
    rows = checkpoints(scene, "A")
    statements = [update(r, metadata=metadata(r, memguard=None)) for r in rows]
    statements += [update_write(w, type=str(w["type"]).partition("|")[0]) for w in writes(scene, "A")]
    last = len(rows) - 1
    statements.append(update(rows[-1], **packed(altered(scene, "A", rows[-1], last, FACT_AT))))
    return sql(*statements)


def _type_changed(scene: Scene) -> list[Step]:
    row = _pending(scene)[0]
    seal = str(row["type"]).partition("|")[2]
    return sql(update_write(row, type=f"bytes|{seal}" if seal else "bytes"))


def _undecodable(scene: Scene) -> list[Step]:
    row = checkpoints(scene, "A")[-1]
    return sql(update(row, checkpoint=b"\xc1\xc1\xc1\xc1"))


def _runs_code(scene: Scene) -> list[Step]:
    row = checkpoints(scene, "A")[-1]
    return sql(update(row, type="msgpack", checkpoint=payload()))


def _neutralised(scene: Scene) -> list[Step]:
    row = checkpoints(scene, "A")[-1]
    return sql(update(row, metadata=metadata(row, owner=None, role=None, origin=None)))


def _label(scene: Scene, trust: str, kind: str) -> list[Step]:
    scene.need_guard("label")
    row = checkpoints(scene, "A")[-1]
    part = json.loads(row["metadata"])["memguard"]
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
    victim = checkpoints(scene, "B")[-1]
    return sql(update(victim, **_copied(checkpoints(scene, "A")[-1], victim)))


def _older_keep(scene: Scene) -> list[Step]:
    scene.need_guard("seal")
    rows = checkpoints(scene, "A")
    return sql(update(rows[-1], **_copied(rows[1], rows[-1])))


def _older_version(scene: Scene) -> list[Step]:
    old = next(w for w in writes(scene, "A", copied=True) if w["channel"] == "__interrupt__")
    return sql(update_write(old, type=old["type"], value=old["value"], task_path=old["task_path"]))


def _config_edited(scene: Scene) -> list[Step]:
    scene.need_guard("configuration beside it")
    return [Replace("home/memguard.toml", 'preset = "balanced"', 'preset = "off"'), *t1(scene)]


def _state_removed(scene: Scene) -> list[Step]:
    scene.need_guard("state file")
    files = sorted(p.relative_to(scene.cell).as_posix() for p in (scene.cell / "home").glob("state.db*"))
    return [Remove(tuple(files)), *_brought_back(scene)]


def _backdated(scene: Scene) -> list[Step]:
    rows = checkpoints(scene, "A")
    base = rows[2]
    value = plain_state(scene, "A", base, 2)
    value["id"] = later(base)
    value["channel_values"]["messages"].append(FORGED)
    forged = {
        **base,
        **packed(value),
        "checkpoint_id": value["id"],
        "parent_checkpoint_id": base["checkpoint_id"],
    }
    return sql(insert("checkpoints", CHECKPOINT, forged))


def _put_again(scene: Scene) -> list[Step]:
    rows = checkpoints(scene, "A")
    tip = rows[-1]
    again = {**rows[1], "checkpoint_id": later(tip), "parent_checkpoint_id": tip["checkpoint_id"]}
    return sql(insert("checkpoints", CHECKPOINT, again))


def _emptied(scene: Scene) -> list[Step]:
    who = literal(thread(scene.owners["A"]))
    return sql(*[f"DELETE FROM {t} WHERE thread_id = {who};" for t in ("checkpoints", "writes")])


def _trigger(scene: Scene) -> list[Step]:
    owner = scene.owners["A"]
    changed = f"""REPLACE(CAST(NEW.metadata AS TEXT), '"owner": "{owner}"', '"owner": "mallory"')"""
    return sql(
        f"CREATE TRIGGER later AFTER INSERT ON checkpoints WHEN NEW.thread_id = {literal(thread(owner))} BEGIN\n"
        f"  UPDATE checkpoints SET metadata = CAST({changed} AS BLOB) WHERE thread_id = NEW.thread_id\n"
        "    AND checkpoint_ns = NEW.checkpoint_ns AND checkpoint_id = NEW.checkpoint_id;\nEND;"
    )


def _twice(scene: Scene) -> list[Step]:
    row = checkpoints(scene, "A")[FACT_AT]
    return sql(update(row, metadata=b'{"owner": "mallory", ' + bytes(row["metadata"])[1:]))


def _left_in_log(scene: Scene) -> list[Step]:
    rows = checkpoints(scene, "A")
    last = len(rows) - 1
    changed = update(rows[-1], **packed(altered(scene, "A", rows[-1], last, FACT_AT)))
    return [Sql(DATABASE, changed, keep_log=True)]


def _added_to_other(scene: Scene) -> list[Step]:
    donor, tip = checkpoints(scene, "A")[-1], checkpoints(scene, "B")[-1]
    added = {
        **donor,
        "thread_id": tip["thread_id"],
        "checkpoint_id": later(tip),
        "parent_checkpoint_id": tip["checkpoint_id"],
    }
    return sql(insert("checkpoints", CHECKPOINT, added))


def _write_replayed(scene: Scene) -> list[Step]:
    row = _pending(scene)[0]
    older = checkpoints(scene, "A")[2]
    return sql(insert("writes", WRITE, {**row, "checkpoint_id": older["checkpoint_id"]}))


def _unknown_owner(scene: Scene) -> list[Step]:
    tip = checkpoints(scene, "A")[-1]
    value = plain_state(scene, "A", tip, len(scene.texts["A"]) - 1)
    value["channel_values"] = {"messages": [FORGED], "owner": scene.owners["C"]}
    forged = {**tip, **packed(value), "thread_id": thread(scene.owners["C"]), "parent_checkpoint_id": None}
    return sql(insert("checkpoints", CHECKPOINT, forged))


def _of_sister(scene: Scene) -> list[Step]:
    tip = checkpoints(scene, "A")[-1]
    donor = checkpoints(scene, "A", sister=True)[-1]
    return sql(update(tip, **_copied(donor)))


def _writes_reordered(scene: Scene) -> list[Step]:
    return sql(update_write(_pending(scene)[0], task_path="~last"))


def _state_rolled_back(scene: Scene) -> list[Step]:
    scene.need_guard("state file")
    if not scene.changed_since_copy("home"):
        raise Inexpressible("this configuration keeps nothing about the deletion in the guard's folder")
    return [Restore(("home",)), *_brought_back(scene)]


def _view(scene: Scene, hidden: str) -> list[Step]:
    tip = checkpoints(scene, "A")[-1]
    return sql(
        "ALTER TABLE checkpoints RENAME TO kept;",
        "CREATE VIEW checkpoints AS SELECT * FROM kept\n"
        f"  WHERE NOT (checkpoint_id = {literal(tip['checkpoint_id'])}{hidden});",
    )


def _hiding_view(scene: Scene) -> list[Step]:
    return _view(scene, "")


def _waiting_view(scene: Scene) -> list[Step]:
    return [*sql(NOTE_MOMENT), *_view(scene, f" AND {LATER}")]


def _swallowing(scene: Scene) -> list[Step]:
    who = literal(thread(scene.owners["A"]))
    return sql(
        f"CREATE TRIGGER later BEFORE INSERT ON checkpoints WHEN NEW.thread_id = {who} BEGIN\n"
        "  SELECT RAISE(IGNORE);\nEND;"
    )


KIND = Kind(
    name="sqlite-saver",
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
        "X10": _twin_crossed,
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
        "X40": _twice,
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
        "X52": lambda scene: [Copy(SISTER, DATABASE)],
        "X55": _writes_reordered,
        "X56": lambda scene: [Restore(("store",))],
    },
    why_not={
        "X21": "a checkpointer keeps no vectors",
        "X22": "a checkpointer keeps no vectors",
        "X23": "a checkpointer ranks by checkpoint id alone, which T4 and X35 edit",
        "X24": "checkpoints do not expire",
        "X25": "LangGraph keeps no history table beside the records",
        "X53": "a checkpointer keeps no vectors",
        "X54": "a checkpointer keeps no vectors",
        "X48": "the savers' tables have no index but their primary key's",
    },
)
