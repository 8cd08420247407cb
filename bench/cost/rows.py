"""From cells to the published rows: every estimator on the core and the adversarial subset apart.

Pure. `bench verify` makes the same rows a second time and compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from memguard.bench.cost.cells import STAGES, Cell, Mode, Stage, Subset
from memguard.bench.stats.bud import (
    bootstrap,
    bud,
    conversation_deltas,
    holm,
    mcnemar,
    sign_flip,
)
from memguard.bench.stats.grades import Item as ItemId
from memguard.bench.stats.grades import pairs
from memguard.bench.stats.shares import Tokens, base_change, overhead, quarantine_rate

SUBSETS: tuple[Subset, ...] = ("core", "adversarial")
BASE = "none"


class Utility(BaseModel):
    """Paired benign utility against the undefended arm, in percentage points; positive is better.

    Attributes:
        base, treated: share of graded items that are right in each arm, over the paired items.
        bud, ci_low, ci_high: BUD of majority verdicts and its item bootstrap, conversations taken as fixed.
        cluster_low, cluster_high: the bootstrap that resamples conversations too.
        replicate_mean, replicate_low, replicate_high: the same of replicate means, which is less noisy.
        degenerate, bound: no item differs, so there is no interval; 3/n is what n such items still allow.
        mcnemar_p, better, worse: exact McNemar over pooled verdicts.
        signflip_p, signflip_floor: exact over conversations, with the least p that so many conversations can show.
        mcnemar_holm: adjusted over the conditions of the run.
        resolution: differences smaller than this many points cannot be told from none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Mode
    n: int
    base: float | None = None
    treated: float | None = None
    bud: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    cluster_low: float | None = None
    cluster_high: float | None = None
    replicate_mean: float | None = None
    replicate_low: float | None = None
    replicate_high: float | None = None
    degenerate: bool = False
    bound: float | None = None
    mcnemar_p: float | None = None
    better: int = 0
    worse: int = 0
    mcnemar_holm: float | None = None
    signflip_p: float | None = None
    signflip_floor: float | None = None
    discordant: int = 0
    resolution: float | None = None
    not_measured: str = ""


class Quarantines(BaseModel):
    """False-quarantine rates of a corpus that is declared benign; None where nothing was adjudicated.

    Attributes:
        write, read: mean over cells of quarantined/adjudicated.
        distinct: mean over cells of memories that were ever quarantined, of all candidates.
        gold: share of questions with evidence of which a memory was withheld.
        would_read: what the read would have withheld if every guard enforced.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    write: float | None = None
    read: float | None = None
    distinct: float | None = None
    gold: float | None = None
    would_read: float | None = None
    quarantined: int = 0


class CostRow(BaseModel):
    """One condition on one subset."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    condition: str
    subset: Subset
    stage: Stage
    conversations: int
    replicates: int
    utility: Utility
    token_overhead: float | None = None
    base_token_change: float | None = None
    rewritten: int = 0
    flagged: int = 0
    nonsense: int = 0
    unattributed: int = 0
    fqr: Quarantines = Quarantines()
    n: int


def rows_of(cells: Sequence[Cell], *, seed: int) -> list[CostRow]:
    """A row for each condition and subset, in the order in which the conditions were first measured.

    Args:
        seed: of the bootstrap.
    """
    by_condition: dict[str, list[Cell]] = {}
    for cell in cells:
        by_condition.setdefault(cell.condition, []).append(cell)
    base = by_condition.get(BASE, [])
    made: list[CostRow] = []
    for subset in SUBSETS:
        part = [_row(name, subset, held, base, seed) for name, held in by_condition.items()]
        made += _adjusted(part)
    return made


def _row(name: str, subset: Subset, held: Sequence[Cell], base: Sequence[Cell], seed: int) -> CostRow:
    tokens, before = [_tokens(cell) for cell in held], [_tokens(cell) for cell in base]
    graded = [item for cell in held for item in cell.items if item.subset == subset]
    return CostRow(
        condition=name,
        subset=subset,
        stage=STAGES.get(name, "both"),
        conversations=len({cell.conversation for cell in held}),
        replicates=len({cell.replicate for cell in held}),
        utility=_utility(name, subset, held, base, seed),
        token_overhead=_r(overhead(tokens)) if any(cell.tokens for cell in held) else 0.0,
        base_token_change=_r(base_change(tokens, before)),
        rewritten=sum(cell.decisions.write_rewritten for cell in held),
        flagged=sum(cell.decisions.write_flagged for cell in held),
        nonsense=sum(cell.decisions.nonsense for cell in held),
        unattributed=sum(cell.unattributed for cell in held),
        fqr=_quarantines(subset, held),
        n=len({(cell.conversation, item.id) for cell in held for item in cell.items if item in graded}),
    )


def grades_of(cells: Sequence[Cell], subset: Subset) -> dict[ItemId, list[bool | None]]:
    """Grades of every item by replicate, in their order; a replicate that is missing is not graded."""
    replicates = sorted({cell.replicate for cell in cells})
    found: dict[ItemId, dict[int, bool | None]] = {}
    for cell in cells:
        for item in cell.items:
            if item.subset == subset:
                found.setdefault((cell.conversation, item.id), {})[cell.replicate] = item.grade
    return {key: [held.get(at) for at in replicates] for key, held in found.items()}


def _utility(name: str, subset: Subset, held: Sequence[Cell], base: Sequence[Cell], seed: int) -> Utility:
    mode = held[0].mode
    ours, theirs = grades_of(held, subset), grades_of(base, subset)
    paired = pairs(theirs, ours)
    if not paired:
        why = next((i.why for cell in held for i in cell.items if i.subset == subset and i.why), "")
        if not why:
            why = "no question of this subset" if not ours else "no arm without a defence to pair with"
        return Utility(mode=mode, n=0, not_measured=why)
    means = pairs(theirs, ours, means=True)
    interval, clustered = bootstrap(paired, seed=seed), bootstrap(paired, seed=seed, over="conversations")
    mean_interval = bootstrap(means, seed=seed)
    test, flip = mcnemar(paired), sign_flip(list(conversation_deltas(means).values()))
    assert interval is not None
    assert clustered is not None
    assert mean_interval is not None
    assert flip is not None
    return Utility(
        mode=mode,
        n=len(paired),
        base=_r(float(sum(pair.base for pair in paired)) / len(paired)),
        treated=_r(float(sum(pair.treated for pair in paired)) / len(paired)),
        bud=_r(bud(paired)),
        ci_low=_r(interval.low),
        ci_high=_r(interval.high),
        cluster_low=_r(clustered.low),
        cluster_high=_r(clustered.high),
        replicate_mean=_r(bud(means)),
        replicate_low=_r(mean_interval.low),
        replicate_high=_r(mean_interval.high),
        degenerate=interval.degenerate,
        bound=_r(interval.bound),
        mcnemar_p=test.p,
        better=test.better,
        worse=test.worse,
        signflip_p=flip.p,
        signflip_floor=flip.floor,
        discordant=test.discordant,
        resolution=_r(interval.resolution),
    )


def _adjusted(rows: Sequence[CostRow]) -> list[CostRow]:
    """The rows of a subset with Holm's adjustment over the defended conditions."""
    tested = [
        at
        for at, row in enumerate(rows)
        if row.utility.mcnemar_p is not None and row.condition not in (BASE, "a/a")
    ]
    values = dict(zip(tested, holm([rows[at].utility.mcnemar_p or 0.0 for at in tested]), strict=True))
    return [
        row.model_copy(update={"utility": row.utility.model_copy(update={"mcnemar_holm": values[at]})})
        if at in values
        else row
        for at, row in enumerate(rows)
    ]


def _quarantines(subset: Subset, held: Sequence[Cell]) -> Quarantines:
    gold = [item for cell in held for item in cell.items if item.subset == subset and item.recall is not None]
    return Quarantines(
        write=_r(quarantine_rate((c.decisions.write_quarantined, c.decisions.write_seen) for c in held)),
        read=_r(quarantine_rate((c.decisions.read_quarantined, c.decisions.read_seen) for c in held)),
        distinct=_r(quarantine_rate((len(c.decisions.distinct), c.decisions.write_seen) for c in held)),
        gold=_r(sum(item.gold_withheld for item in gold) / len(gold)) if gold else None,
        would_read=_r(quarantine_rate((c.decisions.would_read, c.decisions.read_seen) for c in held)),
        quarantined=sum(c.decisions.write_quarantined + c.decisions.read_quarantined for c in held),
    )


def _tokens(cell: Cell) -> Tokens:
    guard = sum(count for purpose, count in cell.tokens.items() if purpose.startswith("guard:"))
    known: dict[str, Any] = {name: cell.tokens.get(name, 0) for name in ("extract", "answer", "judge")}
    return Tokens(**known, guard=guard)


def _r(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
