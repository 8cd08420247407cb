"""Conversations with questions: what every corpus of the benches is read into."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: Categories of questions, by LoCoMo's numbers.
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
ADVERSARIAL = 5
#: How many turns of a conversation seeds/000 keeps, and how many questions at most.
SEED_TURNS, SEED_QUESTIONS = 150, 75


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: its id (``D3:7``), who said what, and when the session was."""

    id: str
    speaker: str
    text: str
    date: str

    @property
    def memory(self) -> str:
        """The turn as a memory is written: date, speaker, words."""
        return f"[{self.date}] {self.speaker}: {self.text}"


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the ids of the turns that answer it, as the file has them.

    Attributes:
        category: a number of :data:`CATEGORIES`.
        id: its name in its conversation; empty where nobody needs one.
        answer: the reference answer; of an adversarial question empty, since the answer is that there is none.
    """

    text: str
    evidence: tuple[str, ...]
    category: int
    id: str = ""
    answer: str = ""

    @property
    def adversarial(self) -> bool:
        """Whether the conversation does not answer it."""
        return self.category == ADVERSARIAL


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation."""

    id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]

    def truncated(self, turns: int = SEED_TURNS, questions: int = SEED_QUESTIONS) -> Conversation:
        """The first turns, and of the questions whose evidence is all among them the first, in file order.

        A question without evidence is kept. On LoCoMo this reproduces Table 4 of seeds/000 (75, 51, 32, 42, 55).
        """
        kept = self.turns[:turns]
        ids = {turn.id for turn in kept}
        aligned = [q for q in self.questions if all(e in ids for e in q.evidence)]
        return replace(self, turns=kept, questions=tuple(aligned[:questions]))

    def evidence(self, question: Question) -> tuple[str, ...]:
        """The turns that answer a question; none where any of them is no turn of this conversation."""
        ids = {turn.id for turn in self.turns}
        return question.evidence if all(e in ids for e in question.evidence) else ()
