"""The subcommands that work on a database: `migrate`, `cleanup`, `rotate` and `new-id`."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypedDict

from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from airflow_resume.attempt import utc_now
from airflow_resume.backends import Judged, SqlStoreBackend
from airflow_resume.backends.database.database import Database
from airflow_resume.backends.rows import rotation
from airflow_resume.backends.rows.cleanup import Reason
from airflow_resume.backends.schema import migrations
from airflow_resume.backends.schema.migrations import NEWEST, SchemaState
from airflow_resume.backends.settings import configured_codec, read_settings
from airflow_resume.backends.urls.shown import shown_url
from airflow_resume.backends.values.codecs import Cipher
from airflow_resume.command.console import lines, look_in_the_current_folder
from airflow_resume.errors import BackendSettingError, OperatingError, SchemaError, SinkError, UsageError
from airflow_resume.sinks import SqlSink


def migrate(options: argparse.Namespace) -> int:
    """Make or upgrade the tables, and print from which version to which; or print the statements."""
    if options.sink:
        return _migrate_sink(options)
    with closing(Database(read_settings(options.url).url)) as database:
        found = state_of(database)
        if not options.sql:
            refuse_memory(database)
        if options.sql:
            file = database.dialect.file_of(database.url)
            # If the file does not exist, an empty database in memory is asked instead, because opening the file would
            # make it.
            asked = database if file is None or file.exists() else Database(URL.create(database.dialect.kind))
            statements = asked.as_it_is(migrations.pending_sql)
            for statement in statements:
                print(f"{statement};")
            if not statements:  # not among the statements
                print(f"{shown_url(database.url)}: is at version {found.version} already", file=sys.stderr)
            return 0
        database.upgrade_tables()
    before = found.version
    done = f"is at version {before} already" if before >= NEWEST else f"from version {before} to {NEWEST}"
    if found.absent:
        done += f"; {' and '.join(found.absent)} made anew, with nothing in it"
    print(f"{shown_url(database.url)}: {done}")
    return 0


def _migrate_sink(options: argparse.Namespace) -> int:
    """Make the table of positions of a sink, or print the statement."""
    if options.url is None:
        raise UsageError("migrate --sink needs the URL of the sink.", "Give it, or call SqlSink.make_table().")
    sink = SqlSink(options.url)
    try:
        if options.sql:
            print(f"{sink.ddl()};")
            return 0
        made = "was made" if sink.make_table() else "is there already"
    except (SQLAlchemyError, ImportError) as error:
        # Without the text of the error, which may quote the URL.
        raise SinkError(f"The sink cannot be used: {type(error).__name__}.", "See whether its URL is right.") from error
    print(f"{sink.target}: the table {sink.positions.fullname} {made}")
    return 0


def cleanup(options: argparse.Namespace) -> int:
    """Delete what has expired, or print the plan."""
    with closing(Database(read_settings(options.url).url)) as database:
        require_tables(database)
    with closing(SqlStoreBackend(options.url)) as backend:
        known = _references(backend, options)
        if options.dry_run:
            return _print_plan(backend, options.output, known)
        report = backend.clean(**known)
    described = {
        "dry_run": False,
        "expired": report.expired,
        "orphaned": report.orphaned,
        "failures": list(report.failures),
    }
    print(json.dumps(described) if options.output == "json" else report)
    return 1 if report.failures else 0


def values_without_a_run(options: argparse.Namespace) -> tuple[int, int]:
    """How many values no reference of the Airflow leads to, and how many there are in all. Nothing is deleted.

    Raises:
        OperatingError: the references cannot be collected, or the Airflow has none at all.
    """
    with closing(Database(read_settings(options.url).url)) as database:
        require_tables(database)
    with closing(SqlStoreBackend(options.url)) as backend:
        known = _references(backend, options)
        reasons = Counter(judged.reason for judged in backend.plan_cleanup(**known))
    return reasons[Reason.ORPHANED], reasons.total()


class References(TypedDict, total=False):
    """All references that Airflow has, and when they began to be collected. Nothing, if they are not known."""

    live: list[str]
    live_as_of: datetime


def _references(backend: SqlStoreBackend, options: argparse.Namespace) -> References:
    """Collect the references, if an Airflow is named.

    Raises:
        OperatingError: they cannot be collected; or there is none at all, which more likely is another Airflow.
    """
    if options.airflow is None:
        return {}
    from airflow_resume.command.look import opened
    from airflow_resume.operating.references import references_of

    began = utc_now()
    scopes = {tuple(judged.scope.items()): None for judged in backend.plan_cleanup() if judged.reason is Reason.UNKNOWN}
    with opened(options) as api:
        found = references_of(api, map(dict, scopes))
    if scopes and not found and not getattr(options, "all_gone", False):
        raise OperatingError(
            f"{options.airflow} has no reference to any of the values of {len(scopes)} tasks and assets. Nothing was"
            " deleted.",
            "Is it the Airflow that uses this database? If all of its Dag runs were deleted, say --all-gone.",
        )
    return {"live": found, "live_as_of": began}


def _print_plan(backend: SqlStoreBackend, output: str, known: References) -> int:
    """Print it row by row, because there may be more rows than memory holds."""
    count: Counter[bool] = Counter()

    def rows() -> Iterator[tuple[Judged, str]]:
        for judged in backend.plan_cleanup(**known):
            count[judged.reason.deletes] += 1
            yield judged, "deleted" if judged.reason.deletes else "kept"

    if output == "json":
        print('{"dry_run": true, "plan": [', end="")
        separator = "\n"
        for judged, outcome in rows():
            row = {"key": judged.key, "scope": judged.scope, "outcome": outcome, "reason": judged.reason.value}
            print(separator, json.dumps(row), sep="", end="")
            separator = ",\n"
        print(f'\n], "deleted": {count[True]}, "kept": {count[False]}}}')
        return 0
    cells = (
        (judged.key, " ".join(f"{name}={value}" for name, value in judged.scope.items()), outcome, judged.reason.value)
        for judged, outcome in rows()
    )
    for line in lines(("KEY", "SCOPE", "OUTCOME", "REASON"), cells):
        print(line)
    print(f"Of {count.total()} values {count[True]} would be deleted, and {count[False]} kept")
    return 0


def rotate(options: argparse.Namespace) -> int:
    """Encrypt all values under the newest key, and print how many there were."""
    cipher = Cipher(options.codec or configured_codec())
    if not cipher.encrypts:
        raise BackendSettingError(
            "There is no codec to encrypt with.",
            "Set [airflow_resume] backend_codec, or pass --codec fernet.",
            setting="backend_codec",
        )
    look_in_the_current_folder()
    with closing(Database(read_settings(options.url).url, erases=True)) as database:
        require_tables(database)
        cipher.check()
        report = rotation.rotate(database, cipher)
    described = {"rotated": report.rotated, "current": report.current, "failures": list(report.failures)}
    print(json.dumps(described) if options.output == "json" else report)
    return 1 if report.failures else 0


def new_id(options: argparse.Namespace) -> int:
    """Give a copied database an id of its own, and print its old and its new id."""
    with closing(Database(read_settings(options.url).url)) as database:
        require_tables(database)
        database.upgrade_tables()
        new = None if options.back else migrations.new_id()
        before, now = database.transaction(partial(migrations.change_id, new=new))
    print(f"{shown_url(database.url)}: the id was {before} and is {now}")
    return 0


def state_of(database: Database) -> SchemaState:
    """What the database says of its tables. Nothing is made, not even a file."""
    file = database.dialect.file_of(database.url)
    if file is not None and not exists(file):
        return SchemaState()
    return database.as_it_is(migrations.read_state)


def exists(file: Path) -> bool:
    """Whether the file exists. If this user may not look there, the answer is no, and SQLite then says why."""
    try:
        return file.exists()
    except OSError:
        return False


def refuse_memory(database: Database) -> None:
    """Refuse a database in memory, of which nothing is left when this command ends.

    Raises:
        BackendSettingError: it is one.
    """
    if not database.dialect.is_server and database.dialect.file_of(database.url) is None:
        raise BackendSettingError(
            f"{shown_url(database.url)} is a database in memory, which is empty at the beginning of this command and"
            " gone at its end.",
            "Give the URL of a file, such as sqlite:////srv/airflow/state.db (four slashes).",
            setting="backend_url",
            where=shown_url(database.url),
        )


def require_tables(database: Database) -> None:
    """Refuse a database that is not in use: it is likelier a mistyped URL than one with nothing in it.

    Raises:
        SchemaError: it has no tables of ours. BackendSettingError: it is in memory.
    """
    refuse_memory(database)
    if state_of(database).is_missing:
        raise SchemaError(
            f"{shown_url(database.url)} has no tables of ours.",
            "See whether the URL is right; `airflow-resume migrate` makes the tables.",
            problem="missing",
            where=shown_url(database.url),
        )
