"""The errors that a store call raises when the API server refuses it or does not answer."""

from __future__ import annotations

from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

_NOT_FOUND, _GONE = 404, 410


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
    return refusal(_NOT_FOUND, {"reason": "not_found", "message": f"{what} not found"})


def archived() -> AirflowRuntimeError:
    """What every write of a replaced attempt raises in Airflow 3.4."""
    message = "Task Instance not found in the working set; its attempt has been archived"
    return refusal(_GONE, {"reason": "not_found", "message": message})


def invalid_key() -> AirflowRuntimeError:
    """The error of any call with an empty key."""
    return refusal(422, "the key has no characters")


def is_not_found(error: AirflowRuntimeError) -> bool:
    """Whether Airflow does not know what it was asked about."""
    return (error.error.detail or {}).get("status_code") == _NOT_FOUND
