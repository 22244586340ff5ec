"""Completion by real shells."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from airflow_resume.command.arguments import parser_for
from airflow_resume.command.completion import words_of

NOUNS = {"jobs", "loops", "marks"}


def test_every_subcommand_and_option_is_among_the_words() -> None:
    words = dict(words_of(parser_for([])))
    assert set(words[()]) >= NOUNS | {
        "migrate",
        "cleanup",
        "doctor",
        "conformance",
        "completion",
        "--version",
        "--help",
    }
    assert {"list", "show", "watch", "rewind", "skip", "restart", "undo"} <= set(words["loops",])
    assert {"--to", "--yes", "--why", "--record", "--airflow"} <= set(words["loops", "rewind"])
    assert {"bash", "zsh", "fish"} <= set(words["completion",])


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        (["lo"], {"loops"}),
        (["loops", "re"], {"rewind", "restart", "resume"}),
        (["loops", "rewind", "--d"], {"--done", "--dry-run"}),
        (["loops", "rewind", "my_dag", "latest", "--y"], {"--yes"}),
        (["--v"], {"--version"}),
        (["completion", "z"], {"zsh"}),
        (["migrate", "--s"], {"--sql", "--sink"}),
    ],
)
def test_bash_completes(command: Callable[..., Any], typed: list[str], given: set[str]) -> None:
    script = command("completion", "bash").out
    words = " ".join(f'"{word}"' for word in ["airflow-resume", *typed])
    asked = (
        f'{script}\nCOMP_WORDS=({words}); COMP_CWORD={len(typed)}; _airflow_resume; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["/bin/bash", "-c", asked], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == given


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_script(command: Callable[..., Any], shell: str) -> None:
    script = command("completion", shell).out
    assert "loops" in script
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([found, "-n", "-c", script], check=True)
