"""An auth manager that refuses `uma` one Dag and one asset, and `nob` everything. The simple one knows only roles."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

HIDDEN_DAGS = "hidden"
"""The Dags whose names begin so are not for `uma`."""
HIDDEN_ASSETS = {"1"}
"""... nor the assets with these ids."""


class PickyAuthManager(SimpleAuthManager):
    """As the simple one, and picky."""

    def is_authorized_dag(self, *, user: Any, details: Any = None, **more: Any) -> bool:
        named = None if details is None else details.id
        is_hidden = user.get_id() == "uma" and named is not None and named.startswith(HIDDEN_DAGS)
        return not (is_hidden or user.get_id() == "nob") and super().is_authorized_dag(
            user=user, details=details, **more
        )

    def is_authorized_asset(self, *, user: Any, details: Any = None, **more: Any) -> bool:
        named = None if details is None else details.id
        is_hidden = user.get_id() == "uma" and named in HIDDEN_ASSETS
        return not (is_hidden or user.get_id() == "nob") and super().is_authorized_asset(
            user=user, details=details, **more
        )
