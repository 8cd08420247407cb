"""Checks of ``memguard doctor`` on an anchor in PostgreSQL: where its server is, and what it loses in a crash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from memguard.cli.checks import PASS, WARN, Check

if TYPE_CHECKING:
    from memguard.engine import MemGuard

_ASKED = """SELECT current_setting('fsync'), current_setting('full_page_writes'),
  current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication),
  coalesce(host(inet_server_addr()), ''), coalesce(host(inet_client_addr()), '')"""


def anchor(mg: MemGuard) -> Iterator[Check]:
    """Where the server of the heads is, and whether what it has committed survives it."""
    row = cast(Any, mg.anchor).session.run(_ASKED, "look at")[0][0]
    fsync, whole, names, standbys, server, client = [(value or b"").decode() for value in row]
    uri = mg.anchor.uri
    if server == client:  # a socket has neither
        detail = f"{uri}: whoever holds this machine can put both back. Use a server elsewhere"
        yield Check(WARN, "the anchor's PostgreSQL server is on this machine", detail, "MG412")
    else:
        yield Check(PASS, "the anchor is on another machine", uri)
    if "off" in (fsync, whole):
        detail = f"fsync = {fsync}, full_page_writes = {whole}: a crash can lose heads that were acknowledged"
        yield Check(WARN, "the anchor's server does not wait for its disk", detail, "MG530")
    if standbys != "0" and not names:
        detail = (
            f"{standbys} standby(s), synchronous_standby_names is empty: a failover can lose the newest heads"
        )
        yield Check(WARN, "the anchor's standbys may lack the newest heads", detail, "MG530")
