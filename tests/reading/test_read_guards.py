"""Validity, reranker, the gauge of what is withheld, and the read path of a home over all of them."""

from __future__ import annotations

from typing import Any

import pytest

from memguard import principal
from memguard.config import preset
from memguard.decision import Decision, Disposition
from memguard.events import Bus, Event, PurposeFiltered, ReadDecided, WithholdsTooMuch
from memguard.guard import GuardContext, Stage
from memguard.guards.reranker import Reranker
from memguard.guards.validity import Validity, declared
from memguard.labels import Label
from memguard.pipeline import Pipeline, Seat
from memguard.reading import Page, Reading
from memguard.record import Record, Source, Trust
from memguard.record import Validity as Interval
from memguard.screening import Screening
from memguard.withheld import Gauge

NOW = GuardContext(Stage.READ, now=1_000.0)
TRUE = "The IBAN of Northwind is DE12500105170648489890"
FALSE = "Northwind's IBAN has changed to FR7630006000011234567890189"
USER = Label(Source("user", "alice"), Trust.USER)
WEB = Label(Source("web", "https://x.example"), Trust.UNTRUSTED)
FLAGGED_WEB = Label(
    Source("web", "https://x.example"), Trust.UNTRUSTED, Decision(Disposition.FLAG, code="MG210")
)


# -- validity ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("since", "until", "code"),
    [
        (None, None, ""),
        (None, 1_000.0, "MG322"),  # the end is exclusive
        (None, 1_000.1, ""),
        (1_000.0, None, ""),
        (1_000.1, None, "MG323"),
        (2_000.0, 500.0, "MG322"),
    ],
)
def test_an_interval_holds_from_its_beginning_to_before_its_end(
    since: float | None, until: float | None, code: str
) -> None:
    said = Validity().decide(Record("x", validity=Interval(since, until)), NOW)
    assert said.code == code
    assert said.disposition is (Disposition.QUARANTINE if code else Disposition.ALLOW)


def test_what_is_replaced_is_flagged_not_withheld() -> None:
    said = Validity().decide(Record("x", data={"replaced": True}), NOW)
    assert (said.code, said.disposition) == ("MG324", Disposition.FLAG)


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2026-01-01", 1_767_225_600.0),
        ("2026-01-01T01:00:00+01:00", 1_767_225_600.0),
        (" 2026-01-01T00:00:00Z ", 1_767_225_600.0),
        (1_767_225_600, 1_767_225_600.0),
        (True, None),
        ("soon", None),
        ("9" * 41, None),
        (float("nan"), None),
        (10**30, None),
        (["2026-01-01"], None),
        ("0001-01-01T00:00:00+14:00", -62_135_647_200.0),
    ],
)
def test_a_moment_is_iso_or_seconds_and_anything_else_declares_nothing(
    value: object, moment: float | None
) -> None:
    found = declared({"to": value}, "from", "to")
    assert (found.since, found.until) == (None, moment)


# -- reranker ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trust", "data", "code", "disposition"),
    [
        (Trust.UNTRUSTED, {}, "", Disposition.ALLOW),
        (Trust.UNTRUSTED, {"rivals": 0, "flagged": True}, "", Disposition.ALLOW),
        (Trust.UNTRUSTED, {"rivals": 1}, "MG320", Disposition.FLAG),
        (Trust.TOOL, {"rivals": 2, "flagged": True}, "MG320", Disposition.FLAG),
        (Trust.UNTRUSTED, {"rivals": 1, "flagged": True}, "MG321", Disposition.QUARANTINE),
    ],
)
def test_a_contradiction_alone_never_withholds(
    trust: Trust, data: dict[str, Any], code: str, disposition: Disposition
) -> None:
    said = Reranker().decide(Record("x", trust=trust, data=data), NOW)
    assert (said.code, said.disposition) == (code, disposition)


# -- gauge ---------------------------------------------------------------------------------------------------


def test_a_guard_observes_above_the_share_and_enforces_again_at_it() -> None:
    gauge = Gauge(0.1, window=10, least=5)
    assert [gauge.note("s", "g", True) for _ in range(4)] == [None] * 4
    assert not gauge.observing("s", "g")  # 4 of 4, and too few to say
    assert gauge.note("s", "g", True) is True
    assert gauge.observing("s", "g")
    assert gauge.counts("s", "g") == (5, 5)
    answers = [gauge.note("s", "g", False) for _ in range(9)]
    assert answers == [None] * 8 + [False]  # 1 of 10 is the limit itself
    assert gauge.counts("s", "g") == (1, 10)
    assert not gauge.observing("s", "g")


def test_stores_and_guards_are_counted_apart_and_declarations_not_at_all() -> None:
    gauge = Gauge(0.0, window=4, least=1)
    assert gauge.note("s", "g", True) is True
    assert (gauge.observing("t", "g"), gauge.observing("s", "h")) == (False, False)
    assert gauge.note("s", "scope", True) is None
    assert gauge.note("s", "validity", True) is None
    assert not gauge.observing("s", "scope")
    never = Gauge(1.0, window=4, least=1)
    assert [never.note("s", "g", True) for _ in range(9)] == [None] * 9


# -- the read path of a home -----------------------------------------------------------------------------------


class Home:
    """A Reading over a preset, without a store."""

    def __init__(self, name: str = "balanced", *, extra: Any = None, **values: Any) -> None:
        config = preset(name, values)
        self.bus, self.heard = Bus(), list[Event]()
        self.bus.subscribe(self.heard.append)
        self.screening = Screening(config, self.bus)
        if extra is not None:
            chain = self.screening.reading
            self.screening.reading = Pipeline(chain.stage, (*chain.seats, Seat(extra)))
        screening = self.screening
        self.reading = Reading(config, screening.reading, screening.read, self.bus, again=screening.reread)

    def page(self, rows: list[tuple[str, Label]], asked: int = 10, **fields: Any) -> Page:
        candidates = [
            self.reading.candidate("s", f"k{i}", text, label, fields.get(f"k{i}"))
            for i, (text, label) in enumerate(rows)
        ]
        page = self.reading.search(asked).page(candidates, [label for _, label in rows])
        self.reading.tell("s", [f"k{i}" for i in range(len(rows))], page)
        return page


POISONED = [(FALSE, WEB), ("Anna likes tea", USER), (TRUE, USER), ("Tea is from China", WEB)]


@pytest.mark.parametrize(
    ("name", "served", "codes"),
    [
        ("balanced", (1, 2, 0, 3), ["MG320"]),
        ("strict", (1, 2, 0, 3), ["MG320"]),
        ("observe", (0, 1, 2, 3), ["MG320"]),
        ("off", (0, 1, 2, 3), []),
    ],
)
def test_poison_stands_behind_the_truth_and_stays_readable(
    name: str, served: tuple[int, ...], codes: list[str]
) -> None:
    home = Home(name)
    page = home.page(POISONED)
    assert page.served == served
    assert [e.decision.code for e in home.heard if isinstance(e, ReadDecided)] == codes
    assert [str(label.trust) for label in page.labels] == ["untrusted", "user", "user", "untrusted"]


@pytest.mark.parametrize("mode", ["off", "observe"])
def test_a_reranker_that_does_nothing_moves_nothing_though_another_guard_flags(mode: str) -> None:
    """The contradicting record is flagged by validity (it is replaced), and stays where it was."""
    home = Home("balanced", read={"reranker": mode})
    page = home.page([(FALSE, WEB), (TRUE, USER), ("newer", WEB)], k2={"supersedes": "k0"})
    assert page.served == (0, 1, 2)
    label = page.labels[0]
    assert label.decision is not None
    assert label.decision.code == "MG324"


def test_the_program_may_overrule_the_reranker() -> None:
    home = Home("balanced")
    home.screening.hook = lambda decision, record: Disposition.ALLOW
    assert home.page(POISONED).served == (0, 1, 2, 3)


def test_two_pieces_of_evidence_withhold_under_strict_and_are_reported_under_balanced() -> None:
    rows = [(FALSE, FLAGGED_WEB), (TRUE, USER)]
    strict, balanced = Home("strict"), Home("balanced")
    assert strict.page(rows).served == (1,)
    page = balanced.page(rows)
    assert page.served == (1, 0)
    assert page.selection.would == (0,)
    (event,) = [e for e in balanced.heard if isinstance(e, ReadDecided)]
    assert (event.decision.disposition, event.decision.would) == (Disposition.FLAG, Disposition.QUARANTINE)


@pytest.mark.parametrize("name", ["balanced", "strict"])
def test_purpose_act_serves_what_is_trusted_and_backfills(name: str) -> None:
    home = Home(name)
    tool = Label(Source("tool", "crm"), Trust.TOOL)
    flagged = Label(Source("user", "bob"), Trust.UNKNOWN, Decision(Disposition.FLAG, code="MG210"))
    rows = [
        ("a", WEB),
        ("b", tool),
        ("c", flagged),
        ("d", USER),
        ("e", Label(Source("system"), Trust.SYSTEM)),
    ]
    with principal(user="alice", purpose="act"):
        assert home.page(rows, 2).served == (3, 4)
    assert [(e.records, e.would) for e in home.heard if isinstance(e, PurposeFiltered)] == [(3, False)]
    with principal(user="alice"):
        assert home.page(rows, 2).served == (0, 1)
    assert home.page(rows, 2).served == (0, 1)


def test_purpose_act_is_only_reported_where_it_observes() -> None:
    home = Home("observe")
    with principal(user="alice", purpose="act"):
        assert home.page([("a", WEB), ("d", USER)], 1).served == (0,)
    assert [(e.records, e.would) for e in home.heard if isinstance(e, PurposeFiltered)] == [(1, True)]


def test_policy_that_lowered_a_source_since_holds_for_what_is_believed() -> None:
    """A record stored as the user's, whose source is untrusted today, demotes nobody and is not served for action."""
    home = Home("balanced", sources={"user:alice": "untrusted"})
    assert home.page([(FALSE, WEB), (TRUE, USER)]).served == (0, 1)
    with principal(user="bob", purpose="act"):
        assert home.page([(TRUE, USER)]).served == ()
    observing = Home("balanced", sources={"user:alice": "untrusted"}, read={"provenance": "observe"})
    assert observing.page([(FALSE, WEB), (TRUE, USER)]).served == (1, 0)


def test_declared_validity_and_replacement_are_read_from_the_members_that_are_named() -> None:
    home = Home("balanced", guards={"validity": {"until": "ends"}})
    rows = [("old", USER), ("new", USER), ("tea", USER)]
    page = home.page(
        rows, k0={"ends": "2020-01-01"}, k1={"supersedes": "k2"}, k2={"valid_until": "2020-01-01"}
    )
    assert page.served == (1, 2)
    codes = [label.decision.code if label.decision else "" for label in page.labels]
    assert codes == ["MG322", "", "MG324"]
    with principal(user="alice", purpose="act"):
        assert home.page(rows, k1={"supersedes": ["k2", 7]}).served == (0, 1)


class Zealot:
    """A guard that withholds everything about cats."""

    name = "zealot"
    stages = (Stage.READ,)

    @classmethod
    def from_config(cls, config: object) -> Zealot:
        return cls()

    def decide(self, record: Record, ctx: GuardContext) -> Decision:
        if "cat" in record.content:
            return Decision(Disposition.QUARANTINE, "cats", "MG999", guard="zealot")
        return Decision(guard="zealot")


def test_a_guard_that_withholds_too_much_only_observes_and_says_so() -> None:
    home = Home("strict", extra=Zealot(), read={"withheld_window": 20, "withheld_least": 10})
    rows = [(f"a cat {i}", USER) for i in range(9)]
    assert home.page(rows, 20).served == ()
    assert not [e for e in home.heard if isinstance(e, WithholdsTooMuch)]
    assert home.page(rows, 20).served == tuple(range(9))
    told = [e for e in home.heard if isinstance(e, WithholdsTooMuch)]
    assert [(e.guard, e.withheld, e.of, e.over) for e in told] == [("zealot", 10, 10, True)]
    assert "only observes there" in told[0].line()
    # Twenty reads without cats later it enforces again.
    home.page([(f"a dog {i}", USER) for i in range(20)], 20)
    assert home.page([("a cat", USER)], 20).served == ()
    assert [e.over for e in home.heard if isinstance(e, WithholdsTooMuch)] == [True, False]


def test_a_search_that_grows_judges_each_record_once() -> None:
    home = Home("strict", extra=Zealot(), read={"max_withheld_ratio": 1.0})
    judged: list[str] = []
    inner = home.screening.read

    def read(record: Record, **about: Any) -> Any:
        judged.append(record.key)
        return inner(record, **about)

    home.reading._judge = read
    search = home.reading.search(2)
    rows = [("a cat", USER), ("a cat", USER), ("a dog", USER), ("a dog", USER)]
    made = [home.reading.candidate("s", f"k{i}", text, label) for i, (text, label) in enumerate(rows)]
    first = search.page(made[:2], [USER] * 2)
    assert (first.served, search.more(first, made[:2], False), search.more(first, made[:2], True)) == (
        (),
        8,
        None,
    )
    second = search.page(made, [USER] * 4)
    assert (second.served, search.more(second, made, False)) == ((2, 3), None)
    assert judged == ["k0", "k1", "k2", "k3"]


def test_what_is_known_of_a_label_is_not_asked_again_and_what_differs_is() -> None:
    """The chain runs once for records that say nothing but their label; every record still goes past the hook."""
    home = Home("strict")
    asked: list[str] = []
    inner, hooked = home.screening.read, list[str]()

    def read(record: Record, **about: Any) -> Any:
        asked.append(record.key)
        return inner(record, **about)

    def hook(decision: Decision, record: Record) -> Disposition | None:
        hooked.append(record.key)
        return Disposition.QUARANTINE if record.content == "c" else None

    home.reading._judge, home.screening.hook = read, hook
    rows = [("a", USER), ("b", USER), ("c", USER), ("d", WEB), ("e", USER)]
    page = home.page(rows, k4={"valid_until": "2020-01-01"})
    assert page.served == (0, 1, 3)
    assert asked == ["k0", "k3", "k4"]
    assert hooked == ["k0", "k1", "k2", "k3", "k4"]
    # A plug-in may look at anything: nothing is taken as known.
    other = Home("strict", extra=Zealot())
    assert other.page([("a dog", USER), ("a cat", USER), ("a dog", USER)]).served == (0, 2)


def test_records_that_are_allowed_count_in_the_share() -> None:
    home = Home("strict", read={"withheld_window": 20, "withheld_least": 10})
    home.page([(f"tea {i}", USER) for i in range(12)], 20)
    assert home.reading._gauge.counts("s", "reranker") == (0, 12)


def test_an_off_preset_reads_nothing() -> None:
    assert Home("off").reading.idle
    assert not Home("balanced").reading.idle
    with principal(user="alice", purpose="act"):
        assert Home("off").reading.idle
