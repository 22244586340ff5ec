"""The table of metrics in docs/operating.md is what the code reports: each name, its type, its tags, and no other."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from airflow_resume import checkpoint, run_job
from airflow_resume.jobs import Step
from airflow_resume.jobs.telemetry import counters_of
from airflow_resume.loops import Skip
from airflow_resume.testing import FakeJobs, task_context
from airflow_resume.watermarks import Outcome
from airflow_resume.watermarks.windows.window_run import SEEN
from tests.support.metrics import Reported, reported
from tests.support.watermarks.hourly_orders import ORDERS, Clock, orders

__all__ = ["reported"]
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operating.md").read_text()
TYPES = {"count": "counter", "count_by": "counter", "gauge": "gauge", "timing": "timer"}
METHODS = {"incr": "counter", "gauge": "gauge", "timing": "timer"}
FAMILIES = {
    "watermark.{outcome.value}": [f"watermark.{outcome.value}" for outcome in Outcome],
    "watermark.{name}": [f"watermark.{name}" for name in SEEN],
    "resumable_job.{name}": sorted(
        {
            f"resumable_job.{name}"
            for step, had in product(Step, (True, False))
            for name in counters_of(step, had_job=had)
        }
    ),
}
"""What a name that is put together may be."""


class Metric(NamedTuple):
    name: str
    type: str


def rows() -> dict[Metric, frozenset[str]]:
    """The tags of each metric, as the table has them."""
    found = re.findall(r"^\| `([a-z_.]+)` \| (counter|gauge|timer) \| [^|]+ \| ([^|]*)\| [^|]+ \|$", PAGE, re.MULTILINE)
    return {Metric(name, type_): frozenset(re.findall(r"`(\w+)`", tags)) for name, type_, tags in found}


def calls() -> set[Metric]:
    """The metrics that the code reports, by its calls of `airflow_resume.metrics`."""
    found: set[Metric] = set()
    for path in [*(ROOT / "toolkit").rglob("*.py"), *(ROOT / "mixins").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("metrics."):
                name, kind = ast.unparse(node.args[0]), ast.unparse(node.func).removeprefix("metrics.")
                known = FAMILIES.get(name[2:-1]) if name.startswith("f") else [ast.literal_eval(name)]
                assert known is not None, f"{path.name}: what may {name} be?"
                found |= {Metric(each, TYPES[kind]) for each in known}
    return found


def test_the_table_has_each_metric_of_the_code_and_no_other() -> None:
    assert set(rows()) == calls()
    assert PAGE.count("| counter |") + PAGE.count("| gauge |") + PAGE.count("| timer |") == len(rows())


def test_what_tasks_report_has_the_type_and_the_tags_of_the_table(reported: Reported) -> None:
    attempt = task_context(assets=[ORDERS])
    with attempt:
        with checkpoint(range(3), name="l", skip=Skip(on=(ValueError,))) as loop:
            for _ in loop:
                with loop.skipping():
                    raise ValueError
        run_job(FakeJobs())
        with orders(Clock(4)).open(attempt.context):
            pass
    with attempt.clear(), suppress(StopIteration):
        next(iter(checkpoint(range(3), name="l")))
    table = rows()
    seen = {Metric(name, METHODS[method]): frozenset(tags) for method, name, _, tags in reported.all}
    assert len(seen) > 10
    for metric, tags in seen.items():
        assert tags - {"operator"} == table[metric], metric
        assert "operator" in tags


@pytest.mark.parametrize("page", ["loops.md", "watermarks.md", "jobs.md"])
def test_the_pages_lead_to_the_table(page: str) -> None:
    assert "(operating.md#metrics)" in (ROOT / "docs" / page).read_text()
