"""What a cleanup may delete, and what it may not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_resume.testing.contract.abilities import Ability, needs
from airflow_resume.testing.contract.fixtures import Fixtures

HOUR = timedelta(hours=1)
HALF_A_SECOND = timedelta(seconds=0.5)
TRIES = 5
MANY = 120
"""How many values are deleted at once: more than fit a small batch."""


class Expiry(Fixtures):
    """Tests of retention and cleanup.

    No time passes, except half a second in one test: expired values were given an expiry in the past.
    """

    @needs(Ability.RETENTION)
    def test_a_value_with_a_retention_is_kept_until_then(self, store: Any) -> None:
        store.set("key", 1, retention=HOUR)
        assert store.get("key") == 1

    @needs(Ability.RETENTION)
    def test_what_has_expired_is_there_until_it_is_collected(self, store: Any) -> None:
        """As in Airflow: an expired value, such as the id of a job that still runs, is there until a cleanup."""
        store.set("key", 1, retention=-HOUR)
        assert store.get("key") == 1

    @needs(Ability.RETENTION, Ability.CLEANUP)
    def test_half_a_second_is_half_a_second(self, store: Any, cleanup: Callable[[], object]) -> None:
        """Early in a second: rounded down, it would have expired at once; rounded up, it would not have expired."""
        for _ in range(TRIES):
            time.sleep(max(0.0, 1.001 - time.time() % 1))
            begun = time.monotonic()
            store.set("for ever", 1)
            store.set("key", 2, retention=HALF_A_SECOND)
            cleanup()
            kept = store.get("key"), time.monotonic() - begun
            time.sleep(HALF_A_SECOND.total_seconds() * 1.2)
            cleanup()
            assert (store.get("key", "collected"), store.get("for ever")) == ("collected", 1)
            if kept[1] < HALF_A_SECOND.total_seconds():
                assert kept[0] == 2, "collected before its time"
                return
        pytest.skip(f"a set and a cleanup take longer than {HALF_A_SECOND}")

    @needs(Ability.CLEANUP)
    def test_to_clean_an_empty_store_is_no_error(self, store: Any, cleanup: Callable[[], object]) -> None:
        cleanup()
        assert store.get("key", "missing") == "missing"

    @needs(Ability.CLEANUP)
    def test_what_has_no_expiry_is_not_collected(self, store: Any, cleanup: Callable[[], object]) -> None:
        store.set("key", 1)
        cleanup()
        assert store.get("key") == 1

    @needs(Ability.RETENTION, Ability.CLEANUP)
    def test_what_has_expired_is_collected_and_nothing_else(self, store: Any, cleanup: Callable[[], object]) -> None:
        for number in range(MANY):
            store.set(f"expired.{number}", number, retention=-HOUR)
        store.set("for an hour", 1, retention=HOUR)
        store.set("for ever", 2)
        cleanup()
        assert [n for n in range(MANY) if store.get(f"expired.{n}") is not None] == []
        assert (store.get("for an hour"), store.get("for ever")) == (1, 2)

    @needs(Ability.RETENTION, Ability.CLEANUP)
    @pytest.mark.parametrize("retention", [HOUR, None], ids=["for an hour", "for ever"])
    def test_what_was_set_again_is_not_collected(
        self, store: Any, cleanup: Callable[[], object], retention: timedelta | None
    ) -> None:
        store.set("key", "old", retention=-HOUR)
        store.set("key", "new", **({} if retention is None else {"retention": retention}))
        cleanup()
        assert store.get("key", "missing") == "new"

    @needs(Ability.RETENTION, Ability.CLEANUP)
    def test_the_last_retention_counts(self, store: Any, cleanup: Callable[[], object]) -> None:
        store.set("key", "old")
        store.set("key", "new", retention=-HOUR)
        cleanup()
        assert store.get("key", "missing") == "missing"

    @needs(Ability.RETENTION, Ability.CLEANUP)
    def test_what_was_collected_can_be_set_again(self, store: Any, cleanup: Callable[[], object]) -> None:
        store.set("key", 1, retention=-HOUR)
        cleanup()
        store.set("key", 2)
        cleanup()
        assert store.get("key") == 2

    @needs(Ability.SCOPES, Ability.CLEANUP)
    @pytest.mark.parametrize("hours", [-12, 0, 14])
    def test_an_expiry_in_any_time_zone_is_the_same_moment(
        self, backend: Any, cleanup: Callable[[], object], hours: int
    ) -> None:
        scope, now = self.scopes(backend)[0], datetime.now(timezone(timedelta(hours=hours)))
        backend.set(scope, "expired", "1", expires_at=now - HOUR)
        backend.set(scope, "fresh", "2", expires_at=now + HOUR)
        cleanup()
        assert [backend.get(scope, key) for key in ("expired", "fresh")] == [None, "2"]

    @needs(Ability.SCOPES, Ability.CLEANUP)
    def test_an_expiry_that_is_set_by_the_async_method_counts(
        self, backend: Any, cleanup: Callable[[], object]
    ) -> None:
        scope, now = self.scopes(backend)[0], datetime.now(timezone.utc)
        for key, expires_at in (("expired", now - HOUR), ("fresh", now + HOUR)):
            asyncio.run(backend.aset(scope, key, "1", expires_at=expires_at))
        cleanup()
        assert [backend.get(scope, key) for key in ("expired", "fresh")] == [None, "1"]

    @needs(Ability.SCOPES, Ability.CLEANUP)
    def test_a_key_that_expired_in_one_scope_stays_in_the_others(
        self, backend: Any, cleanup: Callable[[], object]
    ) -> None:
        first, *others = self.scopes(backend)
        backend.set(first, "key", "1", expires_at=datetime.now(timezone.utc) - HOUR)
        for scope in others:
            backend.set(scope, "key", "2")
        cleanup()
        assert backend.get(first, "key") is None
        assert [backend.get(scope, "key") for scope in others] == ["2"] * len(others)
