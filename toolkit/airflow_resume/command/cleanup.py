"""`airflow-resume cleanup`: delete what has expired, or only say what would be."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from airflow_resume.command.options import add_output, add_url
from airflow_resume.command.table import lines

if TYPE_CHECKING:
    from airflow_resume.backends import CleanupReport, Judged, SqlStoreBackend
    from airflow_resume.command.options import Subcommands


def add_to(subcommands: Subcommands) -> None:
    """Say what it takes."""
    parser = subcommands.add_parser(
        "cleanup",
        help="delete the values whose time is over",
        description="Delete the values whose time is over. What Airflow may have a reference to is kept: only"
        " SqlStoreBackend.clean(live=...) can tell. The exit code is 1 if a part of it failed; run it again then.",
    )
    add_url(parser)
    add_output(parser)
    parser.add_argument("--dry-run", action="store_true", help="print every value and what would become of it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Clean, or print the plan."""
    from airflow_resume.backends import SqlStoreBackend
    from airflow_resume.backends.database import Database
    from airflow_resume.backends.settings import read_settings
    from airflow_resume.command.places import require_tables

    url = read_settings(options.url).url
    with closing(Database(url)) as database:
        require_tables(database)
    with closing(SqlStoreBackend(url)) as backend:
        return _print_plan(backend, options.output) if options.dry_run else _clean(backend, options.output)


def _clean(backend: SqlStoreBackend, output: str) -> int:
    report = backend.clean()
    print(json.dumps(_described(report)) if output == "json" else report)
    return 1 if report.failures else 0


def _described(report: CleanupReport) -> dict[str, object]:
    return {
        "dry_run": False,
        "expired": report.expired,
        "orphaned": report.orphaned,
        "failures": list(report.failures),
    }


def _print_plan(backend: SqlStoreBackend, output: str) -> int:
    """Row by row, as there may be more than memory holds."""
    count: Counter[bool] = Counter()

    def counted() -> Iterator[Judged]:
        for judged in backend.plan_cleanup():
            count[judged.reason.deletes] += 1
            yield judged

    if output == "json":
        _print_json(counted(), count)
        return 0
    for line in lines(("KEY", "SCOPE", "OUTCOME", "REASON"), map(_row, counted())):
        print(line)
    print(f"Of {count.total()} values {count[True]} would be deleted, and {count[False]} kept")
    return 0


def _row(judged: Judged) -> tuple[str, str, str, str]:
    scope = " ".join(f"{name}={value}" for name, value in judged.scope.items())
    return judged.key, scope, _fate(judged), judged.reason.value


def _fate(judged: Judged) -> str:
    return "deleted" if judged.reason.deletes else "kept"


def _print_json(plan: Iterator[Judged], count: Counter[bool]) -> None:
    print('{"dry_run": true, "plan": [', end="")
    separator = "\n"
    for judged in plan:
        row = {"key": judged.key, "scope": judged.scope, "outcome": _fate(judged), "reason": judged.reason.value}
        print(separator, json.dumps(row), sep="", end="")
        separator = ",\n"
    print(f'\n], "deleted": {count[True]}, "kept": {count[False]}}}')
