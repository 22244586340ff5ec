"""The state that a user keeps with the position of a loop: as it is now, and as it was when the last element was done.

Theory of operation. The state is saved in the same write as the position. So a change by a body counts only when its
element is acked, and every ack takes a copy of the state. In general the copy is encoded and measured. But nearly every
state has only a few numbers and short strings, which need no encoding. Then a quick check of each value is enough, an
upper bound of the size is computed, and the dict is copied.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from airflow_resume import values
from airflow_resume.errors import ValueTooLargeError
from airflow_resume.loops.keeping.room import Growth
from airflow_resume.loops.keeping.state import State
from airflow_resume.shown import get_logger

if TYPE_CHECKING:
    from pydantic import JsonValue

log = get_logger(__name__)

_MOST_ESTIMATED = 2_000
"""Bytes above which a state is measured, and not estimated."""
_BYTES_OF_A_NUMBER = 26
"""The most bytes of a 64-bit integer or a float, including the separator before the next member."""


class SavedState:
    """The state of one loop.

    Args:
        place: what the loop is called in messages.
        saved: the state as the record has it.
        growth: checks that it has room there.
    """

    def __init__(self, place: str, saved: dict[str, JsonValue], growth: Growth) -> None:
        self.now = State()
        """What the body of the loop sees and changes."""
        self.saved = saved
        """As it was when the last element was done, in JSON."""
        self._place = place
        self._growth = growth
        self._warned = False
        self.restore()

    def restore(self) -> None:
        """Undo all changes since the last element was done. Lists and dicts stay the same objects, for the body."""
        saved = {key: values.decode(value) for key, value in self.saved.items()}
        contents = _put_back_members(self.now, saved, set())
        self.now.clear()
        self.now.update(contents)

    def go_back(self, saved: dict[str, JsonValue]) -> None:
        """Restore an earlier state, and keep what was put in before the loop began to run."""
        new = {key: value for key, value in self.now.items() if key not in self.saved and key not in saved}
        self.saved = saved
        self.restore()
        self.now.update(new)

    def replace(self, state: dict[str, Any]) -> None:
        """Take over the contents of another dict; the object stays the same."""
        if state is not self.now:
            contents = dict(state)
            self.now.clear()
            self.now.update(contents)

    def copy(self) -> dict[str, JsonValue]:
        """A copy of the state as it is to be saved.

        Raises:
            InvalidValueError: it is not JSON, and cannot be encoded as JSON.
            ValueTooLargeError: the record would be too large with it.
        """
        if not (self.now or self.saved):
            return self.saved
        size = _estimated(self.now)
        if size is not None:
            try:
                self._growth.see_state(size)
            except ValueTooLargeError:
                pass  # by the estimate; measured exactly below
            else:
                return self.now.copy()
        return self._encoded()

    def glance(self) -> dict[str, JsonValue] | None:
        """A copy, if the cheap check is enough; None if it is not. Then `copy` is needed."""
        size = _estimated(self.now)
        return self.now.copy() if size is not None and self._growth.has_seen(size) else None

    def ack(self) -> bool:
        """Keep the present state with what is acked, as no element is in hand. Returns whether the state is new."""
        state = self.copy()
        is_new, self.saved = state != self.saved, state
        return is_new

    def share(self, owner: object, name: str) -> None:
        """From now on, refuse changes by workers of the loop's `map`. `name`: of the loop, for messages."""
        self.now.share(owner, name)

    def close(self, name: str) -> None:
        """From now on, refuse changes, because nothing is saved any more."""
        self.now.close(name)

    def _encoded(self) -> dict[str, JsonValue]:
        encoded = {key: values.encode(value) for key, value in self.now.items()}
        size = values.check_sized(encoded, at=f"{self._place}.state")
        self._growth.see_state(size)
        if size > values.LARGE_BYTES and not self._warned:
            self._warned = True
            biggest = values.biggest_part(encoded)
            log.warning(
                "The state of the loop %r has %d bytes. %s\n%s", self._place, size, biggest, values.KEEP_ELSEWHERE
            )
        return encoded


def _estimated(state: dict[str, Any]) -> int | None:
    """An upper bound of the size of the state as JSON; None unless it is plain and small, as nearly all are."""
    size = 2
    for key, value in state.items():
        kind = value.__class__
        if kind is int:
            if not values.MIN_INT <= value <= values.MAX_INT:
                return None
            size += _BYTES_OF_A_NUMBER
        elif kind is float:
            if value - value != 0:  # not a number, or infinite
                return None
            size += _BYTES_OF_A_NUMBER
        elif kind is str:
            if not (value.isascii() and value.isprintable()):
                return None
            size += 2 * len(value) + 4  # each character may be a quote, which needs a backslash
        elif kind is bool or value is None:
            size += 7
        else:
            return None
        if key.__class__ is not str or not (key.isascii() and key.isprintable()):
            return None
        size += 2 * len(key) + 4
    return size if size <= _MOST_ESTIMATED else None


def _put_back(now: Any, saved: Any, done: set[int]) -> Any:
    """What was saved, in the list or dict that is there now, unless that was used for another part."""
    if now.__class__ is not saved.__class__ or saved.__class__ not in (dict, list) or id(now) in done:
        return saved
    done.add(id(now))
    if isinstance(saved, dict):
        contents = _put_back_members(now, saved, done)
        now.clear()
        now.update(contents)
    else:
        now[:] = [_put_back(then, item, done) for then, item in zip_longest(now[: len(saved)], saved)]
    return now


def _put_back_members(now: dict[str, Any], saved: dict[str, Any], done: set[int]) -> dict[str, Any]:
    return {key: _put_back(now.get(key), value, done) for key, value in saved.items()}
