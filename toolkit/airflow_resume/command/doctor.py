"""`airflow-resume doctor`: whether a database is as it should be, and what to do where it is not."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING

from airflow_resume.command.options import add_output, add_url
from airflow_resume.command.table import lines

if TYPE_CHECKING:
    from airflow_resume.command.findings import Finding
    from airflow_resume.command.options import Subcommands

PATIENCE_SECONDS = 3.0
"""Somebody waits for the answer."""


def add_to(subcommands: Subcommands) -> None:
    """Say what it takes."""
    parser = subcommands.add_parser(
        "doctor",
        help="look at a database and say what is wrong with it",
        description="Look at a database and say what is wrong with it, and what to do. Nothing is changed. The exit"
        " code is 1 if there is an error.",
    )
    add_url(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Look, and print what was found."""
    from airflow_resume.backends.database import Database
    from airflow_resume.backends.settings import read_settings
    from airflow_resume.command.facts import gather
    from airflow_resume.command.findings import Level, judge
    from airflow_resume.command.places import name_of

    with closing(Database(read_settings(options.url).url, patience=PATIENCE_SECONDS)) as database:
        findings = judge(gather(database))
        _print_findings(name_of(database.url), findings, options.output)
    return 1 if any(finding.level is Level.ERROR for finding in findings) else 0


def _print_findings(name: str, findings: Sequence[Finding], output: str) -> None:
    if output == "json":
        found = [{**asdict(finding), "level": finding.level.value} for finding in findings]
        print(json.dumps({"database": name, "findings": found}, indent=2))
        return
    print(name)
    rows = [(finding.level.value, finding.about, finding.found) for finding in findings]
    heading, *others = lines(("LEVEL", "ABOUT", "FOUND"), rows)
    print(heading)
    for finding, line in zip(findings, others, strict=True):
        print(line)
        if finding.remedy:
            print("         ->", finding.remedy)
