"""PostgreSQL as memguard's own backends use it. psycopg is imported when the first connection is made."""

from __future__ import annotations

from memguard.postgres.address import Address
from memguard.postgres.link import Link, again, missing
from memguard.postgres.session import Session, lock_key
from memguard.postgres.sql import literal, unhex

__all__ = ["Address", "Link", "Session", "again", "literal", "lock_key", "missing", "unhex"]
