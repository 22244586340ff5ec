from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from airflow_resume.command import main
from airflow_resume.operating.api import PASSWORD, TOKEN, URL, USER, AirflowApi
from tests.support.operating.fake_airflow import FakeAirflow, fake_airflow


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAirflow]:
    for name in (TOKEN, USER, PASSWORD):
        monkeypatch.delenv(name, raising=False)
    with fake_airflow() as running:
        monkeypatch.setenv(URL, running.url)
        yield running


@pytest.fixture
def api(airflow: FakeAirflow) -> Iterator[AirflowApi]:
    with AirflowApi(airflow.url, environment={}, sleep=lambda _: None) as connected:
        airflow.calls.clear()
        yield connected


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    def run(*arguments: str) -> Said:
        capsys.readouterr()
        code = main(arguments)
        return Said(code, *capsys.readouterr())

    return run
