"""Genuine use raises no alarm: a random story of writes, deletes, turns, restarts, checked against a plain model.

MEMGUARD_LETTA_OPERATIONS sets how many operations it has; a server answers a few in a second.
"""

from __future__ import annotations

import os
import random
from typing import Any

from memguard import source

from .conftest import Town, say

OPERATIONS = int(os.environ.get("MEMGUARD_LETTA_OPERATIONS", "20"))


class Story:
    """One agent, as the server should hold it."""

    def __init__(self, town: Town, seed: int) -> None:
        self.town, self.rng = town, random.Random(seed)
        self.client = town.client()
        self.agent = self.client.agents.create(**town.agent, tools=["archival_memory_insert"]).id
        self.blocks = {b["label"]: b["value"] for b in town.agent["memory_blocks"]}
        self.passages: dict[str, str] = {}
        self.n = 0

    def text(self) -> str:
        self.n += 1
        return f"Note {self.n} says {self.rng.choice(['tea', 'coffee', 'water'])} at {self.rng.randrange(24)} o'clock"

    def update(self) -> None:
        label = self.rng.choice(sorted(self.blocks))
        self.blocks[label] = self.text()
        self.client.agents.blocks.update(label, agent_id=self.agent, value=self.blocks[label])

    def create(self) -> None:
        text = self.text()
        with source(self.rng.choice(["user:alice", "tool:notes"])):
            (made,) = self.client.agents.passages.create(self.agent, text=text, tags=["note"])
        self.passages[made.id] = text

    def delete(self) -> None:
        if self.passages:
            ident = self.rng.choice(sorted(self.passages))
            del self.passages[ident]
            self.client.agents.passages.delete(ident, agent_id=self.agent)

    def again(self) -> None:
        if self.passages:
            text = self.passages[self.rng.choice(sorted(self.passages))]
            (made,) = self.client.agents.passages.create(self.agent, text=text, tags=["note"])
            self.passages[made.id] = text

    def turn(self) -> None:
        text = self.text()
        self.blocks["human"] += f"\n{text}"
        order = f'CALL memory_insert {{"label": "human", "new_string": "{text}"}}'
        self.client.agents.messages.create(self.agent, **say(order))

    def attach(self) -> None:
        label = f"extra-{self.n}"
        block = self.client.blocks.create(label=label, value=self.text())
        self.client.agents.blocks.attach(block.id, agent_id=self.agent)
        if self.rng.random() < 0.5:
            self.client.agents.blocks.detach(block.id, agent_id=self.agent)
        else:
            self.client.blocks.delete(block.id)

    def reset(self) -> None:
        self.client.agents.messages.reset(self.agent)

    def restart(self) -> None:
        self.town.reopened()
        self.client = self.town.client()

    def check(self) -> None:
        assert {b.label: b.value for b in self.client.agents.blocks.list(self.agent)} == self.blocks
        listed = self.client.agents.passages.list(self.agent, limit=1000)
        assert {p.id: p.text for p in listed} == self.passages

    def step(self) -> None:
        verbs: list[Any] = [self.update, self.create, self.create, self.delete, self.again, self.turn]
        verbs += [self.attach, self.reset, self.restart, self.check]
        self.rng.choice(verbs)()


def test_genuine_operations_raise_no_alarm(town: Town) -> None:
    story = Story(town, seed=4)
    for _ in range(OPERATIONS):
        story.step()
    story.check()
    assert town.mg.audit(story.client).clean
