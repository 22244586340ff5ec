"""What the sinks of all lakes have in common: their options, and how they claim a position."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from airflow_resume.arguments import check_choice, check_duration, check_type, kind_of
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks.decide import OnContention

if TYPE_CHECKING:
    from airflow_resume.sinks.lake_position import Lake, LakePosition


class LakeSink(ABC):
    """A sink in a lake, with the options that do not depend on the kind of the lake.

    Args:
        on_contention: what to do about another run without an order.
        patience: how long to wait for others.
        script: the name of the script; None if it has none.

    Raises:
        TypeError, ValueError: an option is invalid.
    """

    def __init__(self, *, on_contention: OnContention, patience: timedelta, script: str | None) -> None:
        check_choice("on_contention", on_contention, OnContention)
        check_duration("patience", patience)
        if script is not None:
            check_type("script", script, str, "a name")
        self._on_contention: OnContention = on_contention
        self._patience, self.script = patience, script
        self.commits: Callable[[Callable[[], None]], None] = lambda commit: commit()
        """Runs each commit. The testing kit replaces it."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.target!r}>"

    @property
    @abstractmethod
    def target(self) -> str:
        """What the sink is called in messages, without anything secret."""

    def _claimed(self, lake: Lake, claimant: Claimant) -> LakePosition:
        """Claim the position of a lake."""
        from airflow_resume.sinks.lake_position import claim_in_lake

        return claim_in_lake(lake, claimant, on_contention=self._on_contention, patience=self._patience.total_seconds())


def checked_options(name: str, given: Mapping[str, Any] | None, taken_by: str) -> dict[str, Any]:
    """The options for a store or a catalog, in a dict of its own.

    Args:
        name: of the argument.
        given: options; None for none.
        taken_by: what they are passed to.

    Raises:
        TypeError: they are no dict.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):  # it is not shown, as it may have secrets in it
        raise TypeError(f"{name}= was given {kind_of(given)}, and must be a dict, as {taken_by} takes it")
    return dict(given)


def check_schema(schema: Any) -> None:
    """Check that a table can be made with this schema; None if it is not made.

    Raises:
        TypeError: it is no schema of Arrow.
    """
    if schema is not None and not hasattr(schema, "__arrow_c_schema__"):
        raise TypeError(f"schema= was given {kind_of(schema)}, and must be a schema of Arrow")


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
