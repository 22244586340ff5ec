"""The errors that a store call raises when the API server says no, or says nothing."""

from __future__ import annotations

from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType


def refusal(status: int | None, why: object) -> AirflowRuntimeError:
    """What a call raises when the API server answers with `status`; None: it does not answer.

    Args:
        status: of the answer.
        why: the detail in the body of the answer.
    """
    from airflow.sdk.execution_time.comms import ErrorResponse

    detail = {"status_code": status, "message": str(why), "detail": {"detail": why}}
    return AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))


def not_found(what: str) -> AirflowRuntimeError:
    """What a write raises for a task instance or an asset that Airflow does not know (any more)."""
    return refusal(404, {"reason": "not_found", "message": f"{what} not found"})
