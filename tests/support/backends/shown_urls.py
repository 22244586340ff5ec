"""Collects every text that may show the URL of a database: logs, errors, output."""

from __future__ import annotations

import contextlib
import io
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.command import main

LOGGERS = ("", "airflow_resume", "psycopg", "pymysql", "sqlalchemy", "sqlalchemy.engine", "sqlalchemy.pool")


@contextmanager
def listening() -> Iterator[io.StringIO]:
    """Collect everything that is logged in the block."""
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    logging.getLogger().addHandler(handler)
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.DEBUG)
    try:
        yield heard
    finally:
        logging.getLogger().removeHandler(handler)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def of_error(error: BaseException) -> Iterator[str]:
    """The text of an error and of all its causes, whether a traceback would print them or not."""
    yield "".join(traceback.format_exception(error))
    seen: list[BaseException] = []
    ahead: list[BaseException | None] = [error]
    while ahead:
        one = ahead.pop()
        if one is None or one in seen:
            continue
        seen.append(one)
        yield f"{one} {one!r} {one.args!r}"
        ahead += [one.__cause__, one.__context__, getattr(one, "orig", None)]


def of_backend(url: str, *, patience: float = 0) -> Iterator[str]:
    """The texts of a backend and of its calls, whether they succeed or fail."""
    try:
        backend = SqlStoreBackend(url, patience=patience)
    except Exception as error:  # noqa: BLE001  that it has one of our names is tried elsewhere
        yield from of_error(error)
        return
    with closing(backend):
        store = SqlStateStore(backend, "scope")
        calls: list[Callable[[], object]] = [
            lambda: store.set("key", 1),
            lambda: store.get("key"),
            backend.clean,
            lambda: backend.deserialize_task_state_store_from_ref(f"airflow-resume:1:{'0' * 32}:{'0' * 64}:key"),
            # What nobody does: a table that is gone.
            lambda: backend._database.as_it_is(lambda it: it.exec_driver_sql("SELECT 1 FROM airflow_resume_none")),
        ]
        for call in calls:
            try:
                call()
            except Exception as error:  # noqa: BLE001  as above
                yield from of_error(error)
        database = backend._database
        with contextlib.suppress(Exception):
            engine = database._process.engine()
            yield f"{engine} {engine!r} {engine.url} {engine.url!r} {engine.pool!r} {engine.dialect!r}"
        yield f"{backend} {store} {backend._settings} {database} {database.url} {database.url!r} {backend._values}"


def of_commands(url: str) -> Iterator[str]:
    """The output of our commands, also with the URL in a wrong position."""
    for arguments in (
        ["migrate", url],
        ["doctor", url],
        ["doctor", url, "--output", "json"],
        ["cleanup", url],
        ["cleanup", url, "--dry-run"],
        [url],
        ["migrate", url, url],
        ["migrate", f"--url={url}"],
        ["cleanup", url, "-o", url],
        ["conformance", url],
        ["migrate", "--help"],
    ):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(arguments)
            except SystemExit:
                pass
            except Exception as error:  # noqa: BLE001  as above
                yield from of_error(error)
        yield out.getvalue() + err.getvalue()
