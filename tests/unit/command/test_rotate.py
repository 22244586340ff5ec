from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from airflow.sdk.state import TaskScope
from cryptography.fernet import Fernet

from airflow_resume.backends import SqlStoreBackend

Command = Callable[..., Any]
SCOPE = TaskScope(dag_id="dag", run_id="run", task_id="task")
CODEC = "AIRFLOW__AIRFLOW_RESUME__BACKEND_CODEC"
KEYS = "AIRFLOW__CORE__FERNET_KEY"


@pytest.fixture
def filled(made: str) -> str:
    with closing(SqlStoreBackend(made)) as backend:
        backend.set(SCOPE, "key", '"hunter2secret"')
    return made


def test_values_are_encrypted_and_then_under_the_newest_key(
    command: Command, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (Fernet.generate_key().decode() for _ in range(2))
    monkeypatch.setenv(KEYS, first)
    said = command("rotate", filled, "--codec", "fernet").out
    assert said == "Encrypted 1 values anew, and 0 were under the newest key already\n"
    monkeypatch.setenv(KEYS, f"{second},{first}")
    monkeypatch.setenv(CODEC, "fernet")
    assert json.loads(command("rotate", filled, "-o", "json").out) == {"rotated": 1, "current": 0, "failures": []}
    monkeypatch.setenv(KEYS, first)
    code, out, _ = command("rotate", filled)
    assert (code, "1 was left as it was" in out, "hunter2secret" in out) == (1, True, False)
    assert "'key' in dag_id=dag" in out
    assert "The value cannot be decrypted" in out


def test_without_a_codec_or_tables_it_says_so(command: Command, made: str, tmp_path: Any) -> None:
    code, _, err = command("rotate", made)
    assert (code, "There is no codec to encrypt with" in err) == (1, True)
    code, _, err = command("rotate", f"sqlite:///{tmp_path}/none.db", "--codec", "fernet")
    assert (code, "has no tables of ours" in err) == (1, True)


@pytest.mark.parametrize(
    ("codec", "words"),
    [
        ("no.such", "The codec 'no.such' cannot be used"),
        ("fernet", "The codec fernet has no key here"),
        ("os.path", "without methods encode and decode"),
        ("not a path", "neither fernet nor where to import one from"),
    ],
)
def test_a_wrong_codec_is_one_line_also_if_there_is_nothing_to_encrypt(
    command: Command, made: str, monkeypatch: pytest.MonkeyPatch, codec: str, words: str
) -> None:
    monkeypatch.setenv(KEYS, "")
    by_option = command("rotate", made, "--codec", codec)
    monkeypatch.setenv(CODEC, codec)
    by_configuration = command("rotate", made)
    assert by_option == by_configuration
    code, out, err = by_option
    assert (code, out, err.count("\n"), words in err) == (1, "", 1, True)


@pytest.mark.parametrize(("codec", "code"), [("fernet", 1), ("", 0)])
def test_the_doctor_says_that_the_codec_of_the_configuration_cannot_be_had(
    command: Command, made: str, monkeypatch: pytest.MonkeyPatch, codec: str, code: int
) -> None:
    monkeypatch.setenv(KEYS, "")
    monkeypatch.setenv(CODEC, codec)
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__BACKEND_URL", made)
    said = command("doctor", "-o", "json")
    errors = [finding for finding in json.loads(said.out)["findings"] if finding["level"] == "error"]
    assert (said.code, [finding["about"] for finding in errors]) == (code, ["codec"] * code)
    assert command("doctor", made).code == 0  # with a URL the configuration is not looked at


def test_a_codec_is_found_in_the_current_folder(command: Command, filled: str, module: Callable[[str], str]) -> None:
    name = module(
        "class Codec:\n"
        "    def encode(self, text):\n        return text[::-1]\n"
        "    def decode(self, text):\n        return text[::-1]\n"
    )
    assert command("rotate", filled, "--codec", f"{name}.Codec").out.startswith("Encrypted 1 values anew")
