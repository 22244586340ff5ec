"""What a URI of a table may show, and which packages a sink needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit


def without_secrets(uri: str) -> str:
    """A URI without user, password, query and fragment."""
    if "://" not in uri:
        return uri
    parts = urlsplit(uri)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


@contextmanager
def needs_extra(extra: str, sink: object) -> Iterator[None]:
    """A block of imports, which name the extra if a package is missing.

    Args:
        extra: that has the packages.
        sink: that needs them.

    Raises:
        ModuleNotFoundError: one is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{type(sink).__name__} needs the package {error.name}.\nInstall airflow-resume[{extra}].", name=error.name
        ) from error
