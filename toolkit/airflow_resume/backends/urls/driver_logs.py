"""What SQLAlchemy and the drivers log for us, at DEBUG: without values, and without the secrets of a URL."""

from __future__ import annotations

import logging
from typing import Any

from sqlalchemy.engine import URL, Engine

from airflow_resume.backends.dialects.registry import DIALECTS
from airflow_resume.backends.urls.shown import without_secrets

LOGGING_NAME = "airflow_resume"
"""The name of SQLAlchemy's loggers for our engines, so that those of others stay as they are."""
_MOST_URLS = 16


class _ByType(logging.Filter):
    """Logs only the types of arguments: a pool logs connections (psycopg2's show their options), an engine rows."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                each if each is None or isinstance(each, (str, int, float)) else f"<{type(each).__qualname__}>"
                for each in record.args
            )
        return True


class _WithoutSecrets(logging.Filter):
    """Hides our secrets in what a driver logs. Other programs use this logger too, so nothing else is changed."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: dict[URL, None] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        words = without_secrets(said, *tuple(self.urls))
        if words != said:
            record.msg, record.args = words, ()
        return True


_BY_TYPE, _WITHOUT_SECRETS = _ByType(), _WithoutSecrets()


def hide_values(url: URL, engine: Engine) -> None:
    """Have neither values nor secrets logged. The loggers of the engine have our name."""
    for logger in (engine.logger, engine.pool.logger):
        own: Any = getattr(logger, "logger", logger)  # with echo the logger is wrapped
        own.addFilter(_BY_TYPE)
    urls = _WITHOUT_SECRETS.urls
    urls[url] = urls.pop(url, None)
    for known in tuple(urls)[:-_MOST_URLS]:
        urls.pop(known, None)
    for name in (name for dialect in DIALECTS for name in dialect.loggers):
        logging.getLogger(name).addFilter(_WITHOUT_SECRETS)
