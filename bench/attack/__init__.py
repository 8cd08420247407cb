"""Attacks on guarded memories, and what content alone can tell."""
