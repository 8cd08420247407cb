"""The statements that read PostgreSQL's two tables of items undecoded.

The database takes a value apart (its own text, the seal, memguard's other members), digests vectors and tells two
versions of a row apart. All of it is by operators and functions of ``pg_catalog``, but for the vector type's own
output function, whose name is looked up.

A row's *version* is a hash of its key, of the transaction that wrote it and of its place, under a number that only
this process knows. Adding up versions tells whether any row came, went or was written again, in one statement that
reads no value.
"""

from __future__ import annotations

from functools import lru_cache

#: ``None`` and nothing, as eight bytes that no timestamp is.
_NO_TIME = "'\\x8000000000000001'::bytea"
_VALUE = """
    CASE WHEN jsonb_typeof(s.value) = 'object' THEN (s.value - 'memguard')::text END,
    s.value -> 'memguard' ->> 'seal',
    CASE WHEN jsonb_typeof(s.value -> 'memguard') = 'object' THEN ((s.value -> 'memguard') - 'seal')::text END"""
#: What a connection of a store without vectors needs to know: whether there are vectors by now.
MADE = "to_regclass('store_vectors') IS NOT NULL"
_VERSION = "hashtextextended(concat({0}.key, ' ', {0}.xmin, ' ', {0}.ctid), %(seed)s::int8)"
ROW = f"s.key, {_VALUE}, s.created_at, s.updated_at, s.ttl_minutes, s.expires_at, clock_timestamp(), {MADE}"


def _vector(send: str) -> str:
    """One vector as bytes of a fixed length: its field, itself and its stamps."""
    return f"""sha256(textsend(v.field_name)) || coalesce(sha256({send}(v.embedding)), decode(repeat('00', 32), 'hex'))
        || coalesce(timestamptz_send(v.created_at), {_NO_TIME})
        || coalesce(timestamptz_send(v.updated_at), {_NO_TIME})"""


@lru_cache(maxsize=16)
def rows(send: str | None, which: str) -> str:
    """Rows of a namespace, with their versions and vectors. Parameters: ``prefix``, ``seed``, and ``keys``.

    Args:
        send: the qualified name of the vector type's output function; None for a store without vectors.
        which: ``all``, ``some`` (``keys`` is a list) or ``one`` (it is a key).
    """
    version = _VERSION.format("s")
    only = {"all": "", "some": "AND {0}.key = ANY(%(keys)s)", "one": "AND {0}.key = %(keys)s"}[which]
    if send is None:
        return f"""SELECT {ROW}, 1, {version}, NULL::bytea FROM store s
            WHERE s.prefix = %(prefix)s {only.format("s")}"""  # noqa: S608 - constant text
    return f"""SELECT {ROW}, 1 + coalesce(w.n, 0), {version} + coalesce(w.version, 0), w.vectors FROM store s
        LEFT JOIN (SELECT v.key, count(*) AS n, sum({_VERSION.format("v")}) AS version,
                string_agg({_vector(send)}, ''::bytea ORDER BY v.field_name COLLATE "C") AS vectors
            FROM store_vectors v WHERE v.prefix = %(prefix)s {only.format("v")} GROUP BY v.key) w
        ON w.key = s.key WHERE s.prefix = %(prefix)s {only.format("s")}"""  # noqa: S608


@lru_cache(maxsize=16)
def vectors(send: str) -> str:
    """Vectors under some keys, with or without an item. Parameters: ``prefix``, ``keys``."""
    return f"""SELECT v.key, string_agg({_vector(send)}, ''::bytea ORDER BY v.field_name COLLATE "C")
        FROM store_vectors v WHERE v.prefix = %(prefix)s AND v.key = ANY(%(keys)s) GROUP BY v.key"""  # noqa: S608


#: Two moments of one server with the same snapshot show the same rows: nothing is added up then.
_CHANGED = "pg_current_snapshot()::text IS DISTINCT FROM %(snapshot)s"


def _sums(table: str, letter: str) -> str:
    return f"""SELECT {letter}.prefix, count(*) AS n, sum({_VERSION.format(letter)}) AS version
        FROM {table} {letter} WHERE {letter}.prefix = ANY(%(prefixes)s) AND {_CHANGED}
        GROUP BY {letter}.prefix"""  # noqa: S608


@lru_cache(maxsize=2)
def hint(*, vectored: bool) -> str:
    """Snapshot, start of the server, its clock, whether anything expires; and by prefix how many rows there are and
    what their versions add up to.

    Parameters: ``prefixes``, ``seed``, and ``snapshot``: the one at which the sums are known, or None.
    """
    both = _sums("store", "s") + (f" UNION ALL {_sums('store_vectors', 'v')}" if vectored else "")
    return f"""SELECT pg_current_snapshot()::text, extract(epoch FROM pg_postmaster_start_time())::text,
            clock_timestamp(), EXISTS (SELECT FROM store WHERE expires_at IS NOT NULL),
            found.prefix, found.n, found.version
        FROM (VALUES (1)) AS one LEFT JOIN (
            SELECT prefix, sum(n)::int8 AS n, sum(version) AS version FROM ({both}) AS each GROUP BY prefix
        ) AS found ON true"""  # noqa: S608


#: Walks from one prefix to the next by the primary key: as many steps as there are namespaces, however many rows.
NAMESPACES = f"""WITH RECURSIVE found AS (
        (SELECT prefix FROM store WHERE {_CHANGED} ORDER BY prefix LIMIT 1)
        UNION ALL
        SELECT (SELECT s.prefix FROM store s WHERE s.prefix > found.prefix ORDER BY s.prefix LIMIT 1)
        FROM found WHERE found.prefix IS NOT NULL
    ) SELECT pg_current_snapshot()::text, found.prefix
    FROM (VALUES (1)) AS one LEFT JOIN found ON found.prefix IS NOT NULL"""  # noqa: S608
EXPIRED = """SELECT prefix, key FROM store WHERE expires_at IS NOT NULL
    AND expires_at < (%(now)s || '+00')::timestamptz"""
DELETE_EXPIRED = """DELETE FROM store WHERE prefix = %(prefix)s AND key = ANY(%(keys)s)
    AND expires_at IS NOT NULL AND expires_at < (%(now)s || '+00')::timestamptz"""
DROP_VECTORS = "DELETE FROM store_vectors WHERE prefix = %(prefix)s AND key = ANY(%(keys)s)"
CLOCK = "SELECT clock_timestamp()"
#: The name of the function that writes out what the column of vectors holds; no row without such a column.
SEND = """SELECT quote_ident(n.nspname) || '.' || quote_ident(p.proname)
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_proc p ON p.oid = t.typsend
    JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE a.attrelid = to_regclass('store_vectors') AND a.attname = 'embedding' AND NOT a.attisdropped"""


@lru_cache(maxsize=1024)
def joined(sql: str, send: str | None) -> str:
    """A search as the framework asks it (for prefix, key and score), its rows as stored, in its order."""
    more, vectors = "", "NULL::bytea"
    if send is not None:
        vectors = "w.vectors"
        more = f"""LEFT JOIN LATERAL (
            SELECT string_agg({_vector(send)}, ''::bytea ORDER BY v.field_name COLLATE "C") AS vectors
            FROM store_vectors v WHERE v.prefix = s.prefix AND v.key = s.key) AS w ON true"""  # noqa: S608
    return f"""SELECT {ROW}, 0, 0, {vectors}, f.prefix, f.score FROM
        (SELECT q.prefix, q.key, q.score, row_number() OVER () AS place FROM ({sql}) AS q) AS f
        JOIN store s ON s.prefix = f.prefix AND s.key = f.key {more} ORDER BY f.place"""  # noqa: S608
