"""One Dag for each way to loop; the task is `run`, and the `conf` of the run says what it loops over."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator, get_current_context, task
from airflow.sdk.exceptions import AirflowTaskTimeout
from diary import Diary, options  # type: ignore[import-not-found]

from airflow_resume import checkpoint
from airflow_resume.loops import Keyset

NO_RETRY: dict[str, Any] = {"retries": 0}
RETRIES: dict[str, Any] = {"retries": 8, "retry_delay": timedelta(seconds=1)}


def go_through(diary: Any, name: str) -> int:
    """A loop over as many numbers as the test asks for; their sum, which is kept with the position."""
    with checkpoint(range(diary.conf["count"]), name=name, **options(diary)) as loop:
        for element in loop:
            diary.deliver(name, element, number=loop.element.number)
            loop.state["sum"] = loop.state.get("sum", 0) + element
    return int(loop.state["sum"])


with DAG("loops", schedule=None, default_args=RETRIES):

    @task(task_id="run")
    def loops() -> list[int]:
        diary = Diary()
        sums = [go_through(diary, name) for name in diary.conf.get("loops", ["loop"])]
        diary.deliver("after", "all loops")
        return sums

    loops()


with DAG("loops_once", schedule=None, default_args=NO_RETRY):

    @task(task_id="run")
    def once() -> int:
        return go_through(Diary(), "loop")

    once()


with DAG("loops_nested", schedule=None, default_args=RETRIES):

    @task(task_id="run")
    def nested() -> int:
        diary, rows = Diary(), 0
        with checkpoint(list("abcd"), name="tables", **options(diary)) as tables:
            for table in tables:
                for row in checkpoint(range(5), name="rows", within=tables):
                    diary.deliver("rows", [table, row])
                tables.state["rows"] = rows = tables.state.get("rows", 0) + 5
        return rows

    nested()


with DAG("loops_nested_once", schedule=None, default_args=NO_RETRY):

    @task(task_id="run")
    def nested_once() -> None:
        diary = Diary()
        tables = checkpoint(list("abcd"), name="tables", durability="exit")
        for table in tables:
            for row in checkpoint(range(5), name="rows", within=tables):
                diary.deliver("rows", [table, row])

    nested_once()


with DAG("loops_map", schedule=None, default_args=RETRIES):

    @task(task_id="run")
    def mapped_over_threads() -> int:
        diary = Diary()

        def double(element: int) -> int:
            diary.deliver("function", element)
            return 2 * element

        with checkpoint(range(diary.conf["count"]), name="loop", **options(diary)) as loop:
            for result in loop.map(double, workers=4):
                diary.write("result", result)
                loop.state["sum"] = loop.state.get("sum", 0) + result
        return int(loop.state["sum"])

    mapped_over_threads()


with DAG("loops_async", schedule=None, default_args=RETRIES):

    @task(task_id="run")
    async def on_an_event_loop() -> int:
        diary = Diary()
        async with checkpoint(range(diary.conf["count"]), name="loop", **options(diary)) as loop:
            async for element in loop:
                await diary.adeliver("loop", element, number=loop.element.number)
                loop.state["sum"] = loop.state.get("sum", 0) + element
        return int(loop.state["sum"])

    on_an_event_loop()


with DAG("loops_amap", schedule=None, default_args=RETRIES):

    @task(task_id="run")
    async def mapped_over_tasks() -> int:
        diary = Diary()

        async def double(element: int) -> int:
            await diary.adeliver("function", element)
            return 2 * element

        async with checkpoint(range(diary.conf["count"]), name="loop", **options(diary)) as loop:
            async for result in loop.amap(double, workers=4):
                diary.write("result", result)
                loop.state["sum"] = loop.state.get("sum", 0) + result
        return int(loop.state["sum"])

    mapped_over_tasks()


async def same(element: int) -> int:
    return element


with DAG("loops_left_open", schedule=None, default_args={"retries": 8, "retry_delay": timedelta(0)}):

    @task(task_id="run")
    async def left_open() -> int:
        """Nothing closes these loops; the body fails once at each element that the test names."""
        diary = Diary()
        loop = checkpoint(range(diary.conf["count"]), name="loop", durability="exit")
        fails = diary.conf["fails"][diary.try_number - 1 : diary.try_number]

        def body(element: int) -> None:
            diary.write("loop", element)
            if element in fails:
                raise RuntimeError("a dependency is away")

        if diary.conf["form"] == "iter held":
            elements = iter(loop)
            for element in elements:
                body(element)
        elif diary.conf["form"] == "generator expression held":
            expression = (element for element in loop)
            for element in expression:
                body(element)
        elif diary.conf["form"] == "async for":
            async for element in loop:
                body(element)
        else:
            async for element in loop.amap(same, workers=4, ordered=True):
                body(element)
        return loop.count

    left_open()


with DAG("loops_expanded", schedule=None, default_args=RETRIES):

    @task
    def items() -> list[str]:
        path = Path(os.environ["AIRFLOW_HOME"]) / f"{get_current_context()['run_id']}.json"
        return list(json.loads(path.read_text()))

    @task(task_id="run")
    def expanded(item: str) -> int:
        diary, done = Diary(), 0
        for element in checkpoint(range(diary.conf["count"]), name="loop", **options(diary)):
            diary.deliver("loop", element, item=item)
            done += 1
        return done

    expanded.expand(item=items())


with DAG("loops_draining", schedule=None, default_args=RETRIES):

    @task(task_id="run")
    def draining() -> int:
        """A queue in a table: the body deletes finished rows in batches."""
        import psycopg
        from psycopg.rows import dict_row

        diary = Diary()
        lot, done = diary.conf["lot"], list[int]()
        with psycopg.connect(diary.conf["url"], autocommit=True, row_factory=dict_row) as queue:

            def fetch(after: int | None, limit: int) -> list[dict[str, int]]:
                query = "SELECT id FROM queue WHERE id > coalesce(%s, -1) ORDER BY id LIMIT %s"
                return queue.execute(query, [after, limit]).fetchall()

            rows = Keyset(fetch, key="id", limit=diary.conf["page"])
            for row in checkpoint(rows, name="loop", each=True, **options(diary)):
                diary.deliver("loop", row["id"])
                done.append(row["id"])
                if len(done) == lot:
                    queue.execute("DELETE FROM queue WHERE id = ANY(%s)", [done])
                    done.clear()
            queue.execute("DELETE FROM queue WHERE id = ANY(%s)", [done])
        return int(diary.try_number)

    draining()


class TwoLoopsAndAWait(BaseOperator):
    """It defers between its two loops, until the test makes a file."""

    def execute(self, context: Any) -> None:
        from airflow.providers.standard.triggers.file import FileTrigger

        diary = Diary()
        go_through(diary, "before")
        diary.write("defers", None)
        self.defer(trigger=FileTrigger(f"{diary.path}.fire{diary.try_number}", poke_interval=0.3), method_name="go_on")

    def go_on(self, context: Any, event: Any) -> int:
        return go_through(Diary(), "behind")


with DAG("loops_deferred", schedule=None, default_args=RETRIES):
    TwoLoopsAndAWait(task_id="run")


KEYS = [f"key-{number}" for number in range(5)]


def functions_in(error: BaseException) -> Iterator[str]:
    for frame, _ in traceback.walk_tb(error.__traceback__):
        yield f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}"


with DAG("loops_short", schedule=None, default_args=RETRIES):

    @task(task_id="run", execution_timeout=timedelta(seconds=2))
    def short(task_state_store: Any = None) -> None:
        """Nearly all its time is spent in store calls, so the time-out happens during one."""
        diary = Diary()
        for key in KEYS:
            task_state_store.set(key, f"that of {key}")
        try:
            for element in checkpoint(range(10**6), name="loop", durability="sync"):
                diary.write("loop", element)
                if diary.try_number > diary.conf["timeouts"]:
                    break
        except AirflowTaskTimeout as error:
            read = {key: task_state_store.get(key) for key in KEYS * 2}
            diary.write("interrupted", list(functions_in(error)), read=read)
            raise

    short()
