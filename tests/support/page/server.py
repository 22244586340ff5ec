"""A real API server with the page, on a database that was filled by hand: no scheduler, so nothing moves by itself."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from airflow_resume.page.addresses import PREFIX
from airflow_settings import airflow_environment, free_port
from processes import ProcessFamily
from tests.support.page.filled import Filled

ROOT = Path(__file__).parents[3]
ROLES = {"ana": "admin", "olaf": "op", "uma": "op", "vic": "viewer", "nob": "viewer"}
_AIRFLOW = [sys.executable, "-m", "airflow"]
_START_SECONDS = 200


@dataclass
class PageServer:
    """The server, and people who are logged in."""

    url: str
    filled: Filled
    people: dict[str, httpx.Client] = field(default_factory=dict)

    def as_(self, name: str | None) -> httpx.Client:
        """The browser of a person, without scripts; None: of nobody."""
        if name is None:
            return self.people.setdefault("", httpx.Client(base_url=self.url, trust_env=False, timeout=60))
        if name not in self.people:
            client = httpx.Client(base_url=self.url, trust_env=False, timeout=60)
            answer = client.post("/auth/token", json={"username": name, "password": name})
            answer.raise_for_status()
            client.cookies.set("_token", answer.json()["access_token"])
            client.headers.update({"Sec-Fetch-Site": "same-origin", "Origin": self.url})
            self.people[name] = client
        return self.people[name]

    def page(self, path: str) -> str:
        return f"{PREFIX}/{path}"


@contextmanager
def page_server(home: Path, *, database: str | None = None) -> Iterator[PageServer]:
    """Start it, and stop it. `database`: the URL of an empty one; SQLite by default."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "dags").mkdir(exist_ok=True)
    passwords = home / "passwords.json"
    passwords.write_text(json.dumps({name: name for name in ROLES}))
    port = free_port()
    environment = airflow_environment(home, home / "dags", port, None)
    environment |= {
        "PYTHONPATH": f"{environment['PYTHONPATH']}:{ROOT}",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in ROLES.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__CORE__AUTH_MANAGER": "tests.support.page.picky_auth.PickyAuthManager",
        "AIRFLOW__AIRFLOW_RESUME__PAGE": "True",
    }
    if database is not None:
        environment |= {f"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN{kind}": database for kind in ("", "_ASYNC")}
    family = ProcessFamily(environment, logs=home / "logs")
    try:
        family.run("migrate", [*_AIRFLOW, "db", "migrate"])
        family.start("api-server", [*_AIRFLOW, "api-server"])
        url = f"http://127.0.0.1:{port}"
        _wait(url, family)
        server = PageServer(url, Filled(environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]))
        yield server
        for client in server.people.values():
            client.close()
    finally:
        family.stop()


def _wait(url: str, family: ProcessFamily) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        family.check()
        try:
            if httpx.get(f"{url}/api/v2/monitor/health", trust_env=False, timeout=5).is_success:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.3)
    raise TimeoutError(url)
