"""A mark that is kept in a sink, in the transaction of the rows. Airflow's mark follows it.

Theory of operation. Before a window begins, the position in the sink is claimed, and Airflow's mark is moved to it:
forward, if an attempt died between the commit of the sink and that of the mark, or back, if the target was restored.
Nothing of an unfinished window is in the sink. So a retry begins a new window at the mark, which may end later than the
window of the earlier attempt.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from airflow_resume import sink_body
from airflow_resume.errors import SinkUnsafeError, UnreadableRecordError, WatermarkError
from airflow_resume.shown import get_logger
from airflow_resume.sink_protocol import Claimant, ClaimedPosition, Sink, check_use_in
from airflow_resume.watermarks.commit import LoadedRange, Outcome
from airflow_resume.watermarks.marks.mark_record import MarkRecord, WindowState
from airflow_resume.watermarks.marks.outbox import PublishedWindow
from airflow_resume.watermarks.options import Options
from airflow_resume.watermarks.windows.override import override_of
from airflow_resume.watermarks.windows.run_stores import RunStores
from airflow_resume.watermarks.windows.staged import StageToken
from airflow_resume.watermarks.windows.window import Window

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

log = get_logger(__name__)


class MarkInSink(Generic[T]):
    """The mark of one partition in a sink, claimed by this attempt.

    Args:
        stores: of the attempt.
        sink: that keeps the mark.

    Raises:
        SupersededError: a later attempt has claimed it.
        SinkError: it cannot be claimed.
    """

    def __init__(self, stores: RunStores[T], sink: Sink) -> None:
        self._stores, options = stores, stores.options
        check_options(options)
        if (override := override_of(stores.context, options)) is not None:
            _refuse(
                f"This run loads a window that its {override.origin} names, and rows of it may be in the sink already.",
                "Set the mark back instead, and delete what was loaded from there; or load the window without a sink.",
            )
        identity: list[JsonValue] = ["watermark", options.asset.name, options.name, stores.partition]
        self._claimed: ClaimedPosition = sink.claim(identity, Claimant.of(stores.attempt))
        self.is_over = False
        """Whether it was closed."""
        check_use_in(self._claimed, self._check_use)
        sink_body.begin(self)
        self._target = sink.target
        self._at: JsonValue = None
        self._origin = ""
        """A random text by which this sink is told from others. It is beside the mark, in the sink and in Airflow."""

    @property
    def connection(self) -> Any:
        """The connection of the sink, in a transaction.

        Raises:
            SinkUnsafeError: a loop in the window has an element in hand, whose rows could be lost.
        """
        self._check_use()
        return self._claimed.connection

    def _check_use(self) -> None:
        sink_body.check_connection(self)

    def harm(self, *, to_itself: bool) -> SinkUnsafeError | None:  # noqa: ARG002
        """A window does no harm to a sink; see `sink_body`."""
        return None

    def align(self) -> None:
        """Move Airflow's mark to that of the sink, and forget a window that an earlier attempt has begun.

        If a person or a program has set the mark since the last commit of the sink, that mark counts.

        Raises:
            SinkUnsafeError: another sink keeps the mark, or this one has lost it.
        """
        stores = self._stores
        self._forget_window()
        mark = stores.mark.find(moves=True)
        stores.mark.check_owner(mark)
        kept = self._kept()
        self._check_is_same(mark, kept)
        self._origin = (kept or {}).get("origin") or secrets.token_hex(8)
        if kept is None or (mark.pending in {"rewind", "reset"} and mark.epoch != kept["epoch"]):
            self._at = mark.at
            self._keep(mark.epoch, None if mark.ties is None else [*mark.ties])
            return
        self._at = kept["at"]
        self._follow(mark, kept)
        mark = stores.mark.find(moves=True) if mark.at != kept["at"] else mark
        if mark.kept_in != self._origin:
            self._keep(mark.epoch, kept["ties"])

    def _check_is_same(self, mark: MarkRecord, kept: dict[str, Any] | None) -> None:
        if mark.kept_in is None or (kept is not None and kept.get("origin") == mark.kept_in):
            return
        raise SinkUnsafeError(
            f"The mark {mark.key!r} is kept in another sink: the one in {self._target} has no position of it. Its rows"
            " would be written twice.",
            "Give it the sink of before. If that was restored to before the first commit, or if"
            f" it is to begin here, say from where: {self._stores.mark.by_hand()}",
            problem="lost",
            sink=self._target,
        )

    def _keep(self, epoch: str, ties: JsonValue) -> None:
        """Keep the mark in the sink, as it is, and note in Airflow that the sink keeps it."""
        self._commit(epoch, ties)
        self._stores.mark.keep_in(self._origin)

    def _follow(self, mark: MarkRecord, kept: dict[str, Any]) -> None:
        """Move Airflow's mark to that of the sink."""
        stores = self._stores
        here: Any = stores.options.cursor.parse(kept["at"], what="the mark in the sink")
        there: Any = stores.parsed(mark.at)
        if here == there:
            return
        stores.claim()  # the asset's store takes writes of a replaced attempt, and the task's store refuses them
        if there < here:
            self._move_forward(mark, here, kept)
        else:
            log.warning("The sink stands at %r, and the mark at %r. The sink counts", kept["at"], mark.at)
            stores.mark.reset(here)

    def _forget_window(self) -> None:
        begun = self._stores.slot.read()
        if begun is None or begun.state is WindowState.CLAIMED:
            return
        if begun.state is WindowState.COMMITTED:
            log.warning("The window of this run is in the sink already, so this attempt loads only what is new")
        self._stores.claim()

    def _move_forward(self, mark: MarkRecord, here: T, kept: dict[str, Any]) -> None:
        """Move the mark over what an attempt has committed to the sink before it died, and publish that."""
        log.warning("The sink stands at %r, and the mark at %r. The mark follows", kept["at"], mark.at)
        stores = self._stores
        ties = None if kept["ties"] is None else tuple(kept["ties"])
        loaded = LoadedRange(start=stores.parsed(mark.at), new=here, epoch=mark.epoch, base_rev=mark.rev, ties=ties)
        outcome, _ = stores.mark.move(
            loaded,
            mover=stores.mover(stores.attempt.scope.task_id),
            published=PublishedWindow(start=mark.at, end=kept["at"]),
            origin="mark",
        )
        if outcome is not Outcome.ADVANCED:
            raise WatermarkError(
                f"The mark {mark.key!r} could not follow the sink to {kept['at']!r} ({outcome.value}).",
                "A retry tries again.",
                key=mark.key,
                asset=stores.options.asset.name,
            )

    def commit(self, token: StageToken, window: Window[T] | None) -> None:
        """Commit the rows and the mark after them.

        Args:
            token: what was loaded.
            window: the window, or what was loaded of it so far.
        """
        if window is not None:
            _check_told_apart(window, token)
        cursor = self._stores.options.cursor
        if token.new is not None:
            new: Any = cursor.parse(token.new, what="the end")
            if self._at is None or cursor.parse(self._at, what="the mark") < new:
                self._at = token.new
        self._commit(token.epoch, None if token.ties is None else [*token.ties])

    def _commit(self, epoch: str, ties: JsonValue) -> None:
        kept: dict[str, JsonValue] = {"v": 1, "at": self._at, "type": self._stores.options.cursor.type, "epoch": epoch}
        self._claimed.commit({**kept, "ties": ties, "origin": self._origin})

    def close(self) -> None:
        """Undo what was not committed, and give the claim back."""
        self.is_over = True
        self._claimed.close()

    def _kept(self) -> dict[str, Any] | None:
        """The mark in the sink; None if there is none.

        Raises:
            UnreadableRecordError: it is one of another cursor, or of a newer version.
        """
        kept: Any = self._claimed.position
        if kept is None:
            return None
        cursor = self._stores.options.cursor
        if not isinstance(kept, dict) or kept.get("v") != 1 or kept.get("type") != cursor.type:
            raise UnreadableRecordError(
                f"The position of {self._stores.keys.mark!r} in the sink is not a mark of the type {cursor.type!r}.",
                "Put the cursor back, or delete the row of the position: the sink then takes over Airflow's mark.",
                key=self._stores.keys.mark,
            )
        return kept


def check_options(options: Options[Any]) -> None:
    """Check that no option makes the watermark load a row twice.

    Raises:
        SinkUnsafeError: one does.
    """
    twice = {
        "lookback= reads rows again that are in the sink": options.lookback is not None,
        "nulls='keep' loads rows without a value in every run": options.nulls == "keep",
        "future='clamp' loads rows after the end now and later": options.future == "clamp",
        "a cursor without an order, such as a token, cannot be compared with the sink": not options.cursor.is_ordered,
    }
    for why, is_so in twice.items():
        if is_so:
            _refuse(f"With a sink each row is written once, and {why}.", "Leave out this option, or the sink.")


def _check_told_apart(window: Window[Any], token: StageToken) -> None:
    """Check that the rows at the mark will not be loaded again by the next run.

    Raises:
        SinkUnsafeError: they would, as nothing tells them apart.
    """
    if window.plan.advance == "observed" and token.new is not None and token.ties is None and window.tally.rows:
        _refuse(
            "The next run would load the rows at the mark again, because nothing tells them apart.",
            "Name it: window.track(rows, ..., unique='id'). Or move the mark to the window's end: advance='window'.",
        )


def _refuse(why: str, remedy: str) -> NoReturn:
    raise SinkUnsafeError(why, remedy, problem="option")
