"""LangGraph: checkpointers and stores."""
