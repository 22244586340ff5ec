"""What databases on a server have in common: hosts and ports, sessions, and calls that may wait for ever."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from sqlalchemy.engine import URL, Connection
from sqlalchemy.pool import NullPool

from airflow_resume.backends.dialects.base import Dialect, ServerSession

CONNECT_SECONDS = 30
"""How long a driver itself waits for a connection; a call may have less time than that."""

TRUTHS = ("true", "false", "yes", "no", "on", "off", "1", "0")
"""The values of an option that is on or off."""

LIKELY_PASSWORD = ": a part of an unescaped password, likely"  # noqa: S105  it is a reason
"""Why a part of a URL may be wrong. A connection of Airflow has separate parts, so for it this is left out."""

_PARTS = {"user": "username", "password": "password", "passwd": "password", "dbname": "database", "db": "database"}
"""Options that are moved into the parts of the URL, because SQLAlchemy shows options but hides a password."""
_LABEL = r"(?!-)[\w-]{1,63}"
_HOST = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*\.?|[\da-fA-F]*:[\da-fA-F:.]+(%\w+)?|/[^@]*")
_HOST_AND_PORT = re.compile(rf"(\[[\da-fA-F:.]+\]|({_LABEL}(\.{_LABEL})*\.?)?|/[^@]*)(:\d*)?")
_DATABASE = re.compile(r"[^;&?#=]*")
_MOST_PORT = 65_535


class ServerDialect(Dialect):
    """A database on a server, which may stop answering at any moment."""

    encoding: ClassVar[str]
    """The only encoding of text that loses none, as its driver calls it."""
    is_server = True

    def with_parts(self, url: URL) -> URL:
        """As in the base class. If both are given, the option counts, as it does for the driver."""
        for name in _PARTS.keys() & url.query.keys():
            value = url.query[name]
            if isinstance(value, str):
                part: Any = {_PARTS[name]: value}
                url = url.difference_update_query([name]).set(**part)
        return url

    def place_faults(self, url: URL) -> Iterator[str]:
        if url.host and not _HOST.fullmatch(url.host):
            yield "has a host with characters that no host has" + LIKELY_PASSWORD
        if url.port is not None and not 0 < url.port <= _MOST_PORT:
            yield f"has a port that is not between 1 and {_MOST_PORT}"
        if "@" in (url.database or ""):
            yield "has a database with an @ in it" + LIKELY_PASSWORD
        if not _DATABASE.fullmatch(url.database or ""):
            yield "has a database with one of ;&?#= in it: options begin with ? and are separated by &"
        if not url.database and "service" not in url.query:
            yield "names no database"

    def option_fault(self, name: str, value: str) -> str | None:
        if name == "host" and not all(_HOST_AND_PORT.fullmatch(host) for host in value.split(",")):
            return "has an option host that cannot be the name of one"
        if name == "port" and not all(map(_is_port, value.split(","))):
            return "has an option port that is not the number of a port"
        if name == "unix_socket" and not value.startswith(("/", "./")):
            return "has an option unix_socket that is no path"
        if name in {"charset", "client_encoding"} and re.sub(r"[\W_]", "", value).lower() != self.encoding:
            return f"has an option {name} that loses text: leave it out, and it is {self.encoding}"
        return None

    def url_of_connection(self, connection: Any, options: Mapping[str, str]) -> URL:
        host = connection.host
        if host and "," in host:  # several, which libpq takes as an option
            options, host = {"host": host, **options}, None
        return URL.create(
            self.kind,
            username=connection.login,
            password=connection.password,
            host=host or None,
            port=connection.port,
            database=connection.schema,
            query=options,
        )

    def engine_options(self, url: URL) -> Mapping[str, Any]:
        return {"poolclass": NullPool, "connect_args": self.connect_args(url)}

    @abstractmethod
    def connect_args(self, url: URL) -> dict[str, Any]:
        """What the driver is told besides the URL."""

    @abstractmethod
    def session(self, connection: Connection) -> ServerSession | None: ...

    @abstractmethod
    def end_session(self, connection: Connection, session: ServerSession) -> bool: ...

    @abstractmethod
    def socket_number(self, connection: Any) -> int: ...

    @abstractmethod
    def schema_lock(self, connection: Connection, seconds: float) -> AbstractContextManager[None]: ...

    @abstractmethod
    def may_create(self, connection: Connection) -> bool | None: ...


def _is_port(text: str) -> bool:
    return text == "" or (text.isdecimal() and len(text) < len("100000") and 0 < int(text) <= _MOST_PORT)
