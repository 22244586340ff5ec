"""Events that are played on one Airflow, a group after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from stage import Stage
from tests.support.celery.celery_airflow import CeleryAirflow
from tests.support.celery.played import Everything

Happens = Callable[[Everything, CeleryAirflow], None]


class Course:
    """Plays each group of events when the first of its runs is asked for, and not again.

    The runs of the next group begin while those of the last one end: both wait for processes to start. No event happens
    before every run of the group before it has ended.

    Args:
        stage: the Airflow, with the folder `lines` to which the tasks write.
        groups: events by name. Those of a group happen at the same time, each to its own run.
    """

    def __init__(self, stage: Stage, groups: Sequence[Mapping[str, Happens]]) -> None:
        assert isinstance(stage.airflow, CeleryAirflow)
        self._stage, self._airflow = stage, stage.airflow
        self._groups = [group for group in groups if group]
        self._begun: dict[str, Future[Everything]] = {}
        self._ended: dict[str, Future[Everything]] = {}
        self._pool = ThreadPoolExecutor(max_workers=4 * max(map(len, self._groups)))

    def run(self, name: str) -> Everything:
        """The run to which an event has happened, at its end."""
        if name not in self._ended:
            self._play(next(index for index, group in enumerate(self._groups) if name in group))
        return self._ended[name].result()

    def close(self) -> None:
        """Wait for what was begun."""
        self._pool.shutdown()

    def _play(self, index: int) -> None:
        self._begin(index)
        wait(self._begun.values())
        happened = {name: self._pool.submit(self._happen, name, event) for name, event in self._groups[index].items()}
        for name, future in happened.items():
            self._ended[name] = self._pool.submit(_end, future)
        wait(happened.values())
        self._begin(index + 1)
        wait(self._ended.values())

    def _begin(self, index: int) -> None:
        for name in (name for group in self._groups[index : index + 1] for name in group if name not in self._begun):
            self._begun[name] = self._pool.submit(self._started, name)

    def _started(self, name: str) -> Everything:
        run = Everything(self._stage, self._stage.home / "lines", name)
        run.start()
        return run

    def _happen(self, name: str, event: Happens) -> Everything:
        run = self._begun[name].result()
        event(run, self._airflow)
        return run


def _end(happened: Future[Everything]) -> Everything:
    run = happened.result()
    run.end()
    return run
