"""Run one SQL script on one SQLite file. Started as ``python -I -S apply_sql.py FILE [keep]``, the script on stdin.

With ``keep`` the process ends without closing, so that the change stays in the write-ahead log beside the file.

An interpreter of its own, without site-packages: no code of any SUT can be loaded while the store is edited.
"""

import os
import sqlite3
import sys


def main() -> None:
    """Apply the script in one transaction and fold a write-ahead log into the file."""
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    if sys.argv[2:] == ["keep"]:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.executescript("BEGIN IMMEDIATE;\n" + sys.stdin.read() + "\nCOMMIT;")
    if sys.argv[2:] == ["keep"]:
        os._exit(0)
    connection.close()


if __name__ == "__main__":
    main()
