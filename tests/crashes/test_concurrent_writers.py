"""Every documented mode under writers that commit late, out of order, by wrong clocks, update and delete.

The numbers of the settings that lose are printed (`-s`), and so are the seeds.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import date, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_resume import watermark
from airflow_resume.errors import WatermarkWarning
from airflow_resume.testing import World
from airflow_resume.watermarks import Cursor, Watermark, Window
from tests.support.watermarks.concurrent_writers import (
    DAY,
    DELAY,
    PLACES,
    SKEW,
    MariaDB,
    Place,
    Play,
    a_seed,
    query_on,
    side_by_side,
)

PAGE = (Path(__file__).parents[2] / "docs" / "watermarks.md").read_text()
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```(?:python|sql)\n(.*?)```", PAGE, re.DOTALL))
ORDERS = Asset("orders")

Made = tuple[Watermark[Any], Callable[[Window[Any]], Any]]


# --- loaders --------------------------------------------------------------------------------------------------


def rows_of(place: Place, window: Window[Any], column: Any) -> list[dict[str, Any]]:
    condition, parameters = window.sql(column, style=place.style)
    return place.query(f"SELECT * FROM orders WHERE {condition}", parameters)  # noqa: S608


def of_times(place: Place) -> dict[str, Any]:
    """What a watermark of times needs on this database."""
    if isinstance(place, MariaDB):  # its DATETIME has no zone, so the clock is its own
        begin = datetime.now(tz=timezone.utc).replace(tzinfo=None) - timedelta(hours=1)
        return {"initial": begin, "cursor": Cursor.datetime(tz=None), "now": place.clock}
    return {"initial": datetime.now(tz=timezone.utc) - timedelta(hours=1)}


def by_window(play: Play, column: str = "updated_at", **options: Any) -> Made:
    mark = watermark(ORDERS, **{**of_times(play.place), **options})
    return mark, lambda window: play.save(rows_of(play.place, window, column))


def by_track(play: Play, column: str = "updated_at", unique: Any = "id", **options: Any) -> Made:
    mark = watermark(ORDERS, advance="observed", **{**of_times(play.place), **options})
    return mark, lambda window: play.save(window.track(rows_of(play.place, window, column), column, unique=unique))


def by_keyset(play: Play, **options: Any) -> Made:
    times = of_times(play.place)
    cursor = Cursor.keyset(times.pop("cursor", Cursor.datetime()), Cursor.int())
    times["initial"] = (times["initial"], 0)
    mark = watermark(ORDERS, **{**times, "cursor": cursor, "advance": "observed", **options})

    def body(window: Window[Any]) -> None:
        rows = rows_of(play.place, window, ["updated_at", "id"])
        rows.sort(key=lambda row: (row["updated_at"], row["id"]))
        play.save(window.track(rows, lambda row: (row["updated_at"], row["id"]), unique=True, ordered=True))

    return mark, body


def by_id(play: Play, **options: Any) -> Made:
    return by_track(play, "id", unique=True, **{"initial": 0, "cursor": None, "now": None, **options})


def by_day(play: Play) -> Made:
    days = timedelta(days=int(DELAY.total_seconds() / DAY))
    return by_window(play, "day", initial=date(2026, 1, 1), cursor=Cursor.date(), now=play.today, delay=days)


def by_text(play: Play) -> Made:
    return by_track(play, "code", unique=True, initial="", cursor=Cursor.text(), delay=0)


def locked_bound(place: Place) -> Callable[[], int]:
    """The next id, asked for when no transaction that has written is open."""

    def next_id() -> int:
        with closing(place.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute("SET lock_timeout = '1s'")
            cursor.execute("LOCK TABLE orders IN SHARE MODE")
            cursor.execute("SELECT COALESCE(MAX(id), 0) + 1 FROM orders")
            (bound,) = cursor.fetchone()
            return int(bound)

    return next_id


def page_for(play: Play, *snippets: str) -> dict[str, Any]:
    """The names that snippets of the page make, for the database of a play."""
    connections: list[Any] = []

    @contextmanager
    def one_snapshot() -> Iterator[None]:
        with closing(play.place.connect()) as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            connections.append(connection)
            yield
            connections.clear()

    def query(text: str, parameters: Any = ()) -> list[dict[str, Any]]:
        return query_on(connections[0], text, parameters) if connections else play.place.query(text, parameters)

    def query_one(text: str) -> Any:
        (row,) = query(text)
        return next(iter(row.values()))

    names: dict[str, Any] = {
        "__name__": "page",
        "watermark": watermark,
        "Asset": Asset,
        "Cursor": Cursor,
        "query": query,
        "query_one": query_one,
        "save": play.save,
        "one_snapshot": one_snapshot,
        "connect": play.place.connect,
    }
    for snippet in snippets:
        # Less patience with a lock, and the table of plays.
        text = SNIPPETS[snippet].replace("lock_wait_timeout = 20", "lock_wait_timeout = 1").replace("events", "orders")
        exec(text, names)  # noqa: S102  our own page
    return names


def by_transaction(play: Play) -> Made:
    names = page_for(play, "transactions")
    return names["by_transaction"], names["load_by_transaction"].function.__wrapped__


def by_transaction_as_decimal(play: Play) -> Made:
    bound = page_for(play, "transactions")["oldest_open_transaction"]
    return by_window(play, "changed_in", initial=0, cursor=Cursor.decimal(), now=bound)


def by_snapshot(play: Play) -> Made:
    names = page_for(play, "snapshots")
    return names["by_snapshot"], names["load_by_snapshot"].function.__wrapped__


def by_locked_id(play: Play) -> Made:
    """On MariaDB as the page does it, on PostgreSQL as it says."""
    is_mariadb = isinstance(play.place, MariaDB)
    bound = page_for(play, "locked_ids")["next_id"] if is_mariadb else locked_bound(play.place)
    return by_window(play, "id", initial=0, cursor=None, now=bound)


# --- the documented settings ----------------------------------------------------------------------------------

DELAYED: dict[str, Any] = {"delay": DELAY}
EVERYWHERE: dict[str, tuple[Callable[..., Made], dict[str, Any], dict[str, Any]]] = {
    "window, delay": (by_window, DELAYED, {}),
    "window, lookback": (by_window, {"delay": timedelta(0), "lookback": DELAY}, {}),
    "observed, delay": (by_track, DELAYED, {}),
    "keyset, delay": (by_keyset, DELAYED, {}),
    "keyset, window, delay": (by_keyset, {"delay": DELAY, "advance": "window"}, {}),
    "clocks 3 s slow and fast": (by_window, {"delay": DELAY + SKEW}, {"skews": (-SKEW, timedelta(0), SKEW)}),
    "keyset, clocks 3 s slow and fast": (by_keyset, {"delay": DELAY + SKEW}, {"skews": (-SKEW, timedelta(0), SKEW)}),
    "days": (by_day, {}, {}),
}
LOCKED = {"updates": False, "rest": 0.8}  # a lock that never comes shows little
TRANSACTIONS = {"setup": (SNIPPETS["transaction_column"],)}
ON: dict[str, dict[str, tuple[Callable[..., Made], dict[str, Any], dict[str, Any]]]] = {
    "postgresql": {
        "ids of transactions": (by_transaction, {}, TRANSACTIONS),
        "ids of transactions, decimal": (by_transaction_as_decimal, {}, TRANSACTIONS),
        "snapshots as tokens": (by_snapshot, {}, TRANSACTIONS),
        "sequence behind a lock": (by_locked_id, {}, LOCKED),
    },
    "mariadb": {
        "sequence behind a lock": (by_locked_id, {}, LOCKED),
        "whole seconds": (
            by_window,
            {"cursor": Cursor.datetime(tz=None, granularity=timedelta(seconds=1)), "delay": DELAY},
            {"setup": ("ALTER TABLE orders MODIFY updated_at datetime NOT NULL",)},
        ),
    },
    "sqlite": {
        "ids of one writer at a time": (by_id, {"delay": 0}, {"updates": False}),
        "text of one writer at a time": (by_text, {}, {"updates": False}),
    },
}
LOSING: dict[str, tuple[Callable[..., Made], dict[str, Any], dict[str, Any]]] = {
    "window, no delay": (by_window, {}, {}),
    "observed, no delay": (by_track, {}, {}),
    "keyset, no delay": (by_keyset, {}, {}),
    "delay shorter than transactions": (by_window, {"delay": timedelta(seconds=0.1)}, {}),
    "ids of a sequence": (by_id, {}, {"updates": False}),
}


@pytest.mark.parametrize("name", PLACES)
def test_every_documented_mode_loads_every_row_in_its_last_version(name: str, tmp_path: Path) -> None:
    """Beside them, on the same server, those that lose: how many is chance, and is printed."""
    seed = a_seed()
    places = PLACES[name]
    documented = [
        Play(name=title, place=places(tmp_path), make=partial(make, **options), seed=seed, **how)
        for title, (make, options, how) in {**EVERYWHERE, **ON[name]}.items()
    ]
    losing = [
        Play(name=title, place=places(tmp_path), make=partial(make, **options), seed=seed, loses=True, **how)
        for title, (make, options, how) in LOSING.items()
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)  # of sqlite3, for times as parameters
        warnings.filterwarnings("ignore", category=WatermarkWarning)  # of those that lose; see below
        side_by_side([*documented, *losing])
    assert {play.name: (play.lost, play.stale) for play in documented} == {play.name: (0, 0) for play in documented}
    assert all(play.rows and play.runs > 1 for play in documented)


# --- one slow transaction -------------------------------------------------------------------------------------

NO_DELAY, NO_BOUND = "has no delay=: a row", "has no delay= and no now=: a row"
SCRIPTED: dict[str, tuple[Callable[..., Made], dict[str, Any], str | None, int]] = {
    "window, no delay": (by_window, {}, NO_DELAY, 1),
    "observed, no delay": (by_track, {}, NO_DELAY, 1),
    "keyset, no delay": (by_keyset, {}, NO_DELAY, 1),
    "delay shorter than the transaction": (by_window, {"delay": timedelta(microseconds=1)}, None, 1),
    "ids of a sequence": (by_id, {}, NO_BOUND, 1),
    "ids said to be in order": (by_id, {"delay": 0}, None, 1),
    "window, delay": (by_window, DELAYED, None, 0),
    "window, lookback": (by_window, {"delay": timedelta(0), "lookback": DELAY}, None, 0),
    "observed, delay": (by_track, DELAYED, None, 0),
    "keyset, delay": (by_keyset, DELAYED, None, 0),
    "ids, lookback": (by_id, {"lookback": 100}, None, 0),
    "ids of transactions": (by_transaction, {}, None, 0),
    "snapshots as tokens": (by_snapshot, {}, None, 0),
    "sequence behind a lock": (by_locked_id, {}, None, 0),
}
ELSEWHERE = {title for plays in ON.values() for title in plays}
SCRIPTS = [(name, title) for name in PLACES for title in SCRIPTED if title not in ELSEWHERE or title in ON[name]]


@pytest.mark.parametrize(("name", "title"), SCRIPTS)
def test_of_a_slow_and_a_fast_transaction_the_first_is_lost_by_settings_of_which_all_but_false_ones_are_warned(
    name: str, title: str, tmp_path: Path
) -> None:
    make, options, warned, lost = SCRIPTED[title]
    place = PLACES[name](tmp_path)
    play = Play(name=title, place=place, make=make, seed=0, breaks=0)
    ahead = timedelta(0)
    clock = {"now": lambda: place.clock() + ahead} if make in {by_window, by_track, by_keyset} else {}
    with place.opened(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", WatermarkWarning)
        place.execute(*ON[name].get(title, (None, {}, {}))[2].get("setup", ()))
        mark, body = make(play, **options, **clock)
        world = World()
        with closing(place.connect()) as slow, closing(place.connect()) as fast:
            if place.now:
                play.insert(slow.cursor())
            play.insert(fast.cursor())
            fast.commit()
            play.load(mark, body, world)
            if not place.now:  # one writer at a time: the slow one has taken its time, and waited for the other
                play.insert(slow.cursor(), timedelta(seconds=-1))
            slow.commit()
        play.load(mark, body, world)
        ahead = timedelta(hours=1)
        for _ in range(2):
            play.load(mark, body, world)
        if not lost:
            play.load_the_rest(mark, body, world)
        found = play.missed()
    texts = [str(one.message) for one in said if one.category is WatermarkWarning]
    print(f"{name}, {title}: {found[0]} of 2 lost; {texts[0] if texts else 'no warning'}")
    assert [warned is not None and warned in text for text in texts] == [True] * (warned is not None)
    # Ids of one writer at a time are given out in the order of commits.
    assert found == (0 if name == "sqlite" and make is by_id else lost, 0)
