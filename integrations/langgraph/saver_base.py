"""What all operations of a guarded checkpointer stand on: the wrapped saver, its undecoded copy, its custody."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Protocol, Self

from langchain_core.runnables import RunnableConfig

from memguard.custody import Custody
from memguard.effects import Call, Operation
from memguard.integrations.langgraph import rows
from memguard.integrations.langgraph.restore import Restoring
from memguard.integrations.langgraph.scan import Scan
from memguard.integrations.langgraph.serde import (
    RawSerde,
)


class Screen(Protocol):
    """The write chain for messages (:class:`~memguard.integrations.langgraph.messages.MessageScreen`)."""

    def known(self, context: str, checkpoint: Any) -> dict[str, Any]:
        """How far each channel of messages is known."""
        ...

    def __call__(
        self, context: str, thread: str, checkpoint: Any, known: Any, mark: Any, before: Any
    ) -> Operation[Any]:
        """Screen what is new."""
        ...

    def admit(self, thread: str, value: Any) -> Operation[None]:
        """Screen an input or a task's write before it is stored."""
        ...


class SaverBase:
    """One guarded saver.

    Args:
        inner: the wrapped saver.
        strict: refuse to store a value whose type would not come back.
        custody: its integrity; set by the adapter's ``guard``.
        scan: how rows are read without decoding, for the wrapped type.
        screen: the engine's write chain for new messages; returns the label to bind, or None.
    """

    def __init__(
        self, inner: Any, scan: Scan, *, layout: str, is_async: bool, inline: bool, special: str, strict: bool
    ) -> None:
        self.layout, self.is_async, self.inline = layout, is_async, inline
        self._special, self.strict = special, strict
        self._one_piece = False
        self._scan = scan
        self.custody: Custody
        self.screen: Screen | None = None
        self._bind(inner)

    def _bind(self, inner: Any) -> None:
        self._inner, self._serde = inner, inner.serde
        #: The wrapped saver with a serializer that hands bytes through. It shares everything else.
        self._raw = copy.copy(inner)
        self._raw.serde = RawSerde(inner.serde)
        self._restoring = Restoring(inner.serde, refuse=self.strict)
        self._scan.bind(self._raw)
        self._proved: dict[tuple[str, bytes], tuple[bytes | None, rows.Shown]] = {}

    def with_serde(self, inner: Any) -> Self:
        """The same operations over a clone of the saver with another serializer."""
        clone = copy.copy(self)
        clone._scan = copy.copy(self._scan)
        clone._bind(inner)
        return clone

    def _config(self, config: RunnableConfig) -> RunnableConfig:
        """The config with its thread id as text, as graphs make it: a context id is text.

        The SQLite savers do so themselves.
        """
        thread = config["configurable"]["thread_id"]
        if self.layout == "whole" or isinstance(thread, str):
            return config
        return {**config, "configurable": {**config["configurable"], "thread_id": str(thread)}}

    def _method(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._raw, f"a{name}" if self.is_async else name)
        return method

    def _change(self, name: str, *args: Any, **options: Any) -> Operation[Any]:
        """Call a method of the saver that writes.

        What it leaves uncommitted when it fails is rolled back: a scan over the same connection would
        take it for stored, and a crash would then take it from a head that counts it.
        """
        try:
            return (yield Call(self._method(name), *args, **options))
        except GeneratorExit:
            raise
        except BaseException:
            yield Call(self._scan.abandon)
            raise


def place_of(config: RunnableConfig) -> tuple[str, str]:
    """Thread and checkpoint namespace of a config."""
    configurable = config["configurable"]
    thread, namespace = str(configurable["thread_id"]), configurable.get("checkpoint_ns", "") or ""
    return rows.spelled(thread, "a thread id"), rows.spelled(namespace, "a checkpoint namespace")
