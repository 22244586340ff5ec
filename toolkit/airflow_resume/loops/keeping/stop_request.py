"""Whether the task was told to stop, and how a loop is left then."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from math import inf
from typing import NoReturn

from airflow_resume.attempt import Attempt
from airflow_resume.channel import Channel, in_process_supervisor, task_channel
from airflow_resume.drain import DrainWatch
from airflow_resume.errors import LoopStoppedError
from airflow_resume.killed import Ending, ending_of_kill, learn_about_kill
from airflow_resume.loops.plan import OnShutdown
from airflow_resume.loops.wake_flag import Alarm
from airflow_resume.reschedule import reschedule
from airflow_resume.shown import get_logger

log = get_logger(__name__)


class StopRequest:
    """The request to stop, shared by an outermost loop and the loops inside it.

    Args:
        alarm: wakes the loops that only count.
        attempt: the attempt that may be told to stop.
        channel: the channel for the question why; None for the channel of the task, whatever store the loop has.
        sees_record: whether this attempt still sees its record.
        drain: the looks at the file that says that the worker is being drained; None for no looks.

    Attributes:
        is_made: whether all loops stop before their next element.
        is_watched: whether the loops must call `look` now and then.
    """

    def __init__(
        self,
        alarm: Alarm,
        attempt: Attempt,
        channel: Channel | None,
        sees_record: Callable[[], bool],
        drain: DrainWatch | None = None,
    ) -> None:
        self.is_made = self._is_killed = False
        self.is_watched = drain is not None
        self._drain = drain
        self._alarm, self._attempt, self._channel, self._sees_record = alarm, attempt, channel, sees_record

    def make(self) -> None:
        """Have all loops stop before their next element. Called in a signal handler."""
        self.is_made = self._is_killed = True
        self._alarm.wake()

    def look(self, at: float) -> None:
        """Make the request if the worker is being drained. It looks once a second at most.

        Args:
            at: the time, in seconds.
        """
        if self._drain is not None and not self.is_made and self._drain.finds_drain(at):
            self.is_made = True

    def quiet_seconds(self, at: float) -> float:
        """For how many seconds nobody has to call `look`."""
        return inf if self._drain is None else self._drain.due - at

    def leave(self, loop: str, where: str, *, on_shutdown: OnShutdown, now: Callable[[], datetime]) -> NoReturn:
        """Leave the loop in the way that fits the reason; what is done must be saved.

        Args:
            loop: the name of the outermost loop.
            where: the place at which the loop stopped, for messages.
            on_shutdown: what to do when the worker shuts down.
            now: the clock.

        Raises:
            AirflowRescheduleException: the worker shuts down, and the same try is to continue elsewhere.
            LoopStoppedError: there is another reason, or the reason could not be learned.
        """
        why = Ending.UNKNOWN
        if not in_process_supervisor():  # `dag.test()` does not reschedule a task
            channel = task_channel() if self._channel is None else self._channel
            facts = learn_about_kill(
                channel,
                ask_state=self._attempt.ask_state,
                sees_record=self._sees_record,
                drained=not self._is_killed,
            )
            why = ending_of_kill(facts)
        if why is Ending.SHUTDOWN and on_shutdown == "reschedule":
            log.info("The worker shuts down, so %s; the task frees its slot, and its try goes on there", where)
            reschedule(now=now)
        raise LoopStoppedError(
            f"The task was told to stop ({why.value}), so {where}. What is done is saved.",
            "A retry goes on there.",
            loop=loop,
            reason=why.value,
        )
