"""``memguard mcp-proxy``: an MCP memory server with a guard in front of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memguard.errors import ConfigError

if TYPE_CHECKING:
    from memguard.engine import MemGuard
    from memguard.integrations.mcp.profiles import Profile
    from memguard.integrations.mcp.server import Server

#: Exit code where the server ended or could not be used: nothing can be told of what it keeps.
_CANNOT_TELL = 3
#: Where the reference server is told its file.
_VARIABLE = "MEMORY_FILE_PATH"


@click.command("mcp-proxy", context_settings={"ignore_unknown_options": True})
@click.option(
    "--name",
    metavar="NAME",
    help="The store's name under the home. Default: the only one of its kind, or mcp.",
)
@click.option(
    "--file", "file", metavar="FILE", help="The server's memory file. Default: the variable MEMORY_FILE_PATH."
)
@click.option(
    "--profile",
    type=click.Choice(["auto", "graph", "generic"]),
    default="auto",
    show_default=True,
    help="What is known of the server: graph is the reference memory server.",
)
@click.option(
    "--source",
    default="assistant",
    show_default=True,
    help="Source of what a call writes, where none is declared.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 3600),
    default=30.0,
    show_default=True,
    help="Seconds for an answer.",
)
@click.option(
    "--max-message",
    type=click.IntRange(1024, 1 << 30),
    default=16 << 20,
    show_default=True,
    help="Bytes of a message at most.",
)
@click.option("--home", "own_home", metavar="DIR", help="The guard's home.")
@click.option("--config", "own_config", metavar="FILE", help="A memguard.toml.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
@click.pass_context
def mcp_proxy(
    ctx: click.Context,
    name: str | None,
    file: str | None,
    profile: str,
    source: str,
    timeout: float,
    max_message: int,
    own_home: str | None,
    own_config: str | None,
    command: tuple[str, ...],
) -> None:
    """Guard an MCP memory server over stdio.

    Put it in front of the server's command in the client's configuration: memguard mcp-proxy -- COMMAND ARGS.
    Everything passes unchanged but calls of tools and reads of resources. Of the reference memory server
    every entity, observation and relation is sealed when it is written and proved when it is read. Of any other
    server, arguments are screened and answers quoted, and nothing that it keeps is proved.

    Exit codes: 0 the client ended, 3 the server ended or could not be used, 2 usage or configuration.
    """
    from memguard.engine import MemGuard
    from memguard.integrations.mcp.proxy import Proxy
    from memguard.integrations.mcp.server import Server
    from memguard.record import Source

    Source.parse(source)
    path = _path(file)
    if profile == "graph" and path is None:
        raise _no_file()
    # The root command's flags, where it was called through it.
    above = getattr(ctx.find_root().obj, "target", lambda: None)
    with MemGuard.open(own_config or own_home or above()) as mg:
        secret = [uri.partition(":")[2] for uri in (mg.config.keys,) if uri and uri.startswith("env:")]
        told = {} if path is None else {_VARIABLE: str(path)}  # one file for both
        server = Server(command, seconds=timeout, limit=max_message, secret=secret, extra=told)

        def choose(called: str, tools: list[Mapping[str, Any]]) -> Profile:
            return _chosen(mg, server, profile, path, name, source, called, tools)

        proxy = Proxy(0, 1, server, choose, limit=max_message, tell=_tell)
        error = proxy.serve()
    if error is not None:
        _tell(str(error))
        ctx.exit(_CANNOT_TELL)


def _chosen(
    mg: MemGuard,
    server: Server,
    asked: str,
    path: Path | None,
    name: str | None,
    source: str,
    called: str,
    tools: list[Mapping[str, Any]],
) -> Profile:
    """The profile for a server.

    Raises:
        ConfigError: MG608, it is the reference server and nobody said which file it keeps.
    """
    from memguard.integrations.mcp.profiles import GenericProfile, GraphProfile
    from memguard.integrations.mcp.proxy import is_reference

    if asked == "graph" or (asked == "auto" and is_reference(called, tools)):
        if path is None:
            raise _no_file()
        made = GraphProfile(mg, server, path, name or _only(mg), source)
        _tell(f"{made.name}: every record of {path.name} is sealed and proved.")
        return made
    other = GenericProfile(mg, server, name or "mcp", source)
    _tell(
        f"MG609: {other.name}: this server is not one that memguard knows. What its tools are given is screened and "
        "what they answer is quoted; what it keeps is NOT proved: an edit behind its back goes unnoticed."
    )
    return other


def _only(mg: MemGuard) -> str:
    names = [name for name, store in mg.config.stores.items() if store.kind == "mcp-memory"]
    return names[0] if len(names) == 1 else "mcp"


def _path(file: str | None) -> Path | None:
    found = file or os.environ.get(_VARIABLE)
    if not found:
        return None
    path = Path(found).expanduser()
    if not path.is_absolute():
        if file is None:  # the server takes it from its own folder, which nobody here knows
            raise ConfigError(
                f"{_VARIABLE} is no absolute path.",
                code="MG608",
                where=found,
                do="Write the whole path.",
            )
        path = path.absolute()
    return path


def _no_file() -> ConfigError:
    return ConfigError(
        "nobody said which file the memory server keeps.",
        code="MG608",
        why="Left to itself it takes one inside its own package, and what cannot be seen cannot be proved.",
        do=f"Set {_VARIABLE} to an absolute path, or give --file; --profile generic goes without proof.",
    )


def _tell(text: str) -> None:
    click.echo(f"memguard: {text}", err=True)
