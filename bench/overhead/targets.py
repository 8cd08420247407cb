"""What each row has to reach. A target is printed beside its row with the word met or missed, and gates nothing:
timings belong to the machine that made them, so a slow disk must not fail a build.
"""

from __future__ import annotations

from dataclasses import dataclass

#: (operation, size, mode) with content guards off -> the highest ratio to bare.
RATIOS: dict[tuple[str, str, str], float] = {
    ("put", "1 msg", "strict"): 2.0,
    ("put", "50 msg", "strict"): 1.7,
    ("put", "500 msg", "strict"): 1.3,
    ("put", "1 msg", "lag"): 1.4,
    ("put", "50 msg", "lag"): 1.3,
    ("put", "500 msg", "lag"): 1.2,
    ("get_tuple(head)", "1 msg", "strict"): 1.8,
    ("get_tuple(head)", "50 msg", "strict"): 1.2,
    ("get_tuple(head)", "500 msg", "strict"): 1.1,
    ("list(200)", "1 msg", "strict"): 2.2,
    ("list(200)", "50 msg", "strict"): 1.25,
    ("list(200)", "500 msg", "strict"): 1.1,
    ("store get", "10000 items", "strict"): 2.0,
    ("store put", "10000 items", "strict"): 1.5,
    ("store search top-10", "10000 items", "strict"): 1.4,
    ("graph turn", "3 nodes", "strict"): 1.6,
}
#: The same for savers on PostgreSQL, whose commits go over a connection.
POSTGRES_RATIOS: dict[tuple[str, str, str], float] = {
    ("put", "1 msg", "strict"): 1.9,
    ("put", "50 msg", "strict"): 1.6,
    ("get_tuple(head)", "1 msg", "strict"): 1.4,
    ("get_tuple(head)", "50 msg", "strict"): 1.25,
}
#: Lowest rate of a first verification (tags and metadata), rows per second, for rows up to 18 kB.
FIRST_VERIFICATION = 60_000
#: Highest memory for the index of 100,000 tracked records, in MB (10**6 bytes).
MEMORY_MB = 20.0
#: "Does not grow": the median at the long history over the one at the short, with room for noise.
HISTORY = 1.25


@dataclass(frozen=True, slots=True)
class Target:
    """A bound, which side of it is good, and how it reads in a table."""

    bound: float
    at_most: bool = True

    def met(self, value: float) -> bool:
        """Whether ``value`` is on the good side."""
        return value <= self.bound if self.at_most else value >= self.bound

    def words(self, value: float | None) -> str:
        """``"<= 2 met"``, ``"<= 2 missed"``, or ``"not measured"``."""
        sign = "<=" if self.at_most else ">="
        text = f"{sign} {self.bound:g}" if self.bound < 10_000 else f"{sign} {self.bound:,.0f}"
        if value is None:
            return f"{text} not measured"
        return f"{text} {'met' if self.met(value) else 'missed'}"


def ratio_target(operation: str, size: str, mode: str, guards: str, sut: str = "") -> Target | None:
    """The target of a row; rows with content guards on have none."""
    ratios = POSTGRES_RATIOS if "postgres" in sut else RATIOS
    bound = ratios.get((operation, size, mode)) if guards == "off" else None
    return Target(bound) if bound is not None else None
