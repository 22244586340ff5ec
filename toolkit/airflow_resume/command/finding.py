"""The subcommand `doctor`: what it looks at, what one finding is, and how findings are printed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from importlib import import_module

from airflow_resume.command.console import lines
from airflow_resume.errors import UsageError


class Severity(Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    level: Severity
    about: str
    found: str
    remedy: str = ""
    """What to do; nothing where all is well."""


def ok(about: str, found: str) -> Finding:
    """All is well."""
    return Finding(level=Severity.OK, about=about, found=found)


def warning(about: str, found: str, remedy: str) -> Finding:
    """It works, and somebody should look at it."""
    return Finding(level=Severity.WARNING, about=about, found=found, remedy=remedy)


def error(about: str, found: str, remedy: str) -> Finding:
    """It does not work."""
    return Finding(level=Severity.ERROR, about=about, found=found, remedy=remedy)


def run(options: argparse.Namespace) -> int:
    """Look at Dags, at a running Airflow, or at a database; the last needs SQLAlchemy, and the others do not.

    Raises:
        UsageError: at several of them.
    """
    if options.dags is not None and options.url is not None:
        raise UsageError("doctor looks at a database or at Dags, not at both.", "Give a URL or --dags.")
    if options.airflow is not None and (options.dags is not None or options.url is not None):
        raise UsageError("doctor looks at one thing at a time.", "Give a URL, --airflow or --dags.")
    # By its name, as the toolkit does not know the mixins.
    module, function = "airflow_resume.command.doctor", "look"
    if options.dags is not None:
        module, function = "airflow_resume_mixins.dag_doctor", "run"
    elif options.airflow is not None:
        module, function = "airflow_resume.command.airflow_doctor", "look"
    looks: Callable[[argparse.Namespace], int] = getattr(import_module(module), function)
    return looks(options)


def print_findings(what: str, name: str, findings: Sequence[Finding], output: str) -> int:
    """Print them, and return the exit code: 1 if there is an error.

    Args:
        what: was looked at, such as `database`.
        name: of it.
        findings: in the order in which they are printed.
        output: `table` or `json`.
    """
    if output == "json":
        found = [{**asdict(finding), "level": finding.level.value} for finding in findings]
        print(json.dumps({what: name, "findings": found}, indent=2))
    else:
        print(name)
        rows = [(finding.level.value, finding.about, finding.found) for finding in findings]
        heading, *others = lines(("LEVEL", "ABOUT", "FOUND"), rows)
        print(heading)
        for finding, line in zip(findings, others, strict=True):
            print(line)
            if finding.remedy:
                print("         ->", finding.remedy)
    return 1 if any(finding.level is Severity.ERROR for finding in findings) else 0
