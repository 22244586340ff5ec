"""The URL of a backend, read strictly.

SQLAlchemy accepts nearly everything, so a mistake is found late or never. If a password has an unescaped `@`,
SQLAlchemy takes a part of the password for the host. It leaves an unknown option to the driver, and ignores one for
SQLite. Here a URL is right, or it is refused when the backend is made, with the form to write. A refusal quotes nothing
of the URL except names that we know, because nobody can tell which part of a wrong URL is the password.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import PurePath

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from airflow_resume.backends.dialects.base import Dialect
from airflow_resume.backends.dialects.registry import DIALECTS, dialect_of
from airflow_resume.backends.urls.shown import StoreUrl
from airflow_resume.errors import BackendSettingError

_VARIABLE = re.compile(r"\$\{?\w|\{\{|%\(\w")
_ESCAPED = "In a user's name and a password, write @ as %40, / as %2F, : as %3A, ? as %3F and % as %25."
_OTHER_OPTIONS = {"mode", "cache", "immutable", "vfs", "driver", "ssl", "compress", "async_fallback"}
"""Options that other programs take, so that their names may be shown."""


def read_url(url: str | URL) -> tuple[URL, Dialect]:
    """The URL, with a driver, and the dialect that it asks for. Nothing is connected to.

    Raises:
        BackendSettingError: it cannot be read, or cannot be right. The message does not show it, and has no cause, as
            there may be a password in either.
    """
    parsed = _parsed(url)
    name, _, driver = parsed.drivername.partition("+")
    dialect = dialect_of(name)
    if dialect is None:
        kinds, aliases = [each.kind for each in DIALECTS], [name for each in DIALECTS for name in each.names[1:]]
        raise BackendSettingError(
            f"The state backend does not work on {name if name.isalpha() else 'this'!r}.",
            f"Take one of {', '.join([*kinds, *aliases])}.",
            setting="backend_url",
        )
    if driver and driver not in dialect.drivers:
        raise _refused(_driver_fault(driver, dialect), dialect)
    parsed = dialect.with_parts(parsed.set(drivername=f"{dialect.kind}+{driver or dialect.drivers[0]}"))
    for found in _faults(parsed, dialect):
        raise _refused(found, dialect)
    if isinstance(url, str) and dialect.is_server and url.count("@") > 1:
        raise _refused("has more than one @", dialect, _ESCAPED)
    return tuple.__new__(StoreUrl, parsed), dialect  # SQLAlchemy 1.4 warns of a call of the class


def _refused(what: str, dialect: Dialect | None, remedy: str = "") -> BackendSettingError:
    if dialect is not None:
        form = f"Write it as {dialect.url_form}."
    else:
        form = "Write it as one of " + "; ".join(each.url_form for each in DIALECTS) + "."
    return BackendSettingError(
        f"The URL of the state backend {what}.", f"{form} {remedy}".rstrip(), setting="backend_url"
    )


# --- the text -----------------------------------------------------------------------------------------------------


def _parsed(url: object) -> URL:
    if isinstance(url, URL):
        return url
    if isinstance(url, PurePath):
        raise BackendSettingError(
            "The URL of the state backend is a path.",
            f"Write sqlite:///{url}: three slashes, then the path.",
            setting="backend_url",
        )
    if not isinstance(url, str):
        raise _refused(f"is a {type(url).__name__} and no text", None)
    name = re.split(r"[^a-z]", url.strip().lower().removeprefix("jdbc:"), maxsplit=1)[0]
    dialect = dialect_of(name)  # the one that is likely meant
    for what, is_so in _TEXT_FAULTS.items():
        if is_so(url):
            raise _refused(what, dialect)
    if dialect is not None and (found := dialect.text_fault(url)) is not None:
        raise _refused(found, dialect)
    try:
        return make_url(url)
    except (ArgumentError, ValueError):  # ValueError: the port is no number
        pass
    # Raised here, without a context, because the error above quotes what it could not read.
    raise _refused("cannot be read", dialect, _ESCAPED if dialect is None or dialect.is_server else "")


_TEXT_FAULTS: Mapping[str, Callable[[str], bool]] = {
    "is empty": lambda url: not url.strip(),
    "has blanks around it": lambda url: url != url.strip(),
    "has a character in it that cannot be printed": lambda url: not url.isprintable(),
    "is one of JDBC": lambda url: url.lower().startswith("jdbc:"),
    "is the connection string of a driver (name=value), not a URL": lambda url: (
        re.match(r"\w+\s*=", url) is not None and "://" not in url.partition("=")[0]
    ),
    "is the name of a variable that was not replaced by its value": lambda url: _VARIABLE.match(url) is not None,
    "begins in capitals": lambda url: url.partition(":")[0] != url.partition(":")[0].lower(),
    "has a variable in it that was not replaced by its value": lambda url: (
        _VARIABLE.search(url.partition("://")[2].rpartition("@")[2].partition("?")[0]) is not None
    ),
}
"""What is wrong with a text that is no URL: a description, and a function that says whether it fits."""


# --- its parts ----------------------------------------------------------------------------------------------------


def _driver_fault(driver: str, dialect: Dialect) -> str:
    known = " or ".join(dialect.drivers)
    if any(driver in each.async_drivers for each in DIALECTS):
        return f"names {driver}, a driver for asyncio, and the backend needs another ({known})"
    named = f"names {driver}" if re.fullmatch(r"[a-z_\d]{1,20}", driver) else "names a driver"
    return f"{named}, with which the backend was not tried; its drivers are {known}, and none need be named"


def _faults(url: URL, dialect: Dialect) -> Iterator[str]:
    yield from dialect.place_faults(url)
    if not dialect.checks_options(url):
        return
    for name, value in url.query.items():
        if name not in dialect.options:
            # Its name is shown only if we know it from elsewhere. Otherwise it may be the rest of a password.
            known = name in _OTHER_OPTIONS or any(name in each.options for each in DIALECTS)
            near = get_close_matches(name, dialect.options, n=1)
            guess = f" (is it {near[0]}?)" if near else ""
            yield f"has an option{f' {name}' if known else ''} that the driver does not know{guess}"
        values = [value] if isinstance(value, str) else value
        if len(values) > 1 and name not in dialect.repeatable_options:
            yield "has an option more than once"
        number, choices = dialect.number_options.get(name), dialect.option_choices.get(name)
        for each in values:
            if number is not None and not re.fullmatch(number, each):
                yield f"has an option {name} that is no number it can be"
            if choices is not None and each not in choices:
                yield f"has an option {name} with an unknown value; known are {', '.join(choices)}"
            if (fault := dialect.option_fault(name, each)) is not None:
                yield fault
