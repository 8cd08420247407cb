"""Which Ed25519 public keys are sound: one encoding, one verdict for each message, whoever checks it."""

from __future__ import annotations

P = 2**255 - 19
#: The y coordinates of the points whose order divides 8 (RFC 7748, section 6; the curve's cofactor is 8).
_SMALL = {
    0,
    1,
    P - 1,
    2707385501144840649318225287225658788936804267575313519463743609750303402022,
    P - 2707385501144840649318225287225658788936804267575313519463743609750303402022,
}


def sound_point(public_key: bytes) -> bool:
    """Whether 32 bytes are the canonical encoding of a point of the prime-order group, and no small-order one."""
    import nacl.bindings
    import nacl.exceptions

    if len(public_key) != 32:
        return False
    y = int.from_bytes(public_key, "little") & ((1 << 255) - 1)
    if y >= P or y in _SMALL:
        return False
    try:
        return nacl.bindings.crypto_core_ed25519_is_valid_point(public_key)
    except nacl.exceptions.UnavailableError:
        return True  # a minimal libsodium: its verification refuses what is left
