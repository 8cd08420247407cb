"""``bench verify`` finds each way of dressing up a result, and names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memguard.bench.integrity import rows, verify

Doc = dict[str, Any]


def check(doc: Doc, folder: Path) -> set[str]:
    file = folder / "result.json"
    file.write_text(json.dumps(doc), encoding="utf-8")
    return {r.ground for r in verify.verify(file).rejections}


def sealed(doc: Doc) -> Doc:
    """The forger closes the file again: every digest that needs no key is made to fit."""
    for row in doc["rows"]:
        row["digest"] = rows.digest({k: v for k, v in row.items() if k != "digest"})
    listed = {rows.row_id(r): r["digest"] for r in doc["rows"]}
    doc["manifest"] = {"rows": listed, "digest": rows.digest(listed)}
    doc["config_digest"] = rows.digest(doc["config"])
    return doc


def test_a_genuine_result_stands(result: Doc, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text(json.dumps(result, indent=2), encoding="utf-8")
    found = verify.verify(file)
    assert found.ok, found.rejections
    assert found.rows == 3
    assert found.cells == 3 * len(result["cases"])
    assert found.numbers == 3 * 13
    assert verify.verify(tmp_path).ok  # the folder of a run will do


def _set(path: str, value: Any) -> Callable[[Doc], None]:
    def change(doc: Doc) -> None:
        *way, last = path.split("/")
        at: Any = doc
        for step in way:
            at = at[int(step)] if isinstance(at, list) else at[step]
        at[int(last) if isinstance(at, list) else last] = value

    return change


def _drop(path: str) -> Callable[[Doc], None]:
    def change(doc: Doc) -> None:
        *way, last = path.split("/")
        at: Any = doc
        for step in way:
            at = at[int(step)] if isinstance(at, list) else at[step]
        del at[int(last) if isinstance(at, list) else last]

    return change


GUARDED, AUDIT = "rows/1", "rows/2"


FORGERIES: list[tuple[Callable[[Doc], None], str]] = [
    (_set("schema", "memguard.bench/9"), "schema_mismatch"),
    (_drop("tool"), "missing_field"),
    (_drop(f"{GUARDED}/backend"), "missing_field"),
    (_drop(f"{GUARDED}/cells/T3/landed"), "missing_field"),
    (_drop("rows/0"), "missing_row"),
    (_drop(f"{GUARDED}/cells/T9"), "missing_case"),
    (_drop(f"{GUARDED}/cells/X07"), "missing_case"),
    (_set(f"{GUARDED}/cells/X99", {}), "unknown_case"),
    (_set(f"{GUARDED}/cells/T9/verdict", "FINE"), "unknown_verdict"),
    (_set(f"{GUARDED}/cells/T9/strict_verdict", "REJECTED"), "verdict_mismatch"),
    (_set(f"{GUARDED}/cells/X19/strict_verdict", "REJECTED"), "verdict_mismatch"),
    (_set(f"{GUARDED}/cells/T1/evidence/0/integrity", False), "verdict_mismatch"),
    (_set(f"{AUDIT}/cells/T1/verdict", "REJECTED"), "detection_point_mismatch"),
    (_set(f"{AUDIT}/detection_point", "both"), "detection_point_mismatch"),
    (_set(f"{GUARDED}/cells/X25/detail", ""), "missing_reason"),
    (_set(f"{GUARDED}/cells/T2/script", ""), "missing_script"),
    (_set(f"{GUARDED}/controls/C3/failed", ["T1"]), "control_mismatch"),
    (_drop(f"{GUARDED}/controls/C2"), "control_mismatch"),
    (_set(f"{GUARDED}/controls/C1/ok", False), "not_evaluable_scored"),
    (_set(f"{GUARDED}/metric", 1.0), "count_mismatch"),
    (_set(f"{AUDIT}/strict_metric", 1.0), "count_mismatch"),  # a partial pass counted in full
    (_set(f"{GUARDED}/strict_accepted", 0), "count_mismatch"),
    (_set(f"{GUARDED}/groups/T9", 1.0), "group_mismatch"),
    (_set(f"{GUARDED}/level", "L4"), "level_mismatch"),
    (_set(f"{GUARDED}/strict_level", "L4"), "level_mismatch"),
]


@pytest.mark.parametrize(("change", "ground"), FORGERIES)
def test_a_forger_who_closes_every_digest_is_still_found(
    result: Doc, tmp_path: Path, change: Callable[[Doc], None], ground: str
) -> None:
    change(result)
    assert ground in check(sealed(result), tmp_path)


def test_a_forger_who_does_not_is_found_by_the_digests(result: Doc, tmp_path: Path) -> None:
    result["rows"][1]["versions"]["some-store"] = "9.9"
    assert check(result, tmp_path) == {"digest_mismatch"}


def test_a_swapped_row_breaks_the_manifest(result: Doc, tmp_path: Path) -> None:
    row = result["rows"][1]
    row["backend"] = "another"
    row["digest"] = rows.digest({k: v for k, v in row.items() if k != "digest"})
    assert check(result, tmp_path) == {"manifest_mismatch"}


def test_a_changed_configuration_has_another_digest(result: Doc, tmp_path: Path) -> None:
    result["config"]["seed"] = 7
    assert check(result, tmp_path) == {"config_digest_mismatch"}


def test_nine_cases_cannot_be_configured_away(result: Doc, tmp_path: Path) -> None:
    result["config"]["cases"].remove("T9")
    for row in result["rows"]:
        del row["cells"]["T9"]
    assert "missing_case" in check(sealed(result), tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00"])
def test_what_is_no_result_is_unreadable(tmp_path: Path, text: str) -> None:
    (tmp_path / "result.json").write_text(text)
    assert {r.ground for r in verify.verify(tmp_path).rejections} == {"unreadable"}


def test_every_ground_is_reachable_and_explained() -> None:
    others = {"unreadable", "digest_mismatch", "manifest_mismatch", "config_digest_mismatch"}
    assert {ground for _, ground in FORGERIES} | others == set(verify.GROUNDS)


def test_the_two_canonical_forms_agree(result: Doc) -> None:
    assert verify.sha256(result["rows"][1]) == rows.digest(result["rows"][1])
    odd = {"a": [1.0, 0.8889, 0.5, True, None, 'é\u2028"\\'], "b": {}}
    assert verify.sha256(odd) == rows.digest(odd)


def test_verify_imports_none_of_the_code_that_made_the_file() -> None:
    source = Path(verify.__file__).read_text(encoding="utf-8")
    assert "memguard.bench.integrity" not in source.split('"""', 2)[2]
    assert "rfc8785" not in source
