"""The address of a job in its own system. Airflow keeps it as an XCom, and shows it to all who may see the task."""

from __future__ import annotations

import re
from urllib.parse import unquote_plus, urlsplit, urlunsplit

LINK_KEY = "_link_JobLink"
"""The XCom of the address, which `ResumableJobMixin` writes while the job runs."""
MOST = 2_000
"""Characters of an address."""
_SECRET = re.compile(
    r"token|secret|passw|pwd|signature|^sig$|credential|^auth$|authorization|oauth|(api|access|private|account).?key|^key$|jwt",
    re.IGNORECASE,
)


def shown_link(address: object) -> str | None:
    """The address as it may be shown in a link; None if it is not an address of the web.

    A user, a password, and parameters whose name says that they are secret are left out.
    """
    if not isinstance(address, str) or len(address) > MOST or not address.isprintable() or " " in address:
        return None
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not host:
        return None
    route, mark, more = parts.fragment.partition("?")
    fragment = f"{route}{mark}{_without_secrets(more)}" if mark else _without_secrets(route)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=place, query=_without_secrets(parts.query), fragment=fragment))


def _without_secrets(query: str) -> str:
    """The parameters, as they are written, but for those with a secret."""
    named = [(part, unquote_plus(part.partition("=")[0])) for part in query.split("&")]
    return "&".join(part for part, name in named if "=" not in part or not _SECRET.search(name))
