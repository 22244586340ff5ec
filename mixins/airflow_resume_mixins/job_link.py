"""The page of a job in its own system, as a link of the task in Airflow's UI."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

from airflow_resume.shown import get_logger

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


log = get_logger(__name__)


class JobLink(BaseOperatorLink):
    """The link to `job_url(external_id)` of a `ResumableJobMixin`.

    Airflow reads links from XComs, which it writes at the end of a task. The mixin writes the XCom of this link as soon
    as the id of the job is known.
    """

    name = "Job"  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002  Airflow's signature
        """The URL of the page; empty if there is no job, or if the operator has no page for it."""
        return "" if operator.external_id is None else link_of(operator) or ""


def link_of(operator: Any) -> str | None:
    """What `job_url` gives for the present job, without what may be secret; None if it is no address of the web."""
    from airflow_resume.links import shown_link  # needed by tasks only, and this module is imported by Dag files

    address = operator.job_url(operator.external_id)
    link = shown_link(address)
    if address and link is None:
        log.warning(
            "job_url gave %r, which is not shown: it is no address that begins with https:// or http://", address
        )
    return link


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
