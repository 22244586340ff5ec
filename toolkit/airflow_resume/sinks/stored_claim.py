"""A claim as it is stored beside a position."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks.decide import Held

if TYPE_CHECKING:
    from pydantic import JsonValue


def claim_of(by: Claimant, *, released: bool = False) -> str:
    """A claim as it is stored, readable for a person."""
    started = None if by.started is None else by.started.isoformat()
    claim: dict[str, JsonValue] = {"owner": by.owner, "started": started, "try": by.try_number, "released": released}
    return json.dumps(claim)


def held_of(claim: str) -> Held:
    """A stored claim."""
    read = json.loads(claim)
    started = read["started"]
    by = Claimant(
        owner=read["owner"],
        started=None if started is None else datetime.fromisoformat(started),
        try_number=read["try"],
    )
    return Held(by=by, is_released=bool(read["released"]))
