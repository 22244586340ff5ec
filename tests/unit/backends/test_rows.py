from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_resume.backends.rows.statements import microseconds, moment_of, new_version


@pytest.fixture
def _in_auckland(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Pacific/Auckland")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_in_auckland")
@pytest.mark.parametrize("zone", [None, timezone.utc, timezone(timedelta(hours=-11))], ids=str)
def test_a_moment_is_a_number_whatever_the_zone_of_the_process(zone: timezone | None) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
    given_as = moment.replace(tzinfo=None) if zone is None else moment.astimezone(zone)
    assert microseconds(given_as) == 1_767_323_045_678_901


@given(st.datetimes(timezones=st.just(timezone.utc)))
def test_a_moment_comes_back(moment: datetime) -> None:
    assert moment_of(microseconds(moment)) == moment


def test_no_two_versions_are_the_same_and_json_holds_them() -> None:
    versions = {new_version() for _ in range(10_000)}
    assert len(versions) == 10_000
    assert all(0 < version <= 2**53 for version in versions)
