"""The adversary's SQL tool: an interpreter of its own that has loaded sqlite3 and nothing else.

``python -I -S apply_sql.py`` reads one request per line, ``{"file", "script"}``, and answers each with one line,
``{"error": null}`` or what went wrong. ``python -I -S apply_sql.py FILE`` runs the script on stdin and ends without
closing the database, so that the change stays in the write-ahead log beside the file.
"""

import json
import os
import sqlite3
import sys


def apply(file: str, script: str, keep_log: bool = False) -> None:
    """Run the script in one transaction; closing folds a write-ahead log into the file."""
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        if keep_log:
            connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.executescript(f"BEGIN IMMEDIATE;\n{script}\nCOMMIT;")
        if keep_log:
            os._exit(0)
    finally:
        connection.close()


def main() -> None:
    """Serve requests until stdin ends, or run the one script."""
    if len(sys.argv) > 1:
        apply(sys.argv[1], sys.stdin.read(), keep_log=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            apply(request["file"], request["script"])
            error = None
        except (sqlite3.Error, sqlite3.Warning, OSError) as failure:
            error = f"{type(failure).__name__}: {failure}"
        sys.stdout.write(json.dumps({"error": error}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
