"""What the exit code of `bench cost` says, and the table for people."""

from __future__ import annotations

from collections.abc import Sequence

from memguard.bench.cost.retrieval import GUARDED
from memguard.bench.cost.rows import CostRow

#: Limits for memguard's presets: points of benign utility, and shares.
LEAST_BUD, LEAST_CI = -0.5, -2.0
MOST_READ, MOST_WRITE = 0.005, 0.001


def missed(rows: Sequence[CostRow]) -> list[str]:
    """A line for each limit that a preset of memguard misses. Other conditions are there to compare."""
    found = []
    for row in rows:
        if row.condition not in GUARDED or row.condition == "observe":
            continue
        where, told, fqr = f"{row.condition}, {row.subset}", row.utility, row.fqr
        if told.bud is not None and told.bud < LEAST_BUD:
            found.append(f"{where}: benign utility {told.bud:+.2f} points")
        if told.ci_low is not None and told.ci_low <= LEAST_CI:
            found.append(f"{where}: the interval of benign utility begins at {told.ci_low:+.2f} points")
        if fqr.read is not None and fqr.read > MOST_READ:
            found.append(f"{where}: {100 * fqr.read:.2f} % of reads withheld")
        if fqr.write is not None and fqr.write > MOST_WRITE:
            found.append(f"{where}: {100 * fqr.write:.2f} % of writes withheld")
        if fqr.gold:
            found.append(f"{where}: evidence withheld for {100 * fqr.gold:.2f} % of questions")
        if row.token_overhead:
            found.append(f"{where}: {100 * row.token_overhead:.1f} % more tokens")
    return found


def table(rows: Sequence[CostRow]) -> str:
    """The rows as text of at most 120 columns."""
    lines = [
        f"{'CONDITION':16} {'SUBSET':11} {'STAGE':5} {'N':>5} {'BASE':>6} {'THIS':>6} {'BUD':>7} {'95 % INTERVAL':>16} "
        f"{'McN p':>6} {'FLIP p':>6} {'TOKENS':>7} {'W-FQR':>6} {'R-FQR':>6} {'GOLD':>6}"
    ]
    for row in rows:
        told, fqr = row.utility, row.fqr
        head = f"{row.condition:16} {row.subset:11} {row.stage:5} {row.n:>5}"
        if told.bud is None:
            lines.append(f"{head} not measured: {told.not_measured}")
            continue
        ends = (
            f"none differs <{told.bound:.1f}"
            if told.degenerate
            else f"[{told.ci_low:+.2f}, {told.ci_high:+.2f}]"
        )
        lines.append(
            f"{head} {told.base:>6.3f} {told.treated:>6.3f} {told.bud:>+7.2f} {ends:>16} {told.mcnemar_p:>6.3f} "
            f"{told.signflip_p:>6.3f} {_percent(row.token_overhead):>7} {_percent(fqr.write):>6} "
            f"{_percent(fqr.read):>6} {_percent(fqr.gold):>6}"
        )
    return "\n".join(lines)


def summary(rows: Sequence[CostRow]) -> str:
    """What the table is of, and its resolution."""
    first = rows[0]
    told = next((row.utility for row in rows if row.condition == "none" and row.utility.n), first.utility)
    mode = {"retrieval": "retrieval (deterministic; no model)", "llm": "llm"}[told.mode]
    lines = [
        f"mode {mode}; {first.conversations} conversations without an attack, {first.replicates} replicate(s), "
        f"{told.n} paired questions.",
        "BUD: mean over conversations of the paired difference, points; the interval resamples questions and takes the "
        "conversations as fixed.",
        "FQR: withheld of adjudicated at the write and the read, mean over cells; GOLD: evidence withheld.",
    ]
    floor = min(1.0, 2 / 2**first.conversations)
    lines.append(f"{first.conversations} conversation(s) cannot show a sign-flip p below {floor:.4g}.")
    return "\n".join(lines)


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.2f}"
