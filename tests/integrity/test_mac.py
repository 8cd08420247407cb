"""The MAC over copied hash states is HMAC-SHA256, byte for byte."""

from __future__ import annotations

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memguard.integrity.mac import Mac


@given(st.binary(max_size=64), st.binary(max_size=150), st.binary(max_size=300))
def test_it_is_hmac_sha256(key: bytes, prefix: bytes, message: bytes) -> None:
    mac = Mac(key, prefix)
    expected = hmac.digest(key, prefix + message, "sha256")
    assert mac.digest(message) == expected
    assert mac.digest(b"another") == hmac.digest(key, prefix + b"another", "sha256")
    assert mac.digest(message) == expected  # one message leaves nothing behind for the next


@pytest.mark.parametrize(
    ("key", "message", "expected"),
    [  # RFC 4231, test cases 1 to 3
        (b"\x0b" * 20, b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (b"\xaa" * 20, b"\xdd" * 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
    ],
)
def test_published_vectors(key: bytes, message: bytes, expected: str) -> None:
    assert Mac(key).digest(message).hex() == expected
    assert Mac(key, message[:5]).digest(message[5:]).hex() == expected


def test_a_long_key_is_refused() -> None:
    with pytest.raises(ValueError, match="64"):
        Mac(bytes(65))
