"""Airflow's public REST API (`/api/v2`), as far as it is needed here.

The address comes from `--airflow`, or `AIRFLOW_RESUME_API_URL`, or the login of airflowctl, or `[api] base_url` of the
configuration. Who asks is said by `AIRFLOW_RESUME_API_TOKEN`, or by `AIRFLOW_RESUME_API_USER` and
`AIRFLOW_RESUME_API_PASSWORD`, or by the login of airflowctl at the same address; without these, by the token that
Airflow's simple auth manager gives to everybody, if it is configured so. No secret is ever an argument of a command,
because everybody on a machine can see those.
"""

from __future__ import annotations

import json
import os
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

from airflow_resume.attempt import utc_now
from airflow_resume.errors import AirflowApiError, UsageError
from airflow_resume.operating.waits import Waits
from airflow_resume.shown import short_repr

if TYPE_CHECKING:
    import httpx
    from pydantic import JsonValue
    from typing_extensions import Self

T = TypeVar("T")
U = TypeVar("U")

URL, TOKEN = "AIRFLOW_RESUME_API_URL", "AIRFLOW_RESUME_API_TOKEN"
USER, PASSWORD = "AIRFLOW_RESUME_API_USER", "AIRFLOW_RESUME_API_PASSWORD"
AT_ONCE = 8
"""Requests at a time. One API worker answers about 130 a second for the whole deployment, its tasks included."""
PAGE = 100
"""Entries of one answer: what Airflow gives at most unless `[api] maximum_page_limit` is larger."""
TIMEOUT_SECONDS = 30.0
"""For an answer, with all tries."""
_LEAST_SECONDS = 0.1
"""For the last try of a question whose time is nearly over."""
TRIES = 4
"""Of a request that only reads, when the server is busy or cannot be reached."""
_BUSY = frozenset({429, 502, 503, 504})
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _FOUND, _MOVED = 401, 403, 404, 200, 302
_MOST_OF_AN_ANSWER = 300


class AirflowApi:
    """A connection to one deployment. Threads may share it.

    Args:
        url: of the API server, without `/api/v2`.
        environment: where the token, or the user and the password are.
        kept_token: used when the environment says nothing.
        sleep: waits between two tries.
        timeout: for so many seconds at most one question is waited for, its further tries included. A server that says
            that it is busy is waited for as long as it says.
        say: is told what is waited for, after some seconds.

    Raises:
        UsageError: the URL cannot be used, or httpx is not installed.
        AirflowApiError: Airflow does not answer, or refuses the login.
    """

    def __init__(
        self,
        url: str,
        *,
        environment: Mapping[str, str] = os.environ,
        kept_token: str | None = None,
        sleep: Callable[[float], object] = time.sleep,
        timeout: float = TIMEOUT_SECONDS,
        say: Callable[[str], object] | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        try:
            import httpx
        except ImportError as error:
            raise UsageError(
                "A running Airflow is asked with httpx, which is not installed.",
                "Install it: pip install 'airflow-resume[operating]'",
                name="httpx",
            ) from error
        self.url = checked_url(url)
        self.calls = 0
        """How many requests were made."""
        self.date: tuple[str, datetime] | None = None
        """The newest `Date` of an answer, and when it came."""
        self.seconds = 0.0
        """How long their answers took, all together."""
        self._environment, self._kept_token, self._sleep, self._lock = environment, kept_token, sleep, Lock()
        self._timeout, self._waits = timeout, Waits(say)
        self._http = httpx.Client(base_url=self.url, transport=transport)
        try:
            self._log_in()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._waits.close()
        self._http.close()

    # --- who asks ---------------------------------------------------------------------------------------------

    def _log_in(self) -> None:
        kept = None if self._environment.get(USER) else self._kept_token
        token = self._environment.get(TOKEN) or kept or self._token()
        self._http.headers["Authorization"] = f"Bearer {token}"
        self.user = user_of(token)
        """Who asks, as Airflow calls them; None if the token does not say so."""

    def _token(self) -> str:
        user, password = self._environment.get(USER), self._environment.get(PASSWORD)
        body = None if user is None else {"username": user, "password": password or ""}
        answer = self._send("GET" if body is None else "POST", "/auth/token", json=body)
        with suppress(ValueError, KeyError, TypeError):
            if answer.is_success:
                return str(answer.json()["access_token"])
        raise AirflowApiError(
            f"{self.url} gave no token to {'nobody in particular' if user is None else short_repr(user)}"
            f" (HTTP {answer.status_code}).",
            f"Set {TOKEN}, or {USER} and {PASSWORD}, in the environment, or log in: airflowctl auth login.",
            status=answer.status_code,
            call="/auth/token",
        )

    # --- requests ---------------------------------------------------------------------------------------------

    def get(self, path: str, **params: Any) -> Any:
        """The decoded answer. A busy server is asked again.

        Raises:
            AirflowApiError: it does not answer, or refuses.
        """
        return self._checked(self._patiently("GET", path, params=params), "GET", path)

    def found(self, path: str, **params: Any) -> Any:
        """As `get`; None if there is no such thing."""
        answer = self._patiently("GET", path, params=params)
        return None if answer.status_code == _NOT_FOUND else self._checked(answer, "GET", path)

    def change(self, method: str, path: str, body: object = None, **params: Any) -> Any:
        """A request that changes something. It is sent once: who sends it sees to it whether it has arrived.

        Raises:
            AirflowApiError: as `get`.
        """
        return self._checked(self._send(method, f"/api/v2{path}", json=body, params=params), method, path)

    def pages(self, path: str, member: str, *, most: int | None = None, **params: Any) -> Iterator[dict[str, Any]]:
        """The entries of a list, page by page, at most `most`."""
        given = 0
        while True:
            answer = self.get(path, limit=PAGE, offset=given, **params)
            entries = answer[member]
            yield from entries if most is None else entries[: most - given]
            given += len(entries)
            if not entries or given >= answer.get("total_entries", given + 1) or (most is not None and given >= most):
                return

    def at_once(self, ask: Callable[[T], U], given: Iterable[T]) -> Iterator[U]:
        """The answers in the order of what is given, with a bounded number of requests at a time."""
        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            yield from pool.map(ask, given)

    def _patiently(self, method: str, path: str, *, params: Mapping[str, Any]) -> httpx.Response:
        path, ends = f"/api/v2{path}", time.monotonic() + self._timeout
        for tried in range(1, TRIES):
            try:
                answer = self._send(method, path, until=ends, params=params)
            except AirflowApiError:
                if time.monotonic() + tried**2 / 4 >= ends:
                    raise
                self._sleep(tried**2 / 4)
                continue
            if answer.status_code == _UNAUTHORIZED and TOKEN not in self._environment:
                self._log_in()  # the token has expired, as in a long `watch`
            elif answer.status_code not in _BUSY:
                return answer
            else:
                pause = _pause(answer, tried)
                with self._waits.on(f"{self.url}, which is busy (HTTP {answer.status_code})"):
                    self._sleep(pause)
                ends = time.monotonic() + self._timeout
        return self._send(method, path, until=ends, params=params)

    def _send(self, method: str, path: str, *, until: float | None = None, **more: Any) -> httpx.Response:
        import httpx

        began = time.monotonic()
        seconds = self._timeout if until is None else max(until - began, _LEAST_SECONDS)
        try:
            with self._waits.on(f"{self.url} ({method} {path})"):
                answer = self._http.request(method, path, timeout=seconds, **more)
        except httpx.TimeoutException as error:
            raise AirflowApiError(
                f"{self.url} has not answered {method} {path} within {self._timeout:g} s.",
                "Look at the API server and what is before it. --timeout waits longer.",
                call=f"{method} {path}",
            ) from error
        except httpx.HTTPError as error:
            raise AirflowApiError(
                f"{self.url} does not answer ({type(error).__name__}: {error}).",
                f"Is the address right? It comes from --airflow or {URL}.",
                call=f"{method} {path}",
            ) from error
        finally:
            with self._lock:
                self.calls += 1
                self.seconds += time.monotonic() - began
        if said := answer.headers.get("Date"):
            self.date = (said, utc_now())
        return answer

    def _checked(self, answer: httpx.Response, method: str, path: str) -> Any:
        if answer.is_success:
            try:
                return json.loads(answer.text) if answer.text else None
            except ValueError as error:
                raise AirflowApiError(
                    f"{method} {path} was answered with what is not JSON: {short_repr(answer.text)}",
                    f"Is {self.url} an Airflow, and not the page of a proxy where people log in?",
                    status=answer.status_code,
                    call=f"{method} {path}",
                ) from error
        is_bad_token = answer.status_code == _FORBIDDEN and "Invalid JWT" in answer.text
        remedy = {
            _UNAUTHORIZED: f"The token is not valid (any more): see {TOKEN}, or log in again: airflowctl auth login.",
            _FORBIDDEN: "This user may not do that: ask for the right to read, or to edit, the Dag or the asset.",
            _MOVED: f"Is {self.url} an Airflow, and not the page of a proxy where people log in?",
        }.get(_UNAUTHORIZED if is_bad_token else answer.status_code)
        raise AirflowApiError(
            f"{method} {path} was answered with {answer.status_code}: {answer.text[:_MOST_OF_AN_ANSWER]}",
            remedy,
            status=answer.status_code,
            call=f"{method} {path}",
        )


def path_of(*parts: str | int) -> str:
    """A path of the API from its parts, each quoted."""
    return "".join(f"/{quote(str(part), safe='~:+')}" for part in parts)


def checked_url(url: str) -> str:
    """The address of an API server, without a slash at its end.

    Raises:
        UsageError: it is none, or has a password in it.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if "@" in url:
        raise UsageError(
            "The address of an Airflow has a user or a password in it, which others on this machine can read.",
            f"Set {USER} and {PASSWORD}, or {TOKEN}, in the environment.",
            name="--airflow",
        )
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(
            f"{short_repr(url)} is not the address of an Airflow.", "Write http://host:8080 or https://host.", name=url
        )
    return url.rstrip("/").removesuffix("/api/v2")


def user_of(token: str) -> str | None:
    """The user that a token names. It is not verified: Airflow does that."""
    with suppress(ValueError, IndexError, TypeError, AttributeError):
        part = token.split(".")[1]
        named: JsonValue = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        if isinstance(named, dict):
            found = named.get("username") or named.get("sub")
            return found if isinstance(found, str) else None
    return None


def _pause(answer: httpx.Response, tried: int) -> float:
    """How long to wait before the next try: as the server says, if it says so in seconds."""
    said = answer.headers.get("Retry-After", "")
    return min(float(said), TIMEOUT_SECONDS) if said.isdecimal() else tried**2 / 4
