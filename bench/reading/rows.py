"""One measured cell of the reading bench, its gates, and the table."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

#: Share of read records that may be withheld on conversations without an attack (the target of the bench).
MOST_WITHHELD = 0.005


class ReadingRow(BaseModel):
    """One condition on one conversation. Counts; a share is null where nothing was counted.

    ``evidence_withheld`` counts questions with a turn of their evidence withheld, at the write or at the read.
    ``hits_bare`` and ``hits`` count questions with all evidence among the first ``k``, bare and under the
    condition, of ``with_evidence`` questions, on the same embedder in the same run; ``lost`` and ``gained``
    are where the two differ. ``act_hits`` is the same under purpose "act", null where there is none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    condition: str
    source: str
    embedder: str
    conversation: str
    k: int
    memories: int
    questions: int
    with_evidence: int
    hits_bare: int
    hits: int | None = None
    lost: int | None = None
    gained: int | None = None
    same_answers: int | None = None
    act_hits: int | None = None
    write_seen: int = 0
    write_withheld: int = 0
    write_rewritten: int = 0
    write_flagged: int = 0
    read_seen: int = 0
    read_withheld: int = 0
    would_read: int = 0
    read_flagged: int = 0
    evidence_withheld: int | None = None
    not_measured: str = ""

    @property
    def read_fqr(self) -> float | None:
        """Read false-quarantine rate: withheld of adjudicated; null where nothing was adjudicated."""
        return self.read_withheld / self.read_seen if self.read_seen else None


def pooled(rows: Sequence[ReadingRow]) -> ReadingRow:
    """The rows of one condition over all conversations, as one row of sums."""
    first = rows[0]
    if any(row.not_measured for row in rows):
        return first.model_copy(update={"conversation": "all"})
    sums: dict[str, int] = {}
    for name, kind in ReadingRow.model_fields.items():
        if name != "k" and kind.annotation in (int, int | None):
            values = [getattr(row, name) for row in rows]
            if None not in values:
                sums[name] = sum(values)
    return first.model_copy(update={**sums, "conversation": "all"})


def by_condition(rows: Sequence[ReadingRow]) -> list[ReadingRow]:
    """One pooled row per condition and source, in the order in which they were measured."""
    groups: dict[tuple[str, str], list[ReadingRow]] = {}
    for row in rows:
        groups.setdefault((row.condition, row.source), []).append(row)
    return [pooled(group) for group in groups.values()]


def missed(rows: Sequence[ReadingRow]) -> list[str]:
    """What the gates say of memguard's own presets, a line for each miss. Other conditions are there to compare."""
    from memguard.bench.conditions.build import PRESETS

    found = []
    for row in by_condition(rows):
        if row.condition not in PRESETS or row.not_measured:
            continue
        where = f"{row.condition}, source {row.source}"
        if row.read_fqr is not None and row.read_fqr > MOST_WITHHELD:
            found.append(f"{where}: {row.read_withheld} of {row.read_seen} reads withheld")
        if row.evidence_withheld:
            found.append(f"{where}: evidence of {row.evidence_withheld} questions withheld")
        if row.hits is not None and row.hits < row.hits_bare:
            found.append(f"{where}: all evidence found for {row.hits} questions, bare for {row.hits_bare}")
    return found


def table(rows: Sequence[ReadingRow]) -> str:
    """The pooled rows for people."""
    lines = [
        f"{'CONDITION':16} {'SOURCE':8} {'WRITE':>12} {'READ':>12} {'RATE':>8} {'WOULD':>6} {'EVIDENCE':>8} "
        f"{'ALL@k':>7} {'BARE':>7} {'LOST':>5} {'WON':>4} {'ACT':>7}",
    ]
    for row in by_condition(rows):
        if row.not_measured:
            lines.append(f"{row.condition:16} {row.source:8} not measured: {row.not_measured}")
            continue
        lines.append(
            f"{row.condition:16} {row.source:8} {f'{row.write_withheld}/{row.write_seen}':>12} "
            f"{f'{row.read_withheld}/{row.read_seen}':>12} {_percent(row.read_fqr):>8} {row.would_read:>6} "
            f"{_count(row.evidence_withheld):>8} {_share(row.hits, row.with_evidence):>7} "
            f"{_share(row.hits_bare, row.with_evidence):>7} {_count(row.lost):>5} {_count(row.gained):>4} "
            f"{_share(row.act_hits, row.with_evidence):>7}"
        )
    return "\n".join(lines)


def summary(rows: Sequence[ReadingRow]) -> str:
    """What the table is of, with the resolution of a zero."""
    first = by_condition(rows)[0]
    zero = 3 / first.with_evidence if first.with_evidence else 1.0
    conversations = len({row.conversation for row in rows})
    return (
        f"{conversations} conversations without an attack, {first.memories} memories, {first.questions} questions, "
        f"{first.with_evidence} with evidence; embedder {first.embedder}, k = {first.k}\n"
        "WRITE and READ: withheld of seen. WOULD: withheld if every guard enforced. EVIDENCE: questions with a turn "
        "of their evidence withheld.\n"
        f"ALL@k: share of questions with all evidence among the first k; ACT: the same for purpose act. "
        f"No loss among {first.with_evidence} leaves room for {100 * zero:.1f} % (3/n)."
    )


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.2f} %"


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)


def _share(hits: int | None, of: int) -> str:
    return "-" if hits is None or not of else f"{hits / of:.3f}"
