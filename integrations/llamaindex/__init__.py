"""Chat stores and memories of LlamaIndex, guarded."""
