"""Who may see and change what, and that a change was asked for on this page.

Airflow checks nothing for the routes of a plugin, so each route of the page has one of the checks below, which are
those of Airflow's own API for the same records. A form has a token that only this server can have made for its user,
and the browser says where a form was sent from: another site can neither make the one nor change the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AssetDetails, DagAccessEntity
from airflow.api_fastapi.auth.tokens import get_signing_key
from airflow.api_fastapi.core_api.security import (
    GetUserDep,
    requires_access_asset,
    requires_access_dag,
    requires_authenticated,
)
from fastapi import Depends, HTTPException, Request, params
from itsdangerous import BadSignature, URLSafeTimedSerializer

from airflow_resume.compat import conf
from airflow_resume.operating.places import AssetPlace, Place

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

User = GetUserDep
_TASKS = DagAccessEntity.TASK_INSTANCE
may_see_tasks = Depends(requires_access_dag(method="GET", access_entity=_TASKS))
may_change_tasks = Depends(requires_access_dag(method="PUT", access_entity=_TASKS))
may_see_assets = Depends(requires_access_asset(method="GET"))
may_change_assets = Depends(requires_access_asset(method="PUT"))
is_known = Depends(requires_authenticated())

SECONDS = 12 * 3_600
"""How long a form may be left open."""
_FORBIDDEN = 403


class Said(str):
    """What is said to the person who is refused; other details of an HTTPException are not shown."""

    __slots__ = ()


OUT_OF_DATE = Said(
    "This form is out of date, or was not sent from this page. Nothing was changed. Load the page again."
)


def token_for(user: BaseUser) -> str:
    """The token of a form for this user."""
    return _signer().dumps(user.get_id())


def check_token(token: str, user: BaseUser) -> None:
    """See that this server has made the token, for this user, and not long ago.

    Raises:
        HTTPException: it has not (403).
    """
    try:
        owner = _signer().loads(token, max_age=SECONDS)
    except BadSignature:
        owner = None
    if owner is None or owner != user.get_id():
        raise HTTPException(_FORBIDDEN, OUT_OF_DATE)


def check_origin(request: Request) -> None:
    """See that a form was sent from a page of this server, as the browser says.

    Raises:
        HTTPException: it was not, or nothing says so (403).
    """
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if site is None:  # a browser of before 2023 says only which site it was
        known = {request.url.netloc, urlsplit(str(conf.get("api", "base_url", fallback="") or "")).netloc} - {""}
        is_own = origin is not None and urlsplit(origin).netloc in known
    else:
        is_own = site == "same-origin"
    if not is_own:
        raise HTTPException(_FORBIDDEN, OUT_OF_DATE)


sent_from_here = Depends(check_origin)


def may_change(request: Request, user: BaseUser, place: Place) -> bool:
    """Whether the user may change the records of a task instance or an asset whose page is asked for."""
    if isinstance(place, AssetPlace):
        return _ANSWERS.get(user, "edit asset", str(place.asset_id), lambda: _passes(may_change_assets, request, user))
    return _ANSWERS.get(user, "edit tasks", place.dag_id, lambda: _passes(may_change_tasks, request, user))


def _passes(check: params.Depends, request: Request, user: BaseUser) -> bool:
    try:
        check.dependency(request, user)  # type: ignore[misc]
    except HTTPException:
        return False
    return True


def seen_dags(user: BaseUser, dag_ids: AbstractSet[str]) -> AbstractSet[str]:
    """Those of the Dags that the user may see."""

    def asked(dag_id: str) -> bool:
        return dag_id in get_auth_manager().filter_authorized_dag_ids(dag_ids={dag_id}, user=user)

    return {dag_id for dag_id in dag_ids if _ANSWERS.get(user, "dag", dag_id, partial(asked, dag_id))}


def may_see(user: BaseUser, place: Place) -> bool:
    """Whether the user may see an asset."""
    if not isinstance(place, AssetPlace):
        return False
    name = str(place.asset_id)
    asked = partial(get_auth_manager().is_authorized_asset, method="GET", details=AssetDetails(id=name), user=user)
    return _ANSWERS.get(user, "asset", name, asked)


class _Answers:
    """What the auth manager has said lately. It may have to ask a server, and a list asks for each of its assets."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], tuple[float, bool]] = {}

    def get(self, user: BaseUser, kind: str, name: str, ask: Callable[[], bool]) -> bool:
        key = (user.get_id(), kind, name)
        until, answer = self._known.get(key, (0.0, False))
        if until < time.monotonic():
            answer = ask()
            if len(self._known) > _MOST_ANSWERS:
                self._known.clear()
            self._known[key] = (time.monotonic() + _ANSWER_SECONDS, answer)
        return answer


_MOST_ANSWERS, _ANSWER_SECONDS = 50_000, 30.0
_ANSWERS = _Answers()


def _signer() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(get_signing_key("api", "secret_key"), salt="airflow-resume.page")
