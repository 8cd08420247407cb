"""A session of the OpenAI Agents SDK: an approval limit that a conversation remembers, and somebody who edits it.

The agent's model is a few lines in this file, so nothing leaves the machine. The user sets a limit; the program ends;
somebody changes the limit in the database, then, in a second copy, cuts off the message that withdrew it. The bare
session serves both. The guarded one refuses both, before the model is asked.

Run: ``python examples/guarded_session.py``
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")

from agents import Agent, ModelResponse, Runner, SQLiteSession, Usage
from agents.models.interface import Model
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from memguard import IntegrityError, MemGuard


class Limits(Model):
    """A model that answers with the last limit it was told."""

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **more: Any
    ) -> ModelResponse:
        told = [str(i["content"]) for i in input if i.get("role") == "user" and "limit" in str(i["content"])]
        part = ResponseOutputText(annotations=[], text=f"noted: {told[-1]}", type="output_text", logprobs=[])
        said = ResponseOutputMessage(
            id="msg_1", content=[part], role="assistant", status="completed", type="message"
        )
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> Any:
        raise RuntimeError("this model answers in one piece")


AGENT = Agent(name="clerk", model=Limits())


async def ask(session: Any, text: str) -> str:
    """One turn of the conversation; the refusal in a few words if there is one."""
    try:
        return str((await Runner.run(AGENT, text, session=session)).final_output)
    except IntegrityError as error:
        return f"refused, {type(error).__name__} {error.code}"


def edit(database: Path, statement: str) -> None:
    """Somebody with a SQL shell: no guard, no framework."""
    connection = sqlite3.connect(database)
    with connection:
        connection.execute(statement)
    connection.close()


async def story(folder: Path) -> list[str]:
    """What the guarded agent answered after each edit."""
    database = folder / "agent.db"
    mg = MemGuard.create(
        folder / "home",
        anchor=f"file:{folder / 'elsewhere' / 'anchor'}",
        keys=f"file:{folder / 'elsewhere' / 'key.json'}",
    )
    bare = SQLiteSession("alice", database)
    session = mg.guard(bare, name="chat")
    print("alice:", await ask(session, "the limit is 100 euro"))
    print("alice:", await ask(session, "the limit is withdrawn, ask me first"))
    bare.close()
    mg.close()
    shutil.copyfile(database, folder / "copy.db")

    answers = []
    for what, statement in (
        ("limit raised", "UPDATE agent_messages SET message_data = replace(message_data, '100', '9000')"),
        ("withdrawal cut off", "DELETE FROM agent_messages WHERE id > 2"),
    ):
        shutil.copyfile(folder / "copy.db", database)
        edit(database, statement)
        bare = SQLiteSession("alice", database)
        print(f"{what}: bare serves {len(await bare.get_items())} items")
        mg = MemGuard.open(folder / "home")
        answers.append(await ask(mg.guard(bare, name="chat"), "what is my limit?"))
        print(f"{what}: guarded {answers[-1]}")
        bare.close()
        mg.close()
    return answers


def main() -> int:
    """The story in a temporary folder. 0 if both edits were refused."""
    with tempfile.TemporaryDirectory() as name:
        answers = asyncio.run(story(Path(name)))
    return 0 if all(answer.startswith("refused") for answer in answers) else 1


if __name__ == "__main__":
    raise SystemExit(main())
