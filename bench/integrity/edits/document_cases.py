"""T1-T9 and X01.. for memory folders and for the reference MCP server's file: one table, two formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from memguard.bench.integrity.edits.documents import (
    FOLDER,
    GRAPH,
    HERE,
    SEALS,
    SISTER,
    Doc,
    Edit,
    Format,
    drop_seal,
    markdown,
    put_seal,
    seals,
    state,
)
from memguard.bench.integrity.edits.raw import literal
from memguard.bench.integrity.edits.scene import FORGED, Inexpressible, Kind, Scene
from memguard.bench.integrity.edits.steps import CopyTree, Remove, Replace, Restore, Sql, Step

FACT_AT = 3
_PAST = "2001-01-01T00:00:00+00:00"
Change = Callable[[Edit], None]


def _changed(edit: Edit, who: str, at: int, doc: Doc) -> None:
    """Put a document in the place of another; its seal, if it had one, goes along."""
    old = edit.docs(who)[at]
    edit.docs(who)[at] = doc
    if edit.place(who, old) != edit.place(who, doc):
        edit.move_seal(edit.place(who, old), edit.place(who, doc))


# --- the nine edits ---------------------------------------------------------------------------------------


def t1(edit: Edit) -> None:
    """Change the fact in one document."""
    _changed(edit, "A", FACT_AT, replace(edit.docs("A")[FACT_AT], text=FORGED))


def t2(edit: Edit) -> None:
    """Delete the newest document."""
    edit.docs("A").pop()


def t3(edit: Edit) -> None:
    """Delete a document in the middle."""
    del edit.docs("A")[2]


def t4(edit: Edit) -> None:
    """Exchange two documents, their seals with them."""
    docs = edit.docs("A")
    one, two = docs[2], docs[FACT_AT]
    if edit.format is GRAPH:
        docs[2], docs[FACT_AT] = two, one
        return
    docs[2], docs[FACT_AT] = replace(two, slot=one.slot), replace(one, slot=two.slot)
    edit.move_seal(edit.place("A", two), edit.place("A", one))
    edit.move_seal(edit.place("A", one), edit.place("A", two))


def t5(edit: Edit) -> None:
    """Add an authored document after the newest, with the newest one's seal."""
    tip = edit.docs("A")[-1]
    forged = replace(tip, slot="m-90", text=FORGED)
    edit.docs("A").append(forged)
    edit.move_seal(edit.place("A", tip), edit.place("A", forged))


def _over(edit: Edit, victim: str, donor: str, at: int, *, keep: bool) -> None:
    """Copy a document over the newest of ``victim``: with its own seal, or under the victim's."""
    given, tip = edit.docs(donor)[at], edit.docs(victim)[-1]
    made = replace(given, slot=tip.slot)
    edit.docs(victim)[-1] = made
    seal = edit.place(victim, tip) if keep else edit.place(donor, given)
    edit.move_seal(seal, edit.place(victim, made))


def t6(edit: Edit) -> None:
    """Copy A's newest document, and its seal, over B's newest."""
    _over(edit, "B", "A", -1, keep=False)


def t7(edit: Edit) -> None:
    """Copy an older document of A, and its seal, over A's newest."""
    _over(edit, "A", "A", 1, keep=False)


def t8(edit: Edit) -> None:
    """Date one document back and name another source."""
    _changed(edit, "A", FACT_AT, edit.docs("A")[FACT_AT].beside(ts=_PAST, source="user:alice"))


# --- cases of our own -------------------------------------------------------------------------------------


def _newest_changed(edit: Edit) -> None:
    _changed(edit, "A", -1, replace(edit.docs("A")[-1], text=FORGED))


def _brought_back(edit: Edit) -> None:
    there = {doc.slot for doc in edit.docs("A")}
    for at, doc in enumerate(edit.copied("A")):
        if doc.slot not in there:
            edit.docs("A").insert(at, doc)
            edit.move_seal(edit.place("A", doc), edit.place("A", doc), copied=True)


def _rename(edit: Edit, old: str, new: str) -> None:
    """Every seal of an owner under another owner's name, keys too where they name the owner."""
    if not edit.scene.guarded:
        return
    before, after = edit.format.context(old).encode(), edit.format.context(new).encode()
    for row in seals(edit.scene.cell):
        if row["context"] == before:
            key = row["key"].replace(f"{old}/".encode(), f"{new}/".encode(), 1)
            edit.sql.append(put_seal(row, (after.decode(), key.decode())))


def _relabelled(edit: Edit) -> None:
    a, c = edit.scene.owners["A"], edit.scene.owners["C"]
    edit.memory = {(c if owner == a else owner): docs for owner, docs in edit.memory.items()}
    _rename(edit, a, c)


def _exchanged(edit: Edit) -> None:
    a, b = edit.scene.owners["A"], edit.scene.owners["B"]
    edit.memory[a], edit.memory[b] = edit.memory[b], edit.memory[a]
    _rename(edit, a, b)
    _rename(edit, b, a)


def _context_restored(edit: Edit) -> None:
    edit.memory[edit.scene.owners["A"]] = edit.copied("A")
    context = edit.format.context(edit.scene.owners["A"]).encode()
    if edit.scene.guarded:
        edit.sql.append(f"DELETE FROM seals WHERE context = {literal(context)};")
        for row in seals(edit.scene.cell, copied=True):
            if row["context"] == context:
                edit.sql.append(put_seal(row, (context.decode(), row["key"].decode())))


def _stripped(edit: Edit) -> None:
    edit.scene.need_guard("tag that could be stripped")
    old = edit.docs("A")[FACT_AT]
    edit.docs("A")[FACT_AT] = replace(old, text=FORGED)
    edit.sql.append(drop_seal(edit.place("A", old)))


def _all_stripped(edit: Edit) -> None:
    edit.scene.need_guard("tags that could be stripped")
    edit.docs("A")[-1] = replace(edit.docs("A")[-1], text=FORGED)
    context = edit.format.context(edit.scene.owners["A"]).encode()
    edit.sql.append(f"DELETE FROM seals WHERE context = {literal(context)};")


def _undecodable(edit: Edit) -> None:
    if edit.format is GRAPH:
        raise Inexpressible("a line that is no JSON is a line of no owner: the server reads nothing any more")
    tip = edit.docs("A")[-1]
    edit.docs("A")[-1] = replace(tip, raw=markdown(replace(tip, text="")) + b"\xff\xfe\x00half")


def _label(trust: str, kind: str) -> Change:
    def change(edit: Edit) -> None:
        edit.scene.need_guard("label")
        context, key = edit.place("A", edit.docs("A")[-1])
        own = f'{{"at":0,"label":{{"source":"{kind}","trust":"{trust}"}}}}'.encode()
        where = f"context = {literal(context.encode())} AND key = {literal(key.encode())}"
        edit.sql.append(f"UPDATE seals SET own = {literal(own)} WHERE {where};")

    return change


def _swap_keep(edit: Edit) -> None:
    """Exchange two documents; the seals stay where they were."""
    edit.scene.need_guard("seal")
    docs = edit.docs("A")
    one, two = docs[2], docs[FACT_AT]
    if edit.format is GRAPH:
        docs[2], docs[FACT_AT] = two, one
        edit.move_seal(edit.place("A", one), edit.place("A", two))
        edit.move_seal(edit.place("A", two), edit.place("A", one))
    else:
        docs[2], docs[FACT_AT] = replace(two, slot=one.slot), replace(one, slot=two.slot)


def _older_version(edit: Edit) -> None:
    old = next(doc for doc in edit.copied("A") if doc.slot == "m-2")
    at = next(n for n, doc in enumerate(edit.docs("A")) if doc.slot == "m-2")
    edit.docs("A")[at] = old
    edit.move_seal(edit.place("A", old), edit.place("A", old), copied=True)


def _backdated(edit: Edit) -> None:
    base = edit.docs("A")[2]
    forged = replace(base, slot="m-2a", text=FORGED)
    edit.docs("A").insert(3, forged)
    edit.move_seal(edit.place("A", base), edit.place("A", forged))


def _put_again(edit: Edit) -> None:
    old = edit.docs("A")[1]
    again = replace(old, slot="m-92")
    edit.docs("A").append(again)
    edit.move_seal(edit.place("A", old), edit.place("A", again))


def _emptied(edit: Edit) -> None:
    edit.memory.pop(edit.scene.owners["A"])


def _trigger(edit: Edit) -> None:
    edit.scene.need_guard("table beside it, in which a trigger could stand")
    edit.sql.append(
        "CREATE TRIGGER later AFTER INSERT ON seals WHEN NEW.planned = 0 BEGIN\n"
        "  UPDATE seals SET own = CAST('{}' AS BLOB) WHERE context = NEW.context AND key = NEW.key;\nEND;"
    )


def _swallowing(edit: Edit) -> None:
    edit.scene.need_guard("table beside it, in which a trigger could stand")
    edit.sql.append("CREATE TRIGGER later BEFORE INSERT ON seals BEGIN\n  SELECT RAISE(IGNORE);\nEND;")


def _twice(edit: Edit) -> None:
    doc = edit.docs("A")[FACT_AT]
    meta = (("owner", "mallory"), *doc.meta)
    _changed(edit, "A", FACT_AT, replace(doc, meta=meta))


def _added_to_other(edit: Edit) -> None:
    given = edit.docs("A")[-1]
    made = replace(given, slot="m-93")
    edit.docs("B").append(made)
    edit.move_seal(edit.place("A", given), edit.place("B", made))


def _unknown_owner(edit: Edit) -> None:
    tip = edit.docs("A")[-1]
    edit.memory[edit.scene.owners["C"]] = [replace(tip, text=FORGED)]


def _of_sister(edit: Edit) -> None:
    scene = edit.scene
    given = edit.format.load(scene.cell / "store" / SISTER)[scene.owners["A"]][-1]
    tip = edit.docs("A")[-1]
    made = replace(given, slot=tip.slot)
    edit.docs("A")[-1] = made
    edit.move_seal(edit.place("A", given), edit.place("A", made), store="other-memories")


def _neutralised(edit: Edit) -> None:
    _changed(edit, "A", -1, edit.docs("A")[-1].beside(owner=None, role=None, source=None))


def _files_of_state(scene: Scene) -> list[Step]:
    scene.need_guard("state file")
    home = scene.cell / "home"
    files = sorted(p.relative_to(scene.cell).as_posix() for p in home.glob("state.db*"))
    return [Remove(tuple(files))]


# --- the tables -------------------------------------------------------------------------------------------

_CHANGES: dict[str, Change] = {
    "T1": t1,
    "T2": t2,
    "T3": t3,
    "T4": t4,
    "T5": t5,
    "T6": t6,
    "T7": t7,
    "T8": t8,
    "X01": _newest_changed,
    "X02": _brought_back,
    "X07": _relabelled,
    "X08": _exchanged,
    "X09": _context_restored,
    "X10": t6,
    "X11": t2,
    "X16": _stripped,
    "X17": _all_stripped,
    "X19": _undecodable,
    "X26": _neutralised,
    "X27": _label("system", "system"),
    "X28": _label("untrusted", "unknown"),
    "X29": _swap_keep,
    "X30": lambda edit: _over(edit, "B", "A", -1, keep=True),
    "X31": lambda edit: _over(edit, "A", "A", 1, keep=True),
    "X32": _older_version,
    "X35": _backdated,
    "X36": _put_again,
    "X37": _emptied,
    "X39": _trigger,
    "X40": _twice,
    "X42": _added_to_other,
    "X47": _swallowing,
    "X49": _unknown_owner,
    "X50": _emptied,
    "X51": _of_sister,
}
_NO_WRITES = "it has no pending writes"
_NO_VECTORS = "it has no vectors"
_NO_DATABASE = "it is no database: no view or index stands between a reader and the text"
_WHY_NOT = {
    "X03": _NO_WRITES,
    "X04": _NO_WRITES,
    "X05": _NO_WRITES,
    "X43": _NO_WRITES,
    "X55": _NO_WRITES,
    "X06": "records have no parent links",
    "X18": "there is no type beside a text",
    "X20": "a text calls nothing when it is read",
    "X21": _NO_VECTORS,
    "X22": _NO_VECTORS,
    "X53": _NO_VECTORS,
    "X54": _NO_VECTORS,
    "X23": "no field beside a record ranks it",
    "X24": "nothing expires",
    "X25": "it keeps no history table",
    "X41": "a file is written whole and keeps no log",
    "X45": _NO_DATABASE,
    "X46": _NO_DATABASE,
    "X48": _NO_DATABASE,
}


def _kind(name: str, format: Format) -> Kind:
    def made(change: Change) -> Callable[[Scene], list[Step]]:
        def steps(scene: Scene) -> list[Step]:
            edit = Edit(scene, format)
            change(edit)
            return edit.steps()

        return steps

    def removed_state(scene: Scene) -> list[Step]:
        first = _files_of_state(scene)
        edit = Edit(scene, format)
        _brought_back(edit)
        return [*first, *edit.steps()]

    def older_state(scene: Scene) -> list[Step]:
        scene.need_guard("state file")
        edit = Edit(scene, format)
        _brought_back(edit)
        edit.sql = []  # they come back with the home
        return [Restore(("home",)), *edit.steps()]

    def config_edited(scene: Scene) -> list[Step]:
        scene.need_guard("configuration beside it")
        return [Replace("home/memguard.toml", 'preset = "balanced"', 'preset = "off"'), *made(t1)(scene)]

    def sister(scene: Scene) -> list[Step]:
        steps: list[Step] = [CopyTree(f"store/{SISTER}", f"store/{HERE}")]
        if scene.guarded:
            moved = [
                "DELETE FROM seals WHERE store = CAST('memories' AS BLOB);",
                "UPDATE seals SET store = CAST('memories' AS BLOB);",
            ]
            steps.append(Sql(SEALS, "\n".join(moved)))
        return steps

    edits: dict[str, Callable[[Scene], list[Step]]] = {
        case: made(change) for case, change in _CHANGES.items()
    }
    edits |= {
        "T9": Scene.whole,
        "X12": Scene.whole,
        "X13": Scene.whole,
        "X14": lambda scene: [Remove((scene.need_anchor(),))],
        "X15": lambda scene: [Restore((scene.need_anchor(),))],
        "X33": config_edited,
        "X34": removed_state,
        "X38": lambda scene: [Remove((f"store/{HERE}",))],
        "X44": older_state,
        "X52": sister,
        "X56": lambda scene: [Restore(("store",))],
    }
    return Kind(name, "documents", lambda cell: state(format, cell), lambda owner: owner, edits, _WHY_NOT)


FOLDER_KIND = _kind("memory-folder", FOLDER)
GRAPH_KIND = _kind("mcp-memory", GRAPH)
