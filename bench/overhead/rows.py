"""One measured row, and how it travels: the fields that DESIGN.md names, and those that say how it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from memguard.bench.overhead.targets import Target


@dataclass(frozen=True, slots=True)
class Row:
    """One operation, bare and guarded.

    Times are medians in microseconds per operation. ``anchor_syncs`` is counted, per operation. A row that has
    no bare twin (a rate, a size) leaves the ratio None and puts its figure in ``value`` with its ``unit``.
    """

    sut: str
    operation: str
    size: str
    history: int
    mode: str = "strict"
    guards: str = "off"
    n: int = 0
    bare_us: float | None = None
    guarded_us: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    cpu_ratio: float | None = None
    anchor_syncs: float | None = None
    value: float | None = None
    unit: str = ""
    sync_us: float = 0.0
    commit_us: float = 0.0
    hmac_us: float = 0.0
    target: Target | None = None

    @property
    def measured(self) -> float | None:
        """The figure that the target speaks of."""
        return self.ratio if self.value is None else self.value

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one, or without a figure."""
        if self.target is None or self.measured is None:
            return None
        return self.target.met(self.measured)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Row:
        """The row that :meth:`as_dict` wrote."""
        values = {field.name: data[field.name] for field in fields(cls) if field.name != "target"}
        bound, at_most = data["target"], data["target_at_most"]
        return cls(**values, target=None if bound is None else Target(bound, at_most))

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        data = asdict(self)
        del data["target"]
        data["target"] = self.target.bound if self.target else None
        data["target_at_most"] = self.target.at_most if self.target else None
        data["met"] = self.met
        return data


def _figure(value: float | None, form: str = ".2f") -> str:
    return "-" if value is None else format(value, form)


def _microseconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


#: (heading, width, right-aligned); 110 columns in all with two spaces between.
COLUMNS = (
    ("OPERATION", 19, False),
    ("SIZE", 11, False),
    ("HISTORY", 7, True),
    ("MODE", 6, False),
    ("BARE us", 9, True),
    ("GUARDED us", 10, True),
    ("RATIO", 5, True),
    ("CPU", 5, True),
    ("SYNCS", 5, True),
    ("TARGET", 12, False),
)


def _line(cells: Sequence[str]) -> str:
    parts = [
        cell.rjust(width) if right else cell.ljust(width)
        for cell, (_, width, right) in zip(cells, COLUMNS, strict=True)
    ]
    return "  ".join(parts).rstrip()


def table(rows: Sequence[Row]) -> str:
    """The rows as text of at most 110 columns, one block per SUT and setting of the content guards."""
    blocks: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        blocks.setdefault((row.sut, row.guards), []).append(row)
    lines: list[str] = []
    for (sut, guards), members in blocks.items():
        lines += [""] if lines else []
        lines += [f"{sut}   content guards {guards}", _line([column[0] for column in COLUMNS])]
        for row in members:
            target = row.target.words(row.measured) if row.target else ""
            if row.value is not None:
                figure = f"{row.value:,.0f}" if row.value >= 100 else f"{row.value:.1f}"
                lines.append(
                    f"{row.operation:<30}  {row.history:>7}  {row.mode:<6}  {figure} {row.unit}   {target}"
                )
                continue
            lines.append(
                _line(
                    [
                        row.operation,
                        row.size,
                        str(row.history),
                        row.mode,
                        _microseconds(row.bare_us),
                        _microseconds(row.guarded_us),
                        _figure(row.ratio),
                        _figure(row.cpu_ratio, ".1f"),
                        _figure(row.anchor_syncs, ".2f"),
                        target,
                    ]
                )
            )
    return "\n".join(lines)


def summary(rows: Sequence[Row]) -> str:
    """The prices that the ratios depend on, and how many targets are met."""
    if not rows:
        return "nothing was measured"
    judged = [row for row in rows if row.met is not None]
    missed = [row for row in judged if not row.met]
    lines = [
        f"one sync of the anchor's volume {rows[0].sync_us:,.0f} us, one bare commit {rows[0].commit_us:,.0f} us: "
        f"a strict put of nothing would cost {1 + rows[0].sync_us / rows[0].commit_us:.2f}",
        f"one HMAC of 200 bytes {rows[0].hmac_us:.1f} us (about 1.7 on a quiet machine)",
        "medians of interleaved pairs; RATIO is wall clock, CPU is process time, SYNCS are counted",
        f"targets: {len(judged) - len(missed)} of {len(judged)} met",
    ]
    for row in missed:
        assert row.target is not None
        figure = f"{row.measured:,.2f}"
        lines.append(
            f"  missed: {row.operation}, {row.size}, {row.mode}: {figure} {row.unit}".rstrip()
            + f" (target {row.target.words(row.measured)})"
        )
    return "\n".join(lines)
