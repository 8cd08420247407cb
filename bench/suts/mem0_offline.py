"""Mem0 without a network: a bag-of-words embedder, and a model that takes every user's line as a fact.

Both go in through Mem0's own providers for LangChain objects, so its pipelines run unchanged.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import memguard.integrations.mem0  # noqa: F401 - before Mem0: no telemetry

os.environ.setdefault("MEM0_DIR", str(Path(os.environ.get("TMPDIR", "/tmp")) / "memguard-mem0"))  # noqa: S108

from langchain_core.embeddings import Embeddings
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from memguard.bench.suts import vectors

DIMS, COLLECTION = vectors.DIMS, "memories"
_NEW = re.compile(r"## New Messages\n(.*?)\n+## ", re.DOTALL)
_LINE = re.compile(r"^(?:user|assistant): (.+)$", re.MULTILINE)


class Words(Embeddings):
    """Each word on one axis, by its hash."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Vectors of unit length."""
        return vectors.embed(texts)

    def embed_query(self, text: str) -> list[float]:
        """A vector of unit length."""
        return vectors.embed([text])[0]


class Facts(BaseChatModel):
    """Answers Mem0's extraction prompt with every line of the new messages; keeps the prompts that it was asked."""

    prompts: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "facts"

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        asked = str(messages[-1].content)
        self.prompts.append(asked)
        found = _NEW.search(asked)
        facts = [{"text": line} for line in _LINE.findall(found[1])] if found else []
        said = json.dumps({"memory": facts}) if found else f"Steps so far: {len(messages)} messages."
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=said))])


def store_config(provider: str, folder: Path, uri: str | None = None) -> dict[str, Any]:
    """The ``vector_store`` part of a configuration, with its files in ``folder``."""
    settings: dict[str, Any] = {"collection_name": COLLECTION}
    if provider == "qdrant":
        settings |= {"path": str(folder / "qdrant"), "on_disk": True}
    elif provider == "faiss":
        settings |= {"path": str(folder / "faiss")}
    elif provider == "chroma":
        settings |= {"path": str(folder / "chroma")}
    else:
        settings |= {"connection_string": uri, "minconn": 1, "maxconn": 4}
    if provider != "chroma":
        settings["embedding_model_dims"] = DIMS
    return {"provider": provider, "config": settings}


def config(provider: str, folder: Path, uri: str | None = None, model: Facts | None = None) -> dict[str, Any]:
    """A configuration for ``Memory.from_config``; the folder is made if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "vector_store": store_config(provider, folder, uri),
        "embedder": {"provider": "langchain", "config": {"model": Words(), "embedding_dims": DIMS}},
        "llm": {"provider": "langchain", "config": {"model": model or Facts()}},
        "history_db_path": str(folder / "history.db"),
    }


def close(memory: Any) -> None:
    """Let go of everything that a Memory opened, so that its files may be copied and edited."""
    memory.close()
    for store in (memory.vector_store, memory._entity_store):
        pool, client = getattr(store, "connection_pool", None), getattr(store, "client", None)
        if pool is not None:
            pool.close()
        if client is None:
            continue
        if hasattr(client, "_system"):  # Chroma keeps one system per folder in its process
            client._system.stop()
            type(client).clear_system_cache()
        elif hasattr(client, "close"):
            client.close()
