"""An auth manager that refuses `uma` one Dag and one asset. Airflow's simple auth manager knows only roles."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

SECRET = "secret"
"""The Dags and assets whose names begin so, and for assets the ids in `SECRET_ASSETS`, are not for `uma`."""
SECRET_ASSETS = {"1"}


class PickyAuthManager(SimpleAuthManager):
    """As the simple one, and picky."""

    def is_authorized_dag(self, *, user: Any, details: Any = None, **more: Any) -> bool:
        named = None if details is None else details.id
        if user.get_id() == "uma" and named is not None and named.startswith(SECRET):
            return False
        return super().is_authorized_dag(user=user, details=details, **more)

    def is_authorized_asset(self, *, user: Any, details: Any = None, **more: Any) -> bool:
        named = None if details is None else details.id
        if user.get_id() == "uma" and named in SECRET_ASSETS:
            return False
        return super().is_authorized_asset(user=user, details=details, **more)
