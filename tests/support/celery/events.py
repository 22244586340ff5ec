"""What happens to a deployment with Celery workers, by name."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

import psutil

from processes import is_alive, kill
from tests.support.celery.celery_airflow import WORKERS, CeleryAirflow
from tests.support.celery.played import IN_A_WORKER, JOBS, Everything

Event = Callable[[Everything, CeleryAirflow], None]
SHORT_GRACE = 3.0
"""Seconds until SIGKILL, fewer than the tasks need to end by themselves, for they need minutes."""
LONG_GRACE = 60.0


def task_killed(run: Everything, airflow: CeleryAirflow) -> None:
    """The process of each task gets SIGKILL, as by the kernel when memory runs out."""
    kill(run.processes())


def supervisor_killed(run: Everything, airflow: CeleryAirflow) -> None:
    """The supervisor of each task gets SIGKILL; the task's process is an orphan."""
    kill([psutil.Process(process.ppid()) for process in run.processes()])


def worker_killed(run: Everything, airflow: CeleryAirflow) -> None:
    """Both workers get SIGKILL with all that they started, as when a machine is lost."""
    with ExitStack() as stack:
        for worker in WORKERS:
            stack.enter_context(airflow.without(worker))
        time.sleep(1)


def worker_main_killed(run: Everything, airflow: CeleryAirflow) -> None:
    """The main process of both workers gets SIGKILL; the tasks do not hear of it."""
    _signal(airflow, signal.SIGKILL, patience=None)


def warm_shutdown(run: Everything, airflow: CeleryAirflow) -> None:
    """The main process of both workers gets SIGTERM, and has time: it waits for its tasks, which end meanwhile."""
    with ExitStack() as stack:
        for worker in WORKERS:
            stack.enter_context(airflow.signalled(worker, signal.SIGTERM, patience=LONG_GRACE))
        time.sleep(2)
        run.let_end()


def workers_drained(run: Everything, airflow: CeleryAirflow) -> None:
    """The main process of one worker after the other gets SIGTERM, and its tasks hear of that by `drain_file`."""
    (window,) = run.processes("mark")
    mains = {worker: airflow.main_of(worker) for worker in WORKERS}
    for worker in sorted(WORKERS, key=lambda name: mains[name] in window.parents()):
        main, other = airflow.main_of(worker), airflow.main_of(next(name for name in WORKERS if name != worker))
        told = [process for process in run.processes(*LEAVE) if main in process.parents()]
        with airflow.signalled(worker, signal.SIGTERM):
            run.until_gone(told)
            run.until(lambda other=other: _all_run_on(other, run), "all run on the other worker")  # type: ignore[misc]
            assert is_alive(window)
            if main in window.parents():  # a window is not interrupted
                run.let_end()
            run.until(lambda main=main: not is_alive(main), f"{worker} has ended")  # type: ignore[misc]


LEAVE = ("job", "job_function", "loop")
"""Tasks that leave a worker that is drained."""


def _all_run_on(main: psutil.Process, run: Everything) -> bool:
    with suppress(psutil.NoSuchProcess):
        return [main in process.parents() for process in run.processes(*LEAVE)] == [True] * len(LEAVE)
    return False


def warm_shutdown_cut_short(run: Everything, airflow: CeleryAirflow) -> None:
    """The same, with SIGKILL for everything after three seconds, as if the grace period was shorter than the tasks."""
    _signal(airflow, signal.SIGTERM, patience=SHORT_GRACE)


def cold_shutdown(run: Everything, airflow: CeleryAirflow) -> None:
    """The main process of both workers gets SIGQUIT."""
    _signal(airflow, signal.SIGQUIT, patience=LONG_GRACE)


def group_terminated(run: Everything, airflow: CeleryAirflow) -> None:
    """Every process of both workers gets SIGTERM, as by systemd."""
    told = list(run.processes(*LEAVE))
    with ExitStack() as stack:
        for worker in WORKERS:
            stack.enter_context(airflow.redeployed(worker))
        run.until_gone(told)
        run.let_end()  # a window is not interrupted, and the workers wait for it


def message_delivered_twice(run: Everything, airflow: CeleryAirflow) -> None:
    """The tasks take longer than the visibility time-out of the broker, which delivers their messages again."""
    messages = {airflow.message_of(run.run_id, task_id) for task_id in IN_A_WORKER}
    airflow.deliver_again()
    run.until(lambda: messages <= airflow.refused_messages(), "each message is delivered again")


def broker_paused(run: Everything, airflow: CeleryAirflow) -> None:
    """Redis does not answer for 20 seconds."""
    with airflow.suspended("broker"):
        time.sleep(20)


def broker_restarted(run: Everything, airflow: CeleryAirflow) -> None:
    """Redis is killed, and starts again ten seconds later."""
    with airflow.without_broker():
        time.sleep(10)


def database_connections_cut(run: Everything, airflow: CeleryAirflow) -> None:
    """Every connection to the metadata database is ended, five times in ten seconds."""
    airflow.cut_database_connections()


def api_server_away(run: Everything, airflow: CeleryAirflow) -> None:
    """No API server for a minute."""
    with airflow.without("api-server"):
        time.sleep(60)


def api_server_away_and_asked_longer(run: Everything, airflow: CeleryAirflow) -> None:
    """No API server for a minute, and a worker asks it for longer: `execution_api_retries = 60`."""
    api_server_away(run, airflow)


def api_server_slow(run: Everything, airflow: CeleryAirflow) -> None:
    """The API server stands still for 8 of each 10 seconds, three times."""
    for _ in range(3):
        with airflow.suspended("api-server"):
            time.sleep(8)
        time.sleep(2)


def scheduler_killed(run: Everything, airflow: CeleryAirflow) -> None:
    """SIGKILL for the scheduler, and another one ten seconds later."""
    with airflow.without("scheduler"):
        time.sleep(10)


def triggerer_killed(run: Everything, airflow: CeleryAirflow) -> None:
    """SIGKILL for the triggerer, and another one ten seconds later."""
    with airflow.without("triggerer"):
        time.sleep(10)


def cleared(run: Everything, airflow: CeleryAirflow) -> None:
    """Somebody clears every task while it runs."""
    run.clear()
    run.until(lambda: all(run.books(task_id)["submitted"] == 2 for task_id in JOBS), "other jobs are submitted")
    for task_id in ("loop", "mark"):
        run.until(lambda task_id=task_id: run.lines(task_id)[-1]["try"] == 2, f"{task_id} has begun again")  # type: ignore[misc]


def marked_failed(run: Everything, airflow: CeleryAirflow) -> None:
    """Somebody marks every task as failed while it runs."""
    processes = list(run.processes())
    run.mark_tasks("failed")
    run.until_gone(processes)


def marked_success(run: Everything, airflow: CeleryAirflow) -> None:
    """Somebody marks every task as success while it runs."""
    processes = list(run.processes())
    run.mark_tasks("success")
    run.until_gone(processes)


def _signal(airflow: CeleryAirflow, number: signal.Signals, *, patience: float | None) -> None:
    with ExitStack() as stack:
        for worker in WORKERS:
            stack.enter_context(airflow.signalled(worker, number, patience=patience))


def _by_name(*events: Event) -> dict[str, Event]:
    return {event.__name__: event for event in events}


OF_A_RUN = (
    _by_name(task_killed, supervisor_killed, message_delivered_twice),
    _by_name(cleared, marked_failed, marked_success),
)
"""Events that concern the tasks of one run: each group is played side by side."""
OF_THE_WORKERS = _by_name(
    worker_killed,
    worker_main_killed,
    warm_shutdown,
    warm_shutdown_cut_short,
    cold_shutdown,
    group_terminated,
)
OF_THE_SERVICES = _by_name(
    broker_paused,
    broker_restarted,
    database_connections_cut,
    api_server_away,
    api_server_slow,
    scheduler_killed,
    triggerer_killed,
)
OF_PATIENT_WORKERS = _by_name(api_server_away_and_asked_longer)
"""Events that cost no try where Airflow's workers ask the API server for longer than by default."""
OF_DRAINED_WORKERS = _by_name(workers_drained)
"""Events that cost no try where workers have a file of `[airflow_resume] drain_file`."""
EVENTS = {
    name: event
    for events in (*OF_A_RUN, OF_THE_WORKERS, OF_DRAINED_WORKERS, OF_THE_SERVICES, OF_PATIENT_WORKERS)
    for name, event in events.items()
}
