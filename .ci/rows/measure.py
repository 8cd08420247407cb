"""``make rows``: measure every system of rows.toml with its newest release, and write docs/results/rows.json.

    python .ci/rows/measure.py [--only NAME...] [--upgrade] [--environments DIR] [--out FILE] [--seconds N]

Each row is a process of its own, in an environment of its own, with an empty home, without network (a namespace of
its own where the system grants one), and with a limit of time. A row that cannot be measured says why. ``--only``
measures some rows; the others stay as they are in the file.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import assemble
from environments import Environments, NotInstalled, newest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RESULT = ROOT / "docs" / "results" / "rows.json"


def namespace() -> list[str]:
    """The words before a command that take its network away, if this system grants them."""
    for words in (["unshare", "-n"], ["unshare", "-rn"]):
        with contextlib.suppress(OSError):
            if subprocess.run([*words, "true"], capture_output=True).returncode == 0:
                return words
    return []


@contextlib.contextmanager
def service(about: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """A PostgreSQL of the row's own, over a socket in the file system; what to tell the probe about it."""
    if about.get("service") != "postgres":
        yield {}
        return
    from memguard.bench.suts.postgres_server import PostgresServer

    with PostgresServer() as server:
        server.psql("ALTER USER postgres PASSWORD 'rows'")
        uri = server.database("rows", tcp=False)
        server.psql("CREATE EXTENSION vector", uri.partition("@/")[2].partition("?")[0])
        # A user, a password and a host must stand in it for the client that takes it apart by hand.
        uri = uri.replace("postgres@/", "postgres:rows@localhost/")
        version = server.psql("SHOW server_version").split()[0]
        yield {about["variable"]: uri, "ROWS_SERVICE": f"PostgreSQL {version}"}


def probe(python: Path, about: Mapping[str, Any], seconds: int) -> dict[str, Any]:
    """What the probe answered; ``{"broken": reason}`` if it did not."""
    words = [*namespace(), str(python), str(HERE / "probe.py"), "--paths", str(HERE / "adapters")]
    words += ["--adapter", about["adapter"], "--packages", ",".join(about["packages"])]
    words += ["--redis"] if about.get("service") == "redis" else []
    home = Path(tempfile.mkdtemp(prefix="rows-"))
    try:
        with service(about) as more:
            basic = {"PATH": "/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8"}
            dark = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
            done = subprocess.run(
                words,
                env={**basic, **dark, **more},
                cwd=home,
                capture_output=True,
                text=True,
                timeout=seconds,
            )
        lines = done.stdout.strip().splitlines()
        found: dict[str, Any] = json.loads(lines[-1])
        return {**found, "service": more.get("ROWS_SERVICE", "")}
    except subprocess.TimeoutExpired:
        return {"broken": f"it was stopped after {seconds} s"}
    except (IndexError, ValueError):
        return {"broken": f"the probe ended with status {done.returncode} and no answer"}
    finally:
        shutil.rmtree(home, ignore_errors=True)


def measured(
    name: str, about: Mapping[str, Any], environments: Environments, options: argparse.Namespace
) -> Any:
    """One row of the catalogue."""
    if "adapter" not in about:
        kind = next((k for k in ("pip", "npm") if k in about), "")
        version = newest(kind, about[kind]) if kind else None
        return assemble.unmeasured(name, about, kind, version)
    try:
        python = environments.python(about["environment"])
    except NotInstalled as reason:
        return assemble.unmeasured(name, about, "", None, str(reason))
    return assemble.row(name, about, probe(python, about, options.seconds), environments_harness())


def environments_harness() -> str:
    """The harness and its version, as every row states it."""
    return str(catalogue()["harness"]).replace("==", " ")


def catalogue() -> dict[str, Any]:
    """The parsed catalogue."""
    return tomllib.loads((HERE / "rows.toml").read_text(encoding="utf-8"))


class LettaServer:
    """A Letta server for the rows that need one, started by the first of them; as `make letta` starts it."""

    _SECONDS = 900

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._told: dict[str, str] | None = None

    def told(self) -> dict[str, str]:
        """What to tell a process about it; nothing if it does not start, and the row then says that it is missing."""
        if self._told is None:
            self._told = {} if "MEMGUARD_LETTA_URL" in os.environ else self._start()
        return self._told

    def _start(self) -> dict[str, str]:
        words = [sys.executable, "-P", str(ROOT / ".ci" / "letta"), "--serve"]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        lines: list[str] = []
        output = self._process.stdout
        threading.Thread(target=lambda: lines.extend(output or ()), daemon=True).start()
        limit, seen = time.monotonic() + self._SECONDS, 0
        while time.monotonic() < limit and self._process.poll() is None:
            time.sleep(1)
            if lines and len(lines) == seen:
                break
            seen = len(lines)
        pairs = [
            line.strip().removeprefix("export ").split("=", 1) for line in lines if line.startswith("export ")
        ]
        return {name: value.strip("'") for name, value in pairs}

    def close(self) -> None:
        """End it."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=60)


def mcp_server(environments: Path) -> dict[str, str]:
    """The reference MCP memory server, newest release, from npm; nothing where there is no npm or one is named."""
    folder = environments / "mcp-server"
    file = folder / "node_modules" / "@modelcontextprotocol" / "server-memory" / "dist" / "index.js"
    if "MEMGUARD_MCP_SERVER" in os.environ or shutil.which("npm") is None:
        return {}
    folder.mkdir(parents=True, exist_ok=True)
    words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
    subprocess.run([*words, "@modelcontextprotocol/server-memory@latest"], capture_output=True, timeout=300)
    return {"MEMGUARD_MCP_SERVER": str(file.resolve())} if file.exists() else {}


def own(name: str, seconds: int, letta: LettaServer, environments: Path) -> Any:
    """The row of one of our bench's systems; one with a reason if it cannot be measured here."""
    from memguard import registry

    if name.partition("+")[0] not in registry.suts:
        return assemble.unmeasured(name, {"claim": False}, "", None, "this version has no such system")
    words = [sys.executable, str(HERE / "ours.py"), name]
    try:
        more = letta.told() if name.startswith("letta-") else {}
        more = mcp_server(environments) if name.startswith("mcp-") else more
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=seconds * 3, env={**os.environ, **more}
        )
        answer = json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        answer = {"broken": f"it was stopped after {seconds * 3} s"}
    except (IndexError, ValueError):
        answer = {"broken": f"it ended with status {done.returncode} and no answer"}
    return assemble.own(name, answer)


def systems(plan: Mapping[str, Any]) -> list[str]:
    """Every system of our bench, those of the plan first, each bare and guarded."""
    from memguard import registry

    bases = list(dict.fromkeys([*plan["bench"]["suts"], *registry.suts.names()]))
    return [name for base in bases for name in (base, f"{base}+memguard")]


def main() -> None:
    """Measure; the file is written after every row, so that an interrupted run loses one row."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--only", nargs="*", default=[], metavar="NAME")
    options.add_argument("--upgrade", action="store_true", help="look for newer releases")
    options.add_argument("--environments", type=Path, default=ROOT / ".rows")
    options.add_argument("--out", type=Path, default=RESULT)
    options.add_argument("--seconds", type=int, default=300, help="limit for one row")
    given = options.parse_args()
    plan = catalogue()
    environments = Environments(given.environments, plan, upgrade=given.upgrade)
    tables = {name: {**about, "table": t} for t in ("rows", "features") for name, about in plan[t].items()}
    order = [*tables, *systems(plan)]
    unknown = [name for name in given.only if name not in order]
    if unknown:
        options.error(f"no row is called {', '.join(unknown)}")
    found = {name: row for name, row in assemble.kept(given.out).items() if name in order}
    letta = LettaServer()
    atexit.register(letta.close)
    for name in order:
        if given.only and name not in given.only:
            continue
        about = tables.get(name)
        row = (
            measured(name, about, environments, given)
            if about
            else own(name, given.seconds, letta, given.environments)
        )
        print(f"{name}: {assemble.short(row)}", file=sys.stderr, flush=True)
        found[name] = row
        date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        document = assemble.document([found[n] for n in order if n in found], plan, date)
        given.out.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
