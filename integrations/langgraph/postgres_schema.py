"""That a PostgreSQL database is laid out as LangGraph lays it out.

Someone who may write to the database need not edit a row to hide one. A view under a table's name, a rule, a policy
or a child table shows everything to the first look and less to the second; a trigger, a check or an index over a
function of theirs changes one row while another is written; a search path with a schema before ``pg_catalog``
gives operators another meaning. So none of these may stand on the tables. Further indexes over plain columns, or
over PostgreSQL's own functions, are an operator's good right and change no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memguard.errors import TamperedError

_STATEMENT = """
WITH t AS (
    SELECT c.oid, c.relname::text AS name, c.relkind::text AS kind, row_security_active(c.oid) AS hidden
    FROM unnest(%(tables)s::text[]) AS wanted JOIN pg_class c ON c.oid = to_regclass(quote_ident(wanted))
), mine AS (
    SELECT objid, classid FROM pg_depend WHERE deptype = 'e' AND refclassid = 'pg_extension'::regclass
)
SELECT 'table', name, kind, hidden::text FROM t
UNION ALL SELECT 'column', t.name, a.attname::text, y.typname::text || a.attgenerated::text || a.attidentity::text
        || CASE WHEN a.attcollation IN (0, 100) THEN '' ELSE ' collated' END
    FROM t JOIN pg_attribute a ON a.attrelid = t.oid JOIN pg_type y ON y.oid = a.atttypid
    WHERE a.attnum > 0 AND NOT a.attisdropped
UNION ALL SELECT 'rule', t.name, r.rulename::text, '' FROM t JOIN pg_rewrite r ON r.ev_class = t.oid
UNION ALL SELECT 'trigger', t.name, g.tgname::text, '' FROM t JOIN pg_trigger g ON g.tgrelid = t.oid
    JOIN pg_proc p ON p.oid = g.tgfoid
    WHERE NOT g.tgisinternal OR p.proname NOT LIKE 'RI\\_FKey\\_%%'
UNION ALL SELECT 'family', t.name, i.inhrelid::regclass::text, ''
    FROM t JOIN pg_inherits i ON t.oid IN (i.inhparent, i.inhrelid)
UNION ALL SELECT 'check', t.name, k.conname::text, '' FROM t JOIN pg_constraint k ON k.conrelid = t.oid
    WHERE k.contype NOT IN ('p', 'n', 'f', 'u')
UNION ALL SELECT 'index', t.name, x.relname::text, ''
    FROM t JOIN pg_index i ON i.indrelid = t.oid JOIN pg_class x ON x.oid = i.indexrelid
    WHERE EXISTS (
        SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = x.oid
        AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_opclass'::regclass)
        AND NOT EXISTS (SELECT FROM mine WHERE mine.objid = d.refobjid AND mine.classid = d.refclassid))
UNION ALL SELECT 'path', '', array_to_string(current_schemas(true), ','), ''
"""
_WHY = {
    "rule": "a rule {0!r} stands on table {1}",
    "trigger": "a trigger {0!r} stands on table {1}",
    "family": "table {1} has a relative, {0!r}",
    "check": "a constraint {0!r} stands on table {1}",
    "index": "index {0!r} on table {1} runs a function that is not PostgreSQL's",
}


class Schema:
    """Looks at the tables of one object.

    Args:
        columns: by table, the type of each column that the framework makes; ``""`` for one of an extension.
    """

    statement = _STATEMENT

    def __init__(self, columns: Mapping[str, Mapping[str, str]]) -> None:
        self._columns = columns
        self.values = {"tables": list(columns)}
        #: The moment at which the tables were last found to be as they should.
        self.seen: object = None

    def check(self, found: Sequence[Sequence[Any]]) -> dict[str, dict[str, str]]:
        """What the catalogue says of the tables; answers with the types of their columns, by table.

        Raises:
            TamperedError: MG406, case ``schema``.
        """
        columns: dict[str, dict[str, str]] = {}
        for kind, table, what, more in found:
            if kind == "table":
                if what != "r":
                    raise _crooked(f"{table} is no table")
                if more == "true":
                    raise _crooked(f"row security hides rows of table {table} from this role")
                columns.setdefault(table, {})
            elif kind == "column":
                columns.setdefault(table, {})[what] = more
            elif kind == "path":
                _check_path(what)
            else:
                raise _crooked(_WHY[kind].format(what, table))
        for table, have in columns.items():
            want = self._columns[table]
            if have.keys() != want.keys() or any(want[name] not in ("", have[name]) for name in want):
                raise _crooked(f"table {table} is not laid out as LangGraph lays it out")
        return columns


def _check_path(path: str) -> None:
    before = path.split(",")
    if "pg_catalog" in before:
        before = before[: before.index("pg_catalog")]
    if any(not name.startswith("pg_temp") for name in before):
        raise _crooked("the search path puts a schema before pg_catalog")


def _crooked(what: str) -> TamperedError:
    return TamperedError(
        "the database does not show its rows as they are.",
        case="schema",
        record=what,
        code="MG406",
        why="A view, a rule, a policy or a trigger can show one thing to a check and another to a read.",
        do="Drop what is not LangGraph's; then memguard audit STORE.",
    )
