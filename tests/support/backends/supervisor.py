"""What Airflow would keep for its own accessors, in a dict."""

from __future__ import annotations

from typing import Any

from airflow.sdk.execution_time import comms


class Supervisor:
    """Keeps what Airflow would keep in its database."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def send(self, message: Any) -> Any:
        if isinstance(message, (comms.SetTaskStateStore, comms.SetAssetStateStoreByName)):
            self.kept[message.key] = message.value
        elif isinstance(message, comms.GetTaskStateStore):
            return comms.TaskStateStoreResult(value=self.kept[message.key])
        elif isinstance(message, comms.GetAssetStateStoreByName):
            return comms.AssetStateStoreResult(value=self.kept[message.key])
        elif isinstance(message, (comms.DeleteTaskStateStore, comms.DeleteAssetStateStoreByName)):
            self.kept.pop(message.key, None)
        else:
            self.kept.clear()
        return None

    async def asend(self, message: Any) -> Any:
        return self.send(message)
