"""Systems under test: memory subsystems that the benches start, write to, stop and read back."""
