"""Finding, reading and merging configuration, and saying where every value came from.

Strongest first: keyword, environment, ``--config``/``MEMGUARD_CONFIG`` or the given file,
``./memguard.toml`` (then ``./.memguard/memguard.toml``), ``[tool.memguard]`` of
``./pyproject.toml``, the user's file, the preset. Tables are merged key by key; anything else
replaces what a weaker place says. The preset is the strongest one named, ``balanced`` if none is.
``.env`` files are not read.

Given a home folder or a file, only that file is read (plus keyword and environment): a home means
the same in every working directory. Discovery reads every place that exists.

Environment: MEMGUARD_CONFIG, MEMGUARD_STATE (the home folder), MEMGUARD_MODE (off, observe, enforce),
MEMGUARD_ANCHOR, MEMGUARD_KEY (holds a key: the URI becomes ``env:MEMGUARD_KEY``), MEMGUARD_KEY_FILE,
MEMGUARD_LOG and MEMGUARD_OFFLINE (read elsewhere). A name that is one slip away from these is refused.
"""

from __future__ import annotations

import difflib
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from memguard.errors import ConfigError
from memguard.record import did_you_mean
from memguard.settings import (
    PRESETS,
    SOURCES,
    Attested,
    Config,
    Integrity,
    Part,
    Store,
    digest_of,
    json_schema,
)
from memguard.tomlfile import dump, line_of, seal, unseal

__all__ = [
    "PRESETS",
    "SOURCES",
    "Config",
    "Integrity",
    "Loaded",
    "build",
    "digest_of",
    "discover",
    "json_schema",
    "load",
    "preset",
    "seal",
    "unseal",
    "user_file",
    "write_toml",
]

FILE = "memguard.toml"
ENVIRONMENT = (
    "MEMGUARD_CONFIG",
    "MEMGUARD_STATE",
    "MEMGUARD_MODE",
    "MEMGUARD_ANCHOR",
    "MEMGUARD_KEY",
    "MEMGUARD_KEY_FILE",
    "MEMGUARD_LOG",
    "MEMGUARD_OFFLINE",
)


@dataclass(frozen=True, slots=True)
class Layer:
    """One place that says something. ``text`` is the file's text, to find lines in."""

    origin: str
    values: Mapping[str, Any]
    text: str = field(default="", repr=False)
    #: Path of the table within the file, ``("tool", "memguard")`` for pyproject.
    under: tuple[str, ...] = ()
    #: The file's bytes, as they were read: the only ones that a seal may be compared with.
    content: bytes = field(default=b"", repr=False)

    def line(self, path: Sequence[str]) -> int | None:
        """The line of a value, or of the table it belongs in."""
        return line_of(self.text, (*self.under, *path)) if self.text else None

    def place(self, path: Sequence[str]) -> str:
        """``file:line`` of a value, or the layer's name."""
        line = self.line(path)
        return f"{self.origin}:{line}" if line else self.origin


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration with its history."""

    config: Config
    #: Dotted name of every value to the place that set it (``memguard.toml:4``, ``preset balanced``).
    origins: Mapping[str, str]
    #: The strongest file, and the folder of state: the one that holds a memguard.toml, or
    #: MEMGUARD_STATE. None where there is none.
    file: Path | None = None
    home: Path | None = None
    #: The bytes of ``file``.
    content: bytes = field(default=b"", repr=False)


def load(
    target: str | os.PathLike[str] | None = None,
    *,
    keywords: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Loaded:
    """Read a home folder, a file, or (None) what is discovered, and merge it with its surroundings.

    Raises:
        ConfigError: MG102 the named file or home is not there or is no TOML; MG104 a value is wrong.
    """
    env = os.environ if environ is None else environ
    here = Path.cwd() if cwd is None else cwd
    layers = [Layer("keyword", keywords)] if keywords else []
    layers += _environment(env)
    main = target if target is not None else env.get("MEMGUARD_CONFIG") or env.get("MEMGUARD_STATE") or None
    if main is not None:
        path = Path(main).expanduser()
        files = [path / FILE if path.is_dir() else path]
        read = [_read(files[0])]
        layers += read
    else:
        files = discover(here)
        read = [_read(path) for path in files]
        layers += [layer for layer in read if layer.values]
    config, origins = build(layers)
    first = files[0] if files else None
    home = first.parent if first is not None and first.name == FILE else None
    if target is None and env.get("MEMGUARD_STATE"):
        home = Path(env["MEMGUARD_STATE"]).expanduser()
    return Loaded(config, origins, first, home, read[0].content if read else b"")


def discover(cwd: Path) -> list[Path]:
    """The files that exist, strongest first, without a home being named."""
    places = (cwd / FILE, cwd / ".memguard" / FILE, cwd / "pyproject.toml", user_file())
    return [path for path in places if path.is_file()]


def user_file(platform: str = sys.platform, environ: Mapping[str, str] | None = None) -> Path:
    """The user's own configuration file, by the platform's convention."""
    env = os.environ if environ is None else environ
    home = Path.home()
    if platform == "win32":
        base = Path(env.get("APPDATA") or home / "AppData" / "Roaming")
    elif platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        base = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    return base / "memguard" / FILE


def preset(name: str, values: Mapping[str, Any] | None = None) -> Config:
    """A preset with a mapping laid over it, such as ``{"write": {"sanitizer": "off"}}``.

    Raises:
        ConfigError: MG104.
    """
    return build([Layer("keyword", {**(values or {}), "preset": name})])[0]


def build(layers: Sequence[Layer]) -> tuple[Config, dict[str, str]]:
    """Merge layers (strongest first) over their preset; the configuration and where each value is from.

    Raises:
        ConfigError: MG104.
    """
    # Each layer is checked alone first, so that a wrong value is named with its place even where a
    # stronger layer would have hidden it.
    for layer in layers:
        _validated(layer.values, layer, whole=False)
    name = next((layer.values["preset"] for layer in layers if "preset" in layer.values), "balanced")
    base = Layer(f"preset {name}", PRESETS[name])
    merged: dict[str, Any] = {}
    origins = {".".join(path): base.origin for path, _ in _leaves(Config().plain())}
    for layer in (base, *reversed(layers)):
        _merge(merged, layer.values)
        for path, _ in _leaves(layer.values):
            origins[".".join(path)] = layer.place(path)
    return _validated(merged, *layers), origins


def write_toml(config: Config) -> str:
    """The file that says ``config``: its preset and whatever differs from that preset.

    Reading it back gives an equal configuration.
    """
    values = _difference(config.model_dump(by_alias=True), preset(config.preset).model_dump(by_alias=True))
    head = {"schema": config.schema_version, "preset": config.preset}
    return (
        "# memguard. What is not written here is the preset's; `memguard config show` prints every value.\n"
        + dump({**head, **values})
    )


def _difference(values: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    left: dict[str, Any] = {}
    for key, value in values.items():
        other = base.get(key)
        if isinstance(value, Mapping):
            if inner := _difference(value, other if isinstance(other, Mapping) else {}):
                left[key] = inner
        elif key not in base or value != other:
            left[key] = value
    return left


def _merge(into: dict[str, Any], values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, Mapping):
            held = into.get(key)
            inner: dict[str, Any] = dict(held) if isinstance(held, Mapping) else {}
            _merge(inner, value)
            into[key] = inner
        else:
            into[key] = value


def _leaves(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, str(key)))
        else:
            yield (*path, str(key)), value


def _read(path: Path) -> Layer:
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
        values = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(
            "the configuration cannot be read",
            code="MG102",
            where=str(path),
            why=f"{error.strerror}." if error.strerror else None,
            do="memguard init makes one, or give the folder or file that has it.",
        ) from None
    except UnicodeDecodeError:
        raise ConfigError("the configuration is not UTF-8", code="MG102", where=str(path)) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"this is not TOML: {error}", code="MG102", where=str(path)) from None
    if path.name == "pyproject.toml":
        table = values.get("tool", {}).get("memguard", {})
        return Layer(path.name, table if isinstance(table, Mapping) else {}, text, ("tool", "memguard"), data)
    return Layer(str(path), values, text, content=data)


def _environment(env: Mapping[str, str]) -> list[Layer]:
    for name in env:
        if name.startswith("MEMGUARD_") and name not in ENVIRONMENT:
            close = difflib.get_close_matches(name, ENVIRONMENT, n=1, cutoff=0.9)
            if close:
                raise ConfigError(
                    f"{name} is no variable of memguard", code="MG104", do=f"Did you mean {close[0]}?"
                )
    layers = []
    if env.get("MEMGUARD_KEY"):
        layers.append(Layer("env MEMGUARD_KEY", {"keys": "env:MEMGUARD_KEY"}))
    if path := env.get("MEMGUARD_KEY_FILE"):
        layers.append(Layer("env MEMGUARD_KEY_FILE", {"keys": f"file:{path}"}))
    if uri := env.get("MEMGUARD_ANCHOR"):
        layers.append(Layer("env MEMGUARD_ANCHOR", {"anchor": uri}))
    if mode := env.get("MEMGUARD_MODE"):
        over = {"off": "off", "observe": "observe", "enforce": "balanced"}.get(mode)
        if over is None:
            raise ConfigError(
                f"MEMGUARD_MODE={mode[:40]!r} is not a mode",
                code="MG104",
                do=did_you_mean(mode, ("off", "observe", "enforce")),
            )
        # A mode for one run outweighs what files say about single guards, so it is spelt out.
        plain = preset(over).plain()
        values = {table: plain[table] for table in ("write", "read", "act")}
        values["integrity"] = {"mode": plain["integrity"]["mode"]}
        values["read"].pop("max_withheld_ratio")
        layers.append(Layer("env MEMGUARD_MODE", values))
    return layers


def _validated(values: Mapping[str, Any], *layers: Layer, whole: bool = True) -> Config:
    try:
        return Config.model_validate(dict(values))
    except ValidationError as error:
        problems = error.errors(include_url=False)
        if not whole:  # another layer may hold what this one leaves out
            problems = [problem for problem in problems if problem["type"] != "missing"]
        if not problems:
            return Config()
        # The first is enough: the person mends one and runs again.
        raise _explained(problems[0], layers) from None


def _explained(problem: Any, layers: Sequence[Layer]) -> ConfigError:
    path = tuple(str(part) for part in problem["loc"] if part != "[key]")
    name = ".".join(path) or "the configuration"
    kind, given = problem["type"], problem.get("input")
    if kind == "extra_forbidden":
        what, do = f"{name} is not an option", did_you_mean(path[-1], _options(path[:-1]))
    elif kind == "missing":
        what, do = f"{name} is missing", f"Give {name} a value."
    elif kind == "literal_error":
        words = [word.strip("' ") for word in problem["ctx"]["expected"].replace(" or ", ",").split(",")]
        what, do = f"{name} = {str(given)[:40]!r} is not one of its words", _words(given, words)
    else:
        # The value is not repeated: a key pasted into the wrong place must not reach a log.
        # pydantic's sentence names what was expected and does not repeat it either.
        what, do = f"{name} is not usable", problem["msg"].removeprefix("Value error, ") + "."
    # Of several layers, one that has a line for it; a value that is missing everywhere may have none.
    layer = next((layer for layer in layers if layer.line(path)), layers[0] if layers else None)
    where = layer.place(path) if layer else None
    return ConfigError(what, code="MG104", where=where, why="Nothing was guarded.", do=do)


def _words(given: object, words: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(given)[:100], words, n=1)
    return f"Use one of {', '.join(words)}." + (f' Did you mean "{close[0]}"?' if close else "")


def _options(path: Sequence[str]) -> list[str]:
    """Names that exist in the table at ``path``."""
    part: type[Part] = Config
    for step in path:
        if part is Config and step in ("stores", "attested"):
            part = Store if step == "stores" else Attested
            continue
        info = _by_name(part).get(step)
        inner = info.annotation if info else None
        if isinstance(inner, type) and issubclass(inner, Part):
            part = inner
    return list(_by_name(part))


def _by_name(part: type[Part]) -> dict[str, FieldInfo]:
    return {info.alias or name: info for name, info in part.model_fields.items()}
