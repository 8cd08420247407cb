"""Makes the bundled conversations of the cost bench from material.toml: the same bytes every time.

    python bench/data/cost/make_conversations.py

The form of a conversation, its dates and its order follow from its id. Nothing is drawn from anywhere but the material.
"""

from __future__ import annotations

import datetime
import json
import random
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MATERIAL, MADE = HERE / "material.toml", HERE / "conversations.json"
KINDS = {"multi-hop": 1, "temporal": 2, "open-domain": 3, "single-hop": 4, "adversarial": 5}
#: Turns of a session, about; days between two sessions.
SESSION, DAYS = 14, (5, 12)
#: How far a thread may stray from its place.
JITTER = 0.02


def filled(text: str, slots: Mapping[str, str]) -> str:
    """The text with its slots; a sentence begins with a capital letter whatever stood in the slot."""
    made = re.sub(r"\{([a-zA-Z_]+)\}", lambda found: slots[found[1]], text)
    return re.sub(r"(^|[.!?] )([a-z])", lambda found: found[1] + found[2].upper(), made)


def slots_of(material: Mapping[str, Any], at: int) -> dict[str, str]:
    """Every slot of one cast, with those that follow from others."""
    slots = {name: values[at] for name, values in {**material["casts"], **material["slots"]}.items()}
    for name in ("job", "bjob", "sisterjob"):
        article = "an" if slots[name][0] in "aeiou" else "a"
        slots[f"a_{name}"] = f"{article} {slots[name]}"
    slots["phone_bare"] = slots["phone"].split(" ", 1)[1]
    return slots


def conversation(material: Mapping[str, Any], at: int) -> dict[str, Any]:
    """One conversation with its questions."""
    slots = slots_of(material, at)
    dice = random.Random(slots["id"])
    threads = sorted(material["thread"], key=lambda t: t["at"] + dice.uniform(-JITTER, JITTER))
    small = dice.sample(material["small"]["pairs"], len(material["small"]["pairs"]))
    parts: list[tuple[str, list[str]]] = []
    for thread in threads:
        parts.append((thread["id"], _lines(thread, slots)))
        if small and dice.random() < 0.62:
            parts.append(("", [filled(line, slots) for line in small.pop()]))
    parts += [("", [filled(line, slots) for line in pair]) for pair in small[:3]]

    turns: list[dict[str, str]] = []
    places: dict[str, str] = {}
    dates: dict[str, str] = {}
    day, session, count = datetime.date.fromisoformat(slots["begins"]), 1, 0
    for name, lines in parts:
        if count >= SESSION:
            day += datetime.timedelta(days=dice.randint(*DAYS))
            session, count = session + 1, 0
        for number, line in enumerate(lines):
            count += 1
            who, _, said = line.partition(": ")
            turn = {"id": f"D{session}:{count}", "speaker": slots[who], "text": said, "date": day.isoformat()}
            turns.append(turn)
            if name:
                places[f"{name}.{number}"], dates[f"{name}.{number}"] = turn["id"], turn["date"]
    asks = [(thread["id"], ask) for thread in material["thread"] for ask in thread["asks"]]
    questions = []
    for number, (_, ask) in enumerate(asks, 1):
        answer = re.sub(r"\{date:([a-z-]+\.\d+)\}", lambda found: dates[found[1]], ask["a"])
        questions.append(
            {
                "id": f"q{number}",
                "question": filled(ask["q"], slots),
                "answer": filled(answer, slots) if answer else "",
                "evidence": [places[place] for place in ask["of"]],
                "category": KINDS[ask["kind"]],
            }
        )
    return {"id": slots["id"], "turns": turns, "questions": questions}


def _lines(thread: Mapping[str, Any], slots: Mapping[str, str]) -> list[str]:
    """The lines of a thread, A's in A's language where the material has it."""
    other = thread.get(slots["tongue"], {})
    lines = []
    for number, line in enumerate(thread["lines"]):
        who, _, said = line.partition(": ")
        lines.append(f"{who}: {filled(other.get(str(number), said), slots)}")
    return lines


def conversations() -> list[dict[str, Any]]:
    """All of them."""
    material = tomllib.loads(MATERIAL.read_text(encoding="utf-8"))
    return [conversation(material, at) for at in range(len(material["casts"]["id"]))]


def text() -> str:
    """What the file holds."""
    return json.dumps(conversations(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    MADE.write_text(text(), encoding="utf-8")
