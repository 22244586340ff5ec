"""`job_url`: one link on the class, whatever links it had, and one XCom as soon as the id of a job is known."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator, BaseOperatorLink

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume.errors import JobError
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context
from airflow_resume_mixins import ResumableJobMixin
from airflow_resume_mixins.job_link import JobLink
from tests.support.jobs.hooks import LookUpHooks, equipped

POLICY = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0)))
KEY = JobLink().xcom_key


class Docs(BaseOperatorLink):
    name = "Docs"  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return "https://docs.example"


class Train(LookUpHooks, ResumableJobMixin, BaseOperator):
    """Without a page."""


class WithPage(Train):
    def job_url(self, external_id: Any) -> str | None:
        return f"https://jobs.example/{external_id}"


# --- the link on the class ------------------------------------------------------------------------------------


class Tuple(Train):
    operator_extra_links = (Docs(),)

    def job_url(self, external_id: Any) -> str | None: ...


class List(Train):
    operator_extra_links = [Docs()]  # type: ignore[assignment]  # noqa: RUF012  as some providers write it

    def job_url(self, external_id: Any) -> str | None: ...


class Property(Train):
    @property
    def operator_extra_links(self) -> Any:  # type: ignore[override]
        return [Docs()]

    def job_url(self, external_id: Any) -> str | None: ...


class Cached(Train):
    @cached_property
    def operator_extra_links(self) -> Any:  # type: ignore[override]
        return (Docs(),)

    def job_url(self, external_id: Any) -> str | None: ...


class LinksBefore(Train):
    operator_extra_links = (Docs(),)


class PageLater(LinksBefore):
    def job_url(self, external_id: Any) -> str | None: ...


class Below(Tuple):
    """Inherits all."""


class BelowBelow(Below):
    def job_url(self, external_id: Any) -> str | None: ...


class LinksAgain(Tuple):
    operator_extra_links = (Docs(),)


class MoreThanItsBase(Tuple):
    operator_extra_links = (*Tuple.operator_extra_links,)


class BelowProperty(Property):
    def job_url(self, external_id: Any) -> str | None: ...


class AsksItsBase(Tuple):
    @property
    def operator_extra_links(self) -> Any:  # type: ignore[override]
        return Tuple.operator_extra_links


class AsksItsBasesProperty(Property):
    @property
    def operator_extra_links(self) -> Any:  # type: ignore[override]
        return tuple(super().operator_extra_links)


class Mixed(BelowProperty, Tuple):  # type: ignore[override]
    """Two bases, and each has the link."""


@pytest.mark.parametrize(
    "kind",
    [
        Tuple,
        List,
        Property,
        Cached,
        PageLater,
        Below,
        BelowBelow,
        LinksAgain,
        MoreThanItsBase,
        BelowProperty,
        AsksItsBase,
        AsksItsBasesProperty,
        Mixed,
    ],
)
def test_the_link_stands_once_beside_those_of_the_operator(kind: type[Train]) -> None:
    for _ in range(2):
        links = list(kind(task_id="train").operator_extra_links)
        assert [type(link) for link in links] == [Docs, JobLink]


def test_without_a_page_there_is_no_link() -> None:
    assert list(Train(task_id="train").operator_extra_links) == []
    assert [type(link) for link in LinksBefore(task_id="train").operator_extra_links] == [Docs]
    assert [type(link) for link in WithPage(task_id="train").operator_extra_links] == [JobLink]


@pytest.mark.parametrize("kind", [WithPage, Tuple, Property])
def test_an_operator_with_it_can_be_written_into_a_dag_with_its_link(kind: type[Train]) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    with DAG("training", schedule=None) as dag:
        kind(task_id="train", resume_policy=POLICY)
    written = DagSerialization.to_dict(dag)
    (task,) = written["dag"]["tasks"]
    assert task["__var"]["_operator_extra_links"]["Job"] == KEY
    read = DagSerialization.from_dict(written).get_task("train")
    assert "Job" in {link.name for link in read.operator_extra_links}


# --- the XCom -------------------------------------------------------------------------------------------------


def ran(attempt: TaskAttempt, jobs: FakeJobs, kind: type[Train] = WithPage, policy: ResumePolicy = POLICY) -> list[Any]:
    """The pages that the attempt has shown, each with how many jobs there were and how often they were asked for."""
    shown: list[Any] = []
    push = attempt.ti.xcom_push

    def xcom_push(key: str, value: Any, **options: Any) -> None:
        if key == KEY:
            asked = [event.call for event in jobs.events].count("status")
            shown.append((value, len(jobs.jobs), asked))
        push(key=key, value=value, **options)

    attempt.ti.xcom_push = xcom_push  # type: ignore[method-assign, assignment]
    made = equipped(kind(task_id="train", resume_policy=policy), jobs=jobs)
    try:
        made.execute_resumable(attempt.context)  # type: ignore[arg-type]
    except JobError as error:
        print(repr(error))
    return shown


def test_the_page_is_shown_as_soon_as_the_id_is_known_and_once() -> None:
    jobs, attempt = FakeJobs(scripts=[["RUNNING"] * 5 + ["SUCCEEDED"]]), task_context()
    assert ran(attempt, jobs) == [("https://jobs.example/job-0", 1, 0)]


def test_a_retry_shows_it_again_as_airflow_has_deleted_it_before_it_asks() -> None:
    jobs, attempt = FakeJobs(scripts=[["RUNNING"] * 5 + ["SUCCEEDED"]]), task_context()
    ran(attempt, jobs, policy=ResumePolicy(poll=PollPolicy(timeout=timedelta(0))))
    asked = [event.call for event in jobs.events].count("status")
    assert ran(attempt.retry(), jobs) == [("https://jobs.example/job-0", 1, asked)]
    assert ran(attempt.retry(), jobs)[0][0] == "https://jobs.example/job-0"


def test_each_job_of_an_attempt_shows_its_own() -> None:
    jobs, attempt = FakeJobs(scripts=[["RUNNING", "FAILED"], ["RUNNING", "SUCCEEDED"]]), task_context()
    ran(attempt, jobs)
    assert [page for page, *_ in ran(attempt.retry(), jobs)] == [
        "https://jobs.example/job-0",
        "https://jobs.example/job-1",
    ]


class Breaks(Train):
    def job_url(self, external_id: Any) -> str | None:
        raise KeyError("no such region")


class HasNone(Train):
    def job_url(self, external_id: Any) -> str | None:
        return None


class HasASecret(Train):
    def job_url(self, external_id: Any) -> str | None:
        return f"https://ana:s3cret@jobs.example/{external_id}?o=1&token=s3cret"


class IsNoPage(Train):
    def job_url(self, external_id: Any) -> str | None:
        return f"ssh://jobs.example/{external_id}"


def test_what_may_be_secret_is_not_shown() -> None:
    assert ran(task_context(), FakeJobs(), HasASecret) == [("https://jobs.example/job-0?o=1", 1, 0)]
    ti_key: Any = None
    made = equipped(HasASecret(task_id="train"), external_id=7)
    assert JobLink().get_link(made, ti_key=ti_key) == "https://jobs.example/7?o=1"


def test_only_an_address_of_the_web_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    assert ran(task_context(), FakeJobs(), IsNoPage) == []
    assert "job_url gave 'ssh://jobs.example/job-0', which is not shown" in caplog.text


def test_an_error_of_it_costs_no_attempt(caplog: pytest.LogCaptureFixture) -> None:
    jobs, attempt = FakeJobs(), task_context()
    assert ran(attempt, jobs, Breaks) == []
    assert "The page of job 'job-0' cannot be shown" in caplog.text
    record: Any = attempt.task_store.get("resume.job.job")
    assert record["status"] == "succeeded"
    assert len(jobs.jobs) == 1


def test_nor_does_an_xcom_that_cannot_be_pushed() -> None:
    jobs, attempt = FakeJobs(), task_context()

    def refused(**_: Any) -> None:
        raise ConnectionError("no XComs today")

    attempt.ti.xcom_push = refused  # type: ignore[method-assign, assignment]
    made = equipped(WithPage(task_id="train", resume_policy=POLICY), jobs=jobs)
    assert made.execute_resumable(attempt.context) == {"job": "job-0"}  # type: ignore[arg-type]


def test_no_page_is_not_shown() -> None:
    assert ran(task_context(), FakeJobs(), HasNone) == []


@pytest.mark.parametrize(("kind", "page"), [(WithPage, "https://jobs.example/7"), (HasNone, "")])
def test_airflow_reads_the_link_at_the_end_of_the_task_too(kind: type[Train], page: str) -> None:
    made = equipped(kind(task_id="train"), external_id=7)
    ti_key: Any = None
    assert JobLink().get_link(made, ti_key=ti_key) == page
    assert JobLink().get_link(kind(task_id="train"), ti_key=ti_key) == "", "there is no job"
