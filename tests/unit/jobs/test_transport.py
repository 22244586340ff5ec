from __future__ import annotations

from enum import Enum
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

from airflow_resume.jobs.transport import is_interruption, is_not_found, is_unknown_word


class HTTPError(Exception):
    """As of requests, httpx and others: the response hangs on it."""

    def __init__(self, status: int, content_type: str | None = "application/json") -> None:
        super().__init__(status)
        headers = {} if content_type is None else {"Content-Type": content_type}
        self.response = SimpleNamespace(status_code=status, headers=headers)


class GoogleNotFound(Exception):  # noqa: N818  as there
    code = 404


def wrapped(cause: Exception) -> Exception:
    """What a provider's hook makes of an error."""
    try:
        try:
            raise cause
        except type(cause):
            raise AirflowException("Unable to fetch batch with id: 7.")  # noqa: B904  as the hooks do
    except AirflowException as error:
        return error


@pytest.mark.parametrize(
    ("error", "gone"),
    [
        (HTTPError(404), True),
        (HTTPError(410), True),
        (wrapped(HTTPError(404)), True),
        (HTTPError(404, None), True),
        (GoogleNotFound(), True),
        (HTTPError(404, "text/html; charset=utf-8"), False),
        (HTTPError(404, "text/plain"), False),
        (HTTPError(403), False),
        (HTTPError(503), False),
        (wrapped(ValueError("not found")), False),
        (AirflowNotFoundException("The conn_id `livy` isn't defined"), False),
    ],
)
def test_only_the_job_systems_own_404_means_gone(error: Exception, gone: bool) -> None:  # noqa: FBT001
    assert is_not_found(error) is gone


class BatchState(Enum):
    RUNNING = "running"


def raised_by(action: object) -> Exception:
    try:
        action()  # type: ignore[operator]
    except Exception as error:  # noqa: BLE001
        return error
    raise AssertionError


def int_of_a_word() -> None:
    int("recovering")


def test_a_word_that_an_enum_has_not_heard_of_is_told_from_other_value_errors() -> None:
    unheard_of = raised_by(lambda: BatchState("recovering"))
    assert is_unknown_word(unheard_of)
    assert is_unknown_word(wrapped(unheard_of))
    assert not is_unknown_word(raised_by(int_of_a_word))
    assert not is_unknown_word(ValueError("'recovering' is not a valid BatchState"))
    assert not is_unknown_word(raised_by(lambda: BatchState["RECOVERING"]))


@pytest.mark.parametrize(
    ("error", "interrupts"),
    [
        (ConnectionResetError(), True),
        (wrapped(HTTPError(503)), True),
        (HTTPError(429), True),
        (HTTPError(404), False),
        (TimeoutError("the job took too long"), False),
        (FileNotFoundError(), False),
        (wrapped(RuntimeError("batch 7 failed")), False),
    ],
)
def test_a_time_out_of_the_callers_own_is_no_interruption(error: Exception, interrupts: bool) -> None:  # noqa: FBT001
    assert is_interruption(error) is interrupts
