"""``memguard init``: the guard's home, a key, an anchor, and the truth about where the anchor is."""

from __future__ import annotations

from pathlib import Path

import click

from memguard.cli.output import Report, reporting
from memguard.cli.place import local_path, same_volume, split_uri
from memguard.cli.session import user_config_dir

_PRESETS = ("balanced", "strict", "observe", "off")
_WORDS = {
    "off": "nothing is verified and no guard runs",
    "observe": "everything is reported, nothing is refused",
    "balanced": "integrity and guards enforced, anomaly flags",
    "strict": "integrity and every guard enforced",
}


def default_keys() -> str:
    """URI of the user's own key file."""
    return f"file:{user_config_dir() / 'key.json'}"


def _ignore(home: Path) -> None:
    """Keep the home out of version control: its state is this machine's."""
    path = home / ".gitignore"
    if not path.exists():
        path.write_text(
            "# made by memguard init: state of this machine, not of the project\n*\n", encoding="utf-8"
        )


@click.command("init")
@click.option(
    "--home", metavar="DIR", default=".memguard", show_default=True, help="Folder to make; must be empty."
)
@click.option(
    "--preset", type=click.Choice(_PRESETS), default="balanced", show_default=True, help="What is enforced."
)
@click.option(
    "--anchor", metavar="URI", help="Where heads are kept, such as file:/mnt/other/anchor. Default: in home."
)
@click.option(
    "--keys", metavar="URI", help="The key, such as file:/etc/agent/key.json. Default: your config folder."
)
@click.option(
    "--review-key",
    metavar="URI",
    help="The key that opens what is withheld, such as file:/safe/review.json. Default: a folder beside the key's.",
)
@reporting
def init(home: str, preset: str, anchor: str | None, keys: str | None, review_key: str | None) -> Report:
    """Create the guard's home, key and anchor for a project.

    Nothing that exists is overwritten: a home that is not empty is refused, a key file that is there is used.
    """
    from memguard.engine import MemGuard

    folder = Path(home).expanduser().absolute()
    keys_uri = keys or default_keys()
    anchor_uri = anchor or f"file:{folder / 'anchor'}"
    key_path = local_path(keys_uri) if split_uri(keys_uri)[0] == "file" else None
    had_key = key_path is not None and key_path.exists()
    config = {"quarantine": {"review_key": review_key}} if review_key else None
    mg = MemGuard.create(folder, preset=preset, anchor=anchor_uri, keys=keys_uri, config=config)
    try:
        current, review = mg.keys.current, local_path(mg.config.quarantine.review_key or "")
    finally:
        mg.close()
    _ignore(folder)

    rows = [
        {
            "what": "created",
            "path": _short(folder / "memguard.toml"),
            "detail": f'preset "{preset}": {_WORDS[preset]}',
        },
        {
            "what": "key",
            "path": _short(key_path) if key_path else split_uri(keys_uri)[0],
            "detail": f"{'used as it was' if had_key else 'created'}, id {current}"
            + (", mode 0600" if key_path and not had_key else ""),
        },
    ]
    rows.append(
        {
            "what": "review",
            "path": _short(review) if review else "its own URI",
            "detail": "opens what is withheld; better kept elsewhere",
        }
    )
    place = local_path(anchor_uri)
    shared = place is not None and same_volume(place, folder)
    rows.append(
        {
            "what": "anchor",
            "path": _short(place) if place else anchor_uri,
            "detail": _anchor_words(shared, split_uri(anchor_uri)[0]),
        }
    )
    notes = []
    if shared:
        notes.append(
            "WARN MG412 T9 (rollback of the whole store) is not covered while the anchor is on this volume."
        )
        notes.append("     memguard anchor set file:/mnt/other/anchor     when you have another volume")
    notes.append('next     graph = builder.compile(checkpointer=guard(saver, name="checkpoints"))')
    facts = {
        "home": str(folder),
        "preset": preset,
        "key_id": current,
        "anchor": anchor_uri,
        "t9_covered": not shared,
    }
    width = min(max(len(r["path"]) for r in rows), 40)  # a longer path breaks the column, not the line
    text = "\n".join([*(f"{r['what']:<8} {r['path']:<{width}} {r['detail']}" for r in rows), *notes])
    return Report("init", facts=facts, columns=("what", "path", "detail"), rows=rows, notes=notes, text=text)


def _anchor_words(shared: bool, scheme: str) -> str:
    if scheme.startswith("postgres"):
        return "holds the guard's own tables too; memguard doctor says where its server is"
    return "SAME VOLUME as the home" if shared else "another volume than the home"


def _short(path: Path) -> str:
    """``path`` as the user would type it: relative if below the working directory, ``~`` if below home."""
    for base, prefix in ((Path.cwd(), ""), (Path.home(), "~/")):
        if path.is_relative_to(base) and path != base:
            return prefix + str(path.relative_to(base))
    return str(path)
