"""Write the generated parts of the documentation: help texts, rule codes, settings, the bench's own cases.

A part stands between ``<!-- generated: NAME -->`` and ``<!-- /generated -->``. The tests
compare every part with what the code says now; after a change of the code run

    python tests/docs/refresh.py
"""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

ROOT = Path(__file__).resolve().parents[2]
#: Published results: ``memguard bench integrity --json`` and ``memguard bench overhead --json`` wrote them.
RESULTS = ROOT / "docs" / "results"
PART = re.compile(r"(<!-- generated: ([\w ]+) -->\n).*?(<!-- /generated -->)", re.DOTALL)


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """A command and all below it, in the order of its help."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from commands(below, f"{path} {name}")


def help_of(command: click.Command, path: str) -> str:
    """What ``--help`` prints in a terminal of 100 columns or more (click keeps two of them free)."""
    # A command keeps the help option that its first caller made, and one that was called without its root has
    # only --help: a copy that has none yet prints what the program does, whatever ran in this process before.
    command = copy.copy(command)
    command._help_option = None
    context = click.Context(command, info_name=path, max_content_width=100, terminal_width=98)
    context.help_option_names = ["-h", "--help"]
    return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())


def helps() -> str:
    """One section per command with its help text."""
    from memguard.cli.app import cli

    sections = []
    for path, command in commands(cli, "memguard"):
        level = "##" if path.count(" ") < 2 else "###"
        sections.append(f"{level} {path}\n\n```text\n{help_of(command, path)}\n```\n")
    return "\n" + "\n".join(sections) + "\n"


def codes() -> str:
    """A table of every rule code with its title."""
    from memguard.cli.explain import pages

    rows = [f"| {page.code} | {page.title} |" for page in pages().values() if page.code.startswith("MG")]
    return "\n".join(["| code | title |", "|---|---|", *rows]) + "\n\n"


def own_cases() -> str:
    """A table of the bench's own cases."""
    from memguard.bench.integrity.cases import CASES

    rows = [f"| {c.id} | {c.plain} | {c.passes} |" for c in CASES if c.id.startswith("X")]
    return (
        "\n".join(["| case | what the adversary did | what a refusal shows |", "|---|---|---|", *rows])
        + "\n\n"
    )


def words(annotation: Any) -> str:
    """The values that a field takes, for a table."""
    if get_origin(annotation) is None:
        return {"int": "whole number", "float": "number", "str": "text"}.get(
            getattr(annotation, "__name__", ""), getattr(annotation, "__name__", "")
        )
    inner = [value for value in get_args(annotation) if isinstance(value, str)]
    if inner:
        return ", ".join(inner)
    named = [words(value) for value in get_args(annotation) if value is not type(None)]
    return "table" if "Mapping" in str(get_origin(annotation)) else ", ".join(filter(None, named)) or "text"


def shown(value: Any) -> str:
    """A default as it would be written in TOML."""
    if value is None or value is PydanticUndefined:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,}".replace(",", "_") if isinstance(value, int) else str(value)
    return f'"{value}"' if isinstance(value, str) else "see above"


#: Meanings of settings that have none in the model.
MEANINGS = {
    "preset": "what the rest is laid over",
    "read.purpose": "whether principal(purpose='act') withholds what is below policy.act_level",
    "log.content": "what logs may hold of a memory",
    "stores.NAME.kind": "kind of store, as in memguard config validate",
    "stores.NAME.uri": "where it is, such as sqlite:agent.db",
}
#: Names so common that only `table.name` counts as reading the setting.
COMMON = {"purpose", "content"}


def effect(table: str, name: str, description: str) -> str:
    """The meaning of a setting, and the truth where this version does nothing with it yet.

    A setting counts as used where code outside of the configuration reads an attribute of its name;
    the seat of a guard counts as used where a guard of that name is built in.
    """
    from memguard.registry import guards

    description = description or MEANINGS.get(table + name, "")
    if table + name == "schema":
        return description
    if table in ("write.", "read.", "act.") and name not in ("purpose", "max_withheld_ratio"):
        known = name in guards
        return description or ("mode of this guard" if known else "reserved: this version has no such guard")
    sources = [p for folder in ("memguard", "integrations") for p in (ROOT / folder).rglob("*.py")]
    before = re.escape(table) if name in COMMON else r"\."
    reading = re.compile(rf"{before}{name}\b")
    for path in sources:
        if path.name not in ("settings.py", "config.py") and reading.search(path.read_text(encoding="utf-8")):
            return description
    return f"{description}; reserved: no effect in this version".lstrip("; ")


def fields(model: type[BaseModel], path: str) -> Iterator[str]:
    """One row per setting of a model and of the tables in it."""
    for name, field in model.model_fields.items():
        key = f"{path}{field.alias or name}"
        annotation: Any = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from fields(annotation, f"{key}.")
            continue
        default = field.get_default(call_default_factory=True, validated_data={})
        default_text = "-" if default == {} else shown(default)
        meaning = effect(path, field.alias or name, field.description or "")
        yield f"| `{key}` | {words(annotation)} | {default_text} | {meaning} |"


def settings() -> str:
    """A table of every setting with its values, default and meaning."""
    from memguard.settings import Attested, Config, Store

    rows = [row for row in fields(Config, "") if not row.startswith("| `stores`")]
    rows += fields(Store, "stores.NAME.")
    rows += fields(Attested, "attested.SOURCE.")
    return (
        "\n".join(["| setting | values | default (balanced) | meaning |", "|---|---|---|---|", *rows])
        + "\n\n"
    )


def result(bench: str) -> dict[str, Any]:
    """A published result."""
    document: dict[str, Any] = json.loads((RESULTS / f"{bench}.json").read_text(encoding="utf-8"))
    return document


#: Suffix of a guarded system's name -> the words over its column.
COLUMNS = {
    None: "bare",
    "": "guarded",
    "@anchor-held": "guarded, adversary also holds the anchor",
    ":head-beside": "head beside the store",
    ":chain": "tags and chain",
    ":tag": "tags only",
}
BASES = {
    "langgraph-sqlite-saver": "SqliteSaver",
    "langgraph-async-sqlite-saver": "AsyncSqliteSaver",
    "langgraph-sqlite-store": "SqliteStore",
}


def measured(document: dict[str, Any]) -> str:
    """One sentence on what was measured when, with what."""
    versions: dict[str, str] = {}
    for row in document["rows"]:
        versions.update(row.get("versions") or {})
    named = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    environment = document["environment"]
    where = f"Python {environment['python']}, {environment['system']}"
    return f"Measured {document['date'][:10]} ({', '.join(filter(None, [named, where]))})."


def read_rows(
    document: dict[str, Any], suffixes: tuple[str | None, ...], bases: tuple[str, ...]
) -> list[tuple[str, dict[str, Any]]]:
    """The read-path rows of some systems, each with the words over its column."""
    found = []
    for base, shown_as in BASES.items():
        if base not in bases:
            continue
        for suffix in suffixes:
            name = base if suffix is None else f"{base}+memguard{suffix}"
            for row in document["rows"]:
                if row["sut"] == name and row["detection_point"] == "read" and row["stopped"]:
                    found.append((f"{shown_as}, {COLUMNS[suffix]}", row))
    return found


SAVER, ASYNC, STORE = BASES


def verdict_table(suffixes: tuple[str | None, ...], bases: tuple[str, ...], *, own: bool = False) -> str:
    """Verdicts of the strict reading, one line per edit, then how many of our own were served, and the level."""
    document = result("integrity")
    columns = read_rows(document, suffixes, bases)
    if not columns:
        return "Not measured yet.\n\n"
    lines = [
        "| what the adversary did | " + " | ".join(words for words, _ in columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    for case, about in document["cases"].items():
        verdicts = [row["cells"][case]["strict_verdict"] for _, row in columns]
        if (case.startswith("X") and not own) or all(verdict == "N/A" for verdict in verdicts):
            continue
        lines.append(f"| {case}: {about['edit']} | " + " | ".join(verdicts) + " |")
    counts = []
    for _, row in columns:
        rest = [
            c["strict_verdict"]
            for k, c in row["cells"].items()
            if k.startswith("X") and c["verdict"] != "N/A"
        ]
        counts.append(f"{rest.count('ACCEPTED')} of {len(rest)}")
    if not own:
        lines.append("| further edits (X cases) served as genuine | " + " | ".join(counts) + " |")
    lines.append("| level | " + " | ".join(row["strict_level"] for _, row in columns) + " |")
    return "\n".join(lines) + "\n\n"


def twin() -> str:
    """One sentence that compares the asynchronous saver with the synchronous one, cell by cell."""
    document = result("integrity")
    differ = []
    for suffix in (None, "", "@anchor-held"):
        rows = [row for base in (SAVER, ASYNC) for _, row in read_rows(document, (suffix,), (base,))]
        if len(rows) == 2:
            one, other = ({c: cell["strict_verdict"] for c, cell in row["cells"].items()} for row in rows)
            differ += [f"{COLUMNS[suffix]} {case}" for case in one if one[case] != other[case]]
    return f"AsyncSqliteSaver differs from SqliteSaver in {', '.join(differ) if differ else 'no cell'}."


def verdicts() -> str:
    """The README's table: saver and store, bare, guarded, and with the anchor in the adversary's hands."""
    table = verdict_table((None, "", "@anchor-held"), (SAVER, STORE))
    return f"{table}{twin()} {measured(result('integrity'))}\n\n"


def ladder() -> str:
    """Which mechanism buys which edit, for a checkpointer and for a store."""
    rungs = (None, ":tag", ":chain", ":head-beside", "")
    return "\n".join(verdict_table(rungs, (base,)) for base in (SAVER, STORE))


def own_verdicts() -> str:
    """T and X cases, bare and guarded."""
    return verdict_table((None, ""), (SAVER, STORE), own=True) + measured(result("integrity")) + "\n\n"


def overhead() -> str:
    """The published run of the overhead bench."""
    if not (RESULTS / "overhead.json").exists():
        return "No run is published yet: `memguard bench overhead` measures your machine.\n\n"
    document = result("overhead")
    lines = [
        "| system | operation | size | history | mode | guards | bare | guarded | ratio | syncs |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in document["rows"]:
        if row["ratio"] is None:
            figure = f"{row['value']:,.0f} {row['unit']}" if row["value"] is not None else "-"
            times = f"| {figure} | | "
        else:
            times = f"{row['bare_us']:,.0f} µs | {row['guarded_us']:,.0f} µs | {row['ratio']:.2f} "
        syncs = "-" if row["anchor_syncs"] is None else f"{row['anchor_syncs']:g}"
        lines.append(
            f"| {BASES.get(row['sut'].partition('+')[0], row['sut'])} | {row['operation']} | {row['size']} |"
            f" {row['history']} | {row['mode']} | {row['guards']} | {times}| {syncs} |"
        )
    first = document["rows"][0]
    cost = f"One sync of the anchor {first['sync_us']:,.0f} µs, one bare commit {first['commit_us']:,.0f} µs."
    return "\n".join(lines) + f"\n\n{cost} {measured(document)}\n\n"


#: Rows of the attack bench that a page shows as one line each, in this order.
CHANNELS = ("untrusted", "forged", "signed", "reworded", "cross-context")


def attack_rows() -> list[dict[str, Any]]:
    """The published rows of the attack bench, without those of corpora."""
    return [row for row in result("attack")["rows"] if not row["family"].startswith("corpus ")]


def summed(rows: list[dict[str, Any]], name: str) -> int:
    """A count over several rows."""
    return sum(row[name] or 0 for row in rows)


def attack_families() -> str:
    """Name and description of every family."""
    from memguard.bench.attack.texts import families as every

    lines = [f"| {family.name} | {family.about} |" for family in every().values()]
    return "\n".join(["| family | what it is |", "|---|---|", *lines]) + "\n\n"


def attack() -> str:
    """The published run of the attack bench: channels of every configuration, then families of one."""
    from memguard.bench.attack.intervals import clopper_pearson

    if not (RESULTS / "attack.json").exists():
        return "No run is published yet: `memguard bench attack` measures.\n\n"
    rows, document = attack_rows(), result("attack")
    head = "stored | readable | served for action | at most | done | twins readable | own for action |"

    def line(of: list[dict[str, Any]]) -> str:
        n, acted = summed(of, "n"), summed(of, "served_for_action")
        parts = [f"{summed(of, name)}/{n}" for name in ("stored", "readable")]
        parts += [
            f"{acted}/{n}",
            f"{100 * clopper_pearson(acted, n)[1]:.1f} %",
            f"{summed(of, 'succeeded')}/{n}",
        ]
        twins = summed(of, "benign_n"), summed(of, "benign_own_n")
        parts += [
            f"{summed(of, 'benign_readable')}/{twins[0]}",
            f"{summed(of, 'benign_for_action')}/{twins[1]}",
        ]
        return " | ".join(parts) + " |"

    lines = [f"| configuration | memory | channel | {head}", "|---|---|---|---|---|---|---|---|---|---|"]
    for name in document["config"]["configurations"]:
        for sut in document["config"]["suts"]:
            for channel in CHANNELS:
                asked = (name, sut, channel)
                of = [r for r in rows if (r["configuration"], r["sut"], r["channel"]) == asked]
                if of:
                    lines.append(f"| {name} | {BASES.get(sut, sut)} | {channel} | {line(of)}")
    lines += ["", "Families of balanced, SqliteStore:", ""]
    lines += [f"| channel | family | {head}", "|---|---|---|---|---|---|---|---|---|"]
    for channel in ("untrusted", "signed"):
        for family in document["config"]["families"]:
            asked = ("balanced", "langgraph-sqlite-store", channel, family)
            of = [r for r in rows if (r["configuration"], r["sut"], r["channel"], r["family"]) == asked]
            if of:
                lines.append(f"| {channel} | {family} | {line(of)}")
    lines += ["", "What `revert(source=…)` takes back on the signed channel:", ""]
    lines += [
        "| configuration | memory | attacks | records in the plan | left | twins lost |",
        "|---|---|---|---|---|---|",
    ]
    for name in document["config"]["configurations"]:
        for sut in document["config"]["suts"]:
            of = [r for r in rows if (r["configuration"], r["sut"], r["channel"]) == (name, sut, "signed")]
            if any(r["revert_records"] is not None for r in of):
                counts = [summed(of, f"revert_{part}") for part in ("records", "left", "benign_lost")]
                reverted = summed([r for r in of if r["untriggered"] is None], "n")
                shown_as = " | ".join(str(count) for count in (reverted, *counts))
                lines.append(f"| {name} | {BASES.get(sut, sut)} | {shown_as} |")
    missed = document["missed"]
    lines += ["", f"Missed: {'; '.join(missed)}." if missed else "Every target is reached."]
    return "\n".join(lines) + f" {measured(document)}\n\n"


def attack_short() -> str:
    """What becomes of planted texts, bare and guarded: the README's table."""
    from memguard.bench.attack.intervals import clopper_pearson

    store = "langgraph-sqlite-store"
    told = {
        "untrusted": "from a page, a document or a tool",
        "forged": "under a registered source's name, without its signature",
        "signed": "signed by a registered source (nothing is promised)",
        "cross-context": "read, searched or written as another user",
    }
    lines = [
        "| planted | SqliteStore, bare: acted on | guarded: readable, fenced | guarded: served for action | at most |",
        "|---|---|---|---|---|",
    ]
    every = [row for row in attack_rows() if row["sut"] == store]
    for channel, words in told.items():
        of = {
            name: [r for r in every if (r["configuration"], r["channel"]) == (name, channel)]
            for name in ("bare", "balanced")
        }
        n, acted = summed(of["balanced"], "n"), summed(of["balanced"], "served_for_action")
        bare = f"{summed(of['bare'], 'succeeded')} of {summed(of['bare'], 'n')}" if of["bare"] else "-"
        readable = f"{summed(of['balanced'], 'readable')} of {n}"
        high = clopper_pearson(acted, n)[1]
        lines.append(f"| {words} | {bare} | {readable} | {acted} of {n} | {100 * high:.1f} % |")
    honest = [r for r in every if (r["configuration"], r["channel"]) == ("balanced", "untrusted")]
    own = f"{summed(honest, 'benign_for_action')} of {summed(honest, 'benign_own_n')}"
    read = f"{summed(honest, 'benign_readable')} of {summed(honest, 'benign_n')}"
    lines.append(f"\nHonest texts beside them: {read} readable; of the user's own, {own} served for action.")
    return "\n".join(lines) + "\n\n"


def attack_corpora() -> str:
    """What became of corpora in a store, bare and balanced."""
    document = result("attack") if (RESULTS / "attack.json").exists() else {"rows": []}
    found = [row for row in document["rows"] if row["family"].startswith("corpus ")]
    if not found:
        return "Not measured in the published run.\n\n"
    lines = [
        "| source | configuration | planted | readable | served for action | honest, readable | own for action |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in sorted(found, key=lambda r: (r["family"], r["configuration"])):
        if row["configuration"] in ("bare", "balanced"):
            counts = [("readable", "n"), ("served_for_action", "n"), ("benign_readable", "benign_n")]
            counts.append(("benign_for_action", "benign_own_n"))
            shown_as = [f"{row[part]}/{row[of]}" if row[of] else "-" for part, of in counts]
            lines.append(
                f"| {row['family'].removeprefix('corpus ')} | {row['configuration']} | {row['n'] or '-'} | "
                + " | ".join(shown_as)
                + " |"
            )
    return "\n".join(lines) + "\n\n"


def attack_amg() -> str:
    """Scores in the other benchmark."""
    found = result("attack").get("amg") if (RESULTS / "attack.json").exists() else None
    if not found:
        return "Not measured in the published run.\n\n"
    lines = ["| configuration | purpose | score | defended | false positives |", "|---|---|---|---|---|"]
    for row in found:
        lines.append(
            f"| {row['configuration']} | {row['purpose']} | {row['score']} | {row['defended']}/{row['attacks']} |"
            f" {row['false_positives']}/{row['benign']} |"
        )
    return "\n".join(lines) + "\n\n"


def decisions() -> str:
    """A table of the decision records: number and title as they stand in each."""
    rows = []
    for path in sorted((ROOT / "docs" / "adr").glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        number, _, words = title.partition(" ")
        rows.append(f"| [{number.rstrip('.:')}]({path.name}) | {words} |")
    return "\n".join(["| record | what was decided |", "|---|---|", *rows]) + "\n"


def content() -> str:
    """The published run of the content evaluation, as its own program prints it."""
    from memguard.bench.attack.content import ContentRow, table

    return "\n" + table([ContentRow.model_validate(row) for row in result("content")["rows"]]) + "\n\n"


#: One letter a cell, as in the draft's own table.
LETTERS = {"ACCEPTED": "A", "REJECTED": "R", "REPORTED": "P", "N/A": "-", "ERROR": "E"}


def row_line(row: dict[str, Any]) -> str:
    """A row of the table of everyone."""
    name = row["sut"] + ("" if row["stopped"] else " (process alive)")
    if not row["measured"]:
        return f"| {name} | | {row['reason']} | | | | {row['date']} |"
    letters = " ".join(LETTERS[cell["strict_verdict"]] for cell in row["cells"].values())
    loose = " ".join(LETTERS[cell["verdict"]] for cell in row["cells"].values())
    letters = f"`{letters}`" + (f" (draft: `{loose}`)" if loose != letters else "")
    if not row["evaluable"]:
        return f"| {name} | {row['detection_point']} | {row['reason']} | | | | {row['date']} |"
    versions = ", ".join(f"{k} {v}" for k, v in row["versions"].items() if k != "memguard-middleware")
    metric = f"{row['strict_metric']:.2f}"
    return (
        f"| {name} | {row['detection_point']} | {letters} | {metric} | {row['strict_level']} | {versions} |"
        f" {row['date']} |"
    )


def rows_of_everyone() -> str:
    """The table of everyone: rows of the draft, protections switched on, our own systems."""
    found = result("rows")["rows"]
    titles = {
        "No claim about integrity": [r for r in found if r["table"] == "rows" and not r["claims_integrity"]],
        "A claim about integrity": [r for r in found if r["table"] == "rows" and r["claims_integrity"]],
        "Protections switched on, and further positions": [r for r in found if r["table"] == "features"],
        "This project's bench, bare": [r for r in found if r["table"] == "bench" and not r["guarded"]],
        "This project's bench, guarded": [r for r in found if r["table"] == "bench" and r["guarded"]],
    }
    parts = []
    for title, rows in titles.items():
        if rows:
            head = "| system | point | T1 … T9 | metric | level | versions | measured |"
            parts += [f"### {title}\n", head, "|---|---|---|---|---|---|---|", *map(row_line, rows), ""]
    return "\n" + "\n".join(parts) + "\n"


def rows_details() -> str:
    """What was called, what was on, and what the adversary held, for every measured row that is not our bench's."""
    lines = ["| system | calls | protections | the adversary holds | network |", "|---|---|---|---|---|"]
    for row in result("rows")["rows"]:
        if row["measured"] and row["table"] != "bench":
            features = ", ".join(f"{k} {v}" for k, v in row["features"].items()) or "none documented"
            holds = ", ".join(row["adversary_holds"])
            lines.append(f"| {row['sut']} | {row['api']} | {features} | {holds} | {row['network']} |")
    return "\n".join(lines) + "\n\n"


def rows_counts() -> str:
    """How many rows of the draft's table were measured, and what they do."""
    document = result("rows")
    table = [r for r in document["rows"] if r["table"] == "rows"]
    measured_rows = [r for r in table if r["measured"] and r["evaluable"]]
    every = [
        r
        for r in measured_rows
        if all(c["strict_verdict"] == "ACCEPTED" for c in r["cells"].values() if c["verdict"] != "N/A")
    ]
    rolled = [r for r in measured_rows if r["cells"]["T9"]["strict_verdict"] == "ACCEPTED"]
    four = [r for r in measured_rows if str(r["strict_level"]).startswith("L4")]
    lines = [
        ("rows of the draft's table", len(table)),
        ("measured here", len(measured_rows)),
        ("serve every edit that they can express", len(every)),
        ("serve an older copy of the whole store (T9)", len(rolled)),
        ("reach L4", len(four)),
    ]
    counted = [f"| {words} | {number} |" for words, number in lines]
    harness = document["config"]["harness"].replace("==", " ")
    said = f"Measured {document['date'][:10]} with {harness}; a row that was measured on another day says so."
    return "\n".join(["| | |", "|---|---|", *counted]) + f"\n\n{said}\n\n"


PARTS: dict[str, Callable[[], str]] = {
    "content": content,
    "help": helps,
    "codes": codes,
    "own cases": own_cases,
    "settings": settings,
    "verdicts": verdicts,
    "ladder": ladder,
    "own verdicts": own_verdicts,
    "overhead": overhead,
    "attack families": attack_families,
    "attack": attack,
    "attack in short": attack_short,
    "attack corpora": attack_corpora,
    "attack amg": attack_amg,
    "decisions": decisions,
    "rows": rows_of_everyone,
    "rows details": rows_details,
    "rows counts": rows_counts,
}


def refreshed(text: str) -> str:
    """A page with every generated part as the code has it now."""
    return PART.sub(lambda match: match[1] + PARTS[match[2]]() + match[3], text)


def pages_with_parts() -> list[Path]:
    """The pages that hold a generated part."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if PART.search(page.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    for page in pages_with_parts():
        old = page.read_text(encoding="utf-8")
        new = refreshed(old)
        if new != old:
            page.write_text(new, encoding="utf-8")
            print(f"refreshed {page.relative_to(ROOT)}", file=sys.stderr)
