"""Where a PostgreSQL server is, and what of it is ours."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote

from memguard.errors import ConfigError

#: Parameters of ours in an address; every other one is libpq's.
OURS = ("schema", "patience")
#: Seconds that a lock is waited for.
PATIENCE = 30.0
#: What libpq is told where the address does not say it. A standby that takes no writes is no anchor, and a network
#: that swallows packets must not hold a program for longer than half a minute.
_DEFAULTS = {
    "connect_timeout": "10",
    "target_session_attrs": "read-write",
    "application_name": "memguard",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}


class Address:
    """A URI taken apart: ``//user@host:port/database?schema=NAME&patience=SECONDS&libpq's parameters``.

    Args:
        rest: what follows the scheme and its colon.

    Attributes:
        uri: the whole, fit to be shown.
        schema: where memguard's own tables are; quoted: as SQL writes it.
        patience: seconds that a lock is waited for.

    Raises:
        ConfigError: MG526, it holds a password, or a parameter of ours is wrong.
    """

    def __init__(self, rest: str) -> None:
        base, _, query = rest.partition("?")
        given = dict(parse_qsl(query, keep_blank_values=True))
        who, at, _ = base.removeprefix("//").partition("/")[0].rpartition("@")
        if (at and ":" in who) or "password" in given or "sslpassword" in given:
            raise ConfigError(
                "the address of a PostgreSQL server holds a password.",
                code="MG526",
                where="postgresql:",
                why="Addresses are written to memguard.toml and shown in reports.",
                do="Leave it out: PGPASSWORD, ~/.pgpass (PGPASSFILE) or a service file give it to the driver.",
            )
        if not base.startswith("//"):
            raise ConfigError("an address of a PostgreSQL server begins with postgresql://", code="MG526")
        self.schema = given.pop("schema", "memguard")
        self.uri = f"postgresql:{rest}"
        patience = given.pop("patience", str(PATIENCE))
        if not re.fullmatch("[a-z_][a-z0-9_]{0,47}", self.schema) or self.schema.startswith("pg_"):
            raise ConfigError(
                "the schema in the address of a PostgreSQL server cannot be used.",
                code="MG526",
                do="Use lower-case letters, digits and _, at most 48, not beginning with pg_ or a digit.",
            )
        if not re.fullmatch(r"\d{1,4}(\.\d{1,3})?", patience):
            raise ConfigError(
                "patience in the address of a PostgreSQL server is seconds, 0 to 9999.", code="MG526"
            )
        self.quoted, self.patience = f'"{self.schema}"', float(patience)
        pairs = {**_DEFAULTS, **given}
        self.conninfo = f"postgresql:{base}?" + "&".join(
            f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in pairs.items()
        )
