"""The login of airflowctl, which it writes here itself: whose token is used, and to whom it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keyring
import pytest
from airflowctl.api.client import ClientKind, Credentials
from keyring.backend import KeyringBackend
from keyring.backends import fail

from airflow_resume.operating.airflowctl import Login, kept_login
from airflow_resume.operating.api import PASSWORD, TOKEN, URL, USER
from tests.support.operating.fake_airflow import FakeAirflow, token_of


class InMemory(KeyringBackend):
    """A keyring without a desktop."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password


LogIn = Callable[..., Login]


@pytest.fixture
def log_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LogIn]:
    """What `airflowctl auth login` does with an address and a token."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    before = keyring.get_keyring()
    keyring.set_keyring(InMemory())

    def save(url: str, token: str, **more: Any) -> Login:
        Credentials(api_url=url, api_token=token, client_kind=ClientKind.AUTH, **more).save()
        return Login(url, token)

    yield save
    keyring.set_keyring(before)


def test_the_login_is_what_airflowctl_has_kept(log_in: LogIn, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept_login() is None
    kept = log_in("http://airflow.example", "first")
    assert kept_login() == kept
    other = log_in("http://other.example", "second", api_environment="staging")
    assert kept_login() == kept
    monkeypatch.setenv("AIRFLOW_CLI_ENVIRONMENT", "staging")
    assert kept_login() == other
    monkeypatch.setenv("AIRFLOW_CLI_TOKEN", "third")
    assert kept_login() == Login(other.url, "third")


def test_a_login_that_cannot_be_read_is_said_and_not_used(
    log_in: LogIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log_in("http://airflow.example", "secret")
    monkeypatch.setenv("AIRFLOW_CLI_DEBUG_MODE", "true")  # It keeps the token in a file then, which is not there.
    assert kept_login() is None
    assert "The login of airflowctl cannot be read" in caplog.text
    (tmp_path / "production.json").write_text("{")
    assert kept_login() is None
    assert "secret" not in caplog.text


def test_it_says_nothing_where_the_answer_is_printed(
    log_in: LogIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log_in("http://airflow.example", "first")
    keyring.set_keyring(fail.Keyring())  # type: ignore[no-untyped-call]
    assert kept_login() is None
    out, err = capsys.readouterr()
    assert out == ""
    assert "keyring" in err.lower()


@pytest.mark.parametrize(
    ("more", "asked_with"),
    [
        ({}, "ann"),
        ({TOKEN: token_of("bo")}, "bo"),
        ({USER: "cy", PASSWORD: "secret"}, "cy"),
    ],
)
def test_the_environment_comes_before_the_login(  # noqa: PLR0917
    airflow: FakeAirflow,
    log_in: LogIn,
    command: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, str],
    asked_with: str,
) -> None:
    airflow.users["cy"] = "secret"
    log_in(airflow.url + "/", token_of("ann"))
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    for way in ({"--airflow": airflow.url}, {}):
        monkeypatch.delenv(URL)
        assert command("loops", "list", "--all", *sum(way.items(), ())).code == 0
        assert airflow.tokens == {f"Bearer {token_of(asked_with)}"}
        monkeypatch.setenv(URL, airflow.url)


def test_a_token_is_shown_to_nobody_but_whom_it_was_made_for(
    airflow: FakeAirflow, log_in: LogIn, command: Callable[..., Any]
) -> None:
    log_in("http://airflow.example", token_of("ann"))
    assert command("loops", "list", "--all", "--airflow", airflow.url).code == 0
    assert airflow.tokens == {f"Bearer {token_of('admin')}"}
