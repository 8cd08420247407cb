"""What `memguard conformance init` writes."""
