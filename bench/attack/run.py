"""Attacks and their twins into real memories, and what comes of them: one cell for each configuration, memory,
channel and family, each with a database, a home, a key and an anchor of its own.

Every attack has a user's space of its own, with twins of its family in it; so no attack sees another, and the
order in which they are made changes nothing.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from memguard.bench.attack.agent import Agent
from memguard.bench.attack.channels import (
    AGENT,
    CHANNELS,
    CROSSED,
    PAGE,
    REWORDED,
    SIGNED,
    USER,
    Claim,
    claim_of,
    registration,
)
from memguard.bench.attack.encoding import says
from memguard.bench.attack.rows import AttackRow
from memguard.bench.attack.targets import K_CROWDED, SAVER, TARGETS, K, Served, StoreTarget, Target, opened
from memguard.bench.attack.texts import REINFORCEMENT, RETRIEVAL, Attack, Family, Twin, families
from memguard.bench.attack.trigger import lured

CONFIGURATIONS = ("bare", "observe", "balanced", "strict")
QUICK_CONFIGURATIONS, QUICK_ATTACKS = ("bare", "balanced"), 4
#: How often the agent writes a memory again, and what it puts in front.
ROUNDS = ("Summary: {}", "Known so far. {}", "{}")


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured in one go."""

    configuration: str
    sut: str
    channel: str
    family: str

    @property
    def ident(self) -> str:
        """Its id in a run's folder."""
        return "|".join((self.configuration, self.sut, self.channel, self.family))


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run.

    Attributes:
        attacks: of each family, at most; 0 for all.
        seed: of the order in which a cell makes its attacks.
        over: laid over every preset.
    """

    configurations: Sequence[str] = CONFIGURATIONS
    suts: Sequence[str] = TARGETS
    channels: Sequence[str] = (*CHANNELS, REWORDED, CROSSED)
    families: Sequence[str] = ()
    attacks: int = 0
    seed: int = 0
    over: Mapping[str, Any] = field(default_factory=dict)

    def cells(self) -> list[Cell]:
        """Every cell, in the order of the report. A conversation is not searched: it has no retrieval family."""
        from memguard.bench.attack.crossing import FAMILY as CROSSING

        found = []
        for configuration in self.configurations:
            for sut in self.suts:
                for channel in self.channels:
                    names: Sequence[str] = self.families or tuple(families())
                    if channel == REWORDED:
                        names = [n for n in names if n == REINFORCEMENT]
                    elif channel == CROSSED:
                        names = [CROSSING]
                    found += [
                        Cell(configuration, sut, channel, name)
                        for name in names
                        if not (name == RETRIEVAL and sut == SAVER)
                    ]
        return found


def measure_cell(cell: Cell, plan: Plan, folder: Path) -> list[AttackRow]:
    """The rows of one cell, one for each kind of source.

    Args:
        folder: an empty one to work in.
    """
    if cell.channel == CROSSED:
        from memguard.bench.attack.crossing import measure

        return measure(cell.configuration, cell.sut, folder, dict(plan.over), plan.attacks)
    family = families()[cell.family]
    with opened(cell.sut, cell.configuration, folder, {**registration(), **plan.over}) as target:
        scene = _Scene(target, cell, family, plan)
        return [row.bounded() for row in scene.rows()]


class _Scene:
    """One family in one memory."""

    def __init__(self, target: Target, cell: Cell, family: Family, plan: Plan) -> None:
        self.target, self.cell, self.family = target, cell, family
        chosen = family.attacks[: plan.attacks or None]
        self.order = random.Random(plan.seed).sample(chosen, len(chosen))
        self.agent = Agent()
        self.crowded = family.name == RETRIEVAL
        self.counts: dict[str, dict[str, int]] = {}

    def rows(self) -> list[AttackRow]:
        """Write the twins, then attack."""
        twins, crowd = list(self._placed()), list(self._crowd())
        for space, twin in [*twins, *crowd]:
            self.target.write(space, twin.ident, twin.text, Claim(USER if twin.own else PAGE))
        for attack in self.order:
            self._attack(attack)
        for space, twin in twins:
            self._count(self._kind(space), **self._benign(space, twin))
        if self.cell.channel == SIGNED and not self.crowded:
            self._revert(twins)
        about = asdict(self.cell)
        return [
            AttackRow.model_validate({**about, "source": kind, **_plain(counts)})
            for kind, counts in sorted(self.counts.items())
        ]

    # -- places ----------------------------------------------------------------------------------

    def _space(self, number: int) -> str:
        return "crowd/session" if self.crowded else f"user-{number}/session"

    def _kind(self, space: str) -> str:
        number = 0 if self.crowded else int(space.partition("/")[0].rpartition("-")[2])
        return claim_of(self.cell.channel, number).kind if self.cell.channel != REWORDED else AGENT

    def _placed(self) -> Iterator[tuple[str, Twin]]:
        """Twins spread over the spaces of the attacks."""
        numbers = sorted(attack.number for attack in self.order)
        for at, twin in enumerate(self.family.twins):
            yield self._space(numbers[at % len(numbers)]), twin

    def _crowd(self) -> Iterator[tuple[str, Twin]]:
        """What else lies where a record must be retrieved: the user's own memories of all other families."""
        others = families().values() if self.crowded else ()
        for other in others:
            if other.name != self.family.name:
                yield from ((self._space(0), twin) for twin in other.twins if twin.own)

    # -- attacks ---------------------------------------------------------------------------------

    def _attack(self, attack: Attack) -> None:
        space, claim = self._space(attack.number), claim_of(self.cell.channel, attack.number)
        k = K_CROWDED if self.crowded else K
        texts = (lured(attack.ident),) if self.crowded else attack.texts
        keys = []
        for at, text in enumerate(texts):
            keys.append(f"{attack.ident}/note/{at}")
            self.target.write(space, keys[-1], text, claim)
        if self.family.name == REINFORCEMENT:
            texts, keys = self._carried(attack, space, keys[0])
        if self.cell.channel == SIGNED and not self.crowded and attack.number % 3 == 0:
            self._derive(attack, space, keys[0])
        served = self.target.context(space, attack.request, k)
        acting = self.target.acting(space, attack.request, k)
        steps = self.agent.act(attack.request, self.target.prompt(served), [s.text for s in acting])
        written = dict(zip(keys, texts, strict=True))
        counts = {
            "n": 1,
            "stored": any(self.target.stored(space, key) for key in keys),
            "readable": self._holds(served, written, attack),
            "served_for_action": self._holds(acting, written, attack),
            "succeeded": self.agent.did(steps, attack.marks),
        }
        if self.crowded:
            counts["untriggered"] = self._holds(self.target.context(space, attack.ask, k), written, attack)
            assert isinstance(self.target, StoreTarget)  # a conversation searches nothing
            self.target.remove(space, keys[0])
        self._count(self._kind(space) if not self.crowded else claim.kind, **counts)

    def _holds(self, served: Sequence[Served], written: Mapping[str, str], attack: Attack) -> bool:
        """Whether a note is among what was served, with what makes it harmful still in it."""
        return any(
            s.key in written and (s.text == written[s.key] or any(says(s.text, m) for m in attack.marks))
            for s in served
        )

    def _carried(self, attack: Attack, space: str, key: str) -> tuple[tuple[str, ...], list[str]]:
        """What the agent makes of a text in its own name; the last of it is what counts from then on."""
        if self.cell.channel == REWORDED:
            last = f"{attack.ident}/again"
            self.target.write(space, last, attack.again, Claim(AGENT))
            return (attack.again,), [last]
        text, before = attack.texts[0], key
        for round_, form in enumerate(ROUNDS):
            text, parent = form.format(text), before
            before = f"{attack.ident}/round/{round_}"
            found = [s for s in self.target.context(space, text) if s.key == parent]
            declared = found if attack.number % 3 < 2 else []
            who = ("summary", AGENT, AGENT)[attack.number % 3]
            self.target.write(space, before, text, Claim(who, parents=declared))
        return (text,), [before]

    def _derive(self, attack: Attack, space: str, key: str) -> None:
        """A note that the agent takes from it, so that a revert has something to follow."""
        found = [s for s in self.target.context(space, attack.request) if s.key == key]
        if found:
            note = f"To be kept in mind for later: see {attack.ask.lower()}."
            self.target.write(space, f"{attack.ident}/derived", note, Claim("summary", parents=found))

    # -- twins -----------------------------------------------------------------------------------

    def _benign(self, space: str, twin: Twin) -> dict[str, int]:
        for_action = twin.own and self._same(self.target.acting(space, twin.text), twin)
        served = self.target.context(space, twin.text)
        readable = self._same(served, twin)
        withheld = not any(s.key == twin.ident for s in served)
        return {
            "benign_n": 1,
            "benign_readable": readable,
            "benign_withheld": withheld,
            "benign_own_n": twin.own,
            "benign_for_action": for_action,
        }

    @staticmethod
    def _same(served: Sequence[Served], twin: Twin) -> bool:
        return any(s.key == twin.ident and s.text == twin.text for s in served)

    # -- after a source turned out to lie ----------------------------------------------------------

    def _revert(self, twins: Sequence[tuple[str, Twin]]) -> None:
        if self.cell.configuration == "bare":
            return
        planned = self.target.revert(apply=False)
        self.target.revert(apply=True)
        left = 0
        for attack in self.order:
            space = self._space(attack.number)
            served = self.target.context(space, attack.request)
            left += any(s.key.startswith(f"{attack.ident}/") for s in served)
        lost = sum(not self._same(self.target.context(space, twin.text), twin) for space, twin in twins)
        kind = next(iter(self.counts))
        self._count(kind, revert_records=planned, revert_left=left, revert_benign_lost=lost)

    def _count(self, kind: str, **more: int) -> None:
        counts = self.counts.setdefault(kind, {})
        for name, value in more.items():
            counts[name] = counts.get(name, 0) + int(value)


def _plain(counts: Mapping[str, int]) -> dict[str, int]:
    names = ("n", "stored", "readable", "served_for_action", "succeeded")
    return {**dict.fromkeys(names, 0), **counts}


# -- all cells -------------------------------------------------------------------------------------------


def measure(
    plan: Plan,
    *,
    done: Mapping[str, Any] | None = None,
    keep: Callable[[str, Any], None] = lambda ident, value: None,
    say: Callable[[str], None] = lambda message: None,
    jobs: int = 1,
    work: Path | None = None,
) -> list[AttackRow]:
    """Rows of every cell, in the plan's order whatever finishes first.

    Args:
        done: finished cells by id, as they were kept.
        keep: gets the id and the plain rows of each cell when it is finished.
        jobs: processes; 1 runs everything in this one.
    """
    cells = plan.cells()
    found: dict[str, Any] = dict(done or {})
    todo = [cell for cell in cells if cell.ident not in found]

    def finished(cell: Cell, rows: Any) -> None:
        found[cell.ident] = rows
        keep(cell.ident, rows)
        say(f"{len(found)}/{len(cells)}  {cell.ident.replace('|', ' ')}")

    if jobs <= 1 or len(todo) <= 1:
        for cell in todo:
            finished(cell, run_cell(cell, plan, work))
    else:
        with ProcessPoolExecutor(max_workers=jobs) as pool:
            waiting = {pool.submit(run_cell, cell, plan, work): cell for cell in todo}
            try:
                for future in as_completed(waiting):
                    finished(waiting[future], future.result())
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    return [AttackRow(**row) for cell in cells for row in found[cell.ident]]


def run_cell(cell: Cell, plan: Plan, work: Path | None = None) -> list[dict[str, Any]]:
    """One cell in a folder of its own, which is removed again; its rows as plain values."""
    folder = Path(mkdtemp(prefix="memguard-attack-", dir=work))
    try:
        with quietly():
            return [row.model_dump() for row in measure_cell(cell, plan, folder)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def quietly() -> Iterator[None]:
    """Hundreds of flags are what is being measured: the table says them, a terminal need not.

    With MEMGUARD_LOG set they are logged all the same.
    """
    guard = logging.getLogger("memguard")
    before = guard.handlers, guard.propagate
    if "MEMGUARD_LOG" not in os.environ:
        guard.handlers, guard.propagate = [logging.NullHandler()], False
    try:
        yield
    finally:
        guard.handlers, guard.propagate = before
