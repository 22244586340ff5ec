"""The skeleton of a job service that speaks REST on loopback, for `check_operator`.

A service has `jobs` and says what it answers (`answer`, one `match` over the route): what `json.dumps` accepts, or a
`Reply` with another status. What the kit orders (a dead client, a 503) and jobs that are not known are answered here; a
service says in which words (`not_known`, `failed`).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from airflow_resume.testing import ServiceJobs
from airflow_resume.testing.operators import OrderedFailureError, UnknownJobError
from json_request import NotFoundError, Request, RequestError
from json_service import JsonService


@dataclass(frozen=True)
class Reply:
    """An answer whose status is not 200."""

    status: int
    body: object


class ReplyError(RequestError):
    """Ends the request with a reply."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"HTTP {reply.status}")
        self.status, self._body = reply.status, reply.body

    @property
    def answer(self) -> object:
        return self._body


class RestService(JsonService):
    """A job service on 127.0.0.1.

    Args:
        jobs: its jobs.
        port: 0 takes a free one.
    """

    def __init__(self, jobs: ServiceJobs, *, port: int = 0) -> None:
        super().__init__(port=port)
        self.jobs = jobs

    @abstractmethod
    def answer(self, request: Request) -> object:
        """Carry the request out.

        Raises:
            UnknownJobError: it is about a job that is not known.
            OrderedFailureError: the test has ordered a failure.
        """

    def not_known(self, job_id: object) -> Reply:
        """What the service answers about a job that it does not know."""
        return Reply(404, {"message": f"There is no job {job_id}"})

    def failed(self, status: int) -> Reply:
        """What the service answers when it has a failure of its own."""
        return Reply(status, {"message": "ordered by the test"})

    def respond(self, request: Request) -> object:
        """The answer, or the error that ends the request with another status."""
        try:
            self.jobs.begin()
            answer = self.answer(request)
        except ConnectionError as dead:
            raise NotFoundError(str(dead)) from dead
        except UnknownJobError as error:
            answer = self.not_known(*error.args)
        except OrderedFailureError as error:
            answer = self.failed(error.status)
        if isinstance(answer, Reply):
            raise ReplyError(answer)
        return answer
