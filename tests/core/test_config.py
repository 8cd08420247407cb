"""Configuration: presets, precedence, places in messages, the writer, the seal."""

from __future__ import annotations

import datetime
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from memguard.config import (
    ENVIRONMENT,
    PRESETS,
    SOURCES,
    Config,
    discover,
    json_schema,
    load,
    preset,
    seal,
    unseal,
    user_file,
    write_toml,
)
from memguard.errors import ConfigError, TamperedError
from memguard.record import KINDS, Trust
from memguard.tomlfile import dump, line_of

# The table of DESIGN.md. "report, may lower trust" and "enforce order and labels, report withholding" are
# both the mode "flag": act up to a flag, report the rest.
TABLE = {
    "integrity.mode": ("off", "report", "enforce", "enforce"),
    "write.sanitizer": ("off", "observe", "enforce", "enforce"),
    "write.provenance": ("off", "observe", "enforce", "enforce"),
    "write.scope": ("off", "observe", "enforce", "enforce"),
    "read.scope": ("off", "observe", "enforce", "enforce"),
    "read.provenance": ("off", "observe", "enforce", "enforce"),
    "read.validity": ("off", "observe", "enforce", "enforce"),
    "act.constraints": ("off", "observe", "enforce", "enforce"),
    "write.anomaly": ("off", "observe", "flag", "enforce"),
    "read.reranker": ("off", "observe", "flag", "enforce"),
    "read.purpose": ("off", "observe", "enforce", "enforce"),
}


def at(config: Config, path: str) -> Any:
    value: Any = config
    for step in path.split("."):
        value = value[step] if isinstance(value, dict) else getattr(value, step)
    return value


@pytest.mark.parametrize("path", TABLE)
def test_presets_say_what_the_design_says(path: str) -> None:
    names = ("off", "observe", "balanced", "strict")
    assert tuple(at(preset(name), path) for name in names) == TABLE[path]


def test_the_table_covers_every_mode_and_no_preset_is_weaker_than_its_name() -> None:
    config = Config()
    modes = {
        f"{table}.{name}" for table in ("write", "read", "act") for name in getattr(config, table).modes()
    }
    assert modes == {p for p in TABLE if p not in ("integrity.mode", "read.purpose")}
    assert Config() == preset("balanced")
    assert set(PRESETS) == {"off", "observe", "balanced", "strict"}
    assert [preset(name).policy.fail_mode for name in PRESETS] == [
        "quarantine",
        "open",
        "quarantine",
        "closed",
    ]
    assert preset("observe").integrity.sync == "strict"


def test_words_are_those_of_the_values() -> None:
    assert {pattern.partition(":")[0] for pattern in SOURCES} == set(KINDS)
    assert set(SOURCES.values()) == set(Trust)
    assert Trust(Config().policy.act_level) is Trust.USER


def test_every_option_has_bounds_or_words_and_limits_are_described() -> None:
    schema = json_schema()
    assert schema["additionalProperties"] is False
    for name in ("Limits", "Integrity"):
        for option, value in schema["$defs"][name]["properties"].items():
            assert "description" in value, option
            assert {"minimum", "enum"} & set(value), option


def write(folder: Path, text: str) -> Path:
    file = folder / "memguard.toml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ('[read]\n\nreranker = "quarantin"\n', 3, 'Did you mean "quarantine"?'),
        ('[read]\nreranker = "block"\n', 2, "off, observe, enforce, flag, rewrite, quarantine, reject"),
        ('preset = "strict"\n[read]\nrerankr = "off"\n', 3, 'Did you mean "reranker"?'),
        ('presett = "strict"\n', 1, 'Did you mean "preset"?'),
        ('preset = "stricter"\n', 1, 'Did you mean "strict"?'),
        ('[stores.a]\nkind = "x"\nuri = "y"\nkeys = "z"\n', 4, "Use one of kind, scope, uri."),
        ('[stores.a]\nkind = "x"\n', 1, "stores.a.uri is missing"),
        ("[guards.limits]\nmax_chars = 1\n", 2, "greater than or equal to 100"),
        ('[guards.limits]\n# note\nmax_chars = "many"\n', 3, "valid integer"),
        ("[integrity]\nlag_ops = true\n", 2, "valid integer"),
        ('[sources]\n"webb:*" = "user"\n', 1, "is not a kind of source"),
        ('[sources]\n"web:*" = "everyone"\n', 2, "Use one of untrusted, unknown, tool, user, system."),
        ('[policy.fail_modes]\nsanitizer = "shut"\n', 2, "closed, quarantine, open"),
        ("schema = 2\n", 1, "schema = '2'"),
        ('[log]\ncontent = "ful"\n', 2, 'Did you mean "full"?'),
    ],
)
def test_a_typo_names_its_place_and_the_nearest_word(
    tmp_path: Path, text: str, place: int, said: str
) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, environ={})
    assert caught.value.code == "MG104"
    assert caught.value.where == f"{file}:{place}"
    assert said in str(caught.value)
    assert "Nothing was guarded" in str(caught.value)


def test_a_key_pasted_into_the_wrong_place_is_not_repeated(tmp_path: Path) -> None:
    for text in ('keys = ["c2VjcmV0"]\n', 'keys = "\\u0000c2VjcmV0"\n', '[integrity]\nlag_ms = "c2VjcmV0"\n'):
        write(tmp_path, text)
        with pytest.raises(ConfigError) as caught:
            load(tmp_path, environ={})
        assert "c2VjcmV0" not in str(caught.value)


@pytest.mark.parametrize("content", [b"[read", b"\xff\xfe", b"a = 1\na = 2\n"])
def test_what_is_no_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "memguard.toml").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, environ={})
    assert caught.value.code == "MG102"


def test_a_named_place_that_is_not_there_is_an_error_and_nothing_is_not(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "absent", environ={})
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path, environ={})
    with pytest.raises(ConfigError, match="cannot be read"):
        load(environ={"MEMGUARD_CONFIG": str(tmp_path / "nope.toml")}, cwd=tmp_path)


def test_precedence_from_keyword_to_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    user = user_file("linux")
    user.parent.mkdir(parents=True)
    user.write_text(
        'preset = "strict"\nanchor = "file:user"\n[log]\ncontent = "hash"\n[integrity]\nlag_ops = 2\n'
    )
    (tmp_path / "pyproject.toml").write_text(
        '[tool.memguard]\nanchor = "file:pyproject"\n[tool.memguard.integrity]\nlag_ops = 3\nlag_ms = 3\n'
    )
    write(
        tmp_path,
        'anchor = "file:toml"\n[integrity]\nlag_ms = 4\n[write]\nsanitizer = "flag"\nanomaly = "off"\n',
    )
    env = {"MEMGUARD_ANCHOR": "file:env", "MEMGUARD_KEY_FILE": "/k.json"}
    loaded = load(environ=env, cwd=tmp_path, keywords={"write": {"sanitizer": "off"}})
    config, origins = loaded.config, loaded.origins
    assert config.preset == "strict"
    assert (config.anchor, origins["anchor"]) == ("file:env", "env MEMGUARD_ANCHOR")
    assert (config.keys, origins["keys"]) == ("file:/k.json", "env MEMGUARD_KEY_FILE")
    assert (config.write.sanitizer, origins["write.sanitizer"]) == ("off", "keyword")
    toml = tmp_path / "memguard.toml"
    assert (config.write.anomaly, origins["write.anomaly"]) == ("off", f"{toml}:6")
    assert (config.integrity.lag_ms, origins["integrity.lag_ms"]) == (4, f"{toml}:3")
    assert (config.integrity.lag_ops, origins["integrity.lag_ops"]) == (3, "pyproject.toml:4")
    assert (config.log.content, origins["log.content"]) == ("hash", f"{user}:4")
    assert (config.policy.fail_mode, origins["policy.fail_mode"]) == ("closed", "preset strict")
    assert (loaded.file, loaded.home) == (toml, tmp_path)
    # A home means the same wherever the program is started: its file, the environment, keywords.
    alone = load(tmp_path, environ={}, cwd=Path("/"))
    assert (alone.config.preset, alone.config.integrity.lag_ops) == ("balanced", 16)


def test_every_value_has_an_origin(tmp_path: Path) -> None:
    write(tmp_path, '[sources]\n"web:https://a.example" = "tool"\n')
    loaded = load(tmp_path, environ={})

    def leaves(value: Any, path: str = "") -> list[str]:
        if isinstance(value, dict) and value:
            return [
                leaf for key, inner in value.items() for leaf in leaves(inner, f"{path}.{key}".strip("."))
            ]
        return [] if isinstance(value, dict) else [path]

    assert set(leaves(loaded.config.plain())) <= set(loaded.origins)
    assert loaded.config.sources["web:https://a.example"] == "tool"
    assert loaded.config.sources["web:*"] == "untrusted"


@pytest.mark.parametrize("mode", ["off", "observe", "enforce"])
def test_the_mode_of_one_run_outweighs_the_file(tmp_path: Path, mode: str) -> None:
    write(tmp_path, 'preset = "observe"\n[write]\nsanitizer = "flag"\n[read]\nmax_withheld_ratio = 0.5\n')
    config = load(tmp_path, environ={"MEMGUARD_MODE": mode}).config
    assert config.write.sanitizer == mode
    assert config.integrity.mode == {"off": "off", "observe": "report", "enforce": "enforce"}[mode]
    assert config.read.max_withheld_ratio == 0.5


@pytest.mark.parametrize("env", [{"MEMGUARD_MODE": "on"}, {"MEMGUARD_ANCHR": "x"}, {"MEMGUARD_KEYFILE": "x"}])
def test_a_slip_in_the_environment_is_refused(env: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        load(environ=env, cwd=tmp_path)


def test_other_variables_are_left_alone(tmp_path: Path) -> None:
    env = {"MEMGUARD_RUN_17": "x", "MEMGUARD_LOG": "debug", "PATH": "y"}
    assert load(environ=env, cwd=tmp_path).origins["preset"].startswith("preset")
    assert all(name.startswith("MEMGUARD_") for name in ENVIRONMENT)


def test_state_alone_names_the_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    write(home, 'preset = "strict"\n')
    loaded = load(environ={"MEMGUARD_STATE": str(home)}, cwd=tmp_path)
    assert (loaded.home, loaded.config.preset) == (home, "strict")
    (tmp_path / ".memguard").mkdir()
    hidden = write(tmp_path / ".memguard", 'preset = "observe"\n')
    assert discover(tmp_path)[0] == hidden
    assert load(environ={}, cwd=tmp_path).home == hidden.parent


places = st.sampled_from(["namespace.0", "namespace.12", "thread", "thread.1", "metadata.user_id"])
words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)
names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,10}", fullmatch=True)
modes = st.sampled_from(["off", "observe", "enforce", "flag", "rewrite", "quarantine", "reject"])
settings = st.fixed_dictionaries(
    {},
    optional={
        "preset": st.sampled_from(list(PRESETS)),
        "keys": words,
        "anchor": words,
        "integrity": st.fixed_dictionaries(
            {},
            optional={
                "lag_ops": st.integers(1, 99),
                "scrub_seconds": st.floats(0, 1e9),
                "forks": st.just("refuse"),
            },
        ),
        "write": st.dictionaries(st.sampled_from(["sanitizer", "provenance", "scope", "anomaly"]), modes),
        "read": st.fixed_dictionaries(
            {}, optional={"reranker": modes, "max_withheld_ratio": st.floats(0, 1)}
        ),
        "policy": st.fixed_dictionaries(
            {},
            optional={"fail_modes": st.dictionaries(names, st.sampled_from(["open", "closed"]), max_size=2)},
        ),
        "stores": st.dictionaries(
            names,
            st.fixed_dictionaries(
                {"kind": names, "uri": words},
                optional={"scope": st.dictionaries(st.sampled_from(["tenant", "user"]), places)},
            ),
            max_size=2,
        ),
        "observe": st.fixed_dictionaries({}, optional={"expires": st.dates()}),
        "sources": st.dictionaries(
            words.map(lambda w: f"web:{w}"), st.sampled_from([str(t) for t in Trust]), max_size=2
        ),
    },
)


@given(settings)
def test_what_is_written_reads_back_equal(values: dict[str, Any]) -> None:
    config = preset(values.get("preset", "balanced"), values)
    text = write_toml(config)
    again = preset(config.preset, tomllib.loads(text))
    assert again == config
    assert again.digest() == config.digest()
    assert Config.model_validate(config.plain()) == config


def test_only_what_differs_from_the_preset_is_written() -> None:
    assert tomllib.loads(write_toml(preset("strict"))) == {"schema": 1, "preset": "strict"}


@pytest.mark.parametrize(
    "text", ['say "hi"\\', "tab\tline\nend", "\x7f\x1b", "é 漢 🙂", "", "# no comment", "[x]"]
)
def test_the_writer_escapes_what_toml_escapes(text: str) -> None:
    values = {"a": text, "t": {text or "k": {"x": [text, True, 1, 0.5, datetime.date(2027, 1, 2)]}}}
    assert tomllib.loads(dump(values)) == values


def test_lines_are_found_through_tables_dots_quotes_and_comments() -> None:
    text = "# a = 1\na = 1\n[t.\"x.y\"]\n  b = 2 # c\n[t.z]\nq.r = 1\n's' = 2\n"
    assert line_of(text, ("a",)) == 2
    assert line_of(text, ("t", "x.y", "b")) == 4
    assert line_of(text, ("t", "z", "q", "r")) == 6
    assert line_of(text, ("t", "z", "s")) == 7
    assert line_of(text, ("t", "z", "nothing")) == 5
    assert line_of(text, ("nothing",)) is None


def test_the_digest_tells_configurations_apart_and_does_not_move() -> None:
    digests = {preset(name).digest() for name in PRESETS} | {
        preset("strict", {"log": {"content": "hash"}}).digest()
    }
    assert len(digests) == 5
    plain = preset("strict").plain()
    assert json.loads(json.dumps(plain)) == plain


def test_everything_is_frozen_and_refuses_extra_keys() -> None:
    def parts(model: type[BaseModel]) -> set[type[BaseModel]]:
        inner = [f.annotation for f in model.model_fields.values()]
        below = [parts(m) for m in inner if isinstance(m, type) and issubclass(m, BaseModel)]
        return {model}.union(*below)

    every = parts(Config)
    assert len(every) > 8
    for model in every:
        assert model.model_config["frozen"]
        assert model.model_config["extra"] == "forbid"


KEY = bytes(range(32))


@given(st.binary(max_size=200))
def test_a_seal_holds_for_its_bytes_and_key(content: bytes) -> None:
    assert unseal(content, seal(content, KEY), KEY) == content
    for forged, signature, key in [
        (content + b" ", seal(content, KEY), KEY),
        (content, seal(content, KEY), bytes(32)),
        (content, seal(content, KEY)[:-2] + b"x\n", KEY),
        (content, b"", KEY),
    ]:
        with pytest.raises(TamperedError) as caught:
            unseal(forged, signature, key)
        assert (caught.value.code, caught.value.case) == ("MG431", "state")


def test_the_form_of_a_seal_does_not_move() -> None:
    # Computed with OpenSSL: HMAC-SHA256 over the format's name, a zero byte and the file.
    mac = b"1beb64e5167a3d52a372fb47dcc268b5333f91a77f9eb568c4dee186d399ce0a"
    assert seal(b'preset = "strict"\n', KEY) == b"memguard-config-seal-1 " + mac + b"\n"
