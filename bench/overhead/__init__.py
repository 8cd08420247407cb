"""``memguard bench overhead``: what the guard costs, bare and guarded interleaved operation by operation in one run."""
