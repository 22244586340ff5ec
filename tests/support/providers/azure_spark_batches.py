"""Synapse's Spark batches on loopback, by the public reference of its REST API, for `check_operator`.

| request, below `/livyApi/versions/VERSION/sparkPools/POOL` | answer |
|---|---|
| `POST /batches {"name", "file", ...}` | the batch; a name may be used again |
| `GET /batches?from=&size=` | batches, at most 20 |
| `GET /batches/ID` | the batch |
| `DELETE /batches/ID` | the batch is ended |

The first batch has the id 0. The list begins with the newest, and has batches that have ended. The answers to the next
`answers_lost` submits are 503, although there is a batch.
"""

from __future__ import annotations

import itertools

from airflow_resume.testing import ServiceJobs
from airflow_resume.testing.operators import ServiceJob
from json_request import NotFoundError, Request
from tests.support.providers.rest_service import Reply, RestService

MOST = 20


class SparkBatches(RestService):
    """Synapse without Spark. A batch is known by its id as long as the service runs."""

    def __init__(self) -> None:
        super().__init__(
            ServiceJobs(
                running="running",
                succeeded="success",
                failed="dead",
                cancelled="killed",
                unknown="pondering",
                other_ends=["error"],
            )
        )
        self.answers_lost = 0
        self._ids = itertools.count()

    def answer(self, request: Request) -> object:
        """Answer by the table at the top of the module."""
        match request.route[:1] + request.route[7:]:
            case ("POST",):
                return self._submit(request)
            case ("GET",):
                first, size = int(request.query.get("from", 0)), min(int(request.query.get("size", MOST)), MOST)
                batches = list(reversed(self.jobs.known()))[first : first + size]
                listed = [_view(batch, str(batch.state)) for batch in batches]
                return {"from": first, "total": len(batches), "sessions": listed}
            case ("GET", number):
                state = self.jobs.ask(int(number))
                return _view(self.jobs.get(int(number)), str(state))
            case ("DELETE", number):
                self.jobs.cancel(int(number))
                return {}
        raise NotFoundError(f"{request.method} {request.path} is not offered")

    def _submit(self, request: Request) -> object:
        batch = self.jobs.make(next(self._ids), token=request.field("name", str), request=request.body)
        if self.answers_lost:
            self.answers_lost -= 1
            return Reply(503, {"code": "Busy", "message": "ordered by the test"})
        return _view(batch, "not_started")


def _view(batch: ServiceJob, state: str) -> object:
    return {"id": batch.id, "name": batch.token, "state": state, "appId": f"application_{batch.id}", "log": []}
