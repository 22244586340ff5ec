"""Every snippet of docs/loop-libraries.md is run with the real library, a server on loopback, an error and a kill."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import airflow.sdk
import psycopg2  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
import sqlalchemy as sa
from airflow.providers.common.sql.hooks.sql import DbApiHook
from requests.adapters import HTTPAdapter

from airflow_resume import checkpoint
from airflow_resume.errors import EndlessSourceError, RowOrderError, SupersededError
from airflow_resume.testing import TaskAttempt, task_context
from tests.support.backends.databases import database_on_mysql, schema_on_postgresql
from tests.support.loops import paging_services as services
from tests.support.loops.paging_services import PagedRows, served
from tests.support.watermarks.source_tables import libpq

PAGE = (Path(__file__).parents[2] / "docs" / "loop-libraries.md").read_text()
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))

PAGES = [[1, 2], [3, 4], [5, 6], [7]]
"""What is there, as the services page it; the sizes on the page are made as small."""
KILLED_WITH = 3
"""The number of the page in whose body an attempt ends."""


class KilledError(BaseException):
    """The process dies: nothing that is done after it reaches a store."""


class Body:
    """The body of a loop, which ends an attempt once."""

    def __init__(self, ids: Callable[[Any], list[int]]) -> None:
        self._ids = ids
        self.done: list[list[int]] = []
        self.end: Callable[[], None] = lambda: None
        self.at = KILLED_WITH
        self._ended = False

    def __call__(self, rows: Any) -> None:
        if len(rows) == 0:
            return
        self.done.append(self._ids(rows))
        if len(self.done) == self.at and not self._ended:
            self._ended = True
            self.end()


class ToPlainHttp(HTTPAdapter):
    """simple_salesforce speaks https only."""

    def send(self, request: Any, *arguments: Any, **options: Any) -> Any:
        request.url = request.url.replace("https://", "http://")
        return super().send(request, *arguments, **options)


class Hook(DbApiHook):
    """As a provider's: `%s` for a parameter."""

    conn_name_attr = "orders_conn_id"
    connect: Callable[[], Any]

    def get_conn(self) -> Any:
        return self.connect()


class SqliteCursor(sqlite3.Cursor):
    def execute(self, query: str, parameters: Any = ()) -> SqliteCursor:
        return super().execute(query.replace("%s", "?"), tuple(parameters or ()))


class SqliteConnection(sqlite3.Connection):
    def cursor(self, _factory: Any = None) -> SqliteCursor:  # type: ignore[override]
        return super().cursor(SqliteCursor)


def ids(rows: Any) -> list[int]:
    """Of rows as JSON, in whatever form the service has them."""
    return [int(re.sub(r"\D", "", str(row["id"]))) for row in rows]


def of_frame(frame: Any) -> list[int]:
    return [int(number) for number in frame["id"]]


def of_table(table: Any) -> list[int]:
    return list(table.column("id").to_pylist())


def of_hits(hits: Any) -> list[int]:
    return ids([hit["_source"] for hit in hits])


class Case:
    """A snippet, what it talks to, and what its body is given."""

    def __init__(
        self, snippet: str, function: str, service: type[PagedRows] | None, of: Any = ids, **options: Any
    ) -> None:
        self.snippet, self.function, self.service, self.of = snippet, function, service, of
        self.pages: list[list[int]] = options.get("pages", PAGES)

    def __repr__(self) -> str:
        return self.snippet


CASES = [
    Case("httpx", "load_issues", services.LinkHeaders),
    Case("sqlalchemy", "load_orders", None, lambda rows: [row.id for row in rows]),
    Case("read_csv", "load_csv", None, of_frame),
    Case("read_csv_lines", "load_long_csv", None, of_frame),
    Case("row_groups", "load_parquet", None, of_table),
    Case("dataset", "load_dataset", None, of_table, pages=[*PAGES, [8, 9]]),
    Case("http_hook", "load_by_hook", services.Cursors),
    Case("http_operator", "load_as_the_operator_did", services.Cursors),
    Case("get_records", "load_by_records", None, lambda rows: [row[0] for row in rows]),
    Case("get_df_by_chunks", "load_by_frames", None, of_frame),
    Case("search_after", "load_hits", services.Elasticsearch, of_hits),
    Case("point_in_time", "load_snapshot", services.Elasticsearch, of_hits),
    Case("salesforce", "load_accounts", services.Salesforce),
    Case("stripe", "load_customers", services.Stripe),
    Case("graphql", "load_nodes", services.GraphQL),
    Case("google", "load_files", services.Google),
]
WITH_BOTO3 = [
    Case("s3", "load_objects", services.S3, lambda keys: [int(key[1:]) for key in keys]),
    Case("paginator", "load_table", services.DynamoDB, lambda items: [int(item["id"]["N"]) for item in items]),
]
ALL = [*CASES, *WITH_BOTO3]
BY_NAME = {case.snippet: case for case in ALL}
OTHERS = {
    "imports", "settings", "patience", "layout", "point_in_time_parts", "locator", "asked", "drain", "refused",
}  # fmt: skip


class World:
    """The names of the page, all of whose snippets are run, over what one of them reads."""

    def __init__(self, case: Case, folder: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        self.case = case
        self.service: Any = None if case.service is None else case.service()
        self.url = "" if self.service is None else stack.enter_context(served(self.service))
        self.body = Body(case.of)
        self.attempt = task_context()
        self.folder = folder
        self.names = self._names(folder, stack)
        self._settings(monkeypatch)

    def _names(self, folder: Path, stack: ExitStack) -> dict[str, Any]:
        session = stack.enter_context(requests.Session())
        session.mount("https://", ToPlainHttp())
        names: dict[str, Any] = {
            "__name__": "page",
            "Path": Path,
            "timedelta": timedelta,
            "load": self.body,
            "API": self.url,
            "URL": self.url,
            "HEADERS": {"Authorization": "Bearer secret"},
            "BUCKET": "bucket",
            "PREFIX": "",
            "TABLE": "table",
            "FILE": folder / "rows",
            "FOLDER": folder / "set",
            "COLUMNS": ["id"],
            "TYPES": {"id": "int64"},
            "SOQL": "SELECT Id FROM Account",
            "LOGIN": {"instance": self.url.removeprefix("http://"), "session_id": "secret", "session": session},
            "QUERY": "query ($after: String) { orders(after: $after) { nodes { id } } }",
            "Q": "trashed = false",
            "next_call": next_call,
        }
        for name, text in SNIPPETS.items():
            if name == "settings":  # this world has its own
                continue
            small = text.replace("50_000", "2").replace("1000", "2")
            exec(compile(small, f"snippet {name}", "exec", dont_inherit=True), names)  # noqa: S102  our own page
        names["LAYOUT"]["names"] = ["id", "text"]
        return names

    def _settings(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_ORDERS_API", self.url)
        for name, value in {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "eu-west-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            monkeypatch.setenv(name, value)

    def run(self, attempt: TaskAttempt) -> None:
        with attempt:
            self.names[self.case.function].function()

    @property
    def record(self) -> Any:
        (record,) = self.attempt.task_store.values.values()
        return record

    def failed_once(self) -> list[list[int]]:
        """What was delivered when an exception ended the first attempt."""
        self.body.end = lambda: 1 / 0  # type: ignore[assignment, return-value]
        with pytest.raises(ZeroDivisionError):
            self.run(self.attempt)
        self.attempt = self.attempt.retry()
        self.run(self.attempt)
        return self.body.done

    def killed_once(self, **options: Any) -> list[list[int]]:
        """The same when the process died: its last words reach no store."""
        self.names["checkpoint"] = partial(checkpoint, **options)
        following: list[TaskAttempt] = []

        def die() -> None:
            following.append(self.attempt.retry())
            raise KilledError

        self.body.end = die
        with pytest.raises((KilledError, SupersededError)):
            self.run(self.attempt)
        (self.attempt,) = following
        self.run(self.attempt)
        return self.body.done


def next_call(answer: Any) -> dict[str, Any] | None:
    """A `pagination_function` of HttpOperator."""
    cursor = answer.json()["next_cursor"]
    return {"data": {"cursor": cursor}} if cursor else None


def write_files(case: Case, folder: Path) -> None:
    if "csv" in case.snippet:
        lines = ["id,text", "1,a", '2,"b\nb"', "3,c", "4,d", "5,e", "6,f", "7,g"]
        (folder / "rows").write_text("\n".join(lines) + "\n")
    if case.snippet == "row_groups":
        pq.write_table(pa.table({"id": range(1, 8)}), folder / "rows", row_group_size=2)
    if case.snippet == "dataset":
        (folder / "set").mkdir()
        pq.write_table(pa.table({"id": range(1, 8)}), folder / "set" / "a.parquet", row_group_size=2)
        pq.write_table(pa.table({"id": [8, 9]}), folder / "set" / "b.parquet", row_group_size=2)


@pytest.fixture
def enter() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def made(tmp_path: Path, enter: ExitStack, monkeypatch: pytest.MonkeyPatch) -> Callable[[Case], World]:
    def make(case: Case) -> World:
        if case in WITH_BOTO3:
            pytest.importorskip("boto3", reason="boto3 needs python-dateutil < 3: make providers")
        write_files(case, tmp_path)
        world = World(case, tmp_path, enter, monkeypatch)
        add_database(world, f"sqlite:///{tmp_path}/orders.db", enter, monkeypatch)
        return world

    return make


def add_database(world: World, url: str, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the page a table of orders, by SQLAlchemy and by a hook of Airflow."""
    orders = sa.Table(
        "orders",
        sa.MetaData(),
        sa.Column("day", sa.Date),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("total", sa.Integer),
    )
    engine = sa.create_engine(url)
    stack.callback(engine.dispose)
    orders.metadata.create_all(engine)
    with engine.begin() as connection:
        rows = [{"day": date(2026, 1, 1 + number // 4), "id": number, "total": 10} for number in range(1, 8)]
        connection.execute(orders.insert(), rows)
    world.names.update(engine=engine, orders=orders)
    hook = Hook()
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///")
        hook.connect = lambda: sqlite3.connect(path, factory=SqliteConnection)
    else:
        hook.connect = lambda: psycopg2.connect(libpq(url, "UTC"))
    monkeypatch.setattr(airflow.sdk.BaseHook, "get_hook", lambda _name: hook)


# --- each of them ---------------------------------------------------------------------------------------------------


def again(pages: list[list[int]], number: int = KILLED_WITH) -> list[list[int]]:
    return [*pages[:number], *pages[number - 1 :]]


@pytest.mark.parametrize("case", ALL, ids=repr)
def test_after_an_exception_the_page_in_hand_is_delivered_again(case: Case, made: Any) -> None:
    world = made(case)
    assert world.failed_once() == again(case.pages)
    assert world.record["done"]
    assert "secret" not in str(world.record)


@pytest.mark.parametrize("case", ALL, ids=repr)
def test_after_a_kill_with_durability_sync_the_page_in_hand_is_delivered_again(case: Case, made: Any) -> None:
    assert made(case).killed_once(durability="sync") == again(case.pages)


@pytest.mark.parametrize("case", ALL, ids=repr)
def test_after_a_kill_what_was_not_committed_is_delivered_again(case: Case, made: Any) -> None:
    assert made(case).killed_once(durability="exit") == [*case.pages[:KILLED_WITH], *case.pages]


@pytest.mark.parametrize("case", ALL, ids=repr)
def test_a_place_after_the_last_page_is_one_to_go_on_from(case: Case, made: Any) -> None:
    world = made(case)
    world.body.at = len(case.pages)
    assert world.killed_once(delivery="at_most_once") == case.pages
    assert world.record["done"]


@pytest.mark.parametrize("snippet", ["sqlalchemy", "get_records", "get_df_by_chunks"])
@pytest.mark.filterwarnings("ignore:pandas only supports SQLAlchemy:UserWarning")
def test_on_postgresql_after_a_kill(
    snippet: str, tmp_path: Path, enter: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = BY_NAME[snippet]
    url = enter.enter_context(schema_on_postgresql())
    world = World(case, tmp_path, enter, monkeypatch)
    add_database(world, url, enter, monkeypatch)
    assert world.killed_once(durability="sync") == again(case.pages)


def test_on_mariadb_after_a_kill(tmp_path: Path, enter: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    url = enter.enter_context(database_on_mysql())
    world = World(BY_NAME["sqlalchemy"], tmp_path, enter, monkeypatch)
    add_database(world, url, enter, monkeypatch)
    assert world.killed_once(durability="sync") == again(PAGES)


# --- the page -------------------------------------------------------------------------------------------------------


def test_there_are_no_python_blocks_that_are_not_run() -> None:
    assert PAGE.count("```python") == len(SNIPPETS)
    assert set(SNIPPETS) == set(BY_NAME) | OTHERS


@pytest.mark.parametrize("snippet", sorted(set(SNIPPETS) - OTHERS | {"drain"}))
def test_an_example_has_eight_lines_at_most(snippet: str) -> None:
    lines = [line.strip() for line in SNIPPETS[snippet].splitlines()]
    assert len([line for line in lines if line and not line.startswith(("import", "from", "@"))]) <= 8


def test_no_library_is_imported_when_the_dag_file_is_parsed() -> None:
    at_the_top = {
        line.split()[1].split(".")[0]
        for snippet in SNIPPETS.values()
        for line in snippet.splitlines()
        if line.startswith(("import ", "from "))
    }
    assert at_the_top == {"airflow", "airflow_resume", "pathlib", "tenacity"}


def test_the_page_is_read_as_it_is_pasted() -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for snippet in SNIPPETS.values():
        exec(snippet, names)  # noqa: S102  our own page
    for case in BY_NAME.values():
        code = names[case.function].function.__code__
        used = set(code.co_names).union(*(c.co_names for c in code.co_consts if hasattr(c, "co_names")))
        assert {name for name in used if name.isupper()} <= set(names)


# --- what an API does to a loop -------------------------------------------------------------------------------------


def test_an_api_that_is_busy_is_waited_for_as_it_says(made: Any) -> None:
    world = made(BY_NAME["httpx"])
    waited: list[float] = []
    world.names["get"].retry.sleep = waited.append
    world.service.busy = ["7", "Wed, 21 Oct 2026 07:28:00 GMT"]
    world.run(world.attempt)
    assert waited == [7, 4]
    assert world.body.done == PAGES


def test_attempts_that_find_the_api_busy_are_no_stall(made: Any) -> None:
    import httpx

    world = made(BY_NAME["httpx"])
    world.names["get"].retry.stop = lambda _state: True
    for _ in range(5):
        world.service.busy = ["0"]
        with pytest.raises(httpx.HTTPStatusError):
            world.run(world.attempt)
        world.attempt = world.attempt.retry()
    world.run(world.attempt)
    assert world.body.done == PAGES


def test_parameters_beside_a_link_bring_the_first_page_again(made: Any) -> None:
    import httpx

    world = made(BY_NAME["httpx"])
    world.names["get"] = lambda client, url: client.get(httpx.URL(url), params={"per_page": 100})
    with pytest.raises(EndlessSourceError, match="would never end"):
        world.run(world.attempt)


@pytest.mark.parametrize("snippet", ["sqlalchemy", "search_after"])
def test_a_key_that_repeats_is_refused(snippet: str, made: Any) -> None:
    world = made(BY_NAME[snippet])
    keyset = world.names["Keyset"]
    key = {"sqlalchemy": "day", "search_after": lambda hit: tuple(hit["sort"][:1])}[snippet]
    world.names["Keyset"] = lambda fetch, **options: keyset(fetch, **{**options, "key": key})
    with pytest.raises(RowOrderError, match="so rows would be skipped"):
        world.run(world.attempt)


@pytest.mark.parametrize("snippet", ["search_after", "point_in_time"])
def test_hits_of_shards_that_fail_are_not_passed_over(snippet: str, made: Any) -> None:
    world = made(BY_NAME[snippet])
    world.run(world.attempt)
    searches = [call for call in world.service.calls if call.path.endswith("/_search")]
    assert len(searches) == 5
    assert {call.query.get("allow_partial_search_results") for call in searches} == {"false"}


def test_hits_that_come_and_go_shift_no_others(made: Any) -> None:
    world = made(BY_NAME["search_after"])

    def change() -> None:
        world.service.rows = [row for row in world.service.rows if row["id"] > 4]
        raise ZeroDivisionError

    world.body.end = change
    with pytest.raises(ZeroDivisionError):
        world.run(world.attempt)
    world.run(world.attempt.retry())
    assert world.body.done == again(PAGES)


GONE: dict[str, Callable[[Any], None]] = {
    "point_in_time": lambda service: service.points.clear(),
    "salesforce": lambda service: setattr(service, "forgotten", True),
    "google": lambda service: setattr(service, "expired", True),
}


@pytest.mark.parametrize("snippet", GONE)
def test_a_position_that_the_api_has_forgotten_starts_the_loop_over(snippet: str, made: Any) -> None:
    world = made(BY_NAME[snippet])

    def forget() -> None:
        GONE[snippet](world.service)
        raise ZeroDivisionError

    world.body.end = forget
    with pytest.raises(ZeroDivisionError):
        world.run(world.attempt)
    world.run(world.attempt.retry())
    assert world.body.done == [*PAGES[:KILLED_WITH], *PAGES]


def test_after_an_object_that_was_deleted_every_attempt_fails(made: Any) -> None:
    import httpx

    world = made(BY_NAME["stripe"])

    def delete() -> None:
        world.service.rows = [row for row in world.service.rows if row["id"] != 6]

    world.body.end = delete
    for _ in range(3):
        with pytest.raises(httpx.HTTPStatusError, match="400"):
            world.run(world.attempt)
        world.attempt = world.attempt.retry()
    assert world.body.done == PAGES[:3]


@pytest.mark.parametrize("durability", ["async", "sync", "exit"])
def test_a_body_that_deletes_what_it_has_done_leaves_nothing(durability: str, made: Any) -> None:
    world = made(Case("drain", "delete_customers", services.Stripe))

    def delete(items: Any) -> None:
        world.body(items)
        world.service.rows = [row for row in world.service.rows if row["id"] not in ids(items)]

    world.names["delete"] = delete
    assert world.killed_once(durability=durability) == again(PAGES)
    assert world.service.rows == []


def test_an_error_with_status_200_fails_the_attempt_only(made: Any) -> None:
    world = made(BY_NAME["graphql"])
    world.body.end = lambda: setattr(world.service, "problem", "timeout")
    with pytest.raises(RuntimeError, match="timeout"):
        world.run(world.attempt)
    world.run(world.attempt.retry())
    assert world.body.done == PAGES


def test_fields_without_the_token_end_the_loop_after_a_page(made: Any) -> None:
    world = made(BY_NAME["google"])
    world.service.answer = lambda call: services.Google.answer(
        world.service, services.Call(**{**vars(call), "query": {**call.query, "fields": "files(id)"}})
    )
    world.run(world.attempt)
    assert world.body.done == PAGES[:1]


def test_a_whole_url_is_no_endpoint_of_the_hook(made: Any) -> None:
    from airflow.providers.http.hooks.http import HttpHook

    world = made(BY_NAME["http_hook"])
    hook = HttpHook("GET", http_conn_id="orders_api")
    hook.run(f"{world.url}/orders")
    assert world.service.calls[-1].path == f"/{world.url}/orders"


def test_an_api_that_is_busy_is_an_error_of_the_hook_with_its_status(made: Any) -> None:
    from airflow.providers.http.hooks.http import HttpHook

    world = made(BY_NAME["http_hook"])
    world.service.answer = lambda _call: services.Reply({}, 429)
    with pytest.raises(Exception, match=r"^429:") as raised:
        HttpHook("GET", http_conn_id="orders_api").run("/orders")
    assert type(raised.value).__name__ == "AirflowException"


def test_a_query_without_rows_is_done(made: Any) -> None:
    world = made(BY_NAME["get_df_by_chunks"])
    with world.names["engine"].begin() as connection:
        connection.execute(world.names["orders"].delete())
    world.run(world.attempt)
    assert world.record["done"]


LINES = {
    "blank": ["id,text", "1,a", "", "2,b", "3,c", "", "", "4,d", "5,e", "6,f", "7,g"],
    "quoted": ["id,text", '1,"a', 'a"', '2,"', '"', "3,c", "4,d", "5,e", "6,f", "7,g"],
}


@pytest.mark.parametrize("lines", LINES)
def test_rows_of_a_file_are_counted_as_pandas_reads_them(lines: str, made: Any) -> None:
    world = made(BY_NAME["read_csv"])
    world.names["FILE"].write_text("\n".join(LINES[lines]))
    assert world.failed_once() == again(PAGES)


@pytest.mark.parametrize("lines", LINES)
def test_lines_of_a_file_are_counted_as_they_are_skipped(lines: str, made: Any) -> None:
    world = made(BY_NAME["read_csv_lines"])
    world.names["FILE"].write_text("\n".join(LINES[lines]))
    world.names["TYPES"] = {"id": "float64"}  # a blank line is a row, of NaN
    world.body._ids = lambda frame: of_frame(frame.dropna(subset="id"))
    done = world.failed_once()
    assert sorted({number for page in done for number in page}) == list(range(1, 8))
    assert sum(map(len, done)) <= 7 + 2


def test_lines_that_are_skipped_without_names_lose_a_row(made: Any) -> None:
    import pandas as pd

    rest = pd.read_csv(made(BY_NAME["read_csv_lines"]).names["FILE"], skiprows=1 + 4)
    assert list(rest.iloc[:, 0]) == [6, 7]
    assert list(rest.columns) == ["5", "e"]


def test_a_file_that_has_grown_is_read_from_its_start(made: Any) -> None:
    world = made(BY_NAME["read_csv"])

    def grow() -> None:
        with world.names["FILE"].open("a") as file:
            file.write("8,h\n")
        raise ZeroDivisionError

    world.body.end = grow
    with pytest.raises(ZeroDivisionError):
        world.run(world.attempt)
    world.run(world.attempt.retry())
    assert world.body.done == [*PAGES[:KILLED_WITH], *PAGES[:-1], [7, 8]]


def test_a_file_that_was_written_anew_is_read_from_its_start(made: Any) -> None:
    world = made(BY_NAME["row_groups"])

    def rewrite() -> None:
        pq.write_table(pa.table({"id": range(11, 20)}), world.names["FILE"], row_group_size=3)
        raise ZeroDivisionError

    world.body.end = rewrite
    with pytest.raises(ZeroDivisionError):
        world.run(world.attempt)
    world.run(world.attempt.retry())
    assert world.body.done == [*PAGES[:KILLED_WITH], [11, 12, 13], [14, 15, 16], [17, 18, 19]]


def test_a_file_that_comes_after_those_that_are_done_is_read_too(made: Any) -> None:
    world = made(BY_NAME["dataset"])

    def add() -> None:
        pq.write_table(pa.table({"id": [10]}), world.names["FOLDER"] / "c.parquet")
        raise ZeroDivisionError

    world.body.end = add
    with pytest.raises(ZeroDivisionError):
        world.run(world.attempt)
    world.run(world.attempt.retry())
    assert world.body.done == [*again([*PAGES, [8, 9]]), [10]]


def test_a_place_empties_the_second_kind_of_result_of_boto3s_paginators(made: Any) -> None:
    made(BY_NAME["s3"])
    import boto3

    pages = boto3.client("s3").get_paginator("list_objects_v2")

    def listed(**place: Any) -> Any:
        return pages.paginate(Bucket="bucket", Delimiter="/", PaginationConfig=place)

    def prefixes(found: Any) -> list[int]:
        return [int(prefix["Prefix"][1:-1]) for page in found for prefix in page.get("CommonPrefixes") or []]

    assert prefixes(listed()) == [1, 2, 3, 4, 5, 6, 7]
    first = listed(MaxItems=4)
    assert prefixes(first) == [1, 2, 3, 4]
    assert prefixes(listed(StartingToken=first.resume_token)) == [7]


def test_without_max_items_boto3s_paginators_have_no_place(made: Any) -> None:
    made(BY_NAME["s3"])
    import boto3

    pages = boto3.client("s3").get_paginator("list_objects_v2").paginate(Bucket="bucket")
    assert next(iter(pages))["IsTruncated"]
    assert pages.resume_token is None
