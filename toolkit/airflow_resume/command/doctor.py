"""The subcommand `doctor`, and what it says of a running Airflow: `gather` asks, `judge` says what the answers mean."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from importlib import import_module
from importlib.metadata import version
from typing import Any

from airflow_resume.attempt import utc_now
from airflow_resume.command.console import Finding, error, ok, print_findings, warning
from airflow_resume.command.look import opened
from airflow_resume.errors import AirflowApiError, UsageError
from airflow_resume.operating.api import AirflowApi
from airflow_resume.operating.kinds import KINDS, row_of
from airflow_resume.operating.places import Scope, asset_places, entries_of, task_places

PACKAGE = "airflow-resume"
SLOW_SECONDS = 0.25
"""From this on, each save of a loop is noticed: a loop saves about once in five seconds, and at its end."""
CLOCK_SECONDS = 5.0
"""By how many seconds clocks may differ."""
QUESTIONS = 5
MOST_NAMED = 3
FIRST_WITH_STORES = (3, 3)

Settings = Mapping[tuple[str, str], str]


@dataclass(frozen=True, kw_only=True)
class AirflowFacts:
    """What an Airflow answers.

    Args:
        airflow: its version. `there`: the version of this package on the API server; None if it is not installed.
        here: the version of this command.
        latency: seconds that an answer takes. `clock_seconds`: how far the server's clock is ahead of ours.
        health: of each component, such as `{"scheduler": "healthy"}`.
        settings: by section and option; None if the API does not show them.
        troubles: by noun, what is in trouble: where, and why.
        counts: by noun, how many records there are. `looked`: at how many of `total` task instances.
        values: of the database of a state backend: to how many no reference leads, and how many there are.
    """

    airflow: str
    here: str
    there: str | None = None
    latency: float = 0.0
    clock_seconds: float | None = None
    health: Mapping[str, str] = field(default_factory=dict)
    settings: Settings | None = None
    troubles: Mapping[str, Sequence[str]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    looked: int = 0
    total: int = 0
    values: tuple[int, int] | None = None


def run(options: argparse.Namespace) -> int:
    """Look at Dags, at a running Airflow, or at a database. Only the last needs SQLAlchemy.

    Raises:
        UsageError: at several of them.
    """
    if options.dags is not None and options.url is not None:
        raise UsageError("doctor looks at a database or at Dags, not at both.", "Give a URL or --dags.")
    if options.airflow is not None and options.dags is not None:
        raise UsageError("doctor looks at an Airflow or at Dags, not at both.", "Give --airflow or --dags.")
    if options.airflow is not None:
        return look(options)
    # By its name, as the toolkit does not know the mixins.
    module, function = "airflow_resume.command.database_doctor", "look"
    if options.dags is not None:
        module, function = "airflow_resume_mixins.dag_doctor", "run"
    looks: Callable[[argparse.Namespace], int] = getattr(import_module(module), function)
    return looks(options)


def look(options: argparse.Namespace) -> int:
    """Ask, and print what was found."""
    with opened(options) as api:
        facts = gather(api, utc_now())
    if options.url is not None:
        from airflow_resume.command.database import values_without_a_run

        facts = replace(facts, values=values_without_a_run(options))
    return print_findings("airflow", api.url, judge(facts), options.output)


# --- the questions --------------------------------------------------------------------------------------------


def gather(api: AirflowApi, now: datetime) -> AirflowFacts:
    """Ask for everything. What may not be asked for stays unknown."""
    answered = []
    for _ in range(QUESTIONS):
        began = time.monotonic()
        api.get("/dags", limit=1)
        answered.append(time.monotonic() - began)
    places = task_places(api, Scope())
    rows: dict[str, list[Any]] = {noun: [] for noun in KINDS}
    for where in (places.places, asset_places(api)):
        for entry in entries_of(api, where, "resume."):
            for noun, kind in KINDS.items():
                if entry.key.startswith(kind.prefix):
                    rows[noun].append(row_of(kind, entry, now))
    return AirflowFacts(
        airflow=str(api.get("/version")["version"]),
        here=version(PACKAGE),
        there=_version_there(api),
        latency=statistics.median(answered),
        clock_seconds=_clock_seconds(api),
        health={name: str(found["status"]) for name, found in api.get("/monitor/health").items() if found["status"]},
        settings=_settings(api),
        troubles={
            noun: [f"{row.place} {row.name}: {row.trouble}" for row in found if row.trouble]
            for noun, found in rows.items()
        },
        counts={noun: len(found) for noun, found in rows.items()},
        looked=len(places.places),
        total=places.total,
    )


def _version_there(api: AirflowApi) -> str | None:
    with suppress(AirflowApiError):
        for each in api.pages("/providers", "providers"):
            if each["package_name"] == PACKAGE:
                return str(each["version"])
    return None


def _settings(api: AirflowApi) -> Settings | None:
    with suppress(AirflowApiError):
        sections = api.get("/config")["sections"]
        return {(part["name"], each["key"]): str(each["value"]) for part in sections for each in part["options"]}
    return None


def _clock_seconds(api: AirflowApi) -> float | None:
    """How far the clock of the API server is ahead; its header has whole seconds."""
    if api.date is None:
        return None
    said, heard = api.date
    with suppress(ValueError, TypeError):
        behind = (heard - parsedate_to_datetime(said).astimezone(timezone.utc)).total_seconds()
        return 0.0 if 0 <= behind <= 1 else -behind
    return None


# --- the findings ---------------------------------------------------------------------------------------------


def judge(facts: AirflowFacts) -> list[Finding]:
    """Everything that was looked at."""
    found = [_airflow(facts), _package(facts), *_server(facts)]
    if facts.settings is None:
        remedy = "Set [api] expose_config = non-sensitive-only, or look yourself."
        found.append(warning("settings", "the API does not show them to this user", remedy))
    else:
        found += _of_settings(facts.settings)
    return [*found, *_of_records(facts), *_of_values(facts)]


def _airflow(facts: AirflowFacts) -> Finding:
    parts = facts.airflow.split(".")[:2]
    numbers = tuple(int(part) for part in parts if part.isdecimal())
    if numbers < FIRST_WITH_STORES:
        return error(
            "Airflow", f"{facts.airflow}, which has no state stores", "See docs/installing.md: Airflow 3.0 to 3.2."
        )
    return ok("Airflow", facts.airflow)


def _package(facts: AirflowFacts) -> Finding:
    if facts.there is None:
        return ok(PACKAGE, f"{facts.here} here; the API server does not say whether it has it")
    if facts.there != facts.here:
        remedy = "Records may have fields that the older one does not know: use the same release everywhere."
        return warning(PACKAGE, f"{facts.here} here, {facts.there} on the API server", remedy)
    return ok(PACKAGE, f"{facts.here}, here and on the API server")


def _server(facts: AirflowFacts) -> Iterator[Finding]:
    for name, status in facts.health.items():
        if status == "healthy":
            yield ok(name, status)
        else:
            yield error(name, status, "Tasks do not start, or triggers do not fire, until it runs again.")
    milliseconds = f"{facts.latency * 1000:.0f} ms an answer"
    if facts.latency < SLOW_SECONDS:
        yield ok("API latency", milliseconds)
    else:
        yield warning("API latency", milliseconds, "Each save of a record takes as long: more [api] workers help.")
    if facts.clock_seconds is not None:
        ahead = facts.clock_seconds
        text = f"the API server's is {abs(ahead):.0f} s {'ahead' if ahead > 0 else 'behind'}"
        if abs(ahead) <= CLOCK_SECONDS:
            yield ok("clock", text)
        else:
            yield warning("clock", text, "Set all clocks by NTP: what is old or stalled is judged by them.")


def _of_settings(settings: Settings) -> Iterator[Finding]:
    def option(section: str, name: str) -> str:
        return settings.get((section, name), "").strip()

    server, workers = option("state_store", "backend"), option("workers", "state_store_backend")
    if server.endswith("SqlStoreBackend"):
        remedy = "It belongs to [workers] state_store_backend: here the UI and the API see nothing of it."
        yield error("backend (server)", server, remedy)
    elif server:
        yield ok("backend (server)", server.rpartition(".")[2])
    if not workers:
        yield ok("backend (workers)", "none: values are in Airflow's database")
    elif not workers.endswith("SqlStoreBackend"):
        yield ok("backend (workers)", workers)
    elif option("airflow_resume", "backend_url") or option("airflow_resume", "backend_conn_id"):
        yield ok("backend (workers)", workers.rpartition(".")[2])
    else:
        remedy = "Set [airflow_resume] backend_url or backend_conn_id, unless only workers have it."
        yield warning(
            "backend (workers)", f"{workers.rpartition('.')[2]}, and the server knows no database of it", remedy
        )
    days = option("state_store", "default_retention_days")
    if days:
        yield ok("retention", f"{days} days for your own values; records of airflow-resume never expire")
    if option("state_store", "clear_on_success").lower() == "true":
        remedy = "A task that is cleared after its success does all of its work again. Set it to False to avoid that."
        yield warning("clear_on_success", "records are deleted when their task succeeds", remedy)


def _of_records(facts: AirflowFacts) -> Iterator[Finding]:
    if facts.total > facts.looked:
        yield ok("task instances", f"looked at the newest {facts.looked} of {facts.total} that are not finished")
    for noun, count in facts.counts.items():
        troubles = facts.troubles.get(noun, ())
        if not troubles:
            yield ok(noun, f"{count}, none in trouble")
            continue
        named = "; ".join(troubles[:MOST_NAMED]) + ("; ..." if len(troubles) > MOST_NAMED else "")
        remedy = f"`airflow-resume {noun} list --trouble` shows all of them; docs/operating.md says what to do."
        yield warning(noun, f"{len(troubles)} of {count} in trouble: {named}", remedy)


def _of_values(facts: AirflowFacts) -> Iterator[Finding]:
    if facts.values is None:
        return
    gone, total = facts.values
    if gone:
        remedy = "`airflow-resume cleanup --airflow` deletes them."
        yield warning("values", f"{gone} of {total} belong to no run or asset that is there", remedy)
    else:
        yield ok("values", f"{total}, each of a run or an asset that is there, or too young to tell")
