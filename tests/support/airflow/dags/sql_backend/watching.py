"""An event trigger that keeps a mark in the backend. The triggerer imports it, so its settings are set here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_resume.watermarks import AsyncWatermark

os.environ["AIRFLOW__AIRFLOW_RESUME__BACKEND_INLINE_BYTES"] = "0"


class Numbers(BaseEventTrigger):
    """Fires for 1, 2 and 3, and never again."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "watching.Numbers", {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        assert self.asset_state_store is not None
        mark = AsyncWatermark[int](self.asset_state_store, initial=0)
        for number in range(await mark.at() + 1, 4):
            yield TriggerEvent(number)  # type: ignore[no-untyped-call]
            await mark.advance(number)
        await asyncio.Event().wait()
