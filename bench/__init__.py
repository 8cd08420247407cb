"""The benches: what it costs to guard a memory, and what that buys. ``memguard bench --help``."""
