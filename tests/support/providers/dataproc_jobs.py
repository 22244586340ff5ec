"""Dataproc in memory, for `check_operator`: its clients speak gRPC, so they are replaced. By its public reference.

- Jobs: a known `request_id` gets the job of the first request with it.
- Batches: likewise, its operation. The id of a batch that exists is refused with 409.
- Workflows: a `request_id` is known only as long as its workflow runs ("prevents multiple concurrent workflow instances
  with the same tag").

Operations are those of the real client library, whose wait asks the service.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from typing import Any

from google.api_core.exceptions import AlreadyExists, NotFound, ServiceUnavailable
from google.api_core.operation import Operation, from_gapic
from google.api_core.retry import Retry
from google.cloud.dataproc_v1 import Batch, BatchOperationMetadata, Job, WorkflowMetadata
from google.longrunning import operations_pb2
from google.protobuf import any_pb2, empty_pb2

from airflow_resume.testing import ServiceJobs
from airflow_resume.testing.fakes.job import UnknownJobError
from airflow_resume.testing.operators import OrderedFailureError

REGION = "projects/p/regions/eu"
QUICKLY = Retry(predicate=lambda _: True, initial=0.002, maximum=0.002, timeout=None)


class Dataproc:
    """What the services have in common."""

    def __init__(self, jobs: ServiceJobs) -> None:
        self.jobs = jobs
        self._ids = itertools.count(100)

    def _state(self, job_id: str) -> Any:
        self.jobs.begin()
        try:
            return self.jobs.ask(job_id)
        except UnknownJobError as error:
            raise NotFound("?") from error
        except OrderedFailureError as error:
            raise ServiceUnavailable("?") from error


class DataprocJobs(Dataproc):
    """Jobs on a cluster."""

    def __init__(self) -> None:
        super().__init__(ServiceJobs(running="RUNNING", succeeded="DONE", failed="ERROR", cancelled="CANCELLED"))

    def submit_job(self, request: Any, **_: Any) -> Job:
        self.jobs.begin()
        token = request.get("request_id")
        known = self.jobs.with_token(token)
        job = known or self.jobs.make(f"job-{next(self._ids)}", token=token, request=request["job"])
        return _view(job, job.state)

    def get_job(self, request: Any, **_: Any) -> Job:
        state = self._state(request["job_id"])
        return _view(self.jobs.get(request["job_id"]), state)

    def cancel_job(self, request: Any, **_: Any) -> Job:
        self.jobs.begin()
        job = self.jobs.cancel(request["job_id"])
        return _view(job, job.state)


def _view(job: Any, state: str) -> Job:
    return Job({**job.request, "reference": {"job_id": job.id}, "status": {"state": state}})


class _WithOperations(Dataproc):
    """Something whose end is that of an operation. It is the client of operations, too."""

    @property
    def transport(self) -> _WithOperations:
        return self

    @property
    def operations_client(self) -> _WithOperations:
        return self

    @abstractmethod
    def _metadata(self, job: Any) -> Any:
        """What the operation says about the job."""

    def _job_id(self, operation: str) -> str:
        return operation.rpartition("/")[2]

    def get_operation(self, name: str, **_: Any) -> operations_pb2.Operation:
        job_id = self._job_id(name)
        state = self._state(job_id)
        return self._operation(self.jobs.get(job_id), state)

    def cancel_operation(self, name: str, **_: Any) -> None:
        self.jobs.begin()
        self.jobs.cancel(self._job_id(name))

    def _operation(self, job: Any, state: str) -> operations_pb2.Operation:
        made = operations_pb2.Operation(name=f"{REGION}/operations/{job.id}", done=state != self.jobs.running)
        metadata = self._metadata(job)
        made.metadata.Pack(type(metadata).pb(metadata))
        if state == self.jobs.succeeded:
            response = any_pb2.Any()
            response.Pack(empty_pb2.Empty())
            made.response.CopyFrom(response)
        elif made.done:
            made.error.code, made.error.message = 13, f"it is {state}"
        return made

    def _started(self, job: Any) -> Operation:
        operation = self._operation(job, job.state)
        return from_gapic(operation, self, empty_pb2.Empty, metadata_type=type(self._metadata(job)), polling=QUICKLY)


class DataprocBatches(_WithOperations):
    """Serverless batches."""

    def __init__(self) -> None:
        super().__init__(ServiceJobs(running="RUNNING", succeeded="SUCCEEDED", failed="FAILED", cancelled="CANCELLED"))

    def create_batch(self, request: Any, **_: Any) -> Operation:
        self.jobs.begin()
        token, batch_id = request["request_id"], request["batch_id"]
        if (known := self.jobs.with_token(token)) is not None:
            return self._started(known)
        if batch_id is not None and any(job.id == batch_id for job in self.jobs.known()):
            raise AlreadyExists(f"Already exists: Failed to create batch: Batch {batch_id}")
        batch = Batch(request["batch"])
        return self._started(self.jobs.make(batch_id or f"batch-{next(self._ids)}", token=token, request=batch))

    def get_batch(self, request: Any, **_: Any) -> Batch:
        batch_id = request["name"].rpartition("/")[2]
        state = self._state(batch_id)
        made = Batch(self.jobs.get(batch_id).request)
        made.name, made.state = request["name"], state
        made.operation = f"{REGION}/operations/{batch_id}"
        return made

    def _metadata(self, job: Any) -> BatchOperationMetadata:
        return BatchOperationMetadata(batch=f"projects/p/locations/eu/batches/{job.id}")


class DataprocWorkflows(_WithOperations):
    """Workflows."""

    def __init__(self) -> None:
        super().__init__(ServiceJobs(running="RUNNING", succeeded="DONE", failed="ERROR", cancelled="CANCELLED"))

    def instantiate_workflow_template(self, request: Any, **_: Any) -> Operation:
        return self._instantiate(request)

    def instantiate_inline_workflow_template(self, request: Any, **_: Any) -> Operation:
        return self._instantiate(request)

    def _instantiate(self, request: Any) -> Operation:
        self.jobs.begin()
        token = request["request_id"]
        known = self.jobs.with_token(token)
        if known is None or not known.is_alive:
            known = self.jobs.make(f"workflow-{next(self._ids)}", token=token, request=request)
        return self._started(known)

    def _metadata(self, job: Any) -> WorkflowMetadata:
        return WorkflowMetadata(
            template=job.request.get("name", ""), parameters=job.request.get("parameters") or {}, state="RUNNING"
        )
