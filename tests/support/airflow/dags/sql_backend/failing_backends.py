"""Our backend, with faults at chosen moments."""

from __future__ import annotations

import os
import signal
from typing import Any

from airflow_resume.backends import SqlStoreBackend


class KilledAtSuccess(SqlStoreBackend):
    """The first attempt dies while its values are deleted at its success, before Airflow hears of the success."""

    def clear(self, scope: Any, *, all_map_indices: bool = False, session: object = None) -> None:
        super().clear(scope, all_map_indices=all_map_indices, session=session)
        if os.environ["TRY_NUMBER"] == "1":  # there is no context any more
            os.kill(os.getpid(), signal.SIGKILL)


class Impatient(SqlStoreBackend):
    """A backend that waits only two seconds for a database that is away."""

    def __init__(self) -> None:
        super().__init__(patience=2)
