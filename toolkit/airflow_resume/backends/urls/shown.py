"""URLs for people: nothing secret of one is shown, neither by itself nor in the words of a driver.

Which options have a secret in them depends on the driver. So the value of an option counts as a secret unless its name
is known to be harmless. A new dialect cannot forget to add its secret options here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from urllib.parse import quote

from sqlalchemy.engine import URL

from airflow_resume.backends.dialects.base import HIDDEN
from airflow_resume.backends.dialects.registry import DIALECTS

_SHOWN_OPTIONS = {"host", "port", "unix_socket"}
"""The options that name the place of the database. No other option is shown."""
_NUMBERS = {name for dialect in DIALECTS for name in dialect.number_options}
_PLAIN_OPTION = re.compile(
    r"\w+_mode|\w*mode|application_name|charset|client_encoding|collation|host\w*|port|unix_socket|uri"
)
"""A driver's message may quote the values of these options and of numbers, and no others."""
_PLAIN_SETTING = re.compile(r"search_path|timezone|role|\w*_timeout")
"""The settings in libpq's `options` whose value may be quoted."""
_PLAIN_USER = re.compile(r"[\w.@+$ -]*")
"""The users that are shown. With other characters, such as a colon, the text is likely a user and a password."""
_SHORT = 4
"""A secret of fewer characters is replaced where it is a whole word only."""


class StoreUrl(URL):
    """A URL that shows none of its options in `repr` and `str`, unlike SQLAlchemy's: any may have a secret in it."""

    def __repr__(self) -> str:
        return shown_url(self)

    __str__ = __repr__


def shown_url(url: URL) -> str:
    """The URL for people: with the user, the place and the database, and without password and options."""
    place = {name: value for name, value in url.query.items() if name in _SHOWN_OPTIONS}
    user = url.username if _PLAIN_USER.fullmatch(url.username or "") else HIDDEN
    shown = url.set(query=place, username=user).render_as_string(hide_password=True)
    return shown.replace(quote(HIDDEN), HIDDEN)


def without_secrets(text: str, *urls: URL) -> str:
    """The text, such as a driver's message, with whatever is secret in the URLs replaced, the longest first."""
    for secret in sorted(chain.from_iterable(map(_secrets, urls)), key=len, reverse=True):
        if len(secret) < _SHORT:
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)
        else:
            text = text.replace(secret, HIDDEN)
    return text


@lru_cache(maxsize=16)
def _secrets(url: URL) -> Sequence[str]:
    """All that is secret in a URL, in every way in which it may be quoted."""
    found = {str(url.password)} if url.password else set()
    if not _PLAIN_USER.fullmatch(url.username or ""):
        found |= {str(url.username), *re.split(r"[^\w.@+$ -]", str(url.username))[1:]}
    for name, value in url.query.items():
        if name not in _NUMBERS and not _PLAIN_OPTION.fullmatch(name):
            found |= {value} if isinstance(value, str) else set(value)
    if isinstance(options := url.query.get("options"), str):
        settings = re.findall(r"(?:-c\s*|--)([\w.-]+)=((?:\\.|\S)*)", options)
        found |= {value for name, value in settings if not _PLAIN_SETTING.fullmatch(name)}
    if isinstance(command := url.query.get("init_command"), str):
        found |= {text for _, text in re.findall(r"""(['"])(.*?)\1""", command)}
    ways = found | {quote(each, safe="") for each in found} | {repr(each)[1:-1] for each in found}
    return tuple(ways - {""})
