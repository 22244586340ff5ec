"""A kill by a signal reaches the attempt wherever its main thread is."""

from __future__ import annotations

import sys
import time

import pytest

from airflow_resume.testing.operators.signals import Signals, listening
from airflow_resume.testing.points import CrashedError


class DyingInItsFinalizer:
    """Is killed while Python finalizes it, where an exception is ignored."""

    def __init__(self, signals: Signals) -> None:
        self.signals = signals

    def __del__(self) -> None:
        self.signals.kill()


def test_a_kill_that_comes_during_a_finalizer_is_not_lost() -> None:
    went_on = False
    with listening(lambda: None) as signals, pytest.raises(CrashedError), signals.limit(60):
        DyingInItsFinalizer(signals)
        time.sleep(30)
        went_on = True
    assert signals.is_dead
    assert not went_on


def test_what_else_a_finalizer_raises_is_reported_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __del__(self) -> None:
            raise ValueError("in a finalizer")

    reported: list[BaseException | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: reported.append(unraisable.exc_value))
    with listening(lambda: None) as signals:
        Failing()
    assert [str(error) for error in reported] == ["in a finalizer"]
    assert not signals.is_dead
