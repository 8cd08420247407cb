"""Edits at rest, each by raw SQL on a closed database: refused by name, and nothing of them decoded.

A golden scene is made once; every case works on a copy. ``reads`` asks for everything that the
scene holds in every way there is; a case passes only if no answer differs from the original
one and the error is the one its table line names.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from memguard.errors import AnchorError, IntegrityError, RollbackError, TamperedError, UnknownKeyError

ALICE, SUB, BOB = ("alice", ""), ("alice", "sub:1"), ("bob", "")
COLUMNS = {
    "checkpoints": (
        "thread_id",
        "checkpoint_ns",
        "checkpoint_id",
        "parent_checkpoint_id",
        "type",
        "checkpoint",
        "metadata",
    ),
    "writes": (
        "thread_id",
        "checkpoint_ns",
        "checkpoint_id",
        "task_id",
        "task_path",
        "idx",
        "channel",
        "type",
        "value",
    ),
}


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory, kit: Any) -> Any:
    """A closed scene with content, and what an untouched copy of it answers."""
    scene = kit.Scene(tmp_path_factory.mktemp("golden"))
    saver = scene.saver()
    scene.last = kit.Maker().fill(saver)
    scene.answers = reads(saver, scene.last)
    assert not errors_of(scene.answers)
    scene.close()
    scene.fold()
    scene.serde = kit.CountingSerde
    return scene


@pytest.fixture
def tampered(golden: Any, tmp_path: Path) -> Iterator[Any]:
    """A copy to edit. ``check`` opens it guarded and compares every answer with the golden ones."""
    case = Case(golden, tmp_path / "case")
    yield case
    case.scene.close()


class Case:
    def __init__(self, golden: Any, root: Path) -> None:
        self.golden, self.last = golden, golden.last
        self.scene = golden.copy(root)

    def sql(self, statement: str, *values: Any) -> list[Any]:
        found = self.scene.sql(statement, *values)
        if not statement.lstrip().upper().startswith("SELECT"):
            assert self.scene.changed != 0, "the edit did not land"
        return found

    def key(self, place: tuple[str, str], number: int) -> str:
        """Id of the number-th checkpoint of a thread."""
        found = self.sql(
            "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id",
            *place,
        )
        return str(found[number][0])

    def check(self) -> dict[str, Any]:
        """Every answer is the golden one or an integrity error; the errors come back."""
        serde = self.golden.serde()
        stored = "SELECT checkpoint FROM checkpoints UNION SELECT value FROM writes"
        genuine = {bytes(row[0]) for row in self.golden.sql(stored)}
        saver = self.scene.saver(serde)
        answers = reads(saver, self.last)
        self.saver = saver
        for way, answer in answers.items():
            if not isinstance(answer, BaseException):
                assert answer == self.golden.answers[way], way
        foreign = [data for data in serde.decoded if bytes(data) not in genuine]
        assert not foreign, "bytes that were not written through the guard reached the decoder"
        return errors_of(answers)


def reads(saver: Any, last: dict[str, Any]) -> dict[str, Any]:
    """Everything, in every way: newest, each by id, lists of a thread, of all, filtered, paged, bounded."""
    answers: dict[str, Any] = {}

    def ask(way: str, call: Callable[[], Any]) -> Any:
        try:
            answers[way] = call()
        except Exception as error:
            answers[way] = error

    for name, config in last.items():
        thread, namespace = name.split("|")
        newest = {"configurable": {"thread_id": thread, "checkpoint_ns": namespace}}
        ask(f"newest {name}", lambda c=newest: saver.get_tuple(c))
        ask(f"by id {name}", lambda c=config: saver.get_tuple(c))
        ask(f"list {name}", lambda c=newest: list(saver.list(c)))
        ask(f"filtered {name}", lambda c=newest, t=thread: list(saver.list(c, filter={"user": t})))
        ask(f"one {name}", lambda c=newest: list(saver.list(c, limit=1)))
        ask(f"before {name}", lambda c=newest, b=config: list(saver.list(c, before=b)))
    ask("all", lambda: list(saver.list(None)))
    return answers


def errors_of(answers: dict[str, Any]) -> dict[str, Any]:
    found = {way: answer for way, answer in answers.items() if isinstance(answer, BaseException)}
    for way, error in found.items():
        assert isinstance(error, IntegrityError), (way, repr(error))
        assert "limit=100" not in str(error), "memory content in an error"
    return found


# -- every column of every table --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "column"), [(table, column) for table, columns in COLUMNS.items() for column in columns]
)
def test_each_column_changed_alone_is_refused(tampered: Any, table: str, column: str) -> None:
    value = {"idx": 7, "checkpoint": ormsgpack.packb({"id": "x"}), "value": b"\x01", "metadata": b"{}"}.get(
        column, "zz"
    )
    row = tampered.sql(f"SELECT max(rowid) FROM {table} WHERE thread_id = 'bob'")[0][0]
    tampered.sql(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", value, row)
    found = tampered.check()
    assert any("bob" in way for way in found)
    assert not any("alice" in way for way in found), "another thread stopped working"
    assert not tampered.saver._memguard.guard.audit(tampered.saver).clean


@pytest.mark.parametrize("table", sorted(COLUMNS))
@pytest.mark.parametrize("form", ["NULL", "''", "CAST({0} AS TEXT)", "CAST({0} AS BLOB)", "9"])
def test_no_storage_class_of_a_column_confuses_it(golden: Any, tmp_path: Path, table: str, form: str) -> None:
    landed = 0
    for column in COLUMNS[table]:
        case = Case(golden, tmp_path / column)
        row = case.sql(f"SELECT max(rowid) FROM {table} WHERE thread_id = 'bob'")[0][0]
        look = f"SELECT typeof({column}), CAST({column} AS BLOB) FROM {table} WHERE rowid = ?"
        before = case.sql(look, row)
        try:
            case.sql(f"UPDATE {table} SET {column} = {form.format(column)} WHERE rowid = ?", row)
        except sqlite3.IntegrityError:
            continue  # the table itself does not allow it
        if case.sql(look, row) == before:
            continue  # the column's affinity gives it back as it was
        landed += 1
        found = case.check()
        assert any("bob" in way for way in found), column
        assert not any("alice" in way for way in found), column
        case.scene.close()
    assert landed


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_single_bit_flipped_is_refused_or_changes_no_answer(
    golden: Any, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    table = data.draw(st.sampled_from(sorted(COLUMNS)))
    column = data.draw(st.sampled_from(COLUMNS[table]))
    case = Case(golden, tmp_path_factory.mktemp("flip"))
    try:
        count = case.sql(f"SELECT count(*) FROM {table}")[0][0]
        row, form, raw = case.sql(
            f"SELECT rowid, typeof({column}), CAST({column} AS BLOB) FROM {table} LIMIT 1 OFFSET ?",
            data.draw(st.integers(0, count - 1)),
        )[0]
        if not raw:
            return
        at, bit = data.draw(st.integers(0, len(raw) - 1)), data.draw(st.integers(0, 7))
        flipped = bytearray(raw)
        flipped[at] ^= 1 << bit
        if form == "integer":
            flipped = bytearray(str(int(bytes(raw)) ^ (1 << bit)).encode())
        kind = {"text": "TEXT", "integer": "INTEGER"}.get(form, "BLOB")
        try:
            case.sql(f"UPDATE {table} SET {column} = CAST(? AS {kind}) WHERE rowid = ?", bytes(flipped), row)
        except sqlite3.IntegrityError:
            return  # the row would collide with another one
        assert case.check(), "an edit that changes a bound byte was served"
    finally:
        case.scene.close()
        shutil.rmtree(case.scene.root)


# -- rows taken, brought back, moved ----------------------------------------------------------------


def _again(case: Any, table: str, where: str, **changes: Any) -> None:
    """Insert a copy of a row with other columns."""
    columns = COLUMNS[table]
    chosen = ", ".join(f":{c}" if c in changes else c for c in columns)
    with sqlite3.connect(case.scene.db) as connection:
        done = connection.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} FROM {table} WHERE {where}", changes
        )
        assert done.rowcount > 0
    connection.close()


def edit_delete_newest(case: Any) -> None:
    case.sql("DELETE FROM checkpoints WHERE checkpoint_id = ?", case.key(BOB, -1))


def edit_delete_oldest(case: Any) -> None:
    case.sql("DELETE FROM checkpoints WHERE checkpoint_id = ?", case.key(BOB, 0))


def edit_delete_all_of_a_thread(case: Any) -> None:
    case.sql("DELETE FROM checkpoints WHERE thread_id = 'bob'")
    case.sql("DELETE FROM writes WHERE thread_id = 'bob'")


def edit_delete_one_write(case: Any) -> None:
    case.sql("DELETE FROM writes WHERE checkpoint_id = ? AND channel = 'y'", case.key(BOB, -1))


def edit_delete_all_writes(case: Any) -> None:
    case.sql("DELETE FROM writes WHERE checkpoint_id = ?", case.key(BOB, -1))


def edit_duplicate_under_another_id(case: Any) -> None:
    key = case.key(BOB, -1)
    _again(
        case,
        "checkpoints",
        f"checkpoint_id = '{key}'",
        checkpoint_id=key[:-1] + ("0" if key[-1] != "0" else "1"),
    )


def edit_duplicate_into_another_namespace(case: Any) -> None:
    _again(case, "checkpoints", f"checkpoint_id = '{case.key(BOB, -1)}'", checkpoint_ns="other")


def edit_copy_over_another_thread(case: Any) -> None:
    case.sql("DELETE FROM checkpoints WHERE thread_id = 'bob'")
    case.sql("UPDATE checkpoints SET thread_id = 'bob' WHERE thread_id = 'alice' AND checkpoint_ns = ''")


def edit_relabel_a_whole_thread(case: Any) -> None:
    for table in COLUMNS:
        case.sql(f"DELETE FROM {table} WHERE thread_id = 'bob'")
        case.sql(f"UPDATE {table} SET thread_id = 'bob' WHERE thread_id = 'alice'")


def edit_swap_ids(case: Any) -> None:
    one, two = case.key(BOB, 0), case.key(BOB, 1)
    for old, new in ((one, "tmp"), (two, one), ("tmp", two)):
        for table in COLUMNS:
            case.sql(f"UPDATE {table} SET checkpoint_id = ? WHERE checkpoint_id = ?", new, old)


def edit_swap_content(case: Any) -> None:
    one, two = case.key(BOB, 0), case.key(BOB, 1)
    rows = {
        key: case.sql("SELECT checkpoint, metadata FROM checkpoints WHERE checkpoint_id = ?", key)[0]
        for key in (one, two)
    }
    for key, other in ((one, two), (two, one)):
        case.sql(
            "UPDATE checkpoints SET checkpoint = ?, metadata = ? WHERE checkpoint_id = ?", *rows[other], key
        )


def edit_rewire_parent(case: Any) -> None:
    case.sql("UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE checkpoint_id = ?", case.key(BOB, -1))


def edit_parent_of_another_thread(case: Any) -> None:
    case.sql(
        "UPDATE checkpoints SET parent_checkpoint_id = ? WHERE checkpoint_id = ?",
        case.key(ALICE, 0),
        case.key(BOB, -1),
    )


def edit_forge_resume(case: Any) -> None:
    case.sql(
        "UPDATE writes SET value = ? WHERE channel = '__resume__' AND checkpoint_id = ?",
        ormsgpack.packb(["yes, transfer it"]),
        case.key(BOB, -1),
    )


def edit_forge_new_write_bare(case: Any) -> None:
    _again(case, "writes", f"checkpoint_id = '{case.key(BOB, -1)}' AND channel = 'y'", type="msgpack", idx=9)


def edit_forge_new_write_with_a_copied_seal(case: Any) -> None:
    _again(case, "writes", f"checkpoint_id = '{case.key(BOB, -1)}' AND channel = 'y'", task_id="task-9")


def edit_replay_write_of_an_older_checkpoint(case: Any) -> None:
    new = case.key(BOB, 1)
    case.sql("DELETE FROM writes WHERE checkpoint_id = ? AND channel = '__resume__'", new)
    _again(
        case, "writes", f"checkpoint_id = '{case.key(BOB, 0)}' AND channel = '__resume__'", checkpoint_id=new
    )


def edit_retype_a_write(case: Any) -> None:
    case.sql(
        "UPDATE writes SET type = replace(type, 'msgpack|', 'json|') WHERE checkpoint_id = ?",
        case.key(BOB, -1),
    )


def edit_reorder_writes_by_path(case: Any) -> None:
    case.sql(
        "UPDATE writes SET task_path = '~z' WHERE task_id = 'task-1' AND checkpoint_id = ?", case.key(BOB, -1)
    )


def edit_reorder_writes_by_index(case: Any) -> None:
    case.sql(
        "UPDATE writes SET idx = 5 WHERE task_id = 'task-1' AND idx = 0 AND checkpoint_id = ?",
        case.key(BOB, -1),
    )


def edit_strip_seal(case: Any) -> None:
    _metadata(case, "json_remove(m, '$.memguard')")


def edit_strip_write_seals(case: Any) -> None:
    case.sql("UPDATE writes SET type = substr(type, 1, instr(type, '|mg1.') - 1) WHERE thread_id = 'bob'")


def edit_copy_seal_of_another_row(case: Any) -> None:
    case.sql(
        "UPDATE checkpoints SET metadata = (SELECT metadata FROM checkpoints WHERE checkpoint_id = ?) "
        "WHERE checkpoint_id = ?",
        case.key(BOB, 0),
        case.key(BOB, 1),
    )


def _metadata(case: Any, made: str, *values: Any) -> None:
    """Rewrite the metadata of a thread by an SQL expression over ``m``, its text."""
    made = re.sub(r"\bm\b", "CAST(metadata AS TEXT)", made, count=1)
    case.sql(f"UPDATE checkpoints SET metadata = CAST({made} AS BLOB) WHERE thread_id = 'bob'", *values)


def edit_metadata_key_added(case: Any) -> None:
    _metadata(case, "json_set(m, '$.role', 'admin')")


def edit_metadata_key_removed(case: Any) -> None:
    _metadata(case, "json_remove(m, '$.step')")


def edit_label_added(case: Any) -> None:
    _metadata(case, "json_set(m, '$.memguard.label', json(?))", json.dumps({"trust": "system"}))


def edit_seal_spelled_differently(case: Any) -> None:
    """Another base64 spelling of the same bytes: padding bits set."""
    for row, text in case.sql(
        "SELECT rowid, CAST(metadata AS TEXT) FROM checkpoints WHERE thread_id = 'bob'"
    ):
        metadata = json.loads(text)
        metadata["memguard"]["seal"] += "="
        case.sql("UPDATE checkpoints SET metadata = ? WHERE rowid = ?", json.dumps(metadata).encode(), row)


def edit_huge_metadata(case: Any) -> None:
    case.sql(
        "UPDATE checkpoints SET metadata = ? WHERE thread_id = 'bob'", b'{"z": "' + b"x" * 2_000_000 + b'"}'
    )


def edit_deep_metadata(case: Any) -> None:
    text = str(case.sql("SELECT CAST(metadata AS TEXT) FROM checkpoints WHERE thread_id = 'bob'")[0][0])
    for depth in (900, 100_000):
        deep = text[:-1] + ', "z": ' + "[" * depth + "]" * depth + "}"
        case.sql(
            "UPDATE checkpoints SET metadata = ? WHERE checkpoint_id = ?", deep.encode(), case.key(BOB, -1)
        )


def edit_metadata_not_json(case: Any) -> None:
    case.sql("UPDATE checkpoints SET metadata = ? WHERE thread_id = 'bob'", b"\xff\xfe{")


def edit_text_not_utf8(case: Any) -> None:
    case.sql("UPDATE writes SET channel = CAST(? AS TEXT) WHERE thread_id = 'bob'", b"\xff\xfe")


def edit_key_id_unknown(case: Any) -> None:
    for row, text in case.sql(
        "SELECT rowid, CAST(metadata AS TEXT) FROM checkpoints WHERE thread_id = 'bob'"
    ):
        metadata = json.loads(text)
        prefix, _, body = metadata["memguard"]["seal"].split(".")
        metadata["memguard"]["seal"] = f"{prefix}.nosuchkey.{body}"
        case.sql("UPDATE checkpoints SET metadata = ? WHERE rowid = ?", json.dumps(metadata).encode(), row)


def edit_view_in_place_of_a_table(case: Any) -> None:
    with sqlite3.connect(case.scene.db) as connection:
        connection.execute("ALTER TABLE checkpoints RENAME TO real_checkpoints")
        connection.execute(
            "CREATE VIEW checkpoints AS SELECT * FROM real_checkpoints WHERE thread_id <> 'bob'"
        )
    connection.close()


T, R, U = TamperedError, RollbackError, UnknownKeyError
TABLE: list[tuple[Callable[[Any], None], type[IntegrityError], set[str]]] = [
    (edit_delete_newest, R, {"T2"}),
    (edit_delete_oldest, R, {"T2"}),
    (edit_delete_all_of_a_thread, R, {"T2"}),
    (edit_delete_one_write, R, {"T2", "T3"}),
    (edit_delete_all_writes, R, {"T2", "T3"}),
    (edit_duplicate_under_another_id, T, {"T1", "T5"}),
    (edit_duplicate_into_another_namespace, T, {"T1"}),
    (edit_copy_over_another_thread, T, {"T1"}),
    (edit_relabel_a_whole_thread, T, {"T1"}),
    (edit_swap_ids, T, {"T1"}),
    (edit_swap_content, T, {"T1"}),
    (edit_rewire_parent, T, {"T1"}),
    (edit_parent_of_another_thread, T, {"T1"}),
    (edit_forge_resume, T, {"T1"}),
    (edit_forge_new_write_bare, T, {"untagged"}),
    (edit_forge_new_write_with_a_copied_seal, T, {"T1", "T5"}),
    (edit_replay_write_of_an_older_checkpoint, T, {"T1"}),
    (edit_retype_a_write, T, {"T1", "untagged"}),
    (edit_reorder_writes_by_path, T, {"T4"}),
    (edit_reorder_writes_by_index, T, {"T4"}),
    (edit_strip_seal, T, {"untagged"}),
    (edit_strip_write_seals, T, {"untagged"}),
    (edit_copy_seal_of_another_row, T, {"T1"}),
    (edit_metadata_key_added, T, {"T1", "untagged"}),
    (edit_metadata_key_removed, T, {"T1", "untagged"}),
    (edit_label_added, T, {"T1", "untagged"}),
    (edit_seal_spelled_differently, T, {"untagged"}),
    (edit_huge_metadata, T, {"untagged"}),
    (edit_deep_metadata, T, {"untagged", "T1", "undecodable"}),
    (edit_metadata_not_json, T, {"untagged", "undecodable"}),
    (edit_text_not_utf8, T, {"undecodable"}),
    (edit_key_id_unknown, U, {"key"}),
]


@pytest.mark.parametrize(("edit", "error", "cases"), TABLE, ids=[e.__name__[5:] for e, _, _ in TABLE])
def test_each_edit_is_refused_by_its_name(
    tampered: Any, edit: Callable[[Any], None], error: type[IntegrityError], cases: set[str]
) -> None:
    edit(tampered)
    found = tampered.check()
    assert found, "nothing was refused"
    bob = {way: e for way, e in found.items() if "bob" in way}
    if edit is not edit_duplicate_into_another_namespace:  # there only lists of everything can see it
        assert bob
    first = next(iter((bob or found).values()))
    assert type(first) is error, repr(first)
    assert first.case in cases, repr(first)
    assert first.record
    report = tampered.saver._memguard.guard.audit(tampered.saver)
    assert not report.clean
    assert all(f.record for f in report.findings)


def test_a_view_in_place_of_a_table_is_refused(tampered: Any) -> None:
    edit_view_in_place_of_a_table(tampered)
    assert tampered.check()


def test_an_untouched_copy_answers_as_the_original(tampered: Any) -> None:
    """The control of the whole table: the same machinery, no edit, no error."""
    assert tampered.check() == {}
    assert tampered.saver._memguard.guard.audit(tampered.saver).clean


def test_the_bare_saver_serves_what_each_edit_made_of_it(golden: Any, tmp_path: Path) -> None:
    """The other control: every edit changes what a saver without a guard answers, and no error says why."""
    take_off = "UPDATE writes SET type = substr(type, 1, instr(type, '|mg1.') - 1) WHERE instr(type, '|mg1.')"
    untouched = golden.copy(tmp_path / "untouched")
    untouched.sql(take_off)
    expected = reads(untouched.bare(), golden.last)
    assert not any(isinstance(answer, BaseException) for answer in expected.values())
    for edit, _, _ in TABLE:
        if edit is edit_strip_write_seals:
            continue  # is what take_off does
        case = Case(golden, tmp_path / edit.__name__)
        edit(case)
        case.scene.sql(take_off)
        answers = reads(case.scene.bare(), golden.last)
        assert any(repr(answers[way]) != repr(expected[way]) for way in answers), edit.__name__
        case.scene.close()
    untouched.close()


# -- files ------------------------------------------------------------------------------------------


def _files(scene: Any) -> list[Path]:
    return [p for p in scene.root.iterdir() if p.name.startswith("agent.db")]


def _snapshot(scene: Any, into: Path, *, home: bool = False, anchor: bool = False) -> None:
    into.mkdir()
    for path in _files(scene):
        shutil.copy2(path, into / path.name)
    if home:
        shutil.copytree(scene.home, into / "home")
    if anchor:
        shutil.copytree(scene.anchor, into / "anchor")


def _restore(scene: Any, source: Path) -> None:
    for path in _files(scene):
        path.unlink()
    for path in source.iterdir():
        if path.is_dir():
            shutil.rmtree(scene.root / path.name)
            shutil.copytree(path, scene.root / path.name)
        else:
            shutil.copy2(path, scene.root / path.name)


def _advance(scene: Any, maker: Any, last: dict[str, Any]) -> None:
    saver = scene.saver()
    for name, config in last.items():
        for _ in range(2):
            config = maker.put(saver, config, f"{name} later")
    scene.close()


@pytest.mark.parametrize("home", [False, True], ids=["store", "store+home"])
def test_t9_the_whole_database_restored_is_refused(
    tampered: Any, maker: Any, tmp_path: Path, home: bool
) -> None:
    scene = tampered.scene
    _snapshot(scene, tmp_path / "old", home=home)
    _advance(scene, maker, tampered.last)
    _restore(scene, tmp_path / "old")
    saver = scene.saver()
    found = errors_of(reads(saver, tampered.last))
    assert set(found) == set(tampered.golden.answers)  # nothing at all is served
    assert {type(e) for e in found.values()} == {RollbackError}


def test_t9_with_an_anchor_that_goes_back_too_is_accepted_and_that_is_said(
    tampered: Any, maker: Any, tmp_path: Path
) -> None:
    """The limit that the threat model states: an adversary who holds the anchor as well may roll back."""
    scene = tampered.scene
    _snapshot(scene, tmp_path / "old", home=True, anchor=True)
    _advance(scene, maker, tampered.last)
    _restore(scene, tmp_path / "old")
    assert reads(scene.saver(), tampered.last) == tampered.golden.answers


def test_an_anchor_rolled_back_alone_is_refused(tampered: Any, maker: Any, tmp_path: Path) -> None:
    scene = tampered.scene
    shutil.copytree(scene.anchor, tmp_path / "old")
    _advance(scene, maker, tampered.last)
    shutil.rmtree(scene.anchor)
    shutil.copytree(tmp_path / "old", scene.anchor)
    found = errors_of(reads(scene.saver(), tampered.last))
    assert set(found) == set(tampered.golden.answers)
    assert {(type(e), e.code) for e in found.values()} == {(AnchorError, "MG415")}


def test_one_thread_rolled_back_while_others_advanced(tampered: Any, maker: Any, tmp_path: Path) -> None:
    scene = tampered.scene
    shutil.copy2(scene.db, tmp_path / "old.db")
    _advance(scene, maker, tampered.last)
    with sqlite3.connect(scene.db) as connection:
        connection.execute("ATTACH ? AS old", (str(tmp_path / "old.db"),))
        for table in COLUMNS:
            connection.execute(f"DELETE FROM main.{table} WHERE thread_id = 'bob'")
            connection.execute(f"INSERT INTO main.{table} SELECT * FROM old.{table} WHERE thread_id = 'bob'")
    connection.close()
    answers = reads(scene.saver(), tampered.last)
    for way, answer in answers.items():
        if "bob" in way or way == "all":
            assert isinstance(answer, RollbackError), way
        else:
            assert not isinstance(answer, Exception), way


def test_rolled_back_then_a_genuine_write_does_not_launder_it(tampered: Any, maker: Any, place: Any) -> None:
    newest, older = tampered.key(BOB, -1), tampered.key(BOB, -2)
    for table in COLUMNS:
        tampered.sql(f"DELETE FROM {table} WHERE checkpoint_id = ?", newest)
    saver = tampered.scene.saver()
    with pytest.raises(RollbackError):
        maker.put(saver, place("bob", "", older), "genuine")
    with pytest.raises(RollbackError):
        saver.get_tuple(place("bob"))
    assert (
        tampered.sql("SELECT count(*) FROM checkpoints WHERE thread_id = 'bob'")[0][0] == 1
    )  # nothing was written


def test_a_deleted_thread_that_comes_back_is_refused(tampered: Any, place: Any, tmp_path: Path) -> None:
    scene = tampered.scene
    _snapshot(scene, tmp_path / "old")
    saver = scene.saver()
    saver.delete_thread("bob")
    assert saver.get_tuple(place("bob")) is None
    scene.close()
    _restore(scene, tmp_path / "old")
    with pytest.raises(IntegrityError) as caught:
        scene.saver().get_tuple(place("bob"))
    assert caught.value.case in ("T5", "T7")


# -- while it runs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "edit",
    [
        edit_delete_newest,
        edit_delete_all_writes,
        edit_forge_resume,
        edit_forge_new_write_with_a_copied_seal,
        edit_rewire_parent,
        edit_swap_content,
        edit_strip_seal,
        edit_reorder_writes_by_path,
        edit_relabel_a_whole_thread,
        edit_metadata_key_added,
    ],
    ids=lambda e: e.__name__[5:],
)
def test_an_edit_under_a_running_guard_is_refused_on_the_next_read(
    tampered: Any, edit: Callable[[Any], None]
) -> None:
    saver = tampered.scene.saver()
    assert reads(saver, tampered.last) == tampered.golden.answers
    edit(tampered)
    answers = reads(saver, tampered.last)
    for way, answer in answers.items():
        if not isinstance(answer, Exception):
            assert answer == tampered.golden.answers[way]
    assert {"newest bob|", "list bob|", "all"} <= set(errors_of(answers))


async def test_the_async_saver_refuses_too(tampered: Any, place: Any, counting: Any) -> None:
    edit_forge_resume(tampered)
    serde = counting()
    async with tampered.scene.asaver(serde) as saver:
        with pytest.raises(TamperedError):
            await saver.aget_tuple(place("bob"))
        with pytest.raises(TamperedError):
            [found async for found in saver.alist(place("bob"))]
        assert serde.decoded == []
        assert (await saver.aget_tuple(place("alice"))) is not None
        report = await saver._memguard.guard.aaudit(saver)
        assert [f.case for f in report.findings] == ["T1"]


# -- code, and ciphers ------------------------------------------------------------------------------


def _bomb(marker: Path) -> bytes:
    """A msgpack ext that calls os.system while a permissive serializer loads it (ext 0: constructor, one argument)."""
    inner = ormsgpack.packb(("os", "system", f"touch {marker}"))
    return ormsgpack.packb({"id": "x", "v": 1, "channel_values": {"x": ormsgpack.Ext(0, inner)}})


@pytest.mark.parametrize("where", ["checkpoint", "write"])
def test_v04_a_callable_in_an_edited_row_does_not_run(tampered: Any, tmp_path: Path, where: str) -> None:
    marker = tmp_path / "ran"
    bomb = _bomb(marker)
    if where == "checkpoint":
        tampered.sql(
            "UPDATE checkpoints SET checkpoint = ? WHERE checkpoint_id = ?", bomb, tampered.key(BOB, -1)
        )
    else:
        tampered.sql("UPDATE writes SET value = ? WHERE checkpoint_id = ?", bomb, tampered.key(BOB, -1))
    assert tampered.check()
    assert not marker.exists()
    tampered.scene.sql("UPDATE writes SET type = 'msgpack' WHERE instr(type, '|mg1.')")
    reads(tampered.scene.bare(), tampered.last)
    assert marker.exists(), "the control: a bare saver runs it"


def test_v01_an_encrypted_row_swapped_for_a_plain_one_is_refused(scene: Any, maker: Any, place: Any) -> None:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
    saver = scene.saver(serde)
    maker.put(saver, place("t"), "limit=100")
    assert saver.get_tuple(place("t")).checkpoint["channel_values"] == {"x": "limit=100"}
    scene.close()
    assert scene.sql("SELECT type FROM checkpoints") == [("msgpack+aes",)]
    plain = ormsgpack.packb({**maker.checkpoint("limit=999")})
    scene.sql("UPDATE checkpoints SET type = 'msgpack', checkpoint = ?", plain)
    assert scene.bare(serde).get_tuple(place("t")).checkpoint["channel_values"] == {
        "x": "limit=999"
    }  # the control
    with pytest.raises(TamperedError):
        scene.saver(serde).get_tuple(place("t"))


# -- the guard's own history -------------------------------------------------------------------------


@pytest.mark.parametrize("edit", ["operation = 'x'", "time = time + 1", "generation = generation + 100"])
def test_v45_a_rewritten_history_beside_the_store_is_found_and_changes_no_answer(
    tampered: Any, edit: str
) -> None:
    scene = tampered.scene
    saver = scene.saver()
    mg = saver._memguard.guard
    mg._log.harvest()
    scene.close()
    with sqlite3.connect(scene.home / "state.db") as connection:
        done = connection.execute(f"UPDATE ledger SET {edit} WHERE id = (SELECT max(id) FROM ledger)")
        assert done.rowcount == 1
    connection.close()
    assert tampered.check() == {}  # what is served is proved by the rows and the anchor, never by this file
    findings = tampered.saver._memguard.guard.audit(tampered.saver).findings
    assert {f.code for f in findings} == {"MG430"}


def test_v45_the_key_is_in_nothing_that_stands_beside_the_store(tampered: Any) -> None:
    secret = json.loads(tampered.scene.key.read_text())["keys"]
    for key in secret.values():
        text = key["secret"].encode()
        for folder in (tampered.scene.home, tampered.scene.anchor):
            for path in folder.rglob("*"):
                assert not path.is_file() or text not in path.read_bytes()
        assert text not in tampered.scene.db.read_bytes()


def test_a_write_whose_order_key_was_edited(scene: Any, maker: Any, place: Any) -> None:
    """A read of one checkpoint shows the order alone; whoever looks at every row compares the columns as well."""
    saver = scene.saver()
    config = maker.put(saver, place("t"), "v")
    saver.put_writes(config, [("a", 1)], "task")
    for edit in ("idx = idx + 50", "task_path = 'z'"):
        scene.sql(f"UPDATE writes SET {edit}")
        assert saver.get_tuple(place("t")).pending_writes == [
            ("task", "a", 1)
        ]  # nothing else ever stood there
        with pytest.raises(TamperedError):
            list(saver.list(place("t")))
        scene.sql("UPDATE writes SET idx = 0, task_path = ''")
        assert len(list(saver.list(place("t")))) == 1
    saver.put_writes(config, [("b", 2)], "task-2")
    scene.sql("UPDATE writes SET task_path = 'z' WHERE task_id = 'task'")  # now it comes second
    with pytest.raises(TamperedError):
        saver.get_tuple(place("t"))
