from __future__ import annotations
def apply(name: str) -> None:
    raise SystemExit(name)
