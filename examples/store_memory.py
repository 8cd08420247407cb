"""Long-term memory in a ``SqliteStore``: where it came from, and who it belongs to.

Three memories are written: one said by the user, one read on a web page, one of
another user. The guard notes each one's source, and ``render`` puts what came from an
untrusted place into a fence, as quoted data, so that a prompt built from it cannot
be mistaken for the user's own words.

Then the database is edited twice, as somebody with a SQL shell would: the text of a
memory is changed, and a genuine memory is moved to another owner. Both reads are
refused; the memories that were left alone are served.

No model, no network. Run: ``python examples/store_memory.py``
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

from langgraph.store.base import BaseStore
from langgraph.store.sqlite import SqliteStore

from memguard import IntegrityError, MemGuard, render, source

ALICE, BOB, CAROL = ("users", "alice"), ("users", "bob"), ("users", "carol")


def write_memories(store: BaseStore) -> None:
    """What the agent learned, each memory with the place it came from."""
    with source("user:alice"):
        store.put(ALICE, "diet", {"text": "Alice eats no meat."})
    with source("web:https://shop.example"):
        store.put(ALICE, "shop", {"text": "Delivery to Alice takes two days."})
    with source("user:bob"):
        store.put(BOB, "iban", {"text": "Bob is paid to account ending 4471."})
    with source("user:carol"):
        store.put(CAROL, "desk", {"text": "Carol sits on the third floor."})


def edit(database: Path, statement: str) -> int:
    """Somebody with a SQL shell: one statement, no guard, no framework. Rows changed."""
    db = sqlite3.connect(database)
    with db:
        rows = db.execute(statement).rowcount
    db.close()
    return rows


def read(label: str, store: BaseStore, namespace: tuple[str, ...], key: str) -> bool:
    """Read one memory and say how that went. True if it was refused."""
    try:
        item = store.get(namespace, key)
    except IntegrityError as error:
        print(f"  {label}: refused, {type(error).__name__} {error.code}")
        return True
    print(f"  {label}: served, {item.value['text'] if item else None!r}")
    return False


def main() -> int:
    """The story in a temporary folder. 0 if both edits were refused and the rest was served."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        database = folder / "memory.db"
        mg = MemGuard.create(
            folder / "home",
            preset="balanced",
            anchor=f"file:{folder / 'elsewhere' / 'anchor'}",
            keys=f"file:{folder / 'elsewhere' / 'key.json'}",
        )
        with SqliteStore.from_conn_string(str(database)) as store:
            store.setup()
            guarded = mg.guard(store, name="memories")
            write_memories(guarded)
            print("sources, as the guard labelled them")
            items = sorted(guarded.search(ALICE), key=lambda item: item.key)
            for item in items:
                label = mg.label(item)
                print(f"  {item.key}: source {label.source}, trust {label.trust}")
            print("rendered for a prompt")
            for line in render(items).splitlines():
                print(f"  | {line}")
        mg.close()

        print("the database is edited")
        text = edit(
            database,
            "UPDATE store SET value = CAST(replace(value, 'no meat', 'any meat') AS BLOB) WHERE key = 'diet'",
        )
        owner = edit(database, "UPDATE store SET prefix = 'users.mallory' WHERE prefix = 'users.bob'")
        print(f"  rows changed: text {text}, owner {owner}")

        print("read again")
        mg = MemGuard.open(folder / "home")
        with SqliteStore.from_conn_string(str(database)) as store:
            guarded = mg.guard(store, name="memories")
            refused = [
                read("edited text", guarded, ALICE, "diet"),
                read("moved to mallory", guarded, ("users", "mallory"), "iban"),
                read("missing at bob", guarded, BOB, "iban"),
            ]
            untouched = read("carol, left alone", guarded, CAROL, "desk")
        mg.close()
    return 0 if all(refused) and not untouched and text == owner == 1 else 1


if __name__ == "__main__":
    raise SystemExit(main())
