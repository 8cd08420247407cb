"""all-MiniLM-L6-v2 in int8 as an embedder, behind the extra ``[minilm]``."""
