"""The arguments of `checkpoint`, validated. No store and no source is used yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Generic, Literal, TypeVar

from airflow_resume import values
from airflow_resume.arguments import (
    check_choice,
    check_context,
    check_duration,
    check_store,
    check_type,
    check_whole,
    kind_of,
)
from airflow_resume.attempt import AnyContext, utc_now
from airflow_resume.errors import SinkUnsafeError
from airflow_resume.loops.loop_record import KEY_PREFIX
from airflow_resume.loops.opening import Definition, OpeningPolicy
from airflow_resume.loops.skip import Skip
from airflow_resume.loops.sources.source import Source
from airflow_resume.loops.wake_flag import Alarm
from airflow_resume.sink_protocol import Sink
from airflow_resume.store import StateStore

T = TypeVar("T")

Durability = Literal["async", "sync", "exit"]
Delivery = Literal["at_least_once", "at_most_once"]
Ack = Literal["each", "manual"]
OnStoreError = Literal["raise", "continue"]
OnEmpty = Literal["done", "fail"]
OnShort = Literal["retry", "warn", "fail"]
OnShutdown = Literal["reschedule", "fail"]


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """The options that belong to a record, so only the outermost loop may have them; see `checkpoint`."""

    durability: Durability = "async"
    interval: timedelta = timedelta(seconds=1)
    max_interval: timedelta = timedelta(minutes=5)
    max_uncommitted: timedelta = timedelta(seconds=30)
    on_store_error: OnStoreError = "raise"
    on_shutdown: OnShutdown = "reschedule"
    context: AnyContext | None = None
    store: StateStore | None = None
    sink: Sink | None = None
    commit_every: int | timedelta = 1

    def __post_init__(self) -> None:
        check_choice("durability", self.durability, Durability)
        check_choice("on_store_error", self.on_store_error, OnStoreError)
        check_choice("on_shutdown", self.on_shutdown, OnShutdown)
        check_duration("interval", self.interval)
        check_duration("max_interval", self.max_interval)
        check_duration("max_uncommitted", self.max_uncommitted)
        if self.context is not None:
            check_context(self.context)
        if self.store is not None:
            check_store(self.store)
        if isinstance(self.sink, type) or (self.sink is not None and not callable(getattr(self.sink, "claim", None))):
            raise TypeError(f"sink= was given {kind_of(self.sink)}, and must be a sink, such as SqlSink(engine)")
        if isinstance(self.commit_every, timedelta):
            check_duration("commit_every", self.commit_every)
        else:
            check_whole("commit_every", self.commit_every, least=1)
        if self.sink is None and self.commit_every != 1:
            raise ValueError("commit_every= is how often a sink commits.\nGive the loop a sink=, or leave it out.")

    def chosen(self) -> list[str]:
        """The names of the options that are not the default."""
        return [choice.name for choice in fields(self) if getattr(self, choice.name) != choice.default]


@dataclass(frozen=True, kw_only=True)
class Plan(Generic[T]):
    """A loop that is to be run."""

    name: str
    source: Source[T]
    fingerprint: Mapping[str, object] = field(default_factory=dict)
    policy: OpeningPolicy = field(default_factory=OpeningPolicy)
    keeping: Keeping = field(default_factory=Keeping)
    delivery: Delivery = "at_least_once"
    ack: Ack = "each"
    skip: Skip | None = None
    on_empty: OnEmpty = "done"
    on_short: OnShort = "retry"
    monotonic: Callable[[], float] = time.monotonic
    alarm: Callable[[], Alarm] = Alarm
    now: Callable[[], datetime] = utc_now

    def __post_init__(self) -> None:
        _ = self.key
        check_type("fingerprint", self.fingerprint, Mapping, "a dict, such as {'query': query}")
        if self.fingerprint:
            values.fingerprint(dict(self.fingerprint), at="fingerprint")
        check_choice("delivery", self.delivery, Delivery)
        check_choice("ack", self.ack, Ack)
        check_choice("on_empty", self.on_empty, OnEmpty)
        check_choice("on_short", self.on_short, OnShort)
        if self.skip is not None:
            check_type("skip", self.skip, Skip, "a Skip, such as Skip(on=(ValueError,))")
        if self.skip is not None and self.ack == "manual":
            raise ValueError("skip=Skip(...) needs ack='each': with ack='manual' the body may hold several elements.")
        if self.keeping.sink is not None and self.delivery == "at_most_once":
            raise SinkUnsafeError(
                "delivery='at_most_once' writes the position before the rows, and a sink writes both together.",
                "Leave out delivery=, or the sink.",
                problem="option",
            )
        for name, chosen in (("ack='manual'", self.ack == "manual"), ("skip=Skip(...)", self.skip is not None)):
            if chosen and self.delivery == "at_most_once":
                raise ValueError(
                    f"{name} means nothing with delivery='at_most_once': an element is done when it is delivered"
                )

    @property
    def key(self) -> str:
        """The key of the record.

        Raises:
            InvalidKeyError: no key can be made from the name.
        """
        return values.make_key(KEY_PREFIX, self.name)

    @property
    def definition(self) -> Definition:
        """What positions depend on."""
        fingerprints = values.fingerprints({**self.source.definition(), **self.fingerprint})
        return Definition(kind=self.source.kind, fp=fingerprints)
