"""Bytes and text as SQL writes and answers them."""

from __future__ import annotations


def literal(value: bytes | str) -> str:
    """Bytes or text as SQL writes it. Text must hold no NUL."""
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'::bytea"
    return "'" + value.replace("'", "''") + "'"


def unhex(value: bytes | None) -> bytes:
    """The bytes of a bytea column."""
    return bytes.fromhex((value or b"\\x")[2:].decode("ascii"))
