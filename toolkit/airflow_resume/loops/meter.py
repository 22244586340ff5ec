"""Airflow's metrics about a loop: when it is opened, and at every write; never for an element."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_resume import metrics
from airflow_resume.loops.loop_record import LoopRecord
from airflow_resume.loops.opening import Opening


class Meter:
    """The metrics of one outermost loop in one attempt.

    Args:
        tags: of all metrics.
        record: as the loop was opened.
    """

    def __init__(self, tags: Mapping[str, str], record: LoopRecord) -> None:
        self._tags = tags
        self._n, self._skipped = record.n, record.skipped

    def opened(self, opening: Opening, stalls: int) -> None:
        """The decision; `stalls`: how many attempts in a row died where the loop stands."""
        metrics.count("checkpoint.opened", self._tags)
        if opening.value.startswith("started over"):
            metrics.count("checkpoint.restarted", self._tags)
        if stalls:
            metrics.count("checkpoint.stalled", self._tags)

    def written(self, record: LoopRecord, seconds: float) -> None:
        """A write has returned; elements are counted since the write before."""
        metrics.count_by("checkpoint.elements", record.n - self._n, self._tags)
        metrics.count_by("checkpoint.skipped", record.skipped - self._skipped, self._tags)
        metrics.timing("checkpoint.write", seconds, self._tags)
        if record.total:
            metrics.gauge("checkpoint.done_ratio", record.n / record.total, self._tags)
        self._n, self._skipped = record.n, record.skipped
