"""Real Airflows, and tests that are played side by side on one of them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from local_airflow import LocalAirflow
from stage import Stage
from tests.support.airflow.job_dag_files import copy_of_job_dags, few_flights
from tests.support.airflow.sql_backend_stage import airflow_with_backend
from tests.support.airflow.stage_groups import SHARED, stage_of
from tests.support.airflow.watermark_runs import Loads

pytest.register_assert_rewrite(
    "tests.support.jobs.comparison",
    "tests.support.airflow.job_runs",
    "tests.support.airflow.loop_runs",
    "tests.support.airflow.task_runs",
)

LOOP_DAGS = Path(__file__).parents[1] / "support" / "airflow" / "dags" / "loops"
HEARTBEAT_TIMEOUT = 15
AT_ONCE = 5
"""Scenarios; each is waiting most of the time."""


@pytest.fixture(scope="session", autouse=True)
def _migrates_once(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> None:
    """All Airflows here begin with a copy of one migrated database."""
    base = tmp_path_factory.getbasetemp()
    LocalAirflow.migrated = (base if worker_id == "master" else base.parent) / "migrated.db"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A real Airflow with the example Dags and what they talk to."""
    with Stage(Path(tmp_path_factory.mktemp("stage")), job_seconds=6, progress=say) as running:
        yield running


_shared = ExitStack()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Stop the shared Airflow when no test uses it any more: its scheduler takes a sixth of a processor.

    A process of xdist plays all files that use it one after the other, see `ByStage`; some of their tests do without.
    """
    if hasattr(item.config, "workerinput") and stage_of(item.path) != SHARED:
        _shared.close()


@pytest.fixture(scope="session")
def shared_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A real Airflow for the Dags of the jobs and the loops, which gives a task up that is silent for 15 seconds."""
    home = Path(tmp_path_factory.mktemp("shared"))
    dags = copy_of_job_dags(home / "dags")
    shutil.copytree(LOOP_DAGS, dags, dirs_exist_ok=True)
    options: dict[str, Any] = {"heartbeat_timeout": HEARTBEAT_TIMEOUT, "triggerer": True, "progress": say}
    # By this name its jobs are known as its own; the address on loopback is that of many.
    env = {"AIRFLOW__AIRFLOW_RESUME__DEPLOYMENT": home.parent.name}
    with _shared:
        running = _shared.enter_context(Stage(home, dags=dags, flights=few_flights(home), env=env, **options))
        for dag_id in ("ours", "ours_mapped", "upgraded", "downgraded", "edited_retries", "by_token", "loops"):
            running.airflow.wait_until_parsed(dag_id)
        # So that no run gets the id 0, which Airflow's mixin takes for none.
        running.jobs.call("POST", "/jobs", json={"seconds": 0})
        yield running


@pytest.fixture(scope="session")
def playing(request: pytest.FixtureRequest, shared_stage: Stage) -> Iterator[dict[str, Future[None]]]:
    """The tests that are marked `side_by_side`, begun all together."""
    with begun_side_by_side(request.session, shared_stage=shared_stage) as begun:
        yield begun


@pytest.fixture(scope="module")
def loads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loads]:
    """A real Airflow for the Dags in `dags/watermarks`."""
    with Loads(Path(tmp_path_factory.mktemp("loads")), progress=say) as running:
        yield running


@pytest.fixture(scope="module")
def playing_loads(request: pytest.FixtureRequest, loads: Loads) -> Iterator[dict[str, Future[None]]]:
    """As `playing`."""
    with begun_side_by_side(request.session, loads=loads) as begun:
        yield begun


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A real Airflow whose workers keep state in a database of its own."""
    with airflow_with_backend(Path(tmp_path_factory.mktemp("kept")), progress=say) as running:
        yield running


@pytest.fixture(scope="module")
def playing_kept(request: pytest.FixtureRequest, kept: Stage) -> Iterator[dict[str, Future[None]]]:
    """As `playing`."""
    with begun_side_by_side(request.session, at_once=8, kept=kept) as begun:
        yield begun


@contextmanager
def begun_side_by_side(
    session: pytest.Session, *, at_once: int = AT_ONCE, **stage: object
) -> Iterator[dict[str, Future[None]]]:
    """All tests that are to be played on this one stage."""
    (name,) = stage
    items = [item for item in session.items if item.get_closest_marker("side_by_side") and name in _fixtures(item)]
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        begun = {item.nodeid: pool.submit(_play, item, stage) for item in items}
        yield begun
        for future in begun.values():
            future.cancel()


def _fixtures(item: pytest.Item) -> list[str]:
    assert isinstance(item, pytest.Function)
    return item.fixturenames


def _play(item: pytest.Item, stage: Mapping[str, object]) -> None:
    assert isinstance(item, pytest.Function)
    arguments = item.callspec.params if hasattr(item, "callspec") else {}
    item.obj(**stage, **arguments)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object:
    """A test that is played side by side with others is already being played: wait for its end."""
    if pyfuncitem.get_closest_marker("side_by_side") is None:
        return None
    name = next(name for name in pyfuncitem.fixturenames if name.startswith("playing"))
    playing: dict[str, Future[None]] = pyfuncitem.funcargs[name]  # type: ignore[assignment]
    playing[pyfuncitem.nodeid].result()
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.airflow)
            if SHARED in _fixtures(item) and stage_of(item.path) != SHARED:
                raise pytest.UsageError(
                    f"{item.path.name} uses {SHARED} and does not name it: see tests.support.airflow.stage_groups"
                )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """With `-n 2`; another way to distribute the tests may still be asked for with `--dist`."""
    from tests.support.airflow.by_stage import ByStage

    return ByStage(config, log) if config.getvalue("dist") == "load" else None
