"""Repeating a call that fails with a transient error, with pauses, until a limit.

Nearly every call succeeds at once, and tenacity's `Retrying` takes much longer than such a call. So `patiently` makes
the first call without tenacity, which is imported only if that call fails.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")
Pause: TypeAlias = "Callable[[RetryCallState], float]"
"""How many seconds to wait after a try."""
Enough: TypeAlias = "Callable[[RetryCallState], bool]"
"""Whether a try was the last one."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How a call that fails is repeated. At the limit its last error is raised.

    Args:
        is_passing: whether the same call may succeed later, after this error.
        is_enough: whether this was the last try.
        pause: how long to wait before the next try.
        say: called before a pause, such as `say_another_try`.
    """

    is_passing: Callable[[BaseException], bool]
    is_enough: Enough
    pause: Pause
    say: Callable[[RetryCallState], None] | None = None

    def call(self, call: Callable[[], T], *, sleep: Callable[[float], None]) -> T:
        """What the call returns."""
        from tenacity import Retrying

        return Retrying(sleep=sleep, **self._options())(call)

    async def acall(self, call: Callable[[], Awaitable[T]], *, sleep: Callable[[float], Awaitable[None]]) -> T:
        """What the call returns, without blocking the event loop."""
        from tenacity import AsyncRetrying

        async def once() -> T:
            return await call()

        return await AsyncRetrying(sleep=sleep, **self._options())(once)

    def _options(self) -> dict[str, Any]:
        from tenacity import retry_if_exception

        return {
            "retry": retry_if_exception(self.is_passing),
            "stop": self.is_enough,
            "wait": self.pause,
            "before_sleep": self.say,
            "reraise": True,
        }


def patiently(
    call: Callable[[], T],
    patience: Callable[[Exception], Patience | None],
    *,
    sleep: Callable[[float], None],
    counts_first: bool = False,
) -> T:
    """What the call returns, at the first try or a later one.

    Args:
        call: the call.
        patience: called with the first error. Returns how the call is repeated, or None to raise the error.
        sleep: waits for a number of seconds.
        counts_first: the first call counts as a try and is followed by a pause. If not, the second call is made at
            once.
    """
    try:
        return call()  # nearly always enough, and much faster than a Retrying
    except Exception as error:
        has = patience(error)
        if has is None:
            raise
        calls: Iterator[Callable[[], T]] = chain([partial(_raise, error)] if counts_first else [], repeat(call))
    return has.call(lambda: next(calls)(), sleep=sleep)  # noqa: PLW0108  another one each time


def _raise(error: Exception) -> NoReturn:
    raise error


# --- limits ---------------------------------------------------------------------------------------------------


def for_seconds(seconds: Callable[[], float], *, monotonic: Callable[[], float] = time.monotonic) -> Enough:
    """After this many seconds from now. The pauses count too, even if the clock does not show them."""
    since = monotonic()
    return lambda state: max(monotonic() - since, state.idle_for) >= seconds()


def for_tries(most: int) -> Enough:
    """After this many tries."""
    return lambda state: state.attempt_number >= most


# --- pauses ---------------------------------------------------------------------------------------------------


def growing(first: float, longest: float, *, jitter: float) -> Pause:
    """Twice as long each time, plus a random time of at most `jitter` seconds."""
    from tenacity import wait_exponential, wait_random

    return wait_exponential(multiplier=first, max=longest) + wait_random(0, jitter)


def random_growing(first: float, longest: float) -> Pause:
    """A random time up to a limit that doubles each time, so that several waiters do not try at the same moment."""
    from tenacity import wait_random_exponential

    return wait_random_exponential(multiplier=first, max=longest)
