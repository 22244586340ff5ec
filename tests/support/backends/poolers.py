"""A PgBouncer that is started for a test, as deployments have one between workers and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import make_url

from tests.support.backends.databases import POSTGRESQL, text_of
from tests.support.backends.servers import PgBouncerServer, or_skip


@contextmanager
def pgbouncer(url: str, mode: str) -> Iterator[str]:
    """The URL of a database of PostgreSQL through a pooler with two connections to it.

    The pooler connects as the user that the URL names, for every client.
    """
    place, server = make_url(url), POSTGRESQL.found()
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # the pooler refuses to run as root
        with or_skip(
            lambda: PgBouncerServer(
                folder / "pgbouncer", server.port or 5432, user=str(place.username), mode=mode, size=2
            )
        ) as pooler:
            yield text_of(place.set(host="127.0.0.1", port=pooler.port, query={}))
