"""The page of a job in its own system, as a link of the task in Airflow's UI."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


class JobLink(BaseOperatorLink):
    """The link to `job_url(external_id)` of a `ResumableJobMixin`.

    Airflow reads links from XComs, which it writes at the end of a task. The mixin writes the XCom of this link as soon
    as the id of the job is known.
    """

    name = "Job"  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002  Airflow's signature
        """The URL of the page; empty if there is no job, or if the operator has no page for it."""
        external_id = operator.external_id
        return "" if external_id is None else operator.job_url(external_id) or ""


def add_job_link(cls: type) -> None:
    """Add the link to the links of the class, if it has a `job_url`."""
    links: Any = inspect.getattr_static(cls, "operator_extra_links", ())
    if not hasattr(cls, "job_url") or hasattr(links, "has_job_link"):
        return
    if not hasattr(links, "__get__"):  # a tuple, a list, a set, or None
        if not any(isinstance(link, JobLink) for link in links or ()):
            cls.operator_extra_links = (*(links or ()), JobLink())  # type: ignore[attr-defined]
        return

    class LinksAndJob(property):
        has_job_link = True

    own_links, setter = links.__get__, getattr(links, "fset", None)

    def with_job(self: Any) -> tuple[Any, ...]:
        own = tuple(own_links(self, type(self)) or ())  # it may have asked a base, which has the link
        return own if any(isinstance(link, JobLink) for link in own) else (*own, JobLink())

    cls.operator_extra_links = LinksAndJob(with_job, setter)  # type: ignore[attr-defined]
