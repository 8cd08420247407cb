"""Subkeys, signatures, the environment and memory rings, the scheme table."""

from __future__ import annotations

import hmac
import json
import os
import sys
from base64 import urlsafe_b64encode
from hashlib import sha512
from pathlib import Path
from types import SimpleNamespace

import nacl.bindings
import nacl.exceptions
import nacl.signing
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memguard import keys
from memguard.errors import ConfigError, UnknownKeyError
from memguard.keys import SCHEMES, open_keys, register, verify_signature
from memguard.keys.env import EnvKeyRing
from memguard.keys.ring import derive
from memguard.ports import KeyRing
from memguard.testing.keys import MemoryKeyRing

SECRET = bytes(range(32))
#: Order of the group; S + L is the same signature with another spelling.
L = 2**252 + 27742317777372353535851937790883648493


def hkdf(secret: bytes, info: bytes) -> bytes:
    """RFC 5869 with SHA-256, no salt, 32 bytes, by hand."""
    return hmac.digest(hmac.digest(bytes(32), secret, "sha256"), info + b"\x01", "sha256")


@given(st.binary(min_size=32, max_size=64), st.sampled_from(["row", "sign", "head", "a.b/c_d-e", "x" * 64]))
def test_subkeys_are_hkdf_of_the_purpose(secret: bytes, purpose: str) -> None:
    assert derive(secret, purpose) == hkdf(secret, b"memguard/1/" + purpose.encode())


def test_every_purpose_and_key_has_its_own_subkey() -> None:
    ring = MemoryKeyRing("a1", secret=SECRET)
    ring.rotate("a2")
    found = {
        ring.subkey(p, kid) for p in ("row", "accumulator", "anchor", "sign", "chain") for kid in ring.ids
    }
    assert len(found) == 10
    assert ring.subkey("row") is ring.subkey("row"), "cached"
    for bad in ("", "UP", "a b", "ä", "x" * 65, "/x"):
        with pytest.raises(ConfigError, match="purpose"):
            ring.subkey(bad)


def test_signatures_verify_and_nothing_else_does() -> None:
    ring, other = MemoryKeyRing(), MemoryKeyRing("other")
    signature = ring.sign(b"message")
    assert len(signature) == 64
    assert len(ring.public_key()) == 32
    assert ring.verify(b"message", signature, ring.current)
    assert verify_signature(ring.public_key(), b"message", signature)
    assert not ring.verify(b"Message", signature, ring.current)
    assert not other.verify(b"message", signature, "other")
    for wrong in (b"", signature[:-1], signature + b"\0", bytes(64), b"\xff" * 64):
        assert not ring.verify(b"message", wrong, ring.current)
    for bit in range(0, 512, 7):
        flipped = bytearray(signature)
        flipped[bit // 8] ^= 1 << bit % 8
        assert not ring.verify(b"message", bytes(flipped), ring.current)
    with pytest.raises(UnknownKeyError):
        ring.verify(b"message", signature, "other")
    with pytest.raises(UnknownKeyError):
        ring.public_key("other")


def test_a_second_spelling_of_a_signature_is_refused() -> None:
    ring = MemoryKeyRing(secret=SECRET)
    signature = ring.sign(b"m")
    s = int.from_bytes(signature[32:], "little")
    for factor in range(1, 15):
        again = s + factor * L
        if again < 2**256:
            assert not ring.verify(b"m", signature[:32] + again.to_bytes(32, "little"), ring.current)


SMALL_ORDER = [  # the points whose order divides eight, and their second spellings
    "0100000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0100000000000000000000000000000000000000000000000000000000000080",
]


@pytest.mark.parametrize("encoded", SMALL_ORDER)
def test_small_order_keys_sign_nothing(encoded: str) -> None:
    """Under a small-order key, R = the same point and S = 0 would hold for many messages."""
    key = bytes.fromhex(encoded)
    for message in (b"", b"m", b"any message at all"):
        for r in map(bytes.fromhex, SMALL_ORDER):
            assert not verify_signature(key, message, r + bytes(32))


def test_a_key_outside_the_prime_order_group_is_refused() -> None:
    """A + a point of order eight: libsodium alone accepts one of eight signatures under such a key."""
    digest = bytearray(sha512(SECRET).digest()[:32])
    digest[0] &= 248
    digest[31] = digest[31] & 63 | 64
    scalar = int.from_bytes(digest, "little")
    public = nacl.signing.SigningKey(SECRET).verify_key
    mixed = nacl.bindings.crypto_core_ed25519_add(bytes(public), bytes.fromhex(SMALL_ORDER[4]))
    accepted_alone = 0
    for number in range(64):
        message, r = b"%d" % number, number + 12345
        point = nacl.bindings.crypto_scalarmult_ed25519_base_noclamp(r.to_bytes(32, "little"))
        h = int.from_bytes(sha512(point + mixed + message).digest(), "little") % L
        signature = point + ((r + h * scalar) % L).to_bytes(32, "little")
        assert not verify_signature(mixed, message, signature)
        try:
            nacl.signing.VerifyKey(mixed).verify(message, signature)
            accepted_alone += 1
        except nacl.exceptions.BadSignatureError:
            pass
    assert 0 < accepted_alone < 32, "the construction is the one that needs the check"


def test_wrong_lengths_and_off_curve_keys_are_false_not_errors() -> None:
    signature = MemoryKeyRing(secret=SECRET).sign(b"m")
    for key in (b"", bytes(31), bytes(33), b"\x02" + bytes(31), b"\xff" * 32):
        assert verify_signature(key, b"m", signature) is False


def test_published_edge_cases() -> None:
    """C2SP's collection: only the one case without any oddity is accepted."""
    path = Path(os.environ.get("MEMGUARD_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))
    path = path / "vectors" / "ed25519_edge_cases.json"
    if not path.exists():
        pytest.skip(
            "not run: vectors/ed25519_edge_cases.json is absent (set MEMGUARD_TEST_DATA to its folder)"
        )
    cases = json.loads(path.read_text())
    assert len(cases) > 900
    for case in cases:
        verdict = verify_signature(
            bytes.fromhex(case["key"]), case["msg"].encode(), bytes.fromhex(case["sig"])
        )
        assert verdict == (not case["flags"]), case["number"]


def b64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode()


class TestEnvironment:
    def test_a_bare_secret(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for spelled in (b64(SECRET), b64(SECRET).rstrip("="), f"  {b64(SECRET)}\n"):
            monkeypatch.setenv("AGENT_KEY", spelled)
            ring = open_keys("env:AGENT_KEY")
            assert ring.subkey("row") == hkdf(SECRET, b"memguard/1/row")
            assert ring.current == "env-" + hkdf(SECRET, b"memguard/1/key-id")[:4].hex()
            assert ring.ids == (ring.current,)
            assert b64(SECRET)[:10] not in repr(ring)

    def test_another_secret_is_an_unknown_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """V34 and V47: the wrong key is told from tampering and from an empty history."""
        monkeypatch.setenv("AGENT_KEY", b64(SECRET))
        first = open_keys("env:AGENT_KEY")
        monkeypatch.setenv("AGENT_KEY", b64(SECRET[::-1]))
        second = open_keys("env:AGENT_KEY")
        with pytest.raises(UnknownKeyError, match="does not hold"):
            second.subkey("row", first.current)

    def test_a_document(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        made = open_keys(f"file:{tmp_path / 'k.json'}", create=True)
        monkeypatch.setenv("AGENT_KEY", (tmp_path / "k.json").read_text())
        ring = EnvKeyRing.create("AGENT_KEY")
        assert (ring.current, ring.subkey("row")) == (made.current, made.subkey("row"))

    @pytest.mark.parametrize("create", [False, True])
    def test_an_unset_variable_is_an_error(self, monkeypatch: pytest.MonkeyPatch, create: bool) -> None:
        for value in (None, "", "  \n"):
            monkeypatch.delenv("AGENT_KEY", raising=False)
            if value is not None:
                monkeypatch.setenv("AGENT_KEY", value)
            with pytest.raises(ConfigError, match="MG108"):
                open_keys("env:AGENT_KEY", create=create)

    @pytest.mark.parametrize(
        "value",
        [
            "hunter2",
            "correct horse battery staple correct horse battery staple",
            b64(b"preset = balanced; anchor = file:x"),
            "A" * 43,
            b64(SECRET[:31]),
            b64(b"ab" * 16),
            "0" * 64,
        ],
    )
    def test_a_configuration_text_is_no_key(self, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
        """V45: nothing that could be guessed from a configuration becomes a MAC key."""
        monkeypatch.setenv("AGENT_KEY", value)
        with pytest.raises(ConfigError, match="MG109") as caught:
            open_keys("env:AGENT_KEY")
        assert value not in str(caught.value)


@pytest.mark.parametrize(
    "uri", ["", "hunter2", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "text:hunter2", "x:y"]
)
def test_a_uri_is_never_a_key_and_is_not_printed(uri: str) -> None:
    """V45, again: a secret pasted in the place of a URI is refused and does not reach the log."""
    for create in (False, True):
        with pytest.raises(ConfigError) as caught:
            open_keys(uri, create=create)
        assert not uri or uri not in str(caught.value)
        assert "file:…" in str(caught.value)


def test_memory_rings_by_name_live_as_long_as_the_process() -> None:
    ring = open_keys("memory:rings-test", create=True)
    assert open_keys("memory:rings-test") is ring
    assert open_keys("memory:rings-test", create=True) is ring
    one, two = open_keys("memory:", create=True), open_keys("memory:", create=True)
    assert one.subkey("row") != two.subkey("row")
    for uri in ("memory:", "memory:nobody"):
        with pytest.raises(ConfigError, match="die with their process"):
            open_keys(uri)


def test_memory_rings_rotate_and_destroy_like_files() -> None:
    ring = MemoryKeyRing("k-1", secret=SECRET)
    row = ring.subkey("row")
    ring.rotate("k-2")
    assert ring.subkey("row", "k-1") == row != ring.subkey("row")
    waiting = ring.new()
    ring.retire(waiting)
    assert ring.states == {"k-1": "retired", "k-2": "active", waiting: "retired"}
    ring.destroy("k-1")
    with pytest.raises(UnknownKeyError, match="destroyed"):
        ring.subkey("row", "k-1")
    copy = MemoryKeyRing.of({"k-1": SECRET, "k-2": SECRET[::-1]}, "k-2")
    assert (copy.current, copy.ids, copy.subkey("row", "k-1")) == ("k-2", ("k-1", "k-2"), row)


def test_ids_of_a_month_go_on_after_z() -> None:
    ring = MemoryKeyRing()
    names = [ring.current, *(ring.new() for _ in range(29))]
    assert [name[8:].split("-")[0] for name in names] == [
        *"abcdefghijklmnopqrstuvwxyz",
        "aa",
        "ab",
        "ac",
        "ad",
    ]


def test_the_table_names_classes_that_exist_and_keep_the_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TABLE_KEY", b64(SECRET))
    assert set(SCHEMES) == {"file", "env", "memory"}
    rests = {"file": str(tmp_path / "k.json"), "env": "TABLE_KEY", "memory": "table"}
    for scheme in SCHEMES:
        ring = open_keys(f"{scheme}:{rests[scheme]}", create=True)
        assert isinstance(ring, KeyRing)
        assert ring.uri == f"{scheme}:{rests[scheme]}"
        assert type(ring).__doc__


def test_a_plug_in_adds_a_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "SCHEMES", dict(SCHEMES))
    monkeypatch.setitem(sys.modules, "a_kms", SimpleNamespace(Ring=MemoryKeyRing))
    register("kms", "a_kms:Ring")
    assert open_keys("kms:", create=True).ids
    with pytest.raises(ConfigError, match="already"):
        register("env", "a_kms:Ring")
    for scheme, target in (("", "a:B"), ("Up", "a:B"), ("ok", "no-class")):
        with pytest.raises(ConfigError):
            register(scheme, target)
    register("gone", "no_such_module_here:Ring")
    with pytest.raises(ConfigError, match="cannot be imported"):
        open_keys("gone:")
