"""Text of other systems in messages and logs: without line breaks, terminal codes and invisible characters.

The ids and states of jobs, tokens, file names, keys of a table and the messages of exceptions come from other systems.
A newline in one of them would forge a line of the log, ESC could control the terminal of a reader, and characters that
have no width, or reverse the direction of writing, make one text look like another.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from reprlib import Repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenacity import RetryCallState

MOST_SHOWN = 20_000
"""The most characters of one text in a message; a longer text is data."""
MOST_OF_AN_ERROR = 500
"""The most characters of an error after which there is another try."""
_UNSEEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, except tab and newline, which _IN_LINE adds
    "\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # no width, or another direction
    "\ud800-\udfff\U000e0000-\U000e007f"  # halves of a pair; tags
)
_IN_LINE, _IN_TEXT = re.compile(f"[\t\n{_UNSEEN}]"), re.compile(f"[{_UNSEEN}]")


def shown(text: str, *, most: int = MOST_SHOWN) -> str:
    r"""The text on one line: cut to `most`, with invisible characters escaped as in Python (`\n`, `\x1b`, `\u202e`)."""
    return _shown(text, _IN_LINE, most)


def shown_lines(text: str, *, most: int = MOST_SHOWN) -> str:
    """As `shown`, but with line breaks and tabs kept, for a text whose lines were made by this package."""
    return _shown(text, _IN_TEXT, most)


def short_repr(value: object, *, most: int = 80) -> str:
    """Any value for a message: on one line, escaped, and cut. It may be endless, or its repr may raise."""
    short = Repr()
    short.maxstring = short.maxother = short.maxlong = most
    try:
        text = short.repr(value)
    except Exception:  # noqa: BLE001  an integer of very many digits, for one
        text = f"<{type(value).__name__}>"
    return shown(text, most=most)


def _shown(text: str, unseen: re.Pattern[str], most: int) -> str:
    text = text if len(text) <= most else f"{text[:most]}..."
    if text.isprintable():
        return text
    return unseen.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


# --- logs -----------------------------------------------------------------------------------------------------


def get_logger(name: str) -> logging.Logger:
    """The logger of a module. Every argument of a message is shown on one line, escaped."""
    logger = logging.getLogger(name)
    if _FILTER not in logger.filters:
        logger.addFilter(_FILTER)
    return logger


def say_another_try(log: logging.Logger, what: str) -> Callable[[RetryCallState], None]:
    """A `before_sleep` for tenacity, whose own one shows the error unescaped, and names of functions.

    Args:
        log: made by `get_logger`.
        what: what is tried again, in words.
    """

    def say(state: RetryCallState) -> None:
        error = None if state.outcome is None else state.outcome.exception()
        reason = short_repr(error, most=MOST_OF_AN_ERROR)
        log.warning("%s raised %s, and is tried again in %.3g s", what, reason, state.upcoming_sleep)

    return say


class _Argument:
    """A value in a log record, as `%s` and `%r` show it."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return shown(str(self._value))

    def __repr__(self) -> str:
        return shown(repr(self._value))


class _Lines(_Argument):
    """An error of this package: its parts were escaped when it was made, and its remedy has a line of its own."""

    __slots__ = ()

    def __str__(self) -> str:
        return shown_lines(str(self._value))


class _Filter(logging.Filter):
    """Escapes the arguments. It is added to each logger, as the filter of a parent is not applied to its children."""

    def filter(self, record: logging.LogRecord) -> bool:
        given = record.args if isinstance(record.args, tuple) else (record.args,) if record.args else ()
        record.args = tuple(
            value
            if value is None or type(value) in {bool, int, float}
            else (_Lines(value) if hasattr(value, "remedy") else _Argument(value))
            for value in given
        )
        if record.exc_info and not record.exc_text:
            record.exc_text = _traceback(record.exc_info)
        return True


_FILTER = _Filter()


def _traceback(raised: Any) -> str:
    """The traceback as a formatter shows it, with every error's message on one line, except those of this package."""
    text = logging.Formatter().formatException(raised)
    error: BaseException | None = raised[1]
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        words = str(error)
        if "\n" in words and not hasattr(error, "remedy"):
            text = text.replace(words, shown(words))
        error = error.__cause__ or error.__context__
    return shown_lines(text, most=10 * MOST_SHOWN)
