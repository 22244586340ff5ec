"""The recipe of docs/providers.md, as it stands there, in every scenario; and recipes that lack something."""

from __future__ import annotations

import re
import sys
import urllib.error
from email.message import Message
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator

from airflow_resume.errors import UsageError
from airflow_resume.testing import ServiceJobs, task_context
from airflow_resume.testing.operators import OrderedFailureError, UnknownJobError
from airflow_resume_mixins.providers import ProviderJob

PAGE = (Path(__file__).parents[3] / "docs" / "providers.md").read_text()
SECTION = PAGE[PAGE.index("## Write a recipe in ten minutes") : PAGE.index("## Upgrade a whole deployment")]
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```python\n(.*?)```", SECTION, re.DOTALL))
MOST_LINES = 12


@pytest.fixture
def jobs() -> ServiceJobs:
    return ServiceJobs(running="RENDERING", succeeded="DONE", failed="FAILED", cancelled="STOPPED", unknown="PAUSING")


@pytest.fixture
def page(jobs: ServiceJobs, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the snippets define, with a client of a service in memory."""

    class Client:
        def render(self, scene: str, request_id: str | None) -> Any:
            return self._answered(
                lambda: jobs.with_token(request_id) or jobs.make(f"j-{scene}-{len(jobs.jobs)}", token=request_id)
            ).id

        def state(self, job: str) -> Any:
            return self._answered(lambda: jobs.ask(job))

        def stop(self, job: str) -> None:
            self._answered(lambda: jobs.cancel(job))

        def _answered(self, act: Any) -> Any:
            try:
                jobs.begin()
                return act()
            except UnknownJobError:
                raise self._error(404) from None
            except OrderedFailureError as error:
                raise self._error(error.status) from None

        def _error(self, status: int) -> Exception:
            headers = Message()
            headers["Content-Type"] = "application/json"
            return urllib.error.HTTPError("https://farm", status, "no", headers, BytesIO(b"{}"))

    module: Any = ModuleType("render_farm")
    module.Client = Client
    monkeypatch.setitem(sys.modules, "render_farm", module)
    namespace: dict[str, Any] = {"__name__": "recipe"}
    for snippet in SNIPPETS.values():
        exec(snippet, namespace)  # noqa: S102  our own page
    return namespace


def test_the_recipe_has_no_problems_in_any_scenario(page: dict[str, Any], jobs: ServiceJobs) -> None:
    page["test_the_recipe"](jobs)


def test_the_operator_alone_has(page: dict[str, Any], jobs: ServiceJobs) -> None:
    page["RenderOperator"] = lambda resume_policy, **options: page["UpstreamRenderOperator"](**options)
    with pytest.raises(AssertionError, match="crash while waiting"):
        page["test_the_recipe"](jobs)


def test_the_recipe_is_short_and_all_of_the_section_is_run() -> None:
    body = SNIPPETS["recipe"].partition("class ")[2].splitlines()[1:]
    assert len([line for line in body if line.strip()]) <= MOST_LINES
    assert SECTION.count("```python") == len(SNIPPETS)


def test_every_hook_of_provider_job_is_in_the_table() -> None:
    own = {name for name in vars(ProviderJob) if not name.startswith("_")}
    engine = {
        "execute",
        "execute_resumable",
        "get_job_result",
        "get_job_status",
        "is_job_active",
        "is_job_succeeded",
        "job_notes",
        "lacks",
        "on_kill",
        "poll_until_complete",
        "resume_complete",
        "submit_job",
    }
    table = SECTION[SECTION.index("| hook |") :]
    assert {name for name in own - engine if f"`{name}" not in table} == set()


# --- what is missing is said before anything is sent ----------------------------------------------------------


class Sends(BaseOperator):
    def execute(self, context: Any) -> Any:
        raise AssertionError("nothing may be sent")


class Silent(ProviderJob, Sends):
    """Without a job_status."""


class Asked(ProviderJob, Sends):
    def get_job_status(self, external_id: Any, context: Any) -> Any:
        return "DONE"


def test_a_recipe_without_a_status_is_refused_when_a_task_is_made() -> None:
    with pytest.raises(UsageError, match=r"Silent has no job_status\(external_id\)") as raised:
        Silent(task_id="t")
    assert "Write a recipe in ten minutes" in (raised.value.remedy or "")


def test_it_is_refused_when_a_mapped_task_is_unmapped() -> None:
    with DAG("d", schedule=None):
        mapped: Any = Silent.partial(task_id="t").expand(doc=["a"])
    with pytest.raises(UsageError, match="Silent has no job_status"):
        mapped.unmap({"doc": "a"})


def test_another_way_to_ask_will_do() -> None:
    assert Asked(task_id="t").lacks() is None


@pytest.mark.parametrize("switch", ["not_waiting", "while_submitting"])
def test_a_switch_that_the_operator_does_not_have_is_refused_before_anything_is_sent(switch: str) -> None:
    recipe: Any = type("Misspelt", (Asked,), {switch: {"wiat": False}, "put_token": lambda self, token: None})
    attempt = task_context()
    with pytest.raises(UsageError, match=f"Misspelt has no attribute 'wiat', which {switch} of the recipe sets"):
        recipe(task_id="t").execute(attempt.context)
