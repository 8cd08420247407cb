"""Adapters: one folder per framework, translation only."""
