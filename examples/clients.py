"""Clients of the services that the example Dags use: a flights API with a warehouse, and a job service."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import httpx

ROWS_A_PAGE = 5_000


class Service:
    """A JSON service.

    Args:
        variable: an environment variable with its URL, which is read when it is called.
        label: the label of these requests.
        url: instead of the variable.
    """

    def __init__(self, variable: str, *, label: str, url: str | None = None) -> None:
        self._variable = variable
        self._label = label
        self._url = url

    def call(self, method: str, path: str, *, json: Any = None, **query: Any) -> Any:
        """The decoded answer.

        Raises:
            httpx.HTTPError: there was none, or it was an error.
        """
        answer = httpx.request(
            method,
            (self._url or os.environ[self._variable]) + path,
            json=json,
            params={name: value for name, value in query.items() if value is not None},
            headers={"X-Run-Label": self._label},
            timeout=90,
            trust_env=False,  # a proxy for the internet is none for loopback
            verify=False,  # noqa: S501  loopback is plain HTTP; this saves reading the certificates for every request
        )
        return answer.raise_for_status().json()


class Flights(Service):
    """The flights of 2013, page by page, and a table in a warehouse to load them into."""

    def page(self, token: str | None, **hours: str) -> dict[str, Any]:
        """A page, `{"items": [...], "next": token or None}`; of certain `hours` (`since`, or `from` and `to`)."""
        return self.call("GET", "/flights", token=token, limit=ROWS_A_PAGE, **hours)  # type: ignore[no-any-return]

    def pages(self, **hours: str) -> Iterator[list[dict[str, Any]]]:
        """The rows of all pages, a list for each."""
        token = None
        while True:
            page = self.page(token, **hours)
            yield page["items"]
            if (token := page["next"]) is None:
                return

    def load(self, rows: list[dict[str, Any]], *, batch: str | None = None) -> None:
        """Append rows to the table; with a batch, they replace what that batch has loaded before."""
        self.call("POST", f"/warehouse/{self._label}", json={"rows": rows, "batch": batch})

    def now(self) -> str:
        """The time on the clock of the source."""
        return self.call("GET", "/clock")["now"]  # type: ignore[no-any-return]


class Jobs(Service):
    """The job service."""

    def submit(self, token: str | None = None, *, seconds: float | None = None, once: bool = False) -> int:
        """Start a job, and return its id; with `once`, return the job that has the token already, if there is one."""
        body = {"token": token, "seconds": seconds or float(os.environ.get("JOB_SECONDS", "8")), "once": once}
        return self.call("POST", "/jobs", json=body)["id"]  # type: ignore[no-any-return]

    def find(self, token: str) -> int | None:
        """The id of the job with this token, if there is one."""
        return next((job["id"] for job in self.call("GET", "/jobs", token=token)), None)

    def find_all(self, prefix: str) -> dict[str, int]:
        """The ids of the jobs whose token begins with `prefix`, by token."""
        return {job["token"]: job["id"] for job in self.call("GET", "/jobs", token_prefix=prefix)}

    def status(self, job_id: int) -> str:
        """RUNNING, SUCCEEDED, FAILED or CANCELLED."""
        return self.call("GET", f"/jobs/{job_id}")["status"]  # type: ignore[no-any-return]

    def result(self, job_id: int) -> dict[str, float]:
        """The mean arrival delay of each carrier, in minutes."""
        return self.call("GET", f"/jobs/{job_id}/result")  # type: ignore[no-any-return]

    def cancel(self, job_id: int) -> None:
        """End the job."""
        self.call("DELETE", f"/jobs/{job_id}")
