"""What the Kubernetes and the Edge executor do to a task when its pod, node or worker goes, by the signals they send.

This is a simulation. The task and its supervisor are real ones of Airflow, in the LocalExecutor; the signals are real,
and the order and the addressees are those of the executor:

- Kubernetes: the pod of a task runs a supervisor, which starts the task's process. When the pod is deleted or evicted,
  or its node is drained, the kubelet runs `preStop`, sends SIGTERM to process 1, and SIGKILL to everything when the
  grace period is over (`terminationGracePeriodSeconds`: 600 s in the official chart, 30 s in Kubernetes). Process 1 is
  `dumb-init` in Airflow's image. The chart sets `DUMB_INIT_SETSID=0` for Celery workers only, so in the pod of a task
  dumb-init passes the signal on to the supervisor and to the task. In an image without it, only the supervisor gets it.
- Edge: SIGTERM to the worker becomes SIGTERM to each supervisor. SIGINT, or a shutdown from the UI, is a drain: the
  worker waits, and tells no task. After `[edge] drain_timeout_sec` (0, without end, by default) each supervisor gets
  SIGTERM, and SIGKILL `drain_kill_grace_sec` (30 s) later.

A supervisor passes SIGTERM on to its task. Waiting times are cut: what a grace period ends happens as soon as the tasks
that can leave have left.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from processes import is_alive
from tests.support.celery.played import IN_A_WORKER, Everything

LEAVE = ("job", "job_function", "loop")
"""Tasks that leave; a window of a watermark is not interrupted."""
Event = Callable[[Everything, Path], None]


def kubernetes_pod_deleted(run: Everything, drain_file: Path) -> None:
    """Kubernetes: the pod is deleted or evicted; SIGTERM by dumb-init, and 600 s until SIGKILL."""
    pods = _Pods(run)
    _send(signal.SIGTERM, pods.supervisors, pods.tasks)
    pods.wait()


def kubernetes_pod_deleted_short(run: Everything, drain_file: Path) -> None:
    """Kubernetes: the same, with 30 s until SIGKILL."""
    pods = _Pods(run)
    _send(signal.SIGTERM, pods.supervisors, pods.tasks)
    pods.wait()
    _send(signal.SIGKILL, pods.supervisors, pods.tasks)


def kubernetes_without_dumb_init(run: Everything, drain_file: Path) -> None:
    """Kubernetes: the pod is deleted, and its image has no dumb-init."""
    pods = _Pods(run)
    _send(signal.SIGTERM, pods.supervisors)
    pods.wait()


def kubernetes_pre_stop(run: Everything, drain_file: Path) -> None:
    """Kubernetes: the pod is deleted; `preStop` touches `drain_file`, and SIGTERM follows ten seconds later."""
    pods = _Pods(run)
    drain_file.touch()
    pods.wait()
    _send(signal.SIGTERM, pods.supervisors, pods.tasks)


def kubernetes_node_lost(run: Everything, drain_file: Path) -> None:
    """Kubernetes: the node is lost; SIGKILL at once."""
    pods = _Pods(run)
    _send(signal.SIGKILL, pods.supervisors, pods.tasks)


def edge_terminated(run: Everything, drain_file: Path) -> None:
    """Edge: the worker gets SIGTERM."""
    pods = _Pods(run)
    _send(signal.SIGTERM, pods.supervisors)
    pods.wait()


def edge_drained(run: Everything, drain_file: Path) -> None:
    """Edge: the worker gets SIGINT, and waits for its tasks without end."""
    pods = _Pods(run)
    run.let_end()
    run.until_gone(pods.tasks)


def edge_drained_by_file(run: Everything, drain_file: Path) -> None:
    """Edge: the worker gets SIGINT, and `drain_file` is touched."""
    pods = _Pods(run)
    drain_file.touch()
    pods.wait()


def edge_drain_timed_out(run: Everything, drain_file: Path) -> None:
    """Edge: the drain takes longer than `drain_timeout_sec`; SIGTERM, and SIGKILL to the supervisors after 30 s."""
    pods = _Pods(run)
    _send(signal.SIGTERM, pods.supervisors)
    pods.wait()
    _send(signal.SIGKILL, pods.supervisors)


def _by_name(*events: Event) -> dict[str, Event]:
    return {event.__name__: event for event in events}


BY_SIGNAL = _by_name(
    kubernetes_pod_deleted,
    kubernetes_pod_deleted_short,
    kubernetes_without_dumb_init,
    kubernetes_node_lost,
    edge_terminated,
    edge_drained,
    edge_drain_timed_out,
)
"""Events that each happen to one run."""
BY_FILE = _by_name(kubernetes_pre_stop, edge_drained_by_file)
"""Events of which every task of the machine hears."""
EVENTS = {**BY_SIGNAL, **BY_FILE}
KILLS_ALL = {"kubernetes_node_lost"}
KILLS_WINDOWS = {"kubernetes_pod_deleted_short", "edge_drain_timed_out"}


class _Pods:
    """The processes that a run has now: a supervisor and a task for each of its tasks that have a process."""

    def __init__(self, run: Everything) -> None:
        self._run = run
        self.tasks = list(run.processes())
        assert len(self.tasks) == len(IN_A_WORKER)
        self._leaving = list(run.processes(*LEAVE))
        # A supervisor of the LocalExecutor lives on, and runs other tasks. Of those that have left, none is signalled.
        self._of = {process: process.parent() for process in self.tasks}

    @property
    def supervisors(self) -> list[psutil.Process]:
        """Those whose task has not ended."""
        return [supervisor for process, supervisor in self._of.items() if supervisor and is_alive(process)]

    def wait(self) -> None:
        """Wait until the tasks that can leave have left, while their work would go on for minutes."""
        self._run.until_gone(self._leaving)


def _send(number: signal.Signals, *processes: list[psutil.Process]) -> None:
    for process in [each for some in processes for each in some if is_alive(each)]:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
