"""`airflow-resume doctor --dags`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_resume_mixins import providers
from airflow_resume_mixins.providers import twins
from tests.support.upgrade import operators

Command = Callable[..., Any]

FLEET = """
from datetime import timedelta
from airflow.sdk import DAG, task
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.sensors.filesystem import FileSensor
from tests.support.upgrade.operators import QueryOperator, TrainOperator
from tests.support.upgrade.dags import Afterwards
from tests.support.upgrade.own import Train
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator

with DAG("fleet", schedule=None, default_args={"retries": 2}):
    TrainOperator(task_id="train")
    TrainOperator.partial(task_id="mapped").expand(data=["a"])
    TrainOperator(task_id="deferred", deferrable=True)
    Afterwards(task_id="afterwards")
    QueryOperator(task_id="query", execution_timeout=timedelta(hours=1))
    Train(task_id="own")
    KubernetesPodOperator(task_id="pod", reattach_on_restart=True)
    KubernetesPodOperator(task_id="new_pod", reattach_on_restart=False)
    BashOperator(task_id="bash", bash_command="true")
    FileSensor(task_id="sensor", filepath="f")

    @task(retries=0)
    def function(): ...
    function()
"""


@pytest.fixture(autouse=True)
def with_pack(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pack = Path(operators.__file__).with_name("pack")
    monkeypatch.setattr(providers, "__path__", [*providers.__path__, str(pack)])
    twins._read.cache_clear()
    yield
    twins._read.cache_clear()


@pytest.fixture
def dags(tmp_path: Path) -> Path:
    (tmp_path / "fleet.py").write_text(FLEET)
    return tmp_path


def tasks(out: str) -> dict[str, Any]:
    return {each["task"].removeprefix("fleet."): each for each in json.loads(out)["tasks"]}


def test_each_task_has_its_effects(command: Command, dags: Path) -> None:
    code, out, _ = command("doctor", "--dags", str(dags), "--json")
    found = tasks(out)
    assert {
        name: [each[event] for event in ("sigkill", "deploy", "clear", "retry")] for name, each in found.items()
    } == {
        "train": ["duplicates", "starts over", "starts over", "duplicates"],
        "mapped": ["duplicates", "starts over", "starts over", "duplicates"],
        "deferred": ["reconnects", "reconnects", "duplicates", "duplicates"],
        "afterwards": ["duplicates", "starts over", "starts over", "duplicates"],
        "query": ["reconnects", "reconnects", "the old job again", "reconnects"],
        "own": ["reconnects", "reconnects", "starts over", "reconnects"],
        "pod": ["reconnects", "starts over", "the old job again", "reconnects"],
        "new_pod": ["duplicates", "starts over", "starts over", "duplicates"],
        "bash": ["starts over"] * 4,
        "sensor": ["starts over"] * 4,
        "function": ["fails", "fails", "starts over", "fails"],
    }
    assert found["train"]["remedy"] == "[airflow_resume] upgrade = acme.TrainOperator"
    assert found["train"]["warnings"] == ["its on_kill cancels the job on every deploy"]
    assert code == 1


def test_the_setting_mends_what_it_upgrades_and_says_what_it_does_not(
    command: Command, dags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__UPGRADE", "acme")
    found = tasks(command("doctor", "--dags", str(dags), "--json")[1])
    for name in ("train", "mapped", "query"):
        assert {found[name][event] for event in ("sigkill", "deploy", "retry")} == {"resumes"}, name
        assert found[name]["level"] == "ok"
    assert found["afterwards"]["warnings"][-1].startswith("not upgraded: Afterwards has its own execute")


def test_a_folder_in_which_all_is_well_ends_with_0(command: Command, tmp_path: Path) -> None:
    (tmp_path / "local.py").write_text(
        "from airflow.sdk import DAG\nfrom airflow.providers.standard.operators.empty import EmptyOperator\n"
        "with DAG('local'):\n    EmptyOperator(task_id='a')\n"
    )
    code, out, _ = command("doctor", "--dags", str(tmp_path))
    assert (code, out.splitlines()[1].split()) == (
        0,
        ["ok", "local.a", "EmptyOperator", "fails", "fails", "starts", "over", "fails"],
    )


def test_only_the_report_is_on_stdout_whatever_airflow_logs_and_a_dag_file_prints(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text("from airflow.sdk import DAG\nprint('loud')\ndag = DAG('loud')\n")
    command = [sys.executable, "-c", "import sys; from airflow_resume.command import main; sys.exit(main())"]
    env = {"AIRFLOW_HOME": str(tmp_path / "home"), "PYTHONPATH": ":".join(path for path in sys.path if path)}
    arguments = ["doctor", "--dags", str(tmp_path), "--json"]
    done = subprocess.run([*command, *arguments], env=env, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"dags": 1, "tasks": [], "import_errors": {}, "setting_errors": []}
    assert "loud" in done.stderr


def test_a_file_that_cannot_be_imported_is_named(command: Command, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("from airflow.sdk import DAG\nimport nothing_of_this_name\n")
    code, out, _ = command("doctor", "--dags", str(tmp_path))
    assert code == 1
    assert "error    broken.py cannot be imported: ModuleNotFoundError: No module named 'nothing_of_this_name'" in out


def test_a_wrong_item_of_the_setting_is_an_error(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__UPGRADE", "acmee")
    code, out, _ = command("doctor", "--dags", str(tmp_path))
    assert code == 1
    assert "error    [airflow_resume] upgrade names acmee, and there is no such module of the pack." in out
    assert "         -> Write acme instead." in out


def test_the_text_has_a_line_for_each_warning_and_for_the_remedy(command: Command, dags: Path) -> None:
    _, out, _ = command("doctor", "--dags", str(dags / "fleet.py"))
    text = out.splitlines()
    at = next(number for number, line in enumerate(text) if line.split()[1:2] == ["fleet.train"])
    assert text[at + 1 : at + 3] == [
        "         ! its on_kill cancels the job on every deploy",
        "         -> [airflow_resume] upgrade = acme.TrainOperator",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--dags", "/nowhere/at/all"), "There is no folder /nowhere/at/all."),
        (("sqlite://", "--dags", "/nowhere"), "doctor looks at a database or at Dags, not at both."),
    ],
)
def test_wrong_arguments_are_one_line(command: Command, arguments: tuple[str, ...], said: str) -> None:
    code, _, errors = command("doctor", *arguments)
    assert (code, said in errors) == (1, True)


GOOD = """
from airflow.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator
with DAG("good", schedule=None):
    EmptyOperator(task_id="a")
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os\nos._exit(0)", "it ends the process that reads it (exit code 0)"),
        ("import os\nos._exit(3)", "it ends the process that reads it (exit code 3)"),
        ("import os\nos.kill(os.getpid(), 9)", "it ends the process that reads it (signal SIGKILL)"),
        ("import sys\nsys.exit(4)", "SystemExit: 4"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
    ids=["_exit", "_exit 3", "SIGKILL", "sys.exit", "KeyboardInterrupt"],
)
def test_a_file_that_would_end_the_doctor_is_named_and_the_others_are_read(
    text: str, said: str, command: Command, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text(f"# airflow DAG\n{text}\n")
    (tmp_path / "good.py").write_text(GOOD)
    code, out, _ = command("doctor", "--dags", str(tmp_path), "--json")
    found = json.loads(out)
    assert (code, found["dags"], [each["task"] for each in found["tasks"]]) == (1, 1, ["good.a"])
    assert found["import_errors"].keys() == {"a.py"}
    assert found["import_errors"]["a.py"].strip().splitlines()[-1] == said
    assert f"error    a.py cannot be imported: {said}" in command("doctor", "--dags", str(tmp_path)).out


def test_what_a_file_prints_at_the_end_of_the_process_is_not_part_of_the_report(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(f"{GOOD}\nimport atexit\natexit.register(print, 'at the end')\n")
    command = [sys.executable, "-c", "import sys; from airflow_resume.command import main; sys.exit(main())"]
    env = {"AIRFLOW_HOME": str(tmp_path / "home"), "PYTHONPATH": ":".join(path for path in sys.path if path)}
    arguments = ["doctor", "--dags", str(tmp_path), "--json"]
    done = subprocess.run([*command, *arguments], env=env, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["dags"] == 1


def test_a_folder_that_is_in_itself_is_an_error(command: Command, tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    code, out, _ = command("doctor", "--dags", str(tmp_path))
    assert code == 1
    assert f"error    {tmp_path} cannot be imported: Detected recursive loop" in out


@pytest.mark.parametrize("text", [None, "x = 1\n", "# airflow DAG\nfrom airflow.sdk import DAG\nDAG('not_kept')\n"])
def test_a_folder_without_a_dag_is_an_error(text: str | None, command: Command, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "a.py").write_text(text)
    code, out, _ = command("doctor", "--dags", str(tmp_path))
    assert code == 1
    assert f"error    There is no Dag in {tmp_path}." in out
    assert json.loads(command("doctor", "--dags", str(tmp_path), "--json").out)["dags"] == 0
