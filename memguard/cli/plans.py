"""What a verb that plans first did or would do on several stores, and which stores it is meant for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memguard.cli.exits import CLEAN, FINDINGS
from memguard.cli.output import Report
from memguard.cli.session import Session
from memguard.cli.stores import configured, opened, table_wanted
from memguard.errors import ConfigError


@dataclass
class Plans:
    """What one verb planned or did on several stores."""

    plans: list[Any]

    def report(self, command: str, applied: bool, notes: list[str]) -> Report:
        """Actions and refusals as rows; refusals are findings. ``notes`` say how to apply, if anything can be."""
        rows = []
        for plan in self.plans:
            rows += [{"store": plan.store, **_plainly(plan.verb, action, applied)} for action in plan.actions]
            rows += [
                {"store": plan.store, **line, "action": f"REFUSED: {line['action']}"} for line in plan.refused
            ]
        refused = sum(len(plan.refused) for plan in self.plans)
        actions = len(rows) - refused
        facts: dict[str, Any] = {
            "stores": [plan.store for plan in self.plans],
            "applied": applied,
            "contexts": actions,
            "records": sum(int(a.get("records", 0)) for plan in self.plans for a in plan.actions),
            "refused": refused,
        }
        if not actions:
            notes = ["nothing was changed, and there is nothing to apply"] if rows else ["nothing to do"]
        return Report(
            command,
            code=FINDINGS if refused else CLEAN,
            reason=f"{refused} contexts cannot be helped this way" if refused else "",
            facts=facts,
            columns=("store", "context", "records", "action"),
            rows=rows,
            notes=notes,
        )


def _plainly(verb: str, action: dict[str, Any], applied: bool) -> dict[str, Any]:
    """An action as it is printed: that accepting deletes is said in so many words."""
    if verb != "accept" or action["action"] != "drop":
        return action
    rows = "1 row that was" if action["records"] == 1 else f"{action['records']} rows that were"
    words = f"deleted {rows} changed" if applied else f"DELETES {rows} changed; copy the database first"
    return {**action, "action": words}


def named(session: Session, specs: tuple[str, ...]) -> tuple[str, ...]:
    """The stores that are meant: those named, else every configured one.

    Raises:
        ConfigError: MG150, no store is named and none is configured.
    """
    from memguard.config import load

    names = specs or tuple(load(session.target()).config.stores)
    if not names:
        raise ConfigError("no store is named", code="MG150", do=table_wanted(session))
    return names


def resolved(session: Session, specs: tuple[str, ...]) -> tuple[str, ...]:
    """Names of [stores.NAME] tables whose stores can be opened; nothing is written and no anchor is needed.

    Raises:
        ConfigError: one of them cannot be opened, or is a program, whose guard needs the anchor that is lost.
    """
    names = named(session, specs)
    for name in names:
        if ":" in name:
            raise ConfigError(
                f"{name} cannot be opened without its anchor", code="MG150", do=table_wanted(session)
            )
        kind, uri = configured(session, name)
        with kind.open(uri):
            pass
    return names


def accepted(session: Session, specs: tuple[str, ...], reason: str, apply: bool) -> Plans:
    """Accept what each store holds.

    Raises:
        ConfigError: no store is named and none is configured.
    """
    plans = []
    names = named(session, specs)
    with session.guard() as mg:
        for name in names:
            with opened(session, mg, name) as target:
                plans.append(mg.accept(target, reason=reason, apply=apply))
    return Plans(plans)
