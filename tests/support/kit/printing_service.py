"""A job service on loopback that prints documents, and operators that talk to it, for the tests of `check_operator`."""

from __future__ import annotations

import http.client
import itertools
import json
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume.testing import ServiceJobs
from airflow_resume_mixins import ResumableJobMixin
from json_request import NotFoundError, Request
from tests.support.providers.rest_service import RestService

MOMENT = timedelta(milliseconds=1)
AT_ONCE = ResumePolicy(poll=PollPolicy(interval=MOMENT, max_interval=MOMENT), unknown_timeout=timedelta(seconds=5))


class PrintingService(RestService):
    """`POST /prints {"token"}`, `GET /prints/ID`, `GET /prints?token=T`, `DELETE /prints/ID`."""

    def __init__(self) -> None:
        super().__init__(
            ServiceJobs(running="printing", succeeded="printed", failed="jammed", cancelled="torn", unknown="pondering")
        )
        self._ids = itertools.count(100)

    def answer(self, request: Request) -> object:
        match request.route:
            case ("POST", "prints"):
                return {"id": self.jobs.make(next(self._ids), token=request.optional("token", str)).id}
            case ("GET", "prints") if (found := self.jobs.with_token(request.query["token"])) is not None:
                return {"id": found.id}
            case ("GET", "prints", number):
                return {"state": self.jobs.ask(int(number))}
            case ("DELETE", "prints", number):
                return {"state": self.jobs.cancel(int(number)).state}
        raise NotFoundError(request.path)


class Client:
    """What a provider's hook is."""

    def __init__(self, url: str) -> None:
        self._address = url.removeprefix("http://")

    def call(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection(self._address, timeout=10)
        try:
            connection.request(method, path, body=json.dumps(body or {}))
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= 400:
                raise PrintError(answer.status)
            return json.loads(text)
        finally:
            connection.close()


class PrintError(Exception):
    """The service answered with an error."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code = status


class PrintTrigger(BaseTrigger):
    """Fires when the print has ended."""

    def __init__(self, url: str, print_id: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.url, self.print_id = url, print_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.PrintTrigger", {"url": self.url, "print_id": self.print_id}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        while Client(self.url).call("GET", f"/prints/{self.print_id}")["state"] == "printing":
            pass
        yield TriggerEvent({"print": self.print_id})  # type: ignore[no-untyped-call]


class PrintOperator(BaseOperator):
    """As providers write them: submit, then wait."""

    template_fields = ("document",)

    def __init__(self, *, url: str, document: str, waits: bool = True, deferrable: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.url, self.document, self.waits, self.deferrable = url, document, waits, deferrable
        self.print_id: int | None = None

    @property
    def client(self) -> Client:
        return Client(self.url)

    def execute(self, context: Any) -> Any:
        print_id = self.print_id = self.client.call("POST", "/prints", {"document": self.document})["id"]
        if self.deferrable:
            self.defer(trigger=PrintTrigger(self.url, print_id), method_name="execute_complete")
        if self.waits:
            self.wait(print_id)
        return self.done(context, print_id)

    def execute_complete(self, context: Any, event: Any) -> Any:
        return self.done(context, event["print"])

    def wait(self, print_id: int) -> None:
        while (state := self.client.call("GET", f"/prints/{print_id}")["state"]) == "printing":
            time.sleep(0.001)
        if state != "printed":
            raise RuntimeError(f"the print is {state}")

    def done(self, context: Any, print_id: Any) -> Any:
        context["ti"].xcom_push(key="page", value=f"{self.url}/prints/{print_id}")
        return print_id

    def on_kill(self) -> None:
        if self.print_id is not None:
            self.client.call("DELETE", f"/prints/{self.print_id}")


class ResumingPrintOperator(ResumableJobMixin, PrintOperator):
    """The same, wrapped, with a look-up."""

    def execute(self, context: Any) -> Any:
        return self.submit_and_return(context) if not self.waits else self.execute_resumable(context)

    def submit_and_return(self, context: Any) -> Any:
        return self.done(context, self.submit_resumable(context).external_id)

    def submit_job(self, context: Any) -> Any:
        return self.client.call("POST", "/prints", {"document": self.document, "token": self.submission_token})["id"]

    def find_job(self, token: str, context: Any) -> Any:
        try:
            return self.client.call("GET", f"/prints?token={token}")["id"]
        except PrintError as error:
            if error.status_code == 404:
                return None
            raise

    def get_job_status(self, external_id: Any, context: Any) -> str:
        return str(self.client.call("GET", f"/prints/{external_id}")["state"])

    def is_job_active(self, status: Any) -> bool:
        return bool(status == "printing")

    def is_job_succeeded(self, status: Any) -> bool:
        return bool(status == "printed")

    def classify_job_status(self, status: Any) -> Any:
        from airflow_resume.jobs import JobStatus

        return JobStatus.FAILED if status in {"jammed", "torn"} else None

    def cancel_job(self, external_id: Any, context: Any) -> None:
        self.client.call("DELETE", f"/prints/{external_id}")

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        return self.done(context, external_id)

    def job_trigger(self, external_id: Any, context: Any) -> BaseTrigger:
        return PrintTrigger(self.url, external_id)

    def on_kill(self) -> None:
        """`cancel_job` does it."""
