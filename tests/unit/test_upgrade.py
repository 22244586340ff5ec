"""The setting `[airflow_resume] upgrade`: tasks of an unchanged Dag become resumable when it is parsed."""

from __future__ import annotations

import copy
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, TaskGroup

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume.errors import UpgradeError
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context
from airflow_resume_mixins import ResumableJobMixin, providers
from airflow_resume_mixins.providers import policy, twins, upgrade
from airflow_resume_mixins.providers.index import INDEX
from airflow_resume_mixins.providers.twins import read_twins
from airflow_resume_mixins.providers.upgrade import Outcome, Verdict, upgrade_dag
from tests.support.upgrade import operators
from tests.support.upgrade.dags import make

PACK = Path(operators.__file__).with_name("pack")
TICK = timedelta(milliseconds=1)
QUICK = ResumePolicy(poll=PollPolicy(interval=TICK, max_interval=TICK))


class KilledError(BaseException):
    """The process is gone."""


class Service(FakeJobs):
    kills = False

    def submit(self, token: str | None = None, /) -> Any:
        job = super().submit(token or str(len(self.jobs)))
        if self.kills:
            self.kills = False
            raise KilledError
        return job

    def wait(self, _job: Any) -> None:
        raise KilledError


@pytest.fixture(autouse=True)
def with_pack(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(providers, "__path__", [*providers.__path__, str(PACK)])
    twins._read.cache_clear()
    yield
    twins._read.cache_clear()


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    made = Service(scripts=[["RUNNING", "RUNNING", "SUCCEEDED"]], dedupes=True)
    monkeypatch.setattr(operators.TrainOperator, "service", made)
    return made


def upgraded(*items: str, but: tuple[str, ...] = ()) -> tuple[Any, dict[str, Outcome]]:
    dag = make()
    return dag, upgrade_dag(dag, items, but)


def serialised(dag: Any) -> str:
    from airflow.serialization.serialized_objects import DagSerialization

    return json.dumps(DagSerialization.to_dict(dag), sort_keys=True)


# --- which tasks ----------------------------------------------------------------------------------------------


def test_all_tasks_of_a_module_of_the_pack_but_those_that_it_would_change() -> None:
    dag, outcomes = upgraded("acme")
    assert {name: outcome.verdict.value for name, outcome in outcomes.items()} == {
        "plain": "upgraded",
        "use": "not named",
        "fed": "upgraded",
        "group.inner": "upgraded",
        "group.copy": "upgraded",
        "mapped": "upgraded",
        "begin": "upgraded",
        "end": "upgraded",
        "query": "upgraded",
        "named": "upgraded",
        "named_mapped": "upgraded",
        "afterwards": "left alone",
        "deferrable": "left alone",
        "deferrable_mapped": "left alone",
    }
    for name, outcome in outcomes.items():
        resumes = issubclass(dag.task_dict[name].operator_class, ResumableJobMixin)
        assert resumes == (outcome.verdict is Verdict.UPGRADED)


def test_one_class_of_the_pack() -> None:
    _, outcomes = upgraded("acme.CopyOperator")
    assert [name for name, outcome in outcomes.items() if outcome.verdict is Verdict.UPGRADED] == ["group.copy"]


@pytest.mark.parametrize("end", ["", ".DbtCloudRunJobOperator"])
def test_a_module_of_the_pack_may_be_named_as_the_package_of_its_provider(end: str) -> None:
    named, as_airflow_has_it = read_twins((f"dbt_cloud{end}",)), read_twins((f"dbt.cloud{end}",))
    assert [*as_airflow_has_it.errors] == []
    assert [*as_airflow_has_it.by_operator] == [*named.by_operator] != []


def test_one_class_of_a_module_that_imports_each_class_when_it_is_first_used() -> None:
    twins = read_twins(("late.TrainOperator",))
    assert twins.errors == []
    assert twins.by_operator[operators.TrainOperator].kind.__module__ == "airflow_resume_mixins.providers.late.train"


def test_a_class_of_ones_own_and_of_two_for_an_operator_that_of_the_later_item() -> None:
    dag, outcomes = upgraded("acme", "tests.support.upgrade.own.Train")
    assert outcomes["plain"].reason == "tests.support.upgrade.own.Train"
    assert type(dag.task_dict["plain"]).twin.__module__ == "tests.support.upgrade.own"
    assert outcomes["group.copy"].reason == "acme"


@pytest.mark.parametrize("name", ["fleet", "fleet.plain", "fle*.plain", "*.plain", "fleet.*"])
def test_a_task_is_excepted_by_its_name_or_that_of_its_dag(name: str) -> None:
    dag, outcomes = upgraded("acme", but=("other", name))
    assert outcomes["plain"] == Outcome(verdict=Verdict.EXCEPTED, reason=name)
    assert type(dag.task_dict["plain"]) is operators.TrainOperator


def test_one_exception_is_not_another() -> None:
    _, outcomes = upgraded("acme", but=("fleet.inner", "flee", "plain"))
    assert not any(outcome.verdict is Verdict.EXCEPTED for outcome in outcomes.values())


def test_a_task_that_resumes_already_is_left_alone_and_so_is_an_upgraded_one() -> None:
    from tests.support.upgrade.own import Train

    dag, first = upgraded("acme")
    kind = type(dag.task_dict["plain"])
    with dag:
        Train(task_id="own")
    second = upgrade_dag(dag, ["acme"])
    assert second.pop("own") == Outcome(verdict=Verdict.RESUMES)
    assert second == first
    assert type(dag.task_dict["plain"]) is kind


def test_a_subclass_with_its_own_execute_is_left_alone_and_the_line_says_why(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    dag, outcomes = upgraded("acme")
    assert outcomes["afterwards"].reason.startswith("Afterwards has its own execute, which may not fit TrainOperator.")
    (said,) = [line for line in caplog.messages if "fleet.afterwards" in line]
    assert "[airflow_resume] upgrade_except = fleet.afterwards" in said
    assert type(dag.task_dict["afterwards"]).__name__ == "Afterwards"


class Watched(operators.TrainOperator):
    """A user's, with a way of waiting that would not be called."""

    def watch(self) -> None:
        super().watch()
        self.service.audit()


class WatchedQuery(operators.QueryOperator):
    def watch(self, external_id: Any) -> None:
        """Write an audit."""


class Renamed(operators.TrainOperator):
    """A user's, with methods that are called also while the job is submitted, and generic ones."""

    def name_of(self, token: Any) -> Any:
        return f"mine-{token}"

    def returned(self) -> Any:
        return {"job": self.job, "mine": True}

    def explain(self) -> str:
        return "mine"

    def post_execute(self, context: Any, result: Any = None) -> None:
        """Of every operator."""

    def prepare_template(self) -> None:
        """Of every operator."""

    def _watch(self) -> None:
        """Private."""


class Sent(operators.QueryOperator):
    def sent(self) -> Any:
        return super().sent()


@pytest.mark.parametrize("kind", [Watched, WatchedQuery])
def test_a_subclass_whose_way_of_waiting_would_not_be_called_is_left_alone(kind: Any) -> None:
    with DAG("d", schedule=None) as dag:
        kind(task_id="plain")
        kind.partial(task_id="mapped").expand(doc=["a", "b"])
    outcomes = upgrade_dag(dag, ["acme"])
    assert {outcome.verdict for outcome in outcomes.values()} == {Verdict.LEFT_ALONE}
    assert outcomes["plain"].reason.startswith(
        f"{kind.__name__} has its own watch, which {kind.__base__.__name__} does not"
    )


@pytest.mark.parametrize("kind", [Renamed, Sent])
def test_a_subclass_whose_methods_are_still_called_is_upgraded(kind: Any, service: Service) -> None:
    with DAG("d", schedule=None) as dag:
        kind(task_id="plain")
    assert upgrade_dag(dag, ["acme"])["plain"].verdict is Verdict.UPGRADED
    assert run(dag, "plain", task_context())
    assert len(service.jobs) == 1


@pytest.mark.parametrize("place", ["Dag", "group", "partial", "expand"])
def test_a_mapped_task_is_deferrable_by_what_it_is_given_anywhere(place: str) -> None:
    given: Any = {"deferrable": True}
    of_dag, of_group = (given if place == name else {} for name in ("Dag", "group"))
    with DAG("d", schedule=None, default_args=of_dag) as dag, TaskGroup("g", default_args=of_group):
        mapped: Any = operators.TrainOperator.partial(task_id="t", **(given if place == "partial" else {}))
        mapped.expand(data=["a"], **({"deferrable": [False, True]} if place == "expand" else {}))
    assert upgrade.option_of(dag.task_dict["g.t"], "deferrable") is True
    assert upgrade_dag(dag, ["acme"])["g.t"].verdict is Verdict.LEFT_ALONE


# --- what is imported -----------------------------------------------------------------------------------------

IN_A_NEW_PROCESS = """
import sys
from airflow.sdk import DAG
from airflow.providers.standard.operators.{module} import {kind}
from airflow_resume_mixins.providers import policy
policy.setting = lambda: ({items!r}, ())
with DAG("d", schedule=None) as dag:
    {kind}(task_id="t", **{options!r})
before = set(sys.modules)
policy.dag_policy(dag)
print(*sorted(set(sys.modules) - before))
print(type(dag.task_dict["t"]).__mro__[2].__name__)
"""


def new_modules(items: tuple[str, ...], module: str, kind: str, **options: Any) -> tuple[set[str], str]:
    code = IN_A_NEW_PROCESS.format(items=items, module=module, kind=kind, options=options)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    *_, loaded, base = done.stdout.splitlines()
    return set(loaded.split()), base


ALL_OF_IT = tuple(INDEX)


def test_a_dag_without_an_operator_of_the_setting_imports_no_provider_and_not_even_the_rest_of_us() -> None:
    loaded, _ = new_modules((*ALL_OF_IT, "amazon.AthenaOperator"), "bash", "BashOperator", bash_command="true")
    assert loaded == {"airflow_resume_mixins.providers.index"}


def test_a_dag_with_one_imports_the_twin_of_this_one_only() -> None:
    loaded, base = new_modules(ALL_OF_IT, "trigger_dagrun", "TriggerDagRunOperator", trigger_dag_id="other")
    assert base == "Upgraded"
    assert {name for name in loaded if name.startswith(f"{providers.__name__}.")} == {
        f"{providers.__name__}.{name}" for name in ("index", "provider_job", "reach", "standard", "twins", "upgrade")
    }


def test_a_wrong_class_of_the_pack_is_said_without_an_import() -> None:
    loaded, _ = new_modules(("kubernetes.Nothing",), "bash", "BashOperator", bash_command="true")
    assert f"{providers.__name__}.upgrade" in loaded
    assert not {name for name in loaded if name.startswith(("kubernetes", f"{providers.__name__}.kubernetes"))}


# --- what stays -----------------------------------------------------------------------------------------------


def test_the_serialised_dag_is_the_same() -> None:
    before = serialised(make())
    dag, _ = upgraded("acme")
    assert serialised(dag) == before


def test_the_task_is_the_same_object_everywhere() -> None:
    dag: Any = make()
    tasks = dict(dag.task_dict)
    upgrade_dag(dag, ["acme"])
    assert all(dag.task_dict[name] is each for name, each in tasks.items())
    assert dag.task_group.children["plain"] is tasks["plain"]
    assert dag.task_dict["fed"].data.operator is tasks["plain"]
    assert isinstance(tasks["plain"], operators.TrainOperator)
    assert tasks["end"].is_teardown
    assert tasks["query"].upstream_task_ids == {"begin"}


def test_type_links_and_options_stay_and_the_policy_is_the_default() -> None:
    dag, _ = upgraded("acme")
    task: Any = dag.task_dict["plain"]
    assert (task.task_type, task.operator_name, task.ui_color) == ("TrainOperator", "TrainOperator", "#abcdef")
    assert task.operator_extra_links is operators.TrainOperator.operator_extra_links
    assert (task.resume_policy, task.durable, task.data) == (ResumePolicy(), True, "d")


def test_an_option_of_airflows_mixin_stays() -> None:
    dag: Any = DAG("durable", schedule=None)
    with dag:
        operators.QueryOperator(task_id="query", durable=False)
    upgrade_dag(dag, ["acme"])
    assert dag.task_dict["query"].durable is False


def test_a_copy_is_upgraded_too() -> None:
    dag, _ = upgraded("acme")
    for copied in (copy.deepcopy(dag), dag.partial_subset("plain", include_downstream=True)):
        task: Any = copied.task_dict["plain"]
        assert issubclass(type(task), ResumableJobMixin)
        assert task is not dag.task_dict["plain"]
        assert task.dag is copied


def test_arguments_may_still_be_set_and_xcoms_bound() -> None:
    dag, _ = upgraded("acme")
    plain, inner = dag.task_dict["plain"], dag.task_dict["group.inner"]
    inner.data = plain.output["data"]
    assert "plain" in inner.upstream_task_ids


def test_an_unmapped_instance_resumes_and_has_its_arguments() -> None:
    dag, _ = upgraded("acme")
    task: Any = dag.task_dict["named_mapped"].unmap({"model": "n"})
    assert issubclass(type(task), ResumableJobMixin)
    assert (task.data, task.model, task.resume_policy, task.durable) == ("of n", "n", ResumePolicy(), True)


# --- how it runs ----------------------------------------------------------------------------------------------


def run(dag: Any, name: str, attempt: TaskAttempt) -> Any:
    task: Any = dag.task_dict[name].prepare_for_execution()
    if name.endswith("mapped"):
        task = task.unmap({"model": "m"})
    task.resume_policy = QUICK
    with attempt:
        task.pre_execute(attempt.context)
        return task.execute(attempt.context)


@pytest.mark.parametrize("name", ["plain", "group.inner", "named", "named_mapped", "begin"])
def test_a_task_that_is_killed_in_the_window_has_one_job(name: str, service: Service) -> None:
    dag, _ = upgraded("acme")
    service.kills, attempt = True, task_context()
    with pytest.raises(KilledError):
        run(dag, name, attempt)
    assert run(dag, name, attempt.retry())["job"] == service.jobs[0].id
    assert len(service.jobs) == 1


def test_one_that_is_not_upgraded_has_two(service: Service) -> None:
    dag: Any = make()
    attempt = task_context()
    for each in (attempt, attempt.retry()):
        with pytest.raises(KilledError):
            dag.task_dict["plain"].execute(each.context)
    assert len(service.jobs) == 2


def test_a_deploy_leaves_the_job(service: Service) -> None:
    dag, _ = upgraded("acme")
    task: Any = dag.task_dict["named"]
    attempt = task_context()
    task._begin(attempt.context).submit()
    task.on_kill()  # a task without a state in Airflow was told to go
    assert service.jobs[0].is_alive


def test_the_first_line_of_the_log_says_so(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    dag, _ = upgraded("acme")
    caplog.clear()
    run(dag, "named", task_context())
    assert caplog.messages[0] == (
        "This task resumes, as [airflow_resume] upgrade has acme: airflow_resume_mixins.providers.acme.TrainOperator"
        " takes the place of tests.support.upgrade.dags.Named"
    )


# --- wrong input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "said", "remedy"),
    [
        ("acmee", "names acmee, and there is no such module of the pack.", "Write acme instead."),
        ("xyzzy", "names xyzzy, and there is no such module of the pack.", "Modules of the pack: absent, acme"),
        ("amazon.athenaoperator", "has no class athenaoperator.", "Write amazon.AthenaOperator instead."),
        ("AthenaOperator", "there is no such module of the pack.", "Write amazon.AthenaOperator instead."),
        ("Databricks", "there is no such module of the pack.", "Write databricks instead."),
        ("amazon.*", "has no class *.", "Write amazon instead."),
        ("amazon.", "has no class .", "Write amazon instead."),
        ("amazon.Nothing", "has no class Nothing.", "In amazon there are: AthenaOperator, BatchOperator,"),
        ("apache.spark", "apache cannot be imported", "Write spark instead."),
        ("cncf.kubernetes", "cncf cannot be imported", "Write kubernetes instead."),
        (
            "databricks.DatabricksSubmitRunOperater",
            "has no class",
            "Write databricks.DatabricksSubmitRunOperator instead.",
        ),
        ("amazon; google", "there is no such module of the pack.", "separated by commas"),
        ("'databricks'", "there is no such module of the pack.", "separated by commas"),
        ("tests.support.upgrade.exits.X", "exits cannot be imported: SystemExit: 3", "without the folder of the Dags"),
        (
            "tests.support.upgrade.own.NoStatus",
            "NoStatus has no job_status(external_id)",
            "Write a recipe in ten minutes",
        ),
        ("absent", "cannot be imported: ModuleNotFoundError: No module named", "apache-airflow-providers-absent"),
        ("late", "cannot be imported: ModuleNotFoundError: No module named", "apache-airflow-providers-late"),
        ("late.AbsentOperator", "cannot be imported: ModuleNotFoundError: No module", "apache-airflow-providers-late"),
        ("late.Nothing", "providers.late has no class Nothing.", None),
        ("absent.X", "cannot be imported: ModuleNotFoundError: No module named", "apache-airflow-providers-absent"),
        ("acme.Nothing", "providers.acme has no class Nothing.", None),
        ("acme.AcmeJob", "takes the place of no operator", "class TrainOperator(ProviderJob, upstream.TrainOperator)"),
        ("nowhere.at_all.X", "nowhere.at_all cannot be imported", "without the folder of the Dags"),
        ("nowhere.X", "nowhere cannot be imported", "Modules of the pack: absent, acme, airbyte,"),
        ("tests.support.upgrade.own.Base", "takes the place of no operator", "It must be a subclass of ProviderJob"),
        ("tests.support.upgrade.own.Unrelated", "takes the place of no operator", "It must be a subclass"),
        ("tests.support.upgrade.own.WithInit", "WithInit has an __init__ of its own", "attributes of the class"),
        ("tests.support.upgrade.own", "has no class own", None),
        ("..", "cannot be imported", None),
        ("acme.", "has no class", None),
    ],
)
def test_a_wrong_item_is_one_error_with_a_remedy_and_the_others_work(
    item: str, said: str, remedy: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    _, outcomes = upgraded(item, "acme.CopyOperator")
    (error,) = read_twins((item, "acme.CopyOperator")).errors
    assert isinstance(error, UpgradeError)
    assert error.item == item
    assert said in error.message
    assert error.remedy
    assert remedy is None or remedy in error.remedy
    assert error.message in caplog.text
    assert outcomes["group.copy"].verdict is Verdict.UPGRADED


def test_an_error_about_one_task_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = upgrade._made

    def fail_for_named(kind: type, twin: type, item: str) -> type:
        if kind.__name__ == "Named":
            raise TypeError("layout")
        return made(kind, twin, item)

    monkeypatch.setattr(upgrade, "_made", fail_for_named)
    dag, outcomes = upgraded("acme")
    assert outcomes["named"] == Outcome(verdict=Verdict.LEFT_ALONE, reason="TypeError: layout")
    assert type(dag.task_dict["named"]).__name__ == "Named"
    assert outcomes["plain"].verdict is Verdict.UPGRADED
    assert "The task fleet.named of the class Named is not upgraded: TypeError: layout" in caplog.text


# --- the policy of Airflow ------------------------------------------------------------------------------------


def test_airflow_applies_it_when_it_reads_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.dag_processing.dagbag import DagBag

    (tmp_path / "fleet.py").write_text("from tests.support.upgrade.dags import make  # airflow DAG\n\ndag = make()\n")
    (tmp_path / "other.py").write_text(
        "from airflow.sdk import DAG\nfrom airflow.providers.standard.operators.bash import BashOperator\n"
        "with DAG('other'):\n    BashOperator(task_id='bash', bash_command='true')\n"
    )
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__UPGRADE", "acme, nonsense, ,")
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__UPGRADE_EXCEPT", "fleet.named")
    bag = DagBag(tmp_path)
    assert bag.import_errors == {}
    assert isinstance(bag.dags["fleet"].task_dict["plain"], ResumableJobMixin)
    assert not isinstance(bag.dags["fleet"].task_dict["named"], ResumableJobMixin)
    assert bag.dags.keys() == {"fleet", "other"}
    monkeypatch.delenv("AIRFLOW__AIRFLOW_RESUME__UPGRADE")
    assert not isinstance(DagBag(tmp_path).dags["fleet"].task_dict["plain"], ResumableJobMixin)


def test_without_the_setting_nothing_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW__AIRFLOW_RESUME__UPGRADE", raising=False)
    policy.dag_policy(None)  # type: ignore[arg-type]


IMPORTS = """
import sys
{first}
import airflow.settings
airflow.settings.initialize()
manager = airflow.settings.get_policy_plugin_manager()
assert [found.plugin_name for found in manager.hook.dag_policy.get_hookimpls()] == ["airflow_resume"]
airflow.settings.dag_policy(object())
print(*sorted(name for name in sys.modules if name.startswith("airflow_resume")))
"""


@pytest.mark.parametrize("first", ["", "import airflow_resume_mixins.providers.policy"])
def test_every_process_of_airflow_imports_only_the_policy(first: str, tmp_path: Path) -> None:
    env = {"AIRFLOW_HOME": str(tmp_path), "PATH": "", "PYTHONPATH": ":".join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS.format(first=first)], env=env, check=True, capture_output=True, text=True
    )
    assert set(done.stdout.split()) <= {
        "airflow_resume",
        "airflow_resume.compat",  # which imports what it is asked for
        "airflow_resume.late",
        "airflow_resume.provider",
        "airflow_resume_mixins",
        "airflow_resume_mixins.providers",
        "airflow_resume_mixins.providers.policy",
    }
