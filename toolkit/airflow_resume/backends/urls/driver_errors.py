"""What a driver says of an error, for people: without the values of a statement, and without the secrets of a URL.

PostgreSQL shows the whole row in the detail of an error, MySQL and MariaDB quote the value that they refused. The
driver's error is the cause of ours, and is printed with it, so its own words are replaced too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from airflow_resume.backends.dialects.base import HIDDEN
from airflow_resume.backends.dialects.registry import dialect_of
from airflow_resume.backends.urls.shown import without_secrets


def reason(error: BaseException, url: URL) -> str:
    """The driver's words, without any value. The error and all its causes say no more than that from now on."""
    words = _words(error, url)
    for each in _chain(error):
        _words(each, url)
    return words


def _words(error: BaseException, url: URL) -> str:
    if not isinstance(error, DBAPIError) or error.orig is None:
        _say_less(error, url)
        return without_secrets(str(error), url)
    dialect = dialect_of(url.get_backend_name())
    words = HIDDEN if dialect is None else without_secrets(dialect.message_of(error.orig), url)
    first = error.orig.args[0] if error.orig.args else None
    number = first if isinstance(first, int) else None  # that of MySQL and MariaDB comes first
    error.orig.args = (words,) if number is None else (number, words)
    # The statement is printed after them. It has no values in it.
    error.args = (f"({type(error.orig).__module__}.{type(error.orig).__qualname__}) {words}",)
    return words if number is None else f"({number}, {words!r})"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The causes of an error, whether a traceback would print them or not: an error of Python may quote a driver's."""
    seen: set[int] = {id(error)}
    ahead = [error]
    while ahead:
        one = ahead.pop()
        for other in (one.__cause__, one.__context__, getattr(one, "orig", None)):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                ahead.append(other)
                yield other


def _say_less(error: BaseException, url: URL) -> None:
    """Hide what is secret in an error of Python itself, such as one of a file, or of a text that cannot be encoded."""
    if isinstance(error, UnicodeError) and isinstance(getattr(error, "object", None), (str, bytes)):
        hidden: Any = HIDDEN if isinstance(error, UnicodeEncodeError) else HIDDEN.encode()
        error.object, error.start, error.end = hidden, 0, 1  # type: ignore[attr-defined]
    if isinstance(error, OSError) and error.filename is not None:
        error.filename = without_secrets(str(error.filename), url)
    error.args = tuple(without_secrets(each, url) if isinstance(each, str) else each for each in error.args)
