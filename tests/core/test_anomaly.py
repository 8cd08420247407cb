"""The anomaly guard: what each signal does alone and together, and what a judge may do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memguard import MemGuard
from memguard.decision import Decision, Disposition
from memguard.errors import MemguardError, UnsupportedError
from memguard.guard import Ask, Compare, Embed, GuardContext, Stage, Standing
from memguard.guards.anomaly import Anomaly
from memguard.record import Record, Source, Trust
from memguard.runtime import run
from memguard.settings import Anomaly as Settings
from memguard.settings import Config, Judge

CTX = GuardContext(Stage.WRITE, None, 100.0)
WARM = 50


def decide(
    standing: Standing, trust: Trust = Trust.TOOL, *, opinion: Any = None, text: str = "The cat sleeps."
) -> Decision:
    guard = Anomaly(Settings(), judged=opinion is not None)

    def judge(ask: Ask) -> Any:
        if isinstance(opinion, Exception):
            raise opinion
        return opinion

    handlers = {
        Embed: lambda e: [[1.0]],
        Compare: lambda e: standing if e.vector else Standing(wanted=True),
        Ask: judge,
    }
    steps = guard.decide(Record(text, source=Source("tool", "t"), trust=trust), CTX)
    return run(_answered(steps), handlers)


def _answered(steps: Any) -> Any:
    """A guard's steps with the results unwrapped, as the chain drives them."""
    from memguard.isolate import Raised

    result = None
    try:
        effect = next(steps)
        while True:
            result = yield effect
            effect = steps.throw(result.error) if isinstance(result, Raised) else steps.send(result.value)
    except StopIteration as stop:
        return stop.value


ALONE = [
    (Standing(WARM, nearest=0.99), "MG261"),
    (Standing(WARM, drift=9.0), "MG262"),
    (Standing(WARM, burst=500), "MG263"),
    (Standing(WARM, known_source=False), "MG264"),
]


@pytest.mark.parametrize(("standing", "code"), ALONE)
@pytest.mark.parametrize("trust", list(Trust))
def test_one_signal_alone_is_evidence_and_no_more(standing: Standing, code: str, trust: Trust) -> None:
    decision = decide(standing, trust)
    assert decision.disposition is Disposition.ALLOW
    assert not decision.flagged
    assert [item.rule for item in decision.evidence] == [code]


@pytest.mark.parametrize(
    "standing",
    [
        Standing(WARM, nearest=0.94, drift=3.9, burst=29),
        Standing(29, drift=9.0, known_source=False),
        Standing(WARM, burst=100, usual=40),
        Standing(),
    ],
)
def test_what_is_usual_is_not_even_evidence(standing: Standing) -> None:
    assert decide(standing) == Decision(guard="anomaly")


@pytest.mark.parametrize(
    ("standing", "code"),
    [
        (Standing(WARM, drift=9.0, known_source=False), "MG262"),
        (Standing(WARM, burst=100, known_source=False), "MG263"),
        (Standing(WARM, drift=4.5, burst=100), "MG262"),
    ],
)
def test_two_together_flag_what_is_trusted_less_than_a_user(standing: Standing, code: str) -> None:
    for trust in Trust:
        decision = decide(standing, trust)
        expected = Disposition.FLAG if trust < Trust.USER else Disposition.ALLOW
        assert decision.disposition is expected, trust
        assert decision.code == (code if trust < Trust.USER else "")


def test_a_repetition_is_no_second_signal() -> None:
    assert decide(Standing(WARM, nearest=1.0, burst=100)).disposition is Disposition.ALLOW


@pytest.mark.parametrize("trust", list(Trust))
def test_a_contradiction_flags_only_what_is_trusted_less(trust: Trust) -> None:
    decision = decide(Standing(WARM, contradicts=True), trust)
    assert decision.flagged is (trust < Trust.USER)
    assert [item.rule for item in decision.evidence] == ["MG265"]


class TestJudge:
    def test_its_verdict_withholds(self) -> None:
        decision = decide(Standing(), Trust.SYSTEM, opinion='{"poison": true, "confidence": 0.9}')
        assert (decision.disposition, decision.code, decision.score) == (Disposition.QUARANTINE, "MG266", 0.9)

    @pytest.mark.parametrize(
        "opinion", ['{"poison": true, "confidence": 0.79}', '{"poison": false, "confidence": 1}']
    )
    def test_a_doubt_or_an_acquittal_does_not(self, opinion: str) -> None:
        assert decide(Standing(), opinion=opinion).disposition is Disposition.ALLOW

    @pytest.mark.parametrize("opinion", ["poison!", MemguardError("cut off", code="MG362"), TimeoutError()])
    def test_no_verdict_is_a_failed_guard(self, opinion: Any) -> None:
        with pytest.raises((ValueError, MemguardError, TimeoutError)):
            decide(Standing(), opinion=opinion)

    def test_it_is_asked_only_if_configured(self) -> None:
        assert not Anomaly.from_config(Config())._judged
        assert Anomaly.from_config(Config(judge=Judge(url="http://x/v1", model="m")))._judged


def test_without_an_embedder_it_says_nothing() -> None:
    def none(effect: Any) -> Any:
        raise UnsupportedError("none", code="MG134")

    steps = Anomaly(Settings()).decide(Record("The cat sleeps."), CTX)
    assert run(_answered(steps), {Embed: none}) == Decision(guard="anomaly")


@pytest.mark.parametrize("text", ["", "   \n", "\x00", "\ud800" * 5, "x" * 1_000_000])
def test_any_text_is_decided(tmp_path: Path, text: str) -> None:
    with MemGuard.create(tmp_path / "h", anchor=f"file:{tmp_path}/a", keys=f"file:{tmp_path}/k.json") as mg:
        outcome = mg.screening.write(Record(text, "s", "k"))
        assert outcome.events == ()


def test_a_home_compares_within_a_scope_and_remembers_it(tmp_path: Path) -> None:
    def contradicts(mg: MemGuard, text: str, kind: str) -> bool:
        outcome = mg.screening.write(Record(text, "s", "k", Source(kind)))
        return "MG265" in [item.rule for item in outcome.decision.evidence]

    place = {"anchor": f"file:{tmp_path}/a", "keys": f"file:{tmp_path}/k.json"}
    with MemGuard.create(tmp_path / "h", **place) as mg:
        assert not contradicts(mg, "The invoice account is DE89370400440532013000.", "user")
        assert not mg.check("The invoice account is GB29NWBK60161331926819.", source="user").flagged
    with MemGuard.open(tmp_path / "h") as mg:
        assert contradicts(mg, "The invoice account is GB29NWBK60161331926819.", "tool")
        assert not contradicts(mg, "The invoice account is DE89370400440532013000.", "tool")
