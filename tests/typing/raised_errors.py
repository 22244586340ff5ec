"""What type checkers see of the fields of errors. Checked by mypy and pyright, never executed."""

from __future__ import annotations

from pydantic import JsonValue
from typing_extensions import assert_type

from airflow_resume.errors import JobError, JobGoneError, StalledError, ValueTooLargeError


def a_raise_is_checked(job: object) -> None:
    JobGoneError("Gone.", "Look.", slot="load", token="t", external_id=7)  # noqa: S106
    JobGoneError()
    JobGoneError("Gone.", external_id=job)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    JobGoneError("Gone.", id=7)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ValueTooLargeError("Too large.", size=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    StalledError("Stalled.", "Look.", None)  # type: ignore[call-arg, misc]  # pyright: ignore[reportCallIssue]


def a_field_has_its_type(error: JobError, large: ValueTooLargeError) -> None:
    assert_type(error.external_id, JsonValue)
    assert_type(error.slot, "str | None")
    assert_type(large.size, int)
