"""Memory folders: Markdown files that an agent writes by commands, guarded file by file."""

from memguard.integrations.folder.folder import MemoryFolder

__all__ = ["MemoryFolder"]
