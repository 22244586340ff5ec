"""torchdata's `StatefulDataLoader`: a loader whose position can be saved and restored, without processes of its own."""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import Any

from protocol import processor_time, serve
from torchdata.stateful_dataloader import StatefulDataLoader  # type: ignore[import-not-found,unused-ignore]


@lru_cache(maxsize=1)
def elements(count: int) -> list[int]:
    return list(range(count))


def items(count: int) -> float:
    loader: Any = StatefulDataLoader(elements(count), batch_size=None, num_workers=0)
    return processor_time(lambda: deque(loader, maxlen=0))


serve({"items": items})
