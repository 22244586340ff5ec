"""`list`, `show` and `watch` of `jobs`, `loops` and `marks`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any

from airflow_resume.attempt import utc_now
from airflow_resume.command.console import as_json, dumped, lines, pairs, plain
from airflow_resume.command.ways_back import ways_back
from airflow_resume.errors import AirflowApiError, UsageError
from airflow_resume.operating.airflowctl import kept_login
from airflow_resume.operating.api import URL, AirflowApi, checked_url
from airflow_resume.operating.kinds import KINDS, Kind, UnreadableRow, cells_of, cut, details, row_of
from airflow_resume.operating.mark_rows import MoveRow, is_typed, moves_of, names_of
from airflow_resume.operating.nearest import nearest, no_asset, no_dag, no_instance, no_run
from airflow_resume.operating.places import (
    LATEST,
    Entry,
    Place,
    Scope,
    TaskPlace,
    asset_places,
    entries_of,
    link_of,
    newest_run,
    task_places,
)
from airflow_resume.operating.rows import clock, decoded
from airflow_resume.operating.steering import the_one
from airflow_resume.record import Record
from airflow_resume.watermarks.marks.mark_record import MarkRecord

_NOT_FOUND = 404
TROUBLE = 3
"""The exit code of `--check` when something is in trouble."""


@contextmanager
def opened(options: argparse.Namespace) -> Iterator[AirflowApi]:
    """The Airflow that the options name. With `-v` it is said at the end how many requests were made.

    Raises:
        UsageError: the address cannot be used. AirflowApiError: Airflow does not answer.
    """
    if options.airflow is not None and not options.airflow.strip():
        raise UsageError("--airflow is empty.", "Write the address after it, or leave it out.", name="--airflow")
    login = kept_login()
    url = options.airflow or os.environ.get(URL) or (login.url if login else _configured())
    # A token is shown to nobody but whom it was made for.
    token = login.token if login and checked_url(login.url) == checked_url(url) else None
    with AirflowApi(url, kept_token=token, timeout=options.timeout, say=_say) as api:
        try:
            yield api
        finally:
            if options.verbose:
                print(f"{api.calls} requests to {api.url}, {api.seconds:.2f} s in all", file=sys.stderr)


def _say(text: str) -> None:
    print(f"airflow-resume: {text}", file=sys.stderr, flush=True)


def _configured() -> str:
    from airflow_resume.compat import conf

    return str(conf.get("api", "base_url", fallback=None) or "http://localhost:8080")


# --- the verbs ------------------------------------------------------------------------------------------------


def rows(options: argparse.Namespace) -> int:
    """Print a row for each record."""
    kind, now = KINDS[options.noun], utc_now()
    with opened(options) as api:
        found = Looks(options, kind).look(api, now)
    print_rows(kind, found, options.output, now)
    return TROUBLE if options.check and any(row.trouble for row in found) else 0


def show(options: argparse.Namespace) -> int:
    """Print all about one record."""
    kind, now = KINDS[options.noun], utc_now()
    with opened(options) as api:
        found = find(api, options, kind)
        has_link = kind.noun == "job" and isinstance(found.place, TaskPlace)
        link = link_of(api, found.place) if has_link else None  # type: ignore[arg-type]
    row = row_of(kind, found, now)
    record: Record | None = None
    if not isinstance(row, UnreadableRow) and row.state != "typed":
        record = decoded(found, kind.record)
    said = details(kind, row, record, now, link=link)
    ways = [] if record is None else [*ways_back(options, found.place, record)]
    if options.output in {"json", "yaml"}:
        all_of_it = as_json(row) | ({"link": link} if kind.noun == "job" else {})
        stored = found.value if found.reference is None else found.reference
        print(dumped({**all_of_it, "next": _next(kind, said), "set_back": ways, "stored": stored}, options.output))
    elif options.output == "plain":
        told = [*said.items(), *(("set back", way) for way in ways)]
        print("\n".join(plain((name, value) for name, value in told if value not in (None, ""))))
    else:
        print("\n".join(pairs({**said, "set back": "\n".join(ways)})))
    return TROUBLE if options.check and row.trouble else 0


def history(options: argparse.Namespace) -> int:
    """Print the last moves of a mark, the newest first."""
    kind = KINDS["marks"]
    with opened(options) as api:
        found = find(api, options, kind)
    if found.reference is not None:
        raise UsageError(
            f"{found.key} of {found.place} cannot be read from here: it is {found.refers_to}.",
            "Set the state backend of the workers so that records stay readable in Airflow, see `show`.",
            name=found.key,
        )
    if is_typed(found):
        raise UsageError(
            "A value was typed in place of this mark, and no run has taken it up yet.",
            "The next run brings its moves back from the asset's events.",
            name=found.key,
        )
    moves = moves_of(decoded(found, MarkRecord))[: options.most]
    if options.output in {"json", "yaml"}:
        print(dumped([_move(move) for move in moves], options.output))
        return 0
    cells = [[_cell(value) for value in _move(move).values()] for move in moves]
    for line in plain(cells) if options.output == "plain" else lines([*map(str.upper, _MOVE)], cells):
        print(line)
    return 0


def _move(move: MoveRow) -> dict[str, object]:
    """A move, with the names that people know."""
    return dict(zip(_MOVE, (move.when, move.start, move.to, move.who, move.why, move.run), strict=True))


_MOVE = ("when", "from", "to", "who", "why", "run")


def _cell(value: Any) -> str:
    return clock(value) or "" if isinstance(value, datetime) else cut(value)


def watch(options: argparse.Namespace) -> int:
    """Print the rows again and again."""
    kind = KINDS[options.noun]
    looks = Looks(options, kind)
    found: tuple[Any, ...] = ()
    with opened(options) as api, _screen(kind, options) as draw:
        for looked in count() if options.times is None else range(options.times):
            time.sleep(options.every if looked else 0)
            now = utc_now()
            found = looks.look(api, now)
            draw(found, now)
    return TROUBLE if options.check and any(row.trouble for row in found) else 0


def _next(kind: Kind, said: dict[str, object]) -> dict[str, object]:
    return {name: said[name] for name in kind.again if name in said}


# --- what is found --------------------------------------------------------------------------------------------


@dataclass
class Looks:
    """Looks at the records, maybe again and again.

    From the second look on, task instances are left out that had no record and are over.
    """

    options: argparse.Namespace
    kind: Kind
    empty: set[tuple[object, ...]] = field(default_factory=set)
    has_said: bool = False

    def look(self, api: AirflowApi, now: datetime) -> tuple[Any, ...]:
        """A row for each record."""
        options, kind = self.options, self.kind
        places = [place for place in _places(api, options) if self._identity(place) not in self.empty]
        with_records = set()
        found = []
        names: set[str] = set()
        for entry in entries_of(api, places, kind.prefix):
            with_records.add(self._identity(entry.place))
            row = row_of(kind, entry, now)
            names.add(row.name)
            if options.name in {None, row.name} and (row.trouble or not options.trouble):
                found.append(row)
        if names and options.name not in {None, *names} and not self.has_said:
            said = f"No {kind.noun} here has the name {options.name!r}. {nearest(options.name, names)}"
            print(said, file=sys.stderr)
            self.has_said = True
        over = (place for place in places if isinstance(place, TaskPlace) and place.state in {"success", "skipped"})
        self.empty |= {self._identity(place) for place in over} - with_records
        return tuple(found)

    def _identity(self, place: Place) -> tuple[object, ...]:
        return (str(place), place.try_number if isinstance(place, TaskPlace) else None)


def _places(api: AirflowApi, options: argparse.Namespace) -> list[Place]:
    if options.noun == "marks":
        assets = asset_places(api, options.asset)
        if not assets and options.asset is not None:
            raise no_asset(api, options.asset)
        return [*assets]
    scope = Scope(
        dag_id=options.dag,
        run_id=options.dag_run,
        task_id=options.task,
        map_index=options.map_index,
        finished=options.all,
        most=options.most,
    )
    with _named(api, options):
        found = task_places(api, scope)
    if not found.places and options.task is not None:
        _say_if_missing(api, options)
    if found.is_cut:
        print(f"Looked at the newest {options.most} of {found.total} task instances: see --most", file=sys.stderr)
    return [*found.places]


def find(api: AirflowApi, options: argparse.Namespace, kind: Kind) -> Entry:
    """The one record that the options name.

    Raises:
        UsageError: there is none, or more than one.
    """
    places: list[Place] = []
    if options.noun == "marks":
        places += asset_places(api, options.asset)
        if not places:
            raise no_asset(api, options.asset)
    else:
        place = _task_place(api, options)
        there = api.found(place.instance)
        if there is None:
            raise no_instance(api, place)
        places = [TaskPlace.of(there)]
    all_there = [*entries_of(api, places, kind.prefix)]
    found = [
        entry
        for entry in all_there
        if (options.name is None or _names(kind, entry)[0] == _name_of(kind, options))
        and _is_of_partition(kind, options, entry)
    ]
    if not found and all_there:
        raise UsageError(*_nothing_of_it(kind, options, all_there), name=options.name)
    return the_one(found, kind.noun, names=lambda entry: entry.key.removeprefix(kind.prefix))


def _task_place(api: AirflowApi, options: argparse.Namespace) -> TaskPlace:
    """The task instance that the options name; it need not be there."""
    run_id = options.dag_run
    if run_id == LATEST:
        with _named(api, options):
            run_id = newest_run(api, options.dag)
    index = -1 if options.map_index is None else options.map_index
    return TaskPlace(dag_id=options.dag, run_id=run_id, task_id=options.task, map_index=index)


@contextmanager
def _named(api: AirflowApi, options: argparse.Namespace) -> Iterator[None]:
    """Say which names there are if that of the Dag or the run leads to nothing."""
    try:
        yield
    except AirflowApiError as error:
        if error.status != _NOT_FOUND or options.dag is None:
            raise
        run_id = options.dag_run
        raise (no_dag(api, options.dag) if run_id in {None, LATEST} else no_run(api, options.dag, run_id)) from error


def _say_if_missing(api: AirflowApi, options: argparse.Namespace) -> None:
    """Say on stderr that no task of the run has the name that was typed."""
    if options.dag is not None and options.dag_run is not None:
        missing = no_instance(api, _task_place(api, options))
        print(" ".join(str(missing).split()), file=sys.stderr)


def _nothing_of_it(kind: Kind, options: argparse.Namespace, entries: Sequence[Entry]) -> tuple[str, str | None]:
    """That none of the records has the name or the partition that was typed, and those that there are."""
    names = [_names(kind, entry) for entry in entries]
    typed = None if options.name is None else _name_of(kind, options)
    if typed is not None and typed not in {name for name, _ in names}:
        return f"There is no {kind.noun} {typed!r} here.", nearest(typed, (name for name, _ in names))
    partitions = [partition for name, partition in names if partition is not None and typed in {None, name}]
    return f"There is no partition {options.partition!r} here.", nearest(str(options.partition), partitions)


def _name_of(kind: Kind, options: argparse.Namespace) -> str:
    return str(options.name).removeprefix(kind.prefix)


def _names(kind: Kind, entry: Entry) -> tuple[str, str | None]:
    if kind.noun != "mark":
        return entry.key.removeprefix(kind.prefix), None
    return names_of(entry.key)


def _is_of_partition(kind: Kind, options: argparse.Namespace, entry: Entry) -> bool:
    return kind.noun != "mark" or options.partition in {None, _names(kind, entry)[1]}


# --- what is printed ------------------------------------------------------------------------------------------


def print_rows(kind: Kind, rows: tuple[Any, ...], output: str, now: datetime) -> None:
    """Print the rows in the form that was asked for."""
    if output in {"json", "yaml"}:
        print(dumped(rows, output))
        return
    cells = [cells_of(kind, row, now) for row in rows]
    for line in plain(cells) if output == "plain" else lines([*kind.columns], cells):
        print(line)


@contextmanager
def _screen(kind: Kind, options: argparse.Namespace) -> Iterator[Callable[[tuple[Any, ...], datetime], None]]:
    """Draws the rows in place on a terminal; elsewhere one after the other, as JSON on one line for each look."""
    if options.output != "table" or not sys.stdout.isatty():

        def one_after_the_other(rows: tuple[Any, ...], now: datetime) -> None:
            if options.output == "json":
                print(json.dumps(as_json(rows)), flush=True)
            else:
                print_rows(kind, rows, options.output, now)
                print(flush=True)

        yield one_after_the_other
        return
    from rich.live import Live

    with Live(auto_refresh=False, screen=False) as live:
        yield lambda rows, now: live.update(_table(kind, rows, now), refresh=True)


def _table(kind: Kind, rows: tuple[Any, ...], now: datetime) -> Any:
    from rich.table import Table
    from rich.text import Text

    from airflow_resume.command.console import shown

    table = Table(box=None, caption=f"{now:%H:%M:%S} UTC, Ctrl-C ends", caption_justify="left")
    for name in kind.columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        style = "bold red" if row.trouble else ""
        cells = cells_of(kind, row, now)
        table.add_row(*(Text(shown(cell), style=style) for cell in cells))  # a text, so that nothing is markup
    return table
