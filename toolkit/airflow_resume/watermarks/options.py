"""The options of a watermark, checked when the Dag file is read."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from airflow_resume import values
from airflow_resume.arguments import check_choice, check_flag, check_function, check_whole
from airflow_resume.errors import WatermarkWarning
from airflow_resume.shown import short_repr
from airflow_resume.watermarks.commit import Advance, OnGap
from airflow_resume.watermarks.cursors.cursor import CursorType
from airflow_resume.watermarks.cursors.zones import host_zone
from airflow_resume.watermarks.keys import MARK, partition_text
from airflow_resume.watermarks.partition import Partition
from airflow_resume.watermarks.rows.track import Future, Nulls
from airflow_resume.watermarks.schedule import written
from airflow_resume.watermarks.sql.column import Columns

if TYPE_CHECKING:
    from datetime import tzinfo

    from airflow.sdk import Asset

T = TypeVar("T")

WhenEmpty = Literal["run", "skip"]
Backfill = Literal["isolated", "fill", "forbid"]
OnMissing = Literal["fail", "recover", "initial"]


@dataclass(frozen=True, kw_only=True)
class Options(Generic[T]):
    """The arguments of `watermark`, which describes them. There is one attribute for each argument."""

    asset: Asset
    initial: object
    cursor: CursorType[T]
    name: str = "watermark"
    advance: Advance = "window"
    delay: Any = None
    lookback: Any = None
    max_span: Any = None
    clock: Callable[[], object] | None = None
    nulls: Nulls | None = None
    future: Future = "exclude"
    when_empty: WhenEmpty = "run"
    partition: Partition = None
    backfill: Backfill = "isolated"
    on_gap: OnGap = "hold"
    on_missing: OnMissing = "fail"
    history: int = 10
    migrate: Callable[[Any], object] | None = None
    shared: bool = False
    sql: Columns = None

    def __post_init__(self) -> None:
        self._check_types()
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        if self.nulls is not None:
            check_choice("nulls", self.nulls, Nulls)
        if self.sql is not None:
            from airflow_resume.watermarks.sql.bound_values import check_columns

            check_columns(self.sql, self.cursor)
        if not callable(self.initial):
            self.cursor.parse(self.initial, what="initial")
        if self.partition is not None and not callable(self.partition):
            partition_text(self.partition)
        for name in ("delay", "lookback", "max_span"):
            span = getattr(self, name)
            if span is not None:
                self.cursor.check_span(name, span)
        if self.max_span is not None and not self.max_span:
            raise ValueError("max_span must be above 0.\nGive a longer one, or leave it out.")
        self._check_clock()
        self._warn_of_late_rows()
        self._warn_of_zone()

    def _check_types(self) -> None:
        asset: object = self.asset
        if isinstance(asset, type) or not (getattr(asset, "name", None) and getattr(asset, "uri", None)):
            raise TypeError(f"asset={short_repr(asset)} must be an Asset, such as Asset('orders')")
        values.make_key(MARK, self.name)
        check_whole("history", self.history, least=0)
        check_flag("shared", self.shared)
        for name, function in (("now", self.clock), ("migrate", self.migrate)):
            if function is not None:
                check_function(name, function)

    def _check_clock(self) -> None:
        if self.advance == "window" and not self.has_ceiling:
            raise ValueError(
                f"advance='window' needs to know where to end, and a {self.cursor.type} has no clock of its own.\n"
                "Give now= (a function that asks for a value below which no transaction is open), or take"
                " advance='observed'."
            )
        for name in ("delay", "max_span"):
            if getattr(self, name) and not self.has_ceiling:
                raise ValueError(
                    f"{name}= counts from now=, and a {self.cursor.type} has no clock of its own.\nGive now= as well."
                )
        if self.advance != "explicit" and not self.cursor.is_ordered:
            raise ValueError(f"A {self.cursor.type} has no order, so only advance='explicit' can move the mark.")

    def _warn_of_late_rows(self) -> None:
        """Warn that rows may be lost if they do not become visible in the order of their values."""
        if self.delay is not None or self.advance == "explicit":
            return
        of = f"The watermark {self.name!r} on {self.asset.name!r} has no delay="
        if self.cursor.leading.has_clock:
            text = (
                f"{of}: a row that becomes visible after its own timestamp, as in a slow transaction, is never"
                " loaded.\n"
                "Say how long that may take, or delay=timedelta(0) if it cannot happen."
            )
        elif self.clock is None and not self.lookback:
            text = (
                f"{of} and no now=: a row that becomes visible after one with a greater {self.cursor.leading.type}, as"
                " with ids of a sequence, which are given out before the commit, is never loaded.\n"
                "Give now= a function that asks for a value below which no transaction is open, or say delay=0 if rows"
                " become visible in the order of their values."
            )
        else:
            return
        warnings.warn(text, WatermarkWarning, stacklevel=5)

    def _warn_of_zone(self) -> None:
        """Warn that rows may be lost because the time zone of the values is not known."""
        host = host_zone()
        lost = None if host is None else lost_without_zone(self)
        if lost is not None:
            warnings.warn(
                f"The time zone of this machine is {host}, and {lost}.\n"
                f"Say in which zone its values are, such as cursor={zoned(self)}.",
                WatermarkWarning,
                stacklevel=5,
            )

    @property
    def has_ceiling(self) -> bool:
        """Whether it is known where a window must end."""
        if self.clock is not None:
            return True
        if not self.cursor.has_clock or self.is_naive:
            return False
        # A window of several columns has an end only if an option needs the clock: version 0.1 cannot read a bound that
        # has the first column alone.
        counts = self.advance == "window" or self.delay is not None or self.max_span is not None
        return counts or self.cursor.leading is self.cursor

    @property
    def is_naive(self) -> bool:
        """Whether values are times of an unknown zone, so that this machine's clock does not fit them."""
        return self.cursor.zoneless == "times"

    def ceiling(self) -> T | None:
        """The value from which on rows may still change; None if it is not known."""
        if not self.has_ceiling:
            return None
        from airflow_resume.attempt import utc_now

        now = self.cursor.now(utc_now if self.clock is None else self.clock)
        return self.cursor.floor(now if self.delay is None else self.cursor.minus(now, self.delay))

    @property
    def asks_for_initial(self) -> bool:
        """Whether a function gives the initial value. Then the value is kept with the mark."""
        return callable(self.initial)

    def first(self) -> T:
        """The initial value. If it is given by a function, the function is called now."""
        initial = self.initial() if callable(self.initial) else self.initial
        return self.cursor.parse(initial, what="initial")


_CHOICES: dict[str, Any] = {
    "advance": Advance,
    "future": Future,
    "when_empty": WhenEmpty,
    "backfill": Backfill,
    "on_gap": OnGap,
    "on_missing": OnMissing,
}


def lost_without_zone(options: Options[Any]) -> str | None:
    """What a watermark loses because the time zone of its values is not known; None if it loses nothing."""
    named = f"the watermark {options.name!r} on {options.asset.name!r}"
    if options.cursor.zoneless == "days":
        is_by_our_clock = options.clock is None and options.has_ceiling
        lost = "rows of a day that come after midnight in UTC are never loaded"
        return f"{named} is of days without a time zone: {lost}" if is_by_our_clock else None
    if not options.is_naive or options.lookback is not None:
        return None
    return (
        f"{named} is of naive times without a time zone: when clocks are set back, the same times come twice, and"
        " rows of the second hour may never be loaded"
    )


def zoned(options: Options[Any], zone: tzinfo | None = None) -> str:
    """The cursor with a zone, in Python."""
    name = "'America/Los_Angeles'" if zone is None else written(zone)
    if options.cursor.zoneless == "days":
        return f"Cursor.date({name}), or Cursor.date('UTC')"
    return f"Cursor.datetime({name}, naive=True), or Cursor.datetime(naive=True) for UTC"
