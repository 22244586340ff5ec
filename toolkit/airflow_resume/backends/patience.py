"""How long and how often a call is made again that failed for a passing reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tenacity import retry_if_exception, wait_random_exponential

if TYPE_CHECKING:
    from tenacity import RetryCallState

PATIENCE_SECONDS = 30.0
"""How long a call is made again."""
FIRST_WAIT, LONGEST_WAIT = 0.02, 2.0


def patiently(is_passing: Callable[[BaseException], bool], seconds: Callable[[], float]) -> dict[str, Any]:
    """Options of tenacity: again after a passing error, until so many seconds are over; then that error."""

    def waited_long_enough(state: RetryCallState) -> bool:
        # The sum of the waits counts too: on a clock that is moved by hand no time passes.
        return max(state.seconds_since_start or 0.0, state.idle_for) >= seconds()

    return {
        "retry": retry_if_exception(is_passing),
        "stop": waited_long_enough,
        "wait": wait_random_exponential(multiplier=FIRST_WAIT, max=LONGEST_WAIT),
        "reraise": True,
    }
