"""Where withheld writes are kept."""
