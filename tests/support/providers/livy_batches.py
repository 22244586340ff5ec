"""Livy's batches on loopback, for `check_operator`; see `livy_service` for what its server answers."""

from __future__ import annotations

import itertools

from airflow_resume.testing import ServiceJobs
from airflow_resume.testing.operators import ServiceJob
from json_request import NotFoundError, Request, RequestError
from tests.support.providers.rest_service import RestService


class LivyBatches(RestService):
    """A Livy server without Spark. A batch that is deleted is killed and forgotten."""

    def __init__(self) -> None:
        super().__init__(
            ServiceJobs(
                running="running",
                succeeded="success",
                failed="dead",
                cancelled="killed",
                unknown="recovering",
                other_ends=["error"],
            )
        )
        self._ids = itertools.count(700)

    def answer(self, request: Request) -> object:
        """Answer by the table in `livy_service`."""
        match request.route:
            case ("POST", "batches"):
                name = request.optional("name", str)
                if self.jobs.with_token(name) is not None:
                    raise RequestError(f"Rejected, Reason: Duplicate session name: {name}")
                return _view(self.jobs.make(next(self._ids), token=name))
            case ("GET", "batches", number, "state"):
                return {"id": int(number), "state": self.jobs.ask(int(number))}
            case ("GET", "batches", number, "log"):
                return {"id": int(number), "from": 0, "total": 1, "log": [f"a line of {number}"][:1]}
            case ("GET", "batches", number) if number.isdecimal():
                return _view(self.jobs.get(int(number)))
            case ("GET", "batches", name) if (found := self.jobs.with_token(name)) is not None:
                return _view(found)
            case ("DELETE", "batches", number):
                self.jobs.cancel(int(number))
                self.jobs.forget(int(number))
                return {"msg": "deleted"}
        raise NotFoundError(f"{request.method} {request.path}: not found")


def _view(batch: ServiceJob) -> object:
    return {"id": batch.id, "name": batch.token, "state": batch.state, "appId": f"application_{batch.id}", "log": []}
