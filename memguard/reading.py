"""The read path of a home, for adapters: stored labels and the read chain in, what to serve and its labels out.

An adapter hands over candidates that verified, in the store's order of relevance, and gets a :class:`Page`. It
asks :attr:`Reading.idle` first: where nothing reads, its own fast path stands. Nothing here touches a store; when a
page is short, :meth:`Reading.more` says how many candidates to fetch next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from memguard.context import current_principal
from memguard.decision import Decision, Disposition, fold
from memguard.events import Bus, PurposeFiltered, ReadDecided, WithholdsTooMuch
from memguard.fusion import fused
from memguard.guards.provenance import Provenance
from memguard.guards.validity import declared
from memguard.labels import FLAGGED, Label
from memguard.pipeline import FAILED, Outcome, Pipeline
from memguard.reader import (
    Candidate,
    Judged,
    Neighbours,
    Selection,
    doubtful,
    neighbours,
    next_window,
    placed,
    reordered,
    select,
)
from memguard.record import Record, Scope, Source, Trust, Validity
from memguard.settings import Config
from memguard.withheld import DECLARED, Gauge


@dataclass(frozen=True, slots=True)
class Page:
    """What a search serves: places of candidates in order, the label of every candidate, and the selection."""

    served: tuple[int, ...]
    labels: tuple[Label, ...]
    selection: Selection
    #: Places of candidates on which the read chain said more than allow.
    noted: tuple[int, ...] = ()
    #: Whether the order is that of ``read.fusion``.
    fused: bool = False

    @property
    def untouched(self) -> bool:
        """Whether the candidates are served as the store ordered them, none taken out."""
        s = self.selection
        return not (self.fused or s.demoted or s.withheld or s.filtered)

    @property
    def remarkable(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.noted or self.selection.filtered or self.selection.would_filter)


class Reading:
    """Judges what was read. Threads may share it; it keeps only the gauge of what guards withhold.

    Args:
        config: of the home.
        chain: the read chain (``Screening.reading``).
        judge: what it says of one record (``Screening.read``).
        bus: hears of what is withheld.
        again: what stands around the chain, for a record of which it is known what the chain says
            (``Screening.reread``); None asks the chain every time.
    """

    def __init__(
        self,
        config: Config,
        chain: Pipeline,
        judge: Callable[[Record], Outcome],
        bus: Bus,
        *,
        again: Callable[[Outcome, Record], Outcome] | None = None,
    ) -> None:
        self._config, self._chain, self._judge, self._bus = config, chain, judge, bus
        settings = config.read
        self._gauge = Gauge(
            settings.max_withheld_ratio, window=settings.withheld_window, least=settings.withheld_least
        )
        self.settings = settings
        self.enforces_purpose = settings.purpose == "enforce"
        #: From which trust on a record is believed against others.
        self.level = Trust(config.policy.act_level)
        modes = settings.modes()
        lowering = modes.get("provenance", "off") not in ("off", "observe")
        levels = Provenance.from_config(config)
        self._held: Callable[[Source, Trust], Trust] = lru_cache(maxsize=4096)(
            levels.held if lowering else lambda _, trust: trust
        )
        # Most records say nothing but their label, and most guards of a read look at nothing else.
        blind = all(getattr(seat.guard, "by_label", False) for seat in chain.seats)
        self._again = again if blind else None
        self._known: dict[tuple[Source, Trust | None], Outcome] = {}
        self._waits = any(
            not type(seat.guard).__module__.startswith("memguard.guards.") for seat in chain.seats
        )
        self.reorders = modes.get("reranker", "off") not in ("off", "observe")
        self.compares = any(modes.get(name, "off") != "off" for name in ("reranker", "validity"))

    @property
    def waits(self) -> bool:
        """Whether a guard that is not memguard's own is seated, which may take its time."""
        return self._waits

    @property
    def acting(self) -> bool:
        """Whether the current principal reads in order to act, and the purpose filter is on."""
        who = current_principal()
        return self._config.read.purpose != "off" and who is not None and who.purpose == "act"

    @property
    def idle(self) -> bool:
        """Whether nothing would look at what is read."""
        return not self._chain.seats and not self.acting

    # -- from a store to candidates ------------------------------------------------------------------

    def candidate(
        self,
        store: str,
        key: str,
        content: str,
        label: Label | None,
        fields: Mapping[str, Any] | None = None,
        *,
        space: str = "",
    ) -> Candidate:
        """A record as the reader takes it: at its stored level, or lower where policy has lowered its source.

        Args:
            fields: the members of a structured value, for validity and for slots.
            space: the namespace of the key.
        """
        label = label or Label()
        trust = label.trust
        if label.source.kind != "summary" and not label.granted:
            trust = self._held(label.source, trust)
        record = Record(content, store, key, label.source, label.lineage, trust=trust)
        if label.granted:
            record = replace(record, data={"granted": True})
        if fields is not None:
            names = self._config.guards.validity
            if names.since in fields or names.until in fields:
                record = replace(record, validity=declared(fields, names.since, names.until))
            if names.supersedes in fields:
                record = replace(record, data={**record.data, "supersedes": _keys(fields[names.supersedes])})
        return Candidate(record, _flagged(label), fields, space)

    # -- a search ------------------------------------------------------------------------------------

    def search(self, asked: int, query: str | None = None) -> Search:
        """A search for so many records; it remembers what was decided while its window grows.

        Args:
            query: the question, where the store ranks by one; ``read.fusion`` looks at its words.
        """
        return Search(self, asked, query if self.settings.fusion == "lexical" else None)

    def tell(self, store: str, names: Sequence[str], page: Page) -> None:
        """Say what was withheld, flagged or filtered of a page that stands, and count it for the gauge."""
        for at in page.noted:
            decision = page.labels[at].decision
            assert decision is not None
            self._bus.emit(ReadDecided(store, names[at], decision))
        for filtered, would in ((page.selection.filtered, False), (page.selection.would_filter, True)):
            if filtered:
                self._bus.emit(PurposeFiltered(store, len(filtered), would))

    # -- one record ----------------------------------------------------------------------------------

    def one(self, candidate: Candidate, label: Label | None) -> Label | None:
        """The label of a record that was read by its key; None where it is withheld or filtered."""
        page = Search(self, 1).page((candidate,), (label,))
        self.tell(candidate.record.store, (candidate.record.key,), page)
        return page.labels[0] if page.served else None

    # -- the chain -----------------------------------------------------------------------------------

    def decided(self, record: Record) -> Decision:
        """What the read chain says of one record; the gauge counts it."""
        if not self._chain.seats:
            return _NOTHING
        outcome = self._outcome(record)
        for said in outcome.decisions:
            if said.guard in DECLARED or said.code == FAILED:
                continue
            withheld = said.disposition >= Disposition.QUARANTINE
            change = self._gauge.note(record.store, said.guard, withheld)
            if change is not None:
                counted, of = self._gauge.counts(record.store, said.guard)
                self._bus.emit(WithholdsTooMuch(record.store, said.guard, counted, of, change))
        return self._held_back(record.store, outcome)

    def _outcome(self, record: Record) -> Outcome:
        if self._again is None or record.data or record.validity != _ALWAYS or record.scope != _NOBODY:
            return self._judge(record)
        known = self._known.get((record.source, record.trust))
        if known is not None:
            return self._again(known, record)
        outcome = self._judge(record)
        # Kept without the record, and only as the chain left it: review and hook have their say each time.
        chain = fold(outcome.decisions)
        if not outcome.events:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[record.source, record.trust] = Outcome(chain, outcome.decisions, _NONE)
        return outcome

    def _held_back(self, store: str, outcome: Outcome) -> Decision:
        """The decision, without the withholding of guards that only observe here for now."""
        if outcome.decision.disposition < Disposition.QUARANTINE:
            return outcome.decision
        kept = []
        for said in outcome.decisions:
            mute = (
                said.disposition >= Disposition.QUARANTINE
                and said.code != FAILED
                and self._gauge.observing(store, said.guard)
            )
            kept.append(said.capped(Disposition.ALLOW) if mute else said)
        if kept == list(outcome.decisions):  # the program's hook, a declaration or a failure withholds it
            return outcome.decision
        return fold(kept)


class Search:
    """One search on its way: fetch :attr:`window` candidates, have the :meth:`page`, fetch :meth:`more` if so told."""

    def __init__(self, reading: Reading, asked: int, query: str | None = None) -> None:
        self._reading, self._asked, self._query = reading, asked, query
        self._decided: dict[Record, Decision] = {}

    @property
    def window(self) -> int:
        """How many candidates to fetch first: as many as were asked for. More only where there is a reason."""
        if self._query is None:
            return self._asked
        settings = self._reading.settings
        return max(self._asked, min(self._asked * settings.fusion_window, settings.max_candidates))

    def page(self, candidates: Sequence[Candidate], labels: Sequence[Label | None]) -> Page:
        """What is served of all candidates so far, in the store's order. Events wait for :meth:`Reading.tell`."""
        r = self._reading
        beside = neighbours(candidates, r.level) if r.compares else [Neighbours()] * len(candidates)
        judged: list[Judged] = []
        after: list[Label] = []
        noted: list[int] = []
        for candidate, label, near in zip(candidates, labels, beside, strict=True):
            decision = self._decision(_informed(candidate, near))
            made = relabel(label or Label(), decision, candidate.trust)
            after.append(made)
            if decision.flagged:
                noted.append(len(judged))
            # A reranker that observes or is off changes no order; neither does one whom the program overruled.
            moved = r.reorders and decision.disposition is not Disposition.ALLOW
            rivals = near.rivals if moved else ()
            withheld = decision.disposition >= Disposition.QUARANTINE
            would = decision.full >= Disposition.QUARANTINE
            judged.append(Judged(made.trust, _flagged(made), withheld, would, rivals))
        order = self._order(candidates)
        chosen = select(
            reordered(judged, order) if order else judged,
            self._asked,
            act_level=r.level if r.acting else None,
            enforce_purpose=r.enforces_purpose,
        )
        if order:
            chosen = placed(chosen, order)
        return Page(chosen.served, tuple(after), chosen, tuple(noted), fused=order is not None)

    def _order(self, candidates: Sequence[Candidate]) -> list[int] | None:
        """The order by relevance and words together; None where the store's own stands."""
        if not self._query or len(candidates) < 2:
            return None
        texts = [candidate.record.content for candidate in candidates]
        return fused(self._query, texts, [candidate.trust for candidate in candidates], self._reading.level)

    def more(self, page: Page, candidates: Sequence[Candidate], exhausted: bool) -> int | None:
        """How many candidates to fetch instead, None where the page stands.

        Args:
            exhausted: the store had no more to give.
        """
        if exhausted:
            return None
        settings, fetched = self._reading.settings, len(candidates)
        if page.selection.short:
            return next_window(self._asked, fetched, len(page.served), settings.max_candidates)
        wide = min(self._asked * settings.overfetch, settings.max_candidates)
        if self._reading.compares and fetched < wide and doubtful(candidates, self._reading.level):
            return wide  # a trusted record that one of them contradicts may stand right behind the page
        return None

    def _decision(self, record: Record) -> Decision:
        found = self._decided.get(record)
        if found is None:
            found = self._decided[record] = self._reading.decided(record)
        return found


_NOTHING = Decision()
_ALWAYS, _NOBODY, _NONE = Validity(), Scope(), Record("")
#: Labels of which it is remembered what the chain says.
_KEPT = 4096


def relabel(label: Label, decision: Decision, trust: Trust) -> Label:
    """The label that is served: never more trust than was stored, less where the read says so.

    Args:
        trust: the stored level, or the lower one that policy gives the source now.
    """
    level = min(trust, decision.trust or trust)
    if decision.disposition is not Disposition.ALLOW:
        level = min(level, FLAGGED)
    if not decision.flagged:
        if level is label.trust:
            return label
        return replace(label, trust=level)
    return replace(label, trust=level, decision=fold((decision, label.decision or _NOTHING)))


def _informed(candidate: Candidate, near: Neighbours) -> Record:
    """The record with what its neighbours say, where they say anything."""
    if not near:
        return candidate.record
    facts = {
        **candidate.record.data,
        "rivals": len(near.rivals),
        "replaced": near.successor is not None,
        "flagged": candidate.flagged,
    }
    return replace(candidate.record, data=facts)


def _flagged(label: Label) -> bool:
    return label.decision is not None and label.decision.disposition is not Disposition.ALLOW


def _keys(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Iterable):
        return tuple(item for item, _ in zip(value, range(100), strict=False) if isinstance(item, str))
    return ()
