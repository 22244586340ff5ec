"""What the backend asks of a kind of database.

Everything that differs between databases is here: a new one is a subclass in a module of its own, and a line in
`registry`. What has no default must be defined. Otherwise making an instance raises `TypeError`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from sqlalchemy import BigInteger, String, Table, Text, text
from sqlalchemy.engine import URL, Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.expression import Delete, Executable

from airflow_resume.backends.span import OverdueError, PassingError

if TYPE_CHECKING:
    from sqlalchemy.types import TypeEngine

BUSY_SECONDS = 5
"""How long a database in a file waits for another writer before it is asked again."""
TABLE_LOCK_SECONDS = 2
"""How long a change of a table waits for those who use it."""
HIDDEN = "***"
"""Stands for what is not shown, in URLs and in messages of drivers."""
NUMBER = r"\d{1,9}"
"""The pattern of a number in an option of a URL, unless the dialect has another one."""

_LOCK_CHECK_SECONDS = 0.05


class Trouble(Enum):
    """What an error of a database means for a call."""

    PASSING = "passing"
    """The same call may succeed if it is repeated."""
    READ_ONLY = "read only"
    FULL = "full"
    TOO_LARGE = "too large"
    NOT_OPENED = "not opened"
    """A file, or one beside it, cannot be opened or made."""
    EXISTS = "exists"
    """A row with the same identity exists already."""
    REFUSED = "refused"
    """The server lets nobody in with this URL, such as with a wrong password or a database that does not exist."""
    NO_RIGHT = "no right"
    STALE_PLAN = "stale plan"
    """The server planned the statement before the tables were changed."""
    OTHER = "other"


class ServerSession(NamedTuple):
    """A session of a server."""

    number: int
    mark: str
    """When it began, or its client's address and port, because a server that was restarted uses the numbers again."""


class Journal(NamedTuple):
    """How a database in a file writes its changes."""

    mode: str
    synchronous: str


@dataclass(frozen=True, kw_only=True)
class ColumnTypes:
    """The types of the columns. Texts must be compared character by character, case included."""

    id: TypeEngine[int] = BigInteger()  # noqa: RUF009  a type is never changed
    digest: TypeEngine[str] = String(64)  # noqa: RUF009
    text: TypeEngine[str] = Text()  # noqa: RUF009
    value: TypeEngine[str] = Text()  # noqa: RUF009
    """Holds at least `MAX_VALUE_BYTES`."""


class Dialect(ABC):
    """One kind of database.

    It has more methods than other classes, because it is the one place for all that differs between databases. The
    defaults are those of a database in a file; `ServerDialect` makes a server's own answers mandatory.
    """

    # --- its names and URLs -----------------------------------------------------------------------------------

    names: ClassVar[tuple[str, ...]]
    """Its names in URLs and as types of Airflow's connections. The first is the kind; the others mean the same."""
    sqlalchemy_names: ClassVar[tuple[str, ...]]
    """Its names in SQLAlchemy, which uses them to choose its column types."""
    product: ClassVar[str]
    """Its name for people."""
    url_form: ClassVar[str]
    """How a URL is written, for people."""
    drivers: ClassVar[tuple[str, ...]]
    """The drivers that the backend was tested with. The first is used when a URL names none."""
    async_drivers: ClassVar[tuple[str, ...]]
    """The drivers for asyncio, with which the backend does not work."""
    extra: ClassVar[str]
    """The extra of airflow-resume that installs the driver."""
    loggers: ClassVar[tuple[str, ...]]
    """The loggers of the drivers, which may log a password."""
    options: ClassVar[frozenset[str]]
    """The options that a URL may have."""
    number_options: ClassVar[Mapping[str, str]]
    """Options that are numbers, and the pattern of each (`NUMBER` for most)."""
    option_choices: ClassVar[Mapping[str, tuple[str, ...]]]
    """Options that accept only a few values, and these values."""
    options_of_hooks: ClassVar[frozenset[str]]
    """Members of the extra of a connection that only Airflow's hooks read, and no driver."""
    repeatable_options: ClassVar[frozenset[str]] = frozenset()
    """Options that may be given more than once."""
    is_server: ClassVar[bool] = False
    """Whether a call may wait for a peer that does not answer; then the watchdog ends it."""

    # --- its SQL ----------------------------------------------------------------------------------------------

    column_types: ClassVar[ColumnTypes]
    table_options: ClassVar[Mapping[str, str]]
    """Options of `CREATE TABLE`, by the name of SQLAlchemy's option without the name of the dialect."""
    has_partial_indexes: ClassVar[bool]
    """Whether an index may have only some of the rows, with SQLAlchemy's option `<name>_where`."""
    ask_version: ClassVar[str]
    """A statement that gives the version of the server or library."""
    ask_time: ClassVar[str | None] = None
    """A statement that gives the server's clock in seconds since 1970. A file has none."""
    deletes_ranges: ClassVar[bool] = False
    """Whether deleting a range of rows makes only those sessions wait that would also wait for the single rows."""
    begin: ClassVar[str] = "BEGIN"
    """Begins a transaction in which something may be read and then written."""

    def __init__(self) -> None:
        missing = [name for name in Dialect.__annotations__ if not hasattr(self, name)]
        if missing:
            raise TypeError(f"{type(self).__name__} does not say its {', '.join(missing)}")

    @property
    def kind(self) -> str:
        """The first of its names."""
        return self.names[0]

    # --- URLs -------------------------------------------------------------------------------------------------

    def text_fault(self, url: str) -> str | None:  # noqa: ARG002  only some databases have such
        """What is wrong with the text of a URL that SQLAlchemy would not find; None if nothing is wrong."""
        return None

    def with_parts(self, url: URL) -> URL:
        """The URL, with options that are really parts of a URL, such as a password, moved to their place."""
        return url

    @abstractmethod
    def place_faults(self, url: URL) -> Iterator[str]:
        """What is wrong with the place that a URL names."""

    def checks_options(self, url: URL) -> bool:  # noqa: ARG002  for most of them it is the same
        """Whether the options of this URL must be known ones."""
        return True

    def option_fault(self, name: str, value: str) -> str | None:  # noqa: ARG002  only servers have such
        """What is wrong with the value of an option that is neither a number nor one of few choices."""
        return None

    @abstractmethod
    def url_of_connection(self, connection: Any, options: Mapping[str, str]) -> URL:
        """The URL made from one of Airflow's connections.

        Raises:
            BackendSettingError: a part that is needed is missing.
        """

    def file_of(self, url: URL) -> Path | None:  # noqa: ARG002  a server has none
        """The file of the database; None for a server, and in memory."""
        return None

    def files_of(self, file: Path) -> Sequence[Path]:
        """The file and those that the database makes beside it."""
        return [file]

    def make_private_file(self, url: URL) -> None:  # noqa: B027  a server has none
        """Make the file, readable for its user only, if it does not exist and the driver would make it."""

    # --- connections ------------------------------------------------------------------------------------------

    @abstractmethod
    def engine_options(self, url: URL) -> Mapping[str, Any]:
        """The options of `create_engine`: its pool, and what the driver is told."""

    @abstractmethod
    def autocommit(self, connection: Any) -> None:
        """Make every statement on a driver's connection a transaction of its own, unless one was begun."""

    def erase(self, connection: Any) -> None:  # noqa: B027  a server looks after its files itself
        """Overwrite with zeros what is deleted or replaced on a driver's connection, if it would stay in the file."""

    def cancel(self, connection: Any, seconds: float) -> bool:  # noqa: ARG002  not every driver can
        """Ask the server to end the statement of a connection, and wait for at most this number of seconds.

        Returns whether the driver can do that.
        """
        return False

    def session(self, connection: Connection) -> ServerSession | None:  # noqa: ARG002  a file has none
        """The server's session; None if the number that the driver got belongs to another session, as with a pooler."""
        return None

    def end_session(self, connection: Connection, session: ServerSession) -> bool:  # noqa: ARG002  a file has none
        """Ask the server to end another session of the same user. Returns whether the session still existed."""
        return False

    def socket_number(self, connection: Any) -> int:
        """The file descriptor of the socket of a driver's connection."""
        raise NotImplementedError

    def closes_before_fork(self, url: URL) -> bool:  # noqa: ARG002  only a file must be closed
        """Whether no connection may be open while the process is forked."""
        return False

    def limit_wait(self, connection: Any, seconds: float) -> None:  # noqa: B027  calls to a server have the watchdog
        """Set how long a statement waits for another writer, if there is nothing else that it can wait for."""

    def path_of(self, connection: Any) -> str | None:  # noqa: ARG002  a server has none
        """The path of the file that a driver's connection has open; None for a server, and in memory."""
        return None

    # --- statements -------------------------------------------------------------------------------------------

    def prepare_database(self, connection: Connection) -> None:  # noqa: B027  most need nothing
        """Change the settings that the database itself stores, before the tables are made."""

    def schema_lock(self, connection: Connection, seconds: float) -> AbstractContextManager[None]:  # noqa: ARG002
        """Let nobody else change the tables in the block.

        The connection is in a transaction, which is enough for a file.

        Raises:
            OverdueError: another process has been changing them for so many seconds.
        """
        return nullcontext()

    @abstractmethod
    def upsert(self, table: Table, identity: list[str], changed: list[str]) -> Executable:
        """Insert a row, or set the changed columns of the row with the same identity."""

    def delete_these(self, connection: Connection, statement: Delete, ids: Sequence[int]) -> int:
        """Delete those rows of the statement that have one of the ids. Returns how many were deleted.

        The ids are in the text of the statement, because there may be more ids than a driver accepts as parameters. The
        same text never comes again, so it bypasses SQLAlchemy's cache of statements.
        """
        these = statement.where(text(f"id IN ({','.join(map(str, ids))})"))
        words = str(these.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True}))
        return connection.exec_driver_sql(words).rowcount

    # --- what it says of itself -------------------------------------------------------------------------------

    def product_of(self, version: str) -> str:  # noqa: ARG002  for most of them it is the same
        """The name of the product, found from its version text."""
        return self.product

    def table_bytes(self, connection: Connection, name: str) -> int:  # noqa: ARG002
        """About how many bytes must be read to index a table; 0 if no version of the tables adds an index here."""
        return 0

    def may_create(self, connection: Connection) -> bool | None:  # noqa: ARG002  a file has no rights of its own
        """Whether this user may make tables; None if it is not known."""
        return None

    def packet_limit(self, connection: Connection) -> int | None:  # noqa: ARG002  most have none
        """The largest statement that the server takes, in bytes."""
        return None

    def journal(self, connection: Connection) -> Journal | None:  # noqa: ARG002  a server looks after its files itself
        """How changes are written, where a user should know; None elsewhere."""
        return None

    def weight(self, value: str) -> int:
        """The bytes of a value in a statement."""
        return byte_size(value)

    # --- its errors -------------------------------------------------------------------------------------------

    @abstractmethod
    def trouble(self, error: DBAPIError) -> Trouble:
        """What the error means, by its code."""

    @abstractmethod
    def message_of(self, error: BaseException) -> str:
        """What a driver's error says, without any value of a statement."""

    def is_passing(self, error: BaseException) -> bool:
        """Whether the same call may succeed if it is repeated."""
        if isinstance(error, DBAPIError):
            trouble = self.trouble(error)
            return trouble is Trouble.PASSING or (error.connection_invalidated and trouble is not Trouble.REFUSED)
        return isinstance(error, PassingError)


def byte_size(value: str) -> int:
    """The bytes of a text.

    Raises:
        UnicodeEncodeError: it has half a surrogate pair in it.
    """
    return len(value) if value.isascii() else len(value.encode())


def wait_for(take: Callable[[], bool], seconds: float) -> None:
    """Try again and again to take a lock.

    Raises:
        OverdueError: somebody else has had it for so many seconds.
    """
    end = monotonic() + seconds
    while not take():
        if monotonic() > end:
            raise OverdueError("Another process was making or changing the tables all the time")
        sleep(_LOCK_CHECK_SECONDS)


def without_quoted(words: str, mark: str) -> str:
    """The words, with all hidden from the first quotation mark to the last, because a value may contain such marks."""
    return re.sub(f"{mark}.*{mark}", f"{mark}{HIDDEN}{mark}", words, flags=re.DOTALL)
