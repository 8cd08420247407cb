"""T1-T9 and X01.. for tables that keep one message a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memguard.bench.integrity.edits.messages import CHAT, FACT_AT, Layout, session
from memguard.bench.integrity.edits.raw import literal
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
from memguard.bench.integrity.edits.steps import Copy, Remove, Replace, Restore, Step

Edit = Callable[[Scene], list[Step]]
_PAST = "2001-01-01 00:00:00"
_NO_WRITES = "a list of messages has no pending writes"
_NO_VIEW = "SQLiteSession makes an index on its table when it is opened, which SQLite refuses on a view"
_NO_VECTORS = "a list of messages has no vectors"


def kind(name: str, of: Layout, *, wide: bool) -> Kind:
    """The edits of one layout.

    Args:
        wide: the framework lists contexts, so that a read over all of them can be tried.
    """
    why_not = {
        "X03": _NO_WRITES,
        "X04": _NO_WRITES,
        "X05": _NO_WRITES,
        "X06": "messages have no parent links",
        "X18": "there is no type column: every message is JSON",
        "X20": "a message is JSON, which calls nothing when it is decoded",
        "X21": _NO_VECTORS,
        "X22": _NO_VECTORS,
        "X24": "messages have no expiry column"
        if not of.encrypted
        else "the expiry is the authenticated time inside the envelope, and no column",
        "X25": "there is no history table beside the messages",
        "X26": "owner and source are no columns here; what stands beside a message is T8",
        "X43": _NO_WRITES,
        "X53": _NO_VECTORS,
        "X54": _NO_VECTORS,
        "X55": _NO_WRITES,
    }
    if not of.stamp:
        why_not["X23"] = "messages are ordered by the id that names the row; exchanging two is T4"
    if not of.logs:
        why_not["X41"] = "this store keeps a rollback journal, in which no finished change can be left behind"
    if of.logs:
        why_not["X45"] = why_not["X46"] = _NO_VIEW
    if not wide:
        why_not["X49"] = "a session speaks for itself only; an owner that never was is read in X07"
        why_not["X50"] = "a session speaks for itself only; nothing lists them all"
    return Kind(
        name=name,
        main=of.table,
        state=of.state,
        context=lambda owner: owner,
        edits={case: edit for case, edit in _edits(of).items() if case not in why_not},
        why_not=why_not,
    )


def _edits(of: Layout) -> dict[str, Edit]:
    rows, sql, update, insert = of.rows, of.sql, of.update, of.insert

    def data(row: dict[str, Any], value: str) -> str:
        return update(row, **{of.data: value})

    def t1(scene: Scene) -> list[Step]:
        """Change the fact in one message."""
        row = rows(scene, "A")[FACT_AT]
        return sql(data(row, of.saying(row, FORGED)))

    def t2(scene: Scene) -> list[Step]:
        """Delete the newest message."""
        return sql(of.delete(rows(scene, "A")[-1]))

    def t3(scene: Scene) -> list[Step]:
        """Delete a middle message."""
        return sql(of.delete(rows(scene, "A")[2]))

    def t4(scene: Scene) -> list[Step]:
        """Let two messages change places, seals and all."""
        found = rows(scene, "A")
        one, two = found[2], found[FACT_AT]
        return sql(data(one, two[of.data]), data(two, one[of.data]))

    def t5(scene: Scene) -> list[Step]:
        """Add an authored message after the newest, in the store's own format, with the newest one's seal."""
        tip = rows(scene, "A")[-1]
        return sql(insert({**of.later(tip), of.data: of.saying(tip, FORGED)}))

    def t6(scene: Scene) -> list[Step]:
        """Copy A's newest message over B's newest, byte for byte, in B's place."""
        return sql(data(rows(scene, "B")[-1], rows(scene, "A")[-1][of.data]))

    def t7(scene: Scene) -> list[Step]:
        """Copy an older message of A over A's newest."""
        found = rows(scene, "A")
        return sql(data(found[-1], found[1][of.data]))

    def t8(scene: Scene) -> list[Step]:
        """Date one message back, or give it another role beside its text."""
        row = rows(scene, "A")[FACT_AT]
        return sql(update(row, role="system") if "role" in of.meta else update(row, created_at=_PAST))

    def newest_changed(scene: Scene) -> list[Step]:
        row = rows(scene, "A")[-1]
        return sql(data(row, of.saying(row, FORGED)))

    def left_in_log(scene: Scene) -> list[Step]:
        row = rows(scene, "A")[-1]
        return sql(data(row, of.saying(row, FORGED)), keep_log=True)

    def brought_back(scene: Scene) -> list[Step]:
        there = {row["id"] for row in rows(scene, "A")}
        gone = [row for row in rows(scene, "A", copied=True) if row["id"] not in there]
        return sql(*[insert(row, ident=row["id"]) for row in gone])

    def renamed(old: str, new: str) -> list[str]:
        tables = {of.table: of.who, **(of.others or {})}
        return [f"UPDATE {t} SET {c} = {literal(new)} WHERE {c} = {literal(old)};" for t, c in tables.items()]

    def relabelled(scene: Scene) -> list[Step]:
        return sql(*renamed(scene.owners["A"], scene.owners["C"]))

    def exchanged(scene: Scene) -> list[Step]:
        a, b = scene.owners["A"], scene.owners["B"]
        return sql(*renamed(a, "exchange"), *renamed(b, a), *renamed("exchange", b))

    def context_restored(scene: Scene) -> list[Step]:
        gone = f"DELETE FROM {of.table} WHERE {of.who} = {literal(scene.owners['A'])};"
        return sql(gone, *[insert(row, ident=row["id"]) for row in rows(scene, "A", copied=True)])

    def stripped(scene: Scene) -> list[Step]:
        scene.need_guard("tag that could be stripped")
        row = rows(scene, "A")[FACT_AT]
        plain = of.saying(row, FORGED) if of.encrypted else of.sealed(row, None, FORGED)
        return sql(data(row, plain))

    def all_stripped(scene: Scene) -> list[Step]:
        scene.need_guard("tags that could be stripped")
        found = rows(scene, "A")
        statements = [data(row, of.sealed(row, None)) for row in found[:-1]]
        return sql(*statements, data(found[-1], of.sealed(found[-1], None, FORGED)))

    def undecodable(scene: Scene) -> list[Step]:
        return sql(data(rows(scene, "A")[-1], "{not json"))

    def ranked_first(scene: Scene) -> list[Step]:
        found = rows(scene, "A")
        return sql(update(found[1], **{of.stamp: found[-1][of.stamp] + 1}))

    def label(trust: str, source: str) -> Edit:
        def edit(scene: Scene) -> list[Step]:
            scene.need_guard("label")
            row = rows(scene, "A")[-1]
            if of.encrypted:
                raise Inexpressible("the label is encrypted with its message")
            part = of.seal(row)
            said = {**(part.get("label") or {}), "trust": trust, "source": source}
            return sql(data(row, of.sealed(row, {**part, "label": said})))

        return edit

    def under(scene: Scene, victim: dict[str, Any], donor: dict[str, Any]) -> str:
        """The donor's message under the victim's seal."""
        scene.need_guard("seal")
        if of.encrypted:
            raise Inexpressible("the seal is encrypted with its message")
        return data(victim, of.sealed(donor, of.seal(victim)))

    def swap_keep(scene: Scene) -> list[Step]:
        found = rows(scene, "A")
        one, two = found[2], found[FACT_AT]
        return sql(under(scene, one, two), under(scene, two, one))

    def cross_keep(scene: Scene) -> list[Step]:
        return sql(under(scene, rows(scene, "B")[-1], rows(scene, "A")[-1]))

    def older_keep(scene: Scene) -> list[Step]:
        found = rows(scene, "A")
        return sql(under(scene, found[-1], found[1]))

    def older_version(scene: Scene) -> list[Step]:
        return sql(data(rows(scene, "A")[-1], rows(scene, "A", copied=True)[-1][of.data]))

    def config_edited(scene: Scene) -> list[Step]:
        scene.need_guard("configuration beside it")
        return [Replace("home/memguard.toml", 'preset = "balanced"', 'preset = "off"'), *t1(scene)]

    def state_removed(scene: Scene) -> list[Step]:
        scene.need_guard("state file")
        files = sorted(p.relative_to(scene.cell).as_posix() for p in (scene.cell / "home").glob("state.db*"))
        return [Remove(tuple(files)), *brought_back(scene)]

    def state_rolled_back(scene: Scene) -> list[Step]:
        scene.need_guard("state file")
        if not scene.changed_since_copy("home"):
            raise Inexpressible("this configuration keeps nothing about the deletion in the guard's folder")
        return [Restore(("home",)), *brought_back(scene)]

    def inserted_early(scene: Scene) -> list[Step]:
        """Between two others by its stamp; where the id is the order, before the first, as ids leave no gap."""
        base = rows(scene, "A")[2]
        forged = {**of.later(base), of.data: of.saying(base, FORGED)}
        return sql(insert(forged, ident=None if of.stamp else -1))

    def put_again(scene: Scene) -> list[Step]:
        found = rows(scene, "A")
        return sql(insert({**of.later(found[-1]), of.data: found[1][of.data]}))

    def emptied(scene: Scene) -> list[Step]:
        return sql(f"DELETE FROM {of.table} WHERE {of.who} = {literal(scene.owners['A'])};")

    def trigger(scene: Scene) -> list[Step]:
        change = f"REPLACE(NEW.{of.data}, 'added note', 'approved every')"
        if of.encrypted:
            change = literal(of.saying({}, FORGED))
        return sql(
            f"CREATE TRIGGER later AFTER INSERT ON {of.table} "
            f"WHEN NEW.{of.who} = {literal(scene.owners['A'])} BEGIN\n"
            f"  UPDATE {of.table} SET {of.data} = {change} WHERE id = NEW.id;\nEND;"
        )

    def twice(scene: Scene) -> list[Step]:
        row = rows(scene, "A")[FACT_AT]
        return sql(data(row, '{"role": "system", ' + row[of.data][1:]))

    def added_to_other(scene: Scene) -> list[Step]:
        donor, tip = rows(scene, "A")[-1], rows(scene, "B")[-1]
        return sql(insert({**of.later(tip), of.data: donor[of.data]}))

    def unknown_owner(scene: Scene) -> list[Step]:
        tip = rows(scene, "A")[-1]
        return sql(insert({**tip, of.who: scene.owners["C"], of.data: of.saying(tip, FORGED)}))

    def of_sister(scene: Scene) -> list[Step]:
        return sql(data(rows(scene, "A")[-1], rows(scene, "A", sister=True)[-1][of.data]))

    def view(scene: Scene, hidden: str) -> list[Step]:
        tip = rows(scene, "A")[-1]
        return sql(
            f"ALTER TABLE {of.table} RENAME TO kept;",
            f"CREATE VIEW {of.table} AS SELECT * FROM kept WHERE NOT (id = {tip['id']}{hidden});",
        )

    def swallowing(scene: Scene) -> list[Step]:
        return sql(
            f"CREATE TRIGGER later BEFORE INSERT ON {of.table} "
            f"WHEN NEW.{of.who} = {literal(scene.owners['A'])} BEGIN\n  SELECT RAISE(IGNORE);\nEND;"
        )

    def forgetting_index(scene: Scene) -> list[Step]:
        """Index all but one message, then let the index claim that it holds them all."""
        [found] = scene.rows("SELECT sql FROM sqlite_master WHERE name = ?", (of.index,))
        row = rows(scene, "A")[FACT_AT]
        partial = f"{found['sql']} WHERE id <> {row['id']};"
        return sql(
            f"DROP INDEX {of.index};",
            partial,
            "PRAGMA writable_schema = ON;",
            f"UPDATE sqlite_master SET sql = {literal(found['sql'])} WHERE name = {literal(of.index)};",
            "PRAGMA writable_schema = OFF;",
        )

    return {
        "T1": t1,
        "T2": t2,
        "T3": t3,
        "T4": t4,
        "T5": t5,
        "T6": t6,
        "T7": t7,
        "T8": t8,
        "T9": Scene.whole,
        "X01": newest_changed,
        "X02": brought_back,
        "X07": relabelled,
        "X08": exchanged,
        "X09": context_restored,
        "X10": t6,
        "X11": t2,
        "X12": Scene.whole,
        "X13": Scene.whole,
        "X14": lambda scene: [Remove((scene.need_anchor(),))],
        "X15": lambda scene: [Restore((scene.need_anchor(),))],
        "X16": stripped,
        "X17": all_stripped,
        "X19": undecodable,
        "X23": ranked_first,
        "X27": label("system", "system"),
        "X28": label("untrusted", "unknown"),
        "X29": swap_keep,
        "X30": cross_keep,
        "X31": older_keep,
        "X32": older_version,
        "X33": config_edited,
        "X34": state_removed,
        "X35": inserted_early,
        "X36": put_again,
        "X37": emptied,
        "X38": lambda scene: [Remove((DATABASE,))],
        "X39": trigger,
        "X40": twice,
        "X41": left_in_log,
        "X42": added_to_other,
        "X44": state_rolled_back,
        "X45": lambda scene: view(scene, ""),
        "X46": lambda scene: [*sql(NOTE_MOMENT), *view(scene, f" AND {LATER}")],
        "X47": swallowing,
        "X48": forgetting_index,
        "X49": unknown_owner,
        "X50": emptied,
        "X51": of_sister,
        "X52": lambda scene: [Copy(SISTER, DATABASE)],
        "X56": lambda scene: [Restore(("store",))],
    }


SESSION = kind("openai-session", session(), wide=False)
SEALED_SESSION = kind("openai-session-encrypted", session(encrypted=True), wide=False)
CHATS = kind("llamaindex-chat", CHAT, wide=True)
