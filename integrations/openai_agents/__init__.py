"""Sessions of the OpenAI Agents SDK, guarded."""
