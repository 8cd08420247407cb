"""The adversary: edits of a store at rest, as scripts of generic tools. Nothing here imports a SUT or the guard."""
