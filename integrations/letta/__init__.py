"""Letta: the client of an agent server, guarded at its transport."""

from memguard.integrations.letta.changes import Change, MemoryChangedError
from memguard.integrations.letta.client import aaccept_changes, accept_changes, label

__all__ = ["Change", "MemoryChangedError", "aaccept_changes", "accept_changes", "label"]
