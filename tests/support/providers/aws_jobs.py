"""The job APIs of AWS: where the ids and states are in their requests and answers, and what they answer.

A `Place` is a way into JSON, such as `("Step", "Status", "State")`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from airflow_resume.testing import ServiceJobs
from airflow_resume.testing.operators import ServiceJob

Place: TypeAlias = tuple[str | int, ...]
Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class AwsError:
    """An error of a service."""

    code: str
    message: str
    status: int = 400

    def of(self, job_id: object) -> AwsError:
        """The same, about a job."""
        return AwsError(self.code, self.message.format(job_id), self.status)


@dataclass(frozen=True, kw_only=True)
class JobApi:
    """One kind of job.

    Args:
        service: as botocore names it.
        submit: the operation that makes a job.
        made_id: where the id is in its answer; () where the name is the id.
        ask: the operation that tells the state.
        asked_id: where the id is in its request.
        told: the job in its answer.
        write_state: writes a state into that.
        cancel: the operation that cancels.
        cancelled_id: where the id is in its request.
        gone: the error about a job that is not known; None: `nothing` is answered.
        nothing: the answer about a job that is not known, without an error.
        names: the parameter with a name that is unique for ever, if there is one.
        in_use: the error about a name that is in use.
        same_while_alive: a submit with the name and the input of a job that is alive is answered with that job.
        listed: the operation that lists jobs, where they are in its answer, and the id in each.
        list_jobs: answers that operation, where the states that moto has do not do.
        cancel_answer: what the cancel is answered with.
    """

    service: str
    submit: str
    made_id: Place
    ask: str
    asked_id: Place
    told: Place
    write_state: Callable[[Json, str], None]
    cancel: str
    cancelled_id: Place
    words: dict[str, Any]
    gone: AwsError | None = None
    nothing: Json = field(default_factory=dict)
    names: str | None = None
    in_use: AwsError | None = None
    same_while_alive: bool = False
    listed: tuple[str, Place, Place] | None = None
    list_jobs: Callable[[list[ServiceJob], Json], Json] | None = None
    cancel_answer: Json = field(default_factory=dict)

    def jobs(self) -> ServiceJobs:
        """No jobs yet, in the words of this API."""
        return ServiceJobs(**self.words)


def found(content: Any, place: Place) -> Any:
    """What is at this place."""
    for step in place:
        content = content[step]
    return content


def at(*place: str | int) -> Callable[[Json, str], None]:
    """Writes a state at this place."""

    def write(job: Json, state: str) -> None:
        found(job, place[:-1])[place[-1]] = state

    return write


def _ecs_state(task: Json, state: str) -> None:
    last, _, code = state.partition(":")
    task["lastStatus"] = last
    ended = {"exitCode": int(code)} if code else {}
    task["containers"] = [{**container, "lastStatus": last, **ended} for container in task["containers"]]
    if code:
        task["stoppedReason"] = "Essential container in task exited"


def _ecs_tasks(jobs: list[ServiceJob], params: Json) -> Json:
    """By who started them and what they are to be."""
    is_running = params.get("desiredStatus", "RUNNING") == "RUNNING"
    started_by = params.get("startedBy")
    return {
        "taskArns": [
            job.id for job in jobs if job.is_alive == is_running and started_by in {None, job.request.get("startedBy")}
        ]
    }


def _words(running: str, succeeded: str, failed: str, cancelled: str, **others: Any) -> dict[str, Any]:
    named = {"running": running, "succeeded": succeeded, "failed": failed, "cancelled": cancelled}
    return {**named, "unknown": "PONDERING", **others}


def _sagemaker(kind: str) -> JobApi:
    name = f"{kind}JobName"
    return JobApi(
        service="sagemaker",
        submit=f"Create{kind}Job",
        made_id=(),
        ask=f"Describe{kind}Job",
        asked_id=(name,),
        told=(),
        write_state=at(f"{kind}JobStatus"),
        cancel=f"Stop{kind}Job",
        cancelled_id=(name,),
        words=_words("InProgress", "Completed", "Failed", "Stopped"),
        gone=AwsError("ValidationException", "Requested resource not found."),
        names=name,
        in_use=AwsError(
            "ResourceInUse",
            f"{kind} job names must be unique within an AWS account and region, and a {kind.lower()} job with this name"
            " already exists ({})",
        ),
        listed=(f"List{kind}Jobs", (f"{kind}JobSummaries",), (name,)),
    )


ATHENA = JobApi(
    service="athena",
    submit="StartQueryExecution",
    made_id=("QueryExecutionId",),
    ask="GetQueryExecution",
    asked_id=("QueryExecutionId",),
    told=("QueryExecution",),
    write_state=at("Status", "State"),
    cancel="StopQueryExecution",
    cancelled_id=("QueryExecutionId",),
    words=_words("RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"),
    gone=AwsError("InvalidRequestException", "QueryExecution {} was not found"),
)
BATCH = JobApi(
    service="batch",
    submit="SubmitJob",
    made_id=("jobId",),
    ask="DescribeJobs",
    asked_id=("jobs", 0),
    told=("jobs", 0),
    write_state=at("status"),
    cancel="TerminateJob",
    cancelled_id=("jobId",),
    words=_words("RUNNING", "SUCCEEDED", "FAILED", "FAILED"),
    nothing={"jobs": []},
    listed=("ListJobs", ("jobSummaryList",), ("jobId",)),
)
ECS = JobApi(
    service="ecs",
    submit="RunTask",
    made_id=("tasks", 0, "taskArn"),
    ask="DescribeTasks",
    asked_id=("tasks", 0),
    told=("tasks", 0),
    write_state=_ecs_state,
    cancel="StopTask",
    cancelled_id=("task",),
    words=_words("RUNNING", "STOPPED:0", "STOPPED:1", "STOPPED:137"),
    nothing={"tasks": [], "failures": [{"reason": "MISSING"}]},
    listed=("ListTasks", ("taskArns",), ()),
    list_jobs=_ecs_tasks,
)
EMR_CONTAINERS = JobApi(
    service="emr-containers",
    submit="StartJobRun",
    made_id=("id",),
    ask="DescribeJobRun",
    asked_id=("jobRunId",),
    told=("jobRun",),
    write_state=at("state"),
    cancel="CancelJobRun",
    cancelled_id=("jobRunId",),
    words=_words("RUNNING", "COMPLETED", "FAILED", "CANCELLED"),
    gone=AwsError("ResourceNotFoundException", "Job run {} doesn't exist."),
    listed=("ListJobRuns", ("jobRuns",), ("id",)),
)
EMR_SERVERLESS = JobApi(
    service="emr-serverless",
    submit="StartJobRun",
    made_id=("jobRunId",),
    ask="GetJobRun",
    asked_id=("jobRunId",),
    told=("jobRun",),
    write_state=at("state"),
    cancel="CancelJobRun",
    cancelled_id=("jobRunId",),
    words=_words("RUNNING", "SUCCESS", "FAILED", "CANCELLED"),
    gone=AwsError("ResourceNotFoundException", "Job run {} does not exist.", 404),
    listed=("ListJobRuns", ("jobRuns",), ("id",)),
)
EMR_STEPS = JobApi(
    service="emr",
    submit="AddJobFlowSteps",
    made_id=("StepIds", 0),
    ask="DescribeStep",
    asked_id=("StepId",),
    told=("Step",),
    write_state=at("Status", "State"),
    cancel="CancelSteps",
    cancelled_id=("StepIds", 0),
    words=_words("RUNNING", "COMPLETED", "FAILED", "CANCELLED", other_ends={"INTERRUPTED"}),
    gone=AwsError("InvalidRequestException", "Step id '{}' is not valid."),
    listed=("ListSteps", ("Steps",), ("Id",)),
    cancel_answer={"CancelStepsInfoList": []},
)
GLUE = JobApi(
    service="glue",
    submit="StartJobRun",
    made_id=("JobRunId",),
    ask="GetJobRun",
    asked_id=("RunId",),
    told=("JobRun",),
    write_state=at("JobRunState"),
    cancel="BatchStopJobRun",
    cancelled_id=("JobRunIds", 0),
    words=_words("RUNNING", "SUCCEEDED", "FAILED", "STOPPED", other_ends={"TIMEOUT", "ERROR", "EXPIRED"}),
    gone=AwsError("EntityNotFoundException", "Failed to find a job run with id {}."),
    listed=("GetJobRuns", ("JobRuns",), ("Id",)),
    cancel_answer={"SuccessfulSubmissions": [], "Errors": []},
)
REDSHIFT_DATA = JobApi(
    service="redshift-data",
    submit="ExecuteStatement",
    made_id=("Id",),
    ask="DescribeStatement",
    asked_id=("Id",),
    told=(),
    write_state=at("Status"),
    cancel="CancelStatement",
    cancelled_id=("Id",),
    words=_words("STARTED", "FINISHED", "FAILED", "ABORTED"),
    gone=AwsError("ResourceNotFoundException", "Query {} does not exist."),
    cancel_answer={"Status": True},
)
SAGEMAKER_PROCESSING = _sagemaker("Processing")
SAGEMAKER_TRAINING = _sagemaker("Training")
SAGEMAKER_TRANSFORM = _sagemaker("Transform")
STEP_FUNCTIONS = JobApi(
    service="stepfunctions",
    submit="StartExecution",
    made_id=("executionArn",),
    ask="DescribeExecution",
    asked_id=("executionArn",),
    told=(),
    write_state=at("status"),
    cancel="StopExecution",
    cancelled_id=("executionArn",),
    words=_words("RUNNING", "SUCCEEDED", "FAILED", "ABORTED", other_ends={"TIMED_OUT"}),
    gone=AwsError("ExecutionDoesNotExist", "Execution Does Not Exist: '{}'"),
    names="name",
    in_use=AwsError("ExecutionAlreadyExists", "Execution Already Exists: '{}'"),
    same_while_alive=True,
    listed=("ListExecutions", ("executions",), ("executionArn",)),
    cancel_answer={"stopDate": 1_767_225_600},
)

JOB_APIS = {
    "athena": ATHENA,
    "batch": BATCH,
    "ecs": ECS,
    "emr_containers": EMR_CONTAINERS,
    "emr_serverless": EMR_SERVERLESS,
    "emr_steps": EMR_STEPS,
    "glue": GLUE,
    "redshift_data": REDSHIFT_DATA,
    "sagemaker_processing": SAGEMAKER_PROCESSING,
    "sagemaker_training": SAGEMAKER_TRAINING,
    "sagemaker_transform": SAGEMAKER_TRANSFORM,
    "step_functions": STEP_FUNCTIONS,
}
