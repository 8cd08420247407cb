"""Crashes in which somebody lends a hand, and the bugs that they and the other checks must catch."""

from __future__ import annotations

import crash_mutations
import crash_scenarios
import pytest
from crash_machine import SaverMachine
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from test_kills import run

#: Which check must catch which bug, and how it is run.
CATCHES: dict[str, tuple[str, ...]] = {
    "skip_fsync": ("crash_power", "--seed", "1", "--states", "60", "--stop"),
    "skip_intent": ("crash_life", "named", "--count", "60", "--seed", "1", "--stop"),
    "keep_fence": ("crash_scenarios", "late_orphan"),
    "serve_unburnt": ("crash_scenarios", "late_orphan"),
    "believe_newer": ("crash_scenarios", "ahead_in_a_clean_session"),
    "drop_context": ("crash_scenarios", "transplanted_first_write"),
    "forget_head": ("crash_scenarios", "compaction_keeps_all"),
    "index_first": ("crash_scenarios", "refused_commit"),
    "unsettled_ledger": ("crash_power", "--seed", "1", "--states", "60", "--stop"),
    "half_announced": ("crash_scenarios", "torn_announcement"),
}


def test_every_story_has_its_right_ending() -> None:
    endings = run("crash_scenarios")
    assert set(endings) == set(crash_scenarios.STORIES)
    assert not any(endings.values()), "\n".join(
        f"{name}: {wrong}" for name, wrong in endings.items() if wrong
    )


@pytest.mark.parametrize("name", sorted(crash_mutations.MUTATIONS))
def test_a_seeded_bug_is_caught(name: str) -> None:
    """A check that a bug passes proves nothing; without the bug the same check passes in the tests above."""
    program, *args = CATCHES[name]
    report = run(program, *args, "--mutation", name)
    caught = report["failures"] if "failures" in report else [wrong for wrong in report.values() if wrong]
    assert caught, f"{name} went unnoticed"
    assert not any(
        "NameError" in wrong or "ImportError" in wrong or "TypeError" in wrong for wrong in caught
    ), caught


def _machine(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        SaverMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking a run over files takes minutes
        ),
    )


def test_a_saver_follows_its_model_through_crashes_and_edits() -> None:
    _machine(30, 20)


@pytest.mark.crash_full
def test_a_saver_follows_its_model_for_longer() -> None:
    _machine(400, 40)
