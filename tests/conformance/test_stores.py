"""What the kit says about stores whose answer is known: leaky, sealed, stumbling, refusing, and two of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from memguard.bench.conformance import findings
from memguard.bench.conformance.measure import measure
from memguard.testing.conformance import Subject

NINE = tuple(f"T{n}" for n in range(1, 10))
Subjects = dict[str, type[Subject]]


def words(row: dict[str, Any], key: str = "strict_verdict") -> dict[str, str]:
    return {case: row["cells"][case][key] for case in NINE}


def test_a_plain_table_serves_every_edit(subjects: Subjects) -> None:
    [row] = measure(subjects["PlainTable"], guarded=False)
    assert words(row) == dict.fromkeys(NINE, "ACCEPTED")
    assert all(held["ok"] for held in row["controls"].values()), row["controls"]
    assert (row["level"], row["metric"], row["witness"][:2]) == ("L0", 0.0, "W0")
    own = {case for case, cell in row["cells"].items() if cell["strict_verdict"] == "ACCEPTED"} - set(NINE)
    assert len(own) == 19
    assert row["cells"]["X21"]["detail"] == "records of this kit have no vectors"
    assert row["cells"]["X27"]["verdict"] == "N/A"  # a bare store has no label
    assert "alice/m-3" in row["cells"]["T1"]["script"]


def test_the_same_table_under_the_kits_guard_serves_none(subjects: Subjects) -> None:
    [row] = measure(subjects["PlainTable"], guarded=True)
    assert words(row) == dict.fromkeys(NINE, "REJECTED")
    verdicts = {cell["strict_verdict"] for cell in row["cells"].values()}
    assert verdicts == {"REJECTED", "N/A"}
    assert all(held["ok"] for held in row["controls"].values()), row["controls"]
    assert (row["strict_level"], row["strict_metric"], row["witness"][:2]) == ("L4", 1.0, "W1")
    assert row["sut"] == "plain-sqlite-table+memguard"


def test_a_store_that_cannot_list_its_contexts_is_guarded_all_the_same(subjects: Subjects) -> None:
    cases = ("T2", "T9", "X07", "X37", "X50")
    [row] = measure(subjects["FileStore"], guarded=True, cases=cases)
    assert all(held["ok"] for held in row["controls"].values()), row["controls"]
    found = {case: row["cells"][case]["strict_verdict"] for case in cases}
    assert found == {**dict.fromkeys(cases, "REJECTED"), "X50": "N/A"}
    assert row["cells"]["X50"]["detail"] == "this subject lists no contexts"


@pytest.mark.parametrize(("guarded", "word"), [(False, "ACCEPTED"), (True, "REJECTED")])
def test_a_store_in_its_process_is_edited_under_it_and_the_row_says_so(
    subjects: Subjects, guarded: bool, word: str
) -> None:
    cases = (*NINE, "X02", "X08", "X16", "X37")
    [row] = measure(subjects["InMemory"], guarded=guarded, cases=cases)
    assert words(row) == {**dict.fromkeys(NINE, word), "T2": "N/A", "T4": "N/A"}
    assert row["stopped"] is False
    assert row["cells"]["X02"]["strict_verdict"] == row["cells"]["X37"]["strict_verdict"] == word
    assert row["cells"]["X16"]["strict_verdict"] == ("REJECTED" if guarded else "N/A")
    assert row["cells"]["X56"]["detail"] == "not asked for" or row["cells"]["X56"]["verdict"] == "N/A"
    assert all(held["ok"] for held in row["controls"].values()), row["controls"]
    assert row["strict_level"] == ("L4 (T2,T4 n/a)" if guarded else "L0")


def test_a_seal_beside_the_file_reaches_l3_and_falls_to_a_rollback(subjects: Subjects) -> None:
    [row] = measure(subjects["Sealed"], guarded=False, cases=NINE)
    assert words(row) == {**dict.fromkeys(NINE, "REJECTED"), "T9": "ACCEPTED"}
    assert row["strict_level"] == "L3"
    assert findings.findings(row, findings.claimed_cases("L3")) == []
    [said] = findings.findings(row, findings.claimed_cases("L4"))
    assert said.startswith("sealed-file T9")


def test_an_audit_of_the_stores_own_is_a_row_of_its_own(subjects: Subjects) -> None:
    class Audited(subjects["Sealed"]):  # type: ignore[misc,name-defined]
        """Serves without a look; its seal is compared by a command only."""

        name = "audited-file"

        def load(self) -> dict[str, Any]:
            return json.loads(self.path.read_text()) if self.path.exists() else {}

        def audit(self, store: Any) -> list[str]:
            return (
                []
                if (self.folder / "seal").read_text() == self._seal()
                else ["the file is not as it was left"]
            )

    read, audit = measure(Audited, guarded=False, cases=NINE)
    assert (read["detection_point"], audit["detection_point"]) == ("read", "audit")
    assert words(read) == dict.fromkeys(NINE, "ACCEPTED")
    assert words(audit) == {**dict.fromkeys(NINE, "REPORTED"), "T9": "ACCEPTED"}
    assert (audit["strict_level"], audit["strict_metric"]) == ("L0", 0.4444)
    assert findings.findings(audit, findings.claimed_cases("L4")) == []  # a claim is about the read path
    assert len(findings.findings(read, findings.claimed_cases("L1"))) == 3


def test_an_error_that_the_store_does_not_document_is_no_pass(subjects: Subjects) -> None:
    [row] = measure(subjects["Stumbling"], guarded=False, cases=NINE)
    assert words(row, "verdict")["T1"] == "REJECTED"  # the draft counts any error
    assert words(row) == {**dict.fromkeys(NINE, "ERROR"), "T9": "ACCEPTED"}
    assert (row["level"], row["strict_level"], row["strict_metric"]) == ("L3", "L0", 0.0)


def test_leaving_a_record_out_is_serving_the_edit(subjects: Subjects) -> None:
    [row] = measure(subjects["Swallowing"], guarded=False, cases=NINE)
    assert words(row) == dict.fromkeys(NINE, "ACCEPTED")


@pytest.mark.parametrize(("name", "control"), [("Refusing", "C1"), ("Forgetful", "C2")])
def test_a_store_that_fails_a_control_gets_no_number(subjects: Subjects, name: str, control: str) -> None:
    [row] = measure(subjects[name], guarded=False, cases=("T1", "T2"))
    assert not row["controls"][control]["ok"]
    assert (row["metric"], row["level"], row["evaluable"]) == (None, "not evaluable", False)
    assert row["reason"].startswith(control)
    code, reasons = findings.exit_for([{"rows": [row], "needs": []}])
    assert code == 3
    assert control in reasons[0]


def test_an_edit_of_the_maintainers_own_takes_the_place_of_the_kits(subjects: Subjects) -> None:
    def shout(folder: Path) -> None:
        file = folder / "notes.json"
        file.write_text(
            file.read_text().replace("the approved spending limit of alice", "NO LIMIT FOR ALICE")
        )

    class Given(subjects["Sealed"]):  # type: ignore[misc,name-defined]
        edits: ClassVar = {"T1": shout, "T3": lambda folder: None}

    [row] = measure(Given, guarded=False, cases=("T1", "T3"))
    assert row["cells"]["T1"]["strict_verdict"] == "REJECTED"
    assert row["cells"]["T1"]["script"].endswith("shout")
    # an edit that changed nothing is an error of the measurement, never a verdict
    assert (row["cells"]["T3"]["strict_verdict"], row["cells"]["T3"]["landed"]) == ("ERROR", False)
    assert findings.exit_for([{"rows": [row], "needs": []}])[0] == 3


def test_a_store_that_cannot_be_opened_gets_a_row_that_says_so(subjects: Subjects) -> None:
    class Broken(subjects["FileStore"]):  # type: ignore[misc,name-defined]
        def open(self) -> Any:
            raise OSError("no such device")

    [row] = measure(Broken, guarded=False)
    assert not row["evaluable"]
    assert "OSError" in row["reason"]
    assert "no such device" not in str(row)  # the text of an error may quote memory content
