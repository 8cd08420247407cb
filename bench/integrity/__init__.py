"""The integrity bench: the method of seeds/001 (T1-T9, C1-C3) with a stricter second reading and cases of our own."""
