"""Embedders: texts to vectors, for ranking, near-duplicates and drift. By name, through the registry.

``hashing`` is part of the core and needs nothing; ``minilm`` is a small model behind the extra ``[minilm]``.
None of them fetches anything: what is not installed is an error that says what to install.
"""

#: Name to where its class is; each is made by ``open()`` and fulfils :class:`memguard.ports.Embedder`.
NAMES: dict[str, str] = {
    "hashing": "memguard.embedders.hashing:Hashing",
    "minilm": "memguard.integrations.minilm.embedder:MiniLM",
}
