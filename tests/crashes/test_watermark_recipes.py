"""The recipes of docs/watermarks.md, as they stand there: page caps, deletes, clocks, and sinks under two attempts."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_resume import watermark
from airflow_resume.errors import SupersededError, WindowNotReadError
from airflow_resume.testing import TaskAttempt, World, task_context
from airflow_resume.watermarks import Cursor, Watermark, Window
from tests.support.backends.databases import database_on_postgresql
from tests.support.kit.raised import having
from tests.support.watermarks.concurrent_writers import PLACES, MariaDB, Place, PostgreSQL, SQLite

PAGE = (Path(__file__).parents[2] / "docs" / "watermarks.md").read_text()
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```(?:python|sql)\n(.*?)```", PAGE, re.DOTALL))
FIRST = datetime(2026, 1, 1, tzinfo=timezone.utc)
ORDERS = Asset("orders")


def made_by(*snippets: str, **names: Any) -> dict[str, Any]:
    """The names that the snippets make, beside those that they need."""
    page = {
        "__name__": "page",
        "watermark": watermark,
        "Asset": Asset,
        "Cursor": Cursor,
        "timedelta": timedelta,
        **names,
    }
    for snippet in snippets:
        exec(SNIPPETS[snippet], page)  # noqa: S102  our own page
    return page


def body_of(task: Any) -> Callable[[Window[Any]], Any]:
    """The function below the decorators."""
    return task.function.__wrapped__  # type: ignore[no-any-return]


def test_every_recipe_is_tried() -> None:
    names = re.findall(r"snippet: (\w+)", PAGE[PAGE.index("## Recipes") : PAGE.index("## What is kept")])
    tests = "".join(
        (Path(__file__).parent / f"test_{name}.py").read_text() for name in ("concurrent_writers", "watermark_recipes")
    )
    assert [name for name in names if f'"{name}"' not in tests] == []


class Runs:
    """Runs of a task, one after the other."""

    def __init__(self, mark: Watermark[Any], body: Callable[[Window[Any]], Any]) -> None:
        self.mark, self.body = mark, body
        self._world, self._count = World(), 0

    def attempt(self) -> TaskAttempt:
        self._count += 1
        return task_context(assets=[self.mark.asset], world=self._world, run_id=f"run {self._count}")

    def run(self, count: int = 1) -> Window[Any]:
        for _ in range(count):
            attempt = self.attempt()
            with self.mark.open(attempt.context) as window:
                if not window.empty:
                    self.body(window)
            attempt.succeed()
        return window


# --- page caps ------------------------------------------------------------------------------------------------


class Paged:
    """A table whose rows are asked for a page at a time; most times are those of two rows."""

    def __init__(self, count: int = 23, step: timedelta = timedelta(minutes=1)) -> None:
        self.connection = sqlite3.connect(":memory:")
        self.connection.execute("CREATE TABLE orders (id integer PRIMARY KEY, updated_at text)")
        self.moments = {number: FIRST + number // 2 * step for number in range(count)}
        rows = [(number, str(moment)) for number, moment in self.moments.items()]
        self.connection.executemany("INSERT INTO orders VALUES (?, ?)", rows)
        self.saved: set[int] = set()

    def query(self, text: str, parameters: Any) -> list[dict[str, Any]]:
        texts = {name: str(value) for name, value in parameters.items()}
        found = self.connection.execute(text, texts).fetchall()
        return [{"id": number, "updated_at": datetime.fromisoformat(moment)} for number, moment in found]

    def fetch_capped(self, since: datetime, until: datetime) -> list[dict[str, Any]]:
        return [{"id": number} for number, moment in self.moments.items() if since <= moment < until][:5]

    def save(self, rows: list[dict[str, Any]]) -> None:
        self.saved |= {row["id"] for row in rows}

    def close(self) -> None:
        self.connection.close()


@pytest.fixture
def make_paged() -> Iterator[Callable[..., Paged]]:
    made: list[Paged] = []

    def make(*arguments: Any) -> Paged:
        made.append(Paged(*arguments))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_source_with_a_page_cap_is_read_page_by_page_to_its_end(make_paged: Callable[..., Paged]) -> None:
    source = make_paged()
    page = made_by("pages", query=source.query, save=source.save)
    page["LIMIT"] = 5
    runs = Runs(page["paged"], body_of(page["load_page"]))
    runs.run()
    assert len(source.saved) == 5
    runs.run(6)
    assert source.saved == set(range(23))


def test_without_saying_how_far_a_page_goes_the_rest_is_skipped(make_paged: Callable[..., Paged]) -> None:
    source = make_paged()
    page = made_by("pages", query=source.query, save=source.save)

    def body(window: Window[Any]) -> None:
        condition, parameters = window.sql("updated_at")
        source.save(source.query(f"SELECT * FROM orders WHERE {condition} ORDER BY updated_at LIMIT 5", parameters))  # noqa: S608

    Runs(page["paged"], body).run(7)
    assert len(source.saved) == 5


def test_a_page_of_one_moment_stops_instead_of_turning_round_for_ever(make_paged: Callable[..., Paged]) -> None:
    source = make_paged(23, timedelta(0))
    page = made_by("pages", query=source.query, save=source.save)
    page["LIMIT"] = 5
    with pytest.raises(WindowNotReadError, match="keyset", check=having(problem="full page")):
        Runs(page["paged"], body_of(page["load_page"])).run(2)


def test_a_keyset_goes_on_within_a_moment(make_paged: Callable[..., Paged]) -> None:
    """What the error recommends."""
    source = make_paged(23, timedelta(0))
    cursor = Cursor.keyset(Cursor.datetime(), Cursor.int())
    mark = watermark(ORDERS, initial=(FIRST, 0), cursor=cursor, delay=timedelta(minutes=2))

    def body(window: Window[Any]) -> None:
        condition, parameters = window.sql(["updated_at", "id"])
        order = "ORDER BY updated_at, id LIMIT 5"
        rows = source.query(f"SELECT * FROM orders WHERE {condition} {order}", parameters)  # noqa: S608
        source.save(list(window.track(rows, lambda row: (row["updated_at"], row["id"]), unique=True, ordered=True)))

    Runs(mark, body).run(6)
    assert source.saved == set(range(23))


def test_where_answers_cannot_be_sorted_a_full_one_fails_and_the_mark_stays(make_paged: Callable[..., Paged]) -> None:
    def runs_over(source: Paged) -> Runs:
        page = made_by("capped", fetch_capped=source.fetch_capped, save=source.save, LIMIT=5)
        return Runs(page["capped"], body_of(page["load_capped"]))

    fits = make_paged(8, timedelta(minutes=30))
    runs_over(fits).run(3)
    assert fits.saved == set(range(8))
    full = make_paged(8, timedelta(minutes=10))
    runs = runs_over(full)
    with pytest.raises(ValueError, match="shorter"):
        runs.run()
    assert full.saved == set()
    assert runs.mark.begin(runs.attempt().context).start == FIRST


# --- deletes and clocks ---------------------------------------------------------------------------------------


@pytest.fixture
def postgresql(tmp_path: Path) -> Iterator[Place]:
    place = PostgreSQL(tmp_path)
    with place.opened():
        yield place


def test_rows_that_are_deleted_are_deleted_in_the_sink(postgresql: Place) -> None:
    postgresql.execute(
        SNIPPETS["tombstone_table"],
        "INSERT INTO orders (id, v, updated_at) SELECT n, 1, now() FROM generate_series(1, 9) AS n",
        "DELETE FROM orders WHERE id IN (3, 4)",
        "UPDATE orders_deleted SET deleted_at = deleted_at - interval '1 hour'",
        "DELETE FROM orders WHERE id = 5",
    )
    removed: list[int] = []
    page = made_by(
        "database_clock",
        "tombstones",
        query=postgresql.query,
        query_one=postgresql.query_one,
        remove=lambda rows: removed.extend(row["id"] for row in rows),
    )
    Runs(page["deletions"], body_of(page["delete_what_is_gone"])).run(2)
    assert sorted(removed) == [3, 4]  # the last one may still be under way


def test_what_is_loaded_while_keys_are_compared_is_not_removed() -> None:
    source, sink = {1, 2, 3}, {1, 2, 3, 4}

    def source_ids() -> set[int]:
        source.add(5)
        sink.add(5)  # the loader is fast
        return set(source)

    page = made_by("reconcile", sink_ids=lambda: sink, source_ids=source_ids, remove=sink.difference_update)
    page["reconcile"]()
    assert sink == {1, 2, 3, 5}


def test_a_window_ends_by_the_clock_of_the_database(postgresql: Place) -> None:
    page = made_by("database_clock", query_one=postgresql.query_one)
    before = postgresql.clock()
    window = page["stamped"].begin(Runs(page["stamped"], print).attempt().context)
    assert before <= window.end + timedelta(seconds=30) <= postgresql.clock()


SECOND = timedelta(seconds=1)


class Seconds:
    """One row, updated now and then, and a column of whole seconds that says when."""

    def __init__(self) -> None:
        self.now, self.version = FIRST + timedelta(seconds=10), 0
        self.loaded: Any = None

    def update(self) -> None:
        self.now += timedelta(milliseconds=400)
        self.version += 1
        self.rows = [{"updated_at": self.now.replace(microsecond=0), "id": 1, "version": self.version}]

    def load(self, window: Window[Any]) -> None:
        rows = [row for row in self.rows if window.start <= row["updated_at"] < window.end]
        for row in window.track(rows, "updated_at", unique="id"):
            self.loaded = row["version"]


WHOLE = Cursor.datetime(granularity=SECOND)
OF_SECONDS: dict[str, tuple[dict[str, Any], bool]] = {
    "a delay of nothing": ({"delay": timedelta(0)}, False),
    "a delay of less than a second": ({"delay": timedelta(milliseconds=100)}, False),
    "a second": ({"delay": SECOND}, True),
    "the page": ({"cursor": WHOLE, "delay": timedelta(0)}, True),
    "observed, unique": ({"advance": "observed", "delay": timedelta(0)}, False),
    "observed, unique, a second": ({"advance": "observed", "delay": SECOND}, True),
}


@pytest.mark.parametrize("title", OF_SECONDS)
def test_of_several_updates_within_a_second_the_last_one_is_loaded(title: str) -> None:
    options, is_loaded = OF_SECONDS[title]
    assert made_by("seconds")["accounts"]._options.cursor == WHOLE
    source = Seconds()
    runs = Runs(watermark(ORDERS, **{"initial": FIRST, "now": lambda: source.now, **options}), source.load)
    source.update()
    runs.run()  # in the middle of a second
    source.update()
    source.now += timedelta(seconds=5)
    runs.run(2)
    assert (source.loaded == source.version) == is_loaded


# --- ids ------------------------------------------------------------------------------------------------------


def insert_order(connection: Any) -> None:
    connection.execute("INSERT INTO orders (v, updated_at) VALUES (1, now())")


def test_a_transaction_that_stays_open_in_another_database_holds_the_bound_back_and_not_the_snapshot(
    postgresql: Place,
) -> None:
    import psycopg

    postgresql.execute(SNIPPETS["transaction_column"])
    needs: dict[str, Any] = {
        "query": postgresql.query,
        "query_one": postgresql.query_one,
        "one_snapshot": nullcontext,
    }
    by_bound: list[int] = []
    by_snapshot: list[int] = []
    bound = made_by("transactions", save=lambda rows: by_bound.extend(row["id"] for row in rows), **needs)
    token = made_by("snapshots", save=lambda rows: by_snapshot.extend(row["id"] for row in rows), **needs)
    bounds = Runs(bound["by_transaction"], body_of(bound["load_by_transaction"]))
    tokens = Runs(token["by_snapshot"], body_of(token["load_by_snapshot"]))
    with database_on_postgresql() as elsewhere, psycopg.connect(elsewhere.replace("+psycopg", "")) as other:
        other.execute("CREATE TABLE written (n int)")
        with closing(postgresql.connect()) as connection:
            insert_order(connection)
            connection.commit()
        bounds.run()
        tokens.run()
        assert (by_bound, by_snapshot) == ([], [1])
        other.commit()
    for _ in range(600):  # others on the server may hold it for a while
        if by_bound:
            break
        bounds.run()
    assert by_bound == [1]
    tokens.run()
    assert by_snapshot == [1]


@pytest.mark.parametrize(("declared", "loaded"), [("PRIMARY KEY", [1]), ("PRIMARY KEY AUTOINCREMENT", [1, 2])])
def test_the_id_of_a_deleted_last_row_is_given_out_again_unless_it_is_declared_otherwise(
    declared: str, loaded: list[int]
) -> None:
    saved: list[int] = []
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE orders (id integer {declared}, v text)")

        def body(window: Window[Any]) -> None:
            condition, parameters = window.sql("id")
            rows = [{"id": n} for (n,) in connection.execute(f"SELECT id FROM orders WHERE {condition}", parameters)]  # noqa: S608
            saved.extend(row["id"] for row in window.track(rows, "id", unique=True))

        runs = Runs(watermark(ORDERS, initial=0, delay=0), body)
        connection.execute("INSERT INTO orders (v) VALUES ('one')")
        runs.run()
        connection.execute("DELETE FROM orders")
        connection.execute("INSERT INTO orders (v) VALUES ('another')")
        runs.run()
    assert saved == loaded


# --- two attempts at once -------------------------------------------------------------------------------------


class Sink:
    """A source of twenty rows, a sink, and two attempts that load the same window.

    The first lost its supervisor and goes on; the second is its retry. Each deletes, reads and inserts, and both wait
    for each other when they read: where nothing keeps them apart, both have deleted before either inserts.

    Args:
        key: of the sink's ids. patience: in seconds, with the other; where a lock keeps it away, waiting is in vain.
    """

    def __init__(self, place: Place, *, key: str = "", patience: float = 0.2) -> None:
        self.place = place
        moment = "text" if isinstance(place, SQLite) else "datetime(6)" if isinstance(place, MariaDB) else "timestamptz"
        place.execute(f"CREATE TABLE sink (id bigint {key}, v int, updated_at {moment})")
        self.rows = [(number, 1, self._bound(FIRST + timedelta(seconds=number))) for number in range(20)]
        self._meet = Barrier(2, timeout=patience)
        zone: dict[str, Any] = {"cursor": Cursor.datetime(tz=None)} if isinstance(place, MariaDB) else {}
        begin, end = (FIRST + timedelta(hours=hours) for hours in (0, 1))
        if zone:
            begin, end = begin.replace(tzinfo=None), end.replace(tzinfo=None)
        self.mark = watermark(ORDERS, initial=begin, now=lambda: end, delay=timedelta(0), **zone)
        self.orphan = task_context(assets=[ORDERS])

    def _bound(self, moment: datetime) -> Any:
        if isinstance(self.place, SQLite):
            return str(moment)
        return moment.replace(tzinfo=None) if isinstance(self.place, MariaDB) else moment

    def read(self, _: Window[Any]) -> list[Any]:
        """What the source has; it is updated as soon as it was read."""
        with suppress(BrokenBarrierError):
            self._meet.wait()
        rows = list(self.rows)
        self.rows = [(number, version + 1, moment) for number, version, moment in rows]
        return rows

    def load_twice(self, load: Callable[[Any, Window[Any]], None]) -> None:
        """Let both load at once; the retry commits, and the orphan is refused."""
        windows = [self.mark.begin(self.orphan.context)]
        retry = self.orphan.retry()
        windows.append(self.mark.begin(retry.context))
        assert str(windows[0]) == str(windows[1])

        def one(window: Window[Any]) -> None:
            with closing(self.place.connect()) as connection:
                load(connection, window)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(one, windows))
        self.mark.commit(retry.context, windows[1])
        with pytest.raises(SupersededError):
            self.mark.commit(self.orphan.context, windows[0])

    def ids(self) -> list[int]:
        return [row["id"] for row in self.place.query("SELECT id FROM sink ORDER BY id")]

    def versions(self) -> set[int]:
        return {row["v"] for row in self.place.query("SELECT DISTINCT v FROM sink")}


@pytest.fixture
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    place = PLACES[request.param](tmp_path)
    with place.opened():
        yield place


LOCKED = [
    ("postgresql", "replace_on_postgresql", r".*pg_advisory_xact_lock.*\n"),
    ("mariadb", "replace_on_mysql", r".*GET_LOCK.*\n.*fetchone.*\n.*raise.*\n"),
    ("mariadb", "replace_with_a_row_lock", r".*FOR UPDATE.*\n"),
    ("sqlite", "replace_on_sqlite", r".*(BEGIN IMMEDIATE|COMMIT|ROLLBACK).*\n"),
]


def loader(sink: Sink, snippet: str, text: str) -> Callable[[Any, Window[Any]], None]:
    names: dict[str, Any] = {"read": sink.read}
    exec(text, names)  # noqa: S102  our own page
    return names[snippet]  # type: ignore[no-any-return]


@pytest.mark.parametrize(("opened", "snippet", "lock"), LOCKED, indirect=["opened"])
def test_under_a_lock_a_window_that_two_attempts_replace_is_there_once_as_it_was_read_last(
    opened: Place, snippet: str, lock: str
) -> None:
    opened.execute("CREATE TABLE locks (name varchar(20))", "INSERT INTO locks VALUES ('sink')")
    sink = Sink(opened)
    sink.load_twice(loader(sink, snippet, SNIPPETS[snippet]))
    assert (sink.ids(), sink.versions()) == (list(range(20)), {2})


@pytest.mark.parametrize(("opened", "snippet", "lock"), LOCKED, indirect=["opened"])
def test_without_the_lock_every_row_is_there_twice(opened: Place, snippet: str, lock: str) -> None:
    sink = Sink(opened, patience=60)
    text, count = re.subn(lock, "", SNIPPETS[snippet])
    assert count
    sink.load_twice(loader(sink, snippet, text))
    assert sink.ids() == sorted([*range(20)] * 2)


KEYED = [("postgresql", "upsert"), ("mariadb", "upsert_on_mysql"), ("sqlite", "upsert")]


@pytest.mark.parametrize(("opened", "snippet"), KEYED, indirect=["opened"])
def test_with_a_unique_key_two_attempts_load_a_row_once_and_the_older_version_does_not_win(
    opened: Place, snippet: str
) -> None:
    sink = Sink(opened, key="PRIMARY KEY")
    text = SNIPPETS[snippet].replace("%s", "?") if isinstance(opened, SQLite) else SNIPPETS[snippet]

    def load(connection: Any, window: Window[Any]) -> None:
        rows = sink.read(window)
        cursor = connection.cursor()
        cursor.execute(opened.begin)
        cursor.executemany(text, sorted(rows))
        cursor.execute("COMMIT")

    sink.load_twice(load)
    assert sink.ids() == list(range(20))
    newer = [(number, 9, sink._bound(FIRST + timedelta(minutes=10))) for number in range(20)]
    older = [(number, 5, sink._bound(FIRST + timedelta(minutes=5))) for number in range(20)]
    for rows in (newer, older):
        with closing(opened.connect()) as connection:
            connection.cursor().execute(opened.begin)
            connection.cursor().executemany(text, rows)
            connection.commit()
    assert (sink.ids(), sink.versions()) == (list(range(20)), {9})
