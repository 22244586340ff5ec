"""What `airflow-resume doctor --dags` says of operators of providers, as they are and as upgraded tasks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_resume_mixins import dag_findings
from airflow_resume_mixins.dag_facts import facts_of
from airflow_resume_mixins.dag_findings import Level, TaskFacts
from airflow_resume_mixins.providers.upgrade import upgrade_dag

MINUTE = timedelta(minutes=1)
JOB: dict[str, Any] = {"image": "i", "name": "n", "namespace": "ns"}
WAITING_JOB: dict[str, Any] = {**JOB, "wait_until_job_complete": True}
POD: dict[str, Any] = {"image": "i", "name": "n"}


def operator(path: str) -> Any:
    module, _, name = path.rpartition(".")
    found = pytest.importorskip(f"airflow.providers.{module}", reason="the providers have an environment of their own")
    return getattr(found, name)


def facts(path: str, *, upgrade: str | None = None, mapped: dict[str, Any] | None = None, **options: Any) -> TaskFacts:
    kind = operator(path)
    with DAG("d", schedule=None, default_args={"retries": 2}) as dag:
        if mapped is None:
            kind(task_id="t", **options)
        else:
            kind.partial(task_id="t", **options).expand(**mapped)
    outcomes = upgrade_dag(dag, [upgrade] if upgrade else [])
    return facts_of(dag.task_dict["t"], outcomes["t"])


def effects(of: TaskFacts) -> list[str]:
    return [effect.value for effect in dag_findings.effects(of).values()]


STARTS_OVER = ["starts over"] * 4
ON_KILL = "its on_kill cancels the job on every deploy"
SWITCHED_OFF: list[Any] = [
    (
        "amazon.aws.operators.glue.GlueJobOperator",
        {"job_name": "g"},
        "reconnects",
        "starts over",
        "stop_job_run_on_kill",
    ),
    (
        "google.cloud.operators.bigquery.BigQueryInsertJobOperator",
        {"configuration": {}},
        "reconnects",
        "starts over",
        "cancel_on_kill",
    ),
    (
        "google.cloud.operators.dataproc.DataprocSubmitJobOperator",
        {"job": {}, "region": "r", "project_id": "p"},
        "duplicates",
        "starts over",
        "cancel_on_kill",
    ),
    (
        "amazon.aws.operators.redshift_data.RedshiftDataOperator",
        {"sql": "s", "database": "d"},
        "reconnects",
        "starts over",
        "cancel_on_kill",
    ),
]


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize(("path", "options", "left", "cancelled", "switch"), SWITCHED_OFF)
def test_an_argument_that_switches_on_kill_off_leaves_the_job_at_a_deploy(
    path: str, options: dict[str, Any], left: str, cancelled: str, switch: str, *, mapped: bool
) -> None:
    for value, deploy in ((False, left), (True, cancelled)):
        over = {"doc": ["a"]} if mapped else None
        switched: dict[str, Any] = {switch: value}
        found = facts(path, mapped=over, **options, **switched)
        assert effects(found)[1] == deploy
        assert (ON_KILL in dag_findings.warnings(found)) == value


def test_glue_stops_nothing_by_default() -> None:
    assert effects(facts("amazon.aws.operators.glue.GlueJobOperator", job_name="g"))[1] == "reconnects"


def test_a_pod_that_is_kept_is_found_again_after_a_deploy_and_a_job_is_deleted_all_the_same() -> None:
    kept = facts("cncf.kubernetes.operators.pod.KubernetesPodOperator", **POD, on_kill_action="keep_pod")
    assert (effects(kept)[1], effects(kept)[2]) == ("reconnects", "the old job again")
    assert dag_findings.level(kept) is Level.WARNING
    job = facts("cncf.kubernetes.operators.job.KubernetesJobOperator", **WAITING_JOB, on_kill_action="keep_pod")
    assert effects(job)[1] == "starts over"


BATCH: dict[str, Any] = {"batch": {"spark_batch": {}}, "region": "r", "project_id": "p"}
BATCH_PATH = "google.cloud.operators.dataproc.DataprocCreateBatchOperator"


@pytest.mark.parametrize("options", [{}, {"batch_id_prefix": "daily"}, {"batch_id": "daily"}], ids=str)
@pytest.mark.parametrize("deferrable", [False, True])
def test_a_batch_is_mended_by_the_setting_and_not_by_an_id(options: dict[str, Any], *, deferrable: bool) -> None:
    """With an id it finds the batch of before: a failed one in every retry, and a successful one after a clear."""
    found = facts(BATCH_PATH, **BATCH, **options, deferrable=deferrable)
    assert dag_findings.level(found) is not Level.OK
    assert dag_findings.remedy(found) == "[airflow_resume] upgrade = google.DataprocCreateBatchOperator"
    assert (effects(found)[2] == "the old job again") == ("batch_id" in options)


def test_a_clear_continues_with_what_an_operator_finds_by_the_same_name() -> None:
    options: dict[str, Any] = {
        "batch_pool_id": "p",
        "batch_pool_vm_size": "s",
        "batch_job_id": "j",
        "batch_task_id": "t",
    }
    batch = facts(
        "microsoft.azure.operators.batch.AzureBatchOperator",
        **options,
        batch_task_command_line="true",
        vm_node_agent_sku_id="n",
        target_dedicated_nodes=1,
    )
    assert (effects(batch)[0], effects(batch)[2], effects(batch)[3]) == (
        "reconnects",
        "the old job again",
        "reconnects",
    )
    assert dag_findings.remedy(batch) == "[airflow_resume] upgrade = microsoft_azure.AzureBatchOperator"


def test_an_open_window_is_closed_by_what_the_service_has_for_it() -> None:
    run = facts(
        "microsoft.azure.operators.data_factory.AzureDataFactoryRunPipelineOperator",
        pipeline_name="p",
        factory_name="f",
        resource_group_name="g",
        upgrade="microsoft_azure",
    )
    assert dag_findings.remedy(run) == "Name a parameter of the pipeline as token_parameter: docs/providers.md."
    sync = facts("airbyte.operators.airbyte.AirbyteTriggerSyncOperator", connection_id="c", upgrade="airbyte")
    assert "on_lost_submission" in dag_findings.remedy(sync)


def test_a_pod_without_reattaching_gets_the_line_that_turns_it_on() -> None:
    found = facts("cncf.kubernetes.operators.pod.KubernetesPodOperator", **POD, reattach_on_restart=False)
    assert (effects(found)[0], dag_findings.level(found)) == ("duplicates", Level.ERROR)
    assert dag_findings.remedy(found).startswith("Remove durable=False or reattach_on_restart=False")


# --- a Kubernetes job is not a pod ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["job.KubernetesJobOperator", "kueue.KubernetesStartKueueJobOperator"])
@pytest.mark.parametrize("deferrable", [False, True])
def test_each_attempt_makes_another_kubernetes_job(path: str, *, deferrable: bool) -> None:
    queue: dict[str, Any] = {"queue_name": "q"} if "kueue" in path else {}
    found = facts(f"cncf.kubernetes.operators.{path}", **WAITING_JOB, **queue, deferrable=deferrable)
    assert effects(found)[3] == "duplicates"
    assert dag_findings.level(found) is Level.ERROR


def test_the_job_of_google_too_and_the_line_says_why_the_setting_does_not_help() -> None:
    options = {**JOB, "location": "l", "cluster_name": "c", "project_id": "p"}
    found = facts("google.cloud.operators.kubernetes_engine.GKEStartJobOperator", **options)
    assert effects(found)[0] == "duplicates"
    assert dag_findings.remedy(found) == ""
    assert any("would leave it alone: GKEStartJobOperator has its own" in said for said in dag_findings.warnings(found))


def test_the_setting_is_the_remedy_for_a_kubernetes_job() -> None:
    path = "cncf.kubernetes.operators.job.KubernetesJobOperator"
    line = "[airflow_resume] upgrade = kubernetes.KubernetesJobOperator"
    assert dag_findings.remedy(facts(path, **WAITING_JOB)) == line
    assert effects(facts(path, **WAITING_JOB, upgrade="kubernetes"))[0] == "resumes"


# --- what cannot resume ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("upgrade", [None, "kubernetes"])
def test_a_job_with_a_sidecar_does_not_resume_before_and_after_the_upgrade(
    upgrade: str | None, *, mapped: bool
) -> None:
    options = {**WAITING_JOB, "do_xcom_push": True}
    over = {"cmds": [["a"], ["b"]]} if mapped else None
    found = facts("cncf.kubernetes.operators.job.KubernetesJobOperator", upgrade=upgrade, mapped=over, **options)
    assert effects(found)[0] == "duplicates"
    assert dag_findings.remedy(found) == ""
    assert any(said.startswith("it does not resume: do_xcom_push=True") for said in dag_findings.warnings(found))


@pytest.mark.parametrize("upgrade", [None, "kubernetes"])
def test_a_spark_application_that_we_do_not_wait_for_is_found_again_by_the_provider(upgrade: str | None) -> None:
    path = "cncf.kubernetes.operators.spark_kubernetes.SparkKubernetesOperator"
    found = facts(path, upgrade=upgrade, application_file="a: b", name="n", namespace="ns", do_xcom_push=True)
    assert found.kind.value == "reattaches in its own way"
    assert effects(found)[0] == "reconnects"
    assert not any("does not resume" in said for said in dag_findings.warnings(found))


@pytest.mark.parametrize("upgrade", [None, "spark"])
@pytest.mark.parametrize("name", ["spark_submit.SparkSubmitOperator", "spark_jdbc.SparkJDBCOperator"])
def test_a_driver_in_client_mode_ends_with_the_task(upgrade: str | None, name: str) -> None:
    options: dict[str, Any] = {"application": "a.py", "deploy_mode": "client"}
    if "jdbc" in name:
        options = {"jdbc_table": "t", "metastore_table": "m", "cmd_type": "spark_to_jdbc", "jdbc_driver": "d"}
    found = facts(f"apache.spark.operators.{name}", upgrade=upgrade, **options)
    assert effects(found) == STARTS_OVER
    assert dag_findings.remedy(found) == ""
    assert "it does not resume: in client mode the driver ends with the task" in dag_findings.warnings(found)


def test_what_cannot_be_asked_here_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = operator("apache.spark.operators.spark_submit.SparkSubmitOperator")

    def fail(_self: Any) -> None:
        raise ConnectionError("nobody is there")

    monkeypatch.setattr(kind, "_get_hook", fail)
    found = facts("apache.spark.operators.spark_submit.SparkSubmitOperator", application="a.py")
    said = "whether it resumes is seen only when it runs: ConnectionError: nobody is there"
    assert said in dag_findings.warnings(found)


def test_what_a_task_is_mapped_over_is_known_only_when_it_runs_and_matters_only_if_a_class_asks() -> None:
    said = []
    for path, given in (
        ("cncf.kubernetes.operators.job.KubernetesJobOperator", WAITING_JOB),
        ("amazon.aws.operators.glue.GlueJobOperator", {"job_name": "g"}),
    ):
        kind = operator(path)
        with DAG("d", schedule=None, default_args={"retries": 2}) as dag:
            kind.partial(task_id="t").expand_kwargs([given])
        said.append([line for line in dag_findings.warnings(facts_of(dag.task_dict["t"])) if "seen only" in line])
    assert said == [
        ["whether it resumes is seen only when it runs: ValueError: what it is mapped over is known only then"],
        [],
    ]


def test_asking_a_task_does_not_change_it() -> None:
    kind = operator("apache.spark.operators.spark_submit.SparkSubmitOperator")
    with DAG("d", schedule=None) as dag:
        task = kind(task_id="t", application="a.py")
    before, was = type(task), dict(vars(task))
    facts_of(dag.task_dict["t"])
    assert type(task) is before
    assert vars(task) == was


# --- what the setting would not mend, and what needs no mending -----------------------------------------------


def docker_task() -> Any:
    pytest.importorskip("airflow.providers.docker", reason="the providers have an environment of their own")
    from airflow.sdk import task

    with DAG("d", schedule=None, default_args={"retries": 2}) as dag:

        @task.docker(image="i")
        def decorated() -> None: ...

        decorated()
    return facts_of(dag.task_dict["decorated"])


def swarm() -> Any:
    return facts("docker.operators.docker_swarm.DockerSwarmOperator", image="i")


@pytest.mark.parametrize("make", [docker_task, swarm])
def test_a_class_with_its_own_execute_is_not_told_to_use_the_setting(make: Callable[[], TaskFacts]) -> None:
    found = make()
    assert dag_findings.remedy(found) == ""
    assert any("[airflow_resume] upgrade would leave it alone:" in said for said in dag_findings.warnings(found))


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("http.operators.http.HttpOperator", {"endpoint": "x"}),
        ("google.cloud.operators.bigquery.BigQueryGetDataOperator", {"dataset_id": "d", "table_id": "t"}),
    ],
)
def test_a_request_that_waits_for_no_job_is_a_warning(path: str, options: dict[str, Any]) -> None:
    found = facts(path, **options)
    assert effects(found) == STARTS_OVER
    assert (dag_findings.level(found), dag_findings.remedy(found)) == (Level.WARNING, "")


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("ssh.operators.ssh.SSHOperator", {"ssh_conn_id": "s", "command": "ls"}),
        ("apache.spark.operators.spark_sql.SparkSqlOperator", {"sql": "s"}),
    ],
)
def test_work_of_a_connection_or_a_child_starts_over(path: str, options: dict[str, Any]) -> None:
    found = facts(path, **options)
    assert (effects(found), dag_findings.remedy(found)) == (STARTS_OVER, "")


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("amazon.aws.operators.emr.EmrCreateJobFlowOperator", {}),
        (
            "google.cloud.operators.cloud_run.CloudRunExecuteJobOperator",
            {"project_id": "p", "region": "r", "job_name": "j"},
        ),
    ],
)
def test_an_operator_that_waits_for_a_job_is_an_error_with_the_way_to_write_a_recipe(
    path: str, options: dict[str, Any]
) -> None:
    found = facts(path, **options)
    assert dag_findings.level(found) is Level.ERROR
    assert dag_findings.remedy(found).endswith(", see 'Write a recipe in ten minutes': docs/providers.md.")


# --- how an operator really waits -----------------------------------------------------------------------------


def test_a_remote_job_over_ssh_always_defers() -> None:
    found = facts("ssh.operators.ssh_remote_job.SSHRemoteJobOperator", ssh_conn_id="s", command="ls")
    assert effects(found) == ["reconnects", "reconnects", "duplicates", "duplicates"]


@pytest.mark.parametrize("mapped", [None, {"args": [["a"]]}])
@pytest.mark.parametrize(("interval", "cleared"), [(0, "starts over"), (5, "the old job again")])
def test_livy_without_polling_does_not_use_airflows_mixin(
    interval: int, cleared: str, mapped: dict[str, Any] | None
) -> None:
    found = facts("apache.livy.operators.livy.LivyOperator", mapped=mapped, file="f", polling_interval=interval)
    assert effects(found)[2] == cleared


@pytest.mark.parametrize(("timeout", "warned"), [({"timeout": 86400}, True), ({}, False)])
def test_the_timeout_of_dbt_counts_if_it_is_given(timeout: dict[str, Any], *, warned: bool) -> None:
    found = facts("dbt.cloud.operators.dbt.DbtCloudRunJobOperator", job_id=1, execution_timeout=MINUTE, **timeout)
    assert any("is shorter than the job may take (1 day" in said for said in dag_findings.warnings(found)) == warned


def test_a_mapped_task_defers_by_the_default_arguments_of_its_dag() -> None:
    kind = operator("amazon.aws.operators.athena.AthenaOperator")
    with DAG("d", schedule=None, default_args={"retries": 2, "deferrable": True}) as dag:
        kind.partial(task_id="t", database="d", output_location="s3://a").expand(query=["a"])
    assert effects(facts_of(dag.task_dict["t"]))[0] == "reconnects"


# --- overridden in vain ---------------------------------------------------------------------------------------

OVERRIDDEN: list[Any] = [
    ("amazon", "amazon.aws.operators.batch.BatchOperator", "monitor_job"),
    ("amazon", "amazon.aws.operators.emr.EmrContainerOperator", "check_failure"),
    ("amazon", "amazon.aws.operators.sagemaker.SageMakerTrainingOperator", "serialize_result"),
    ("databricks", "databricks.operators.databricks.DatabricksNotebookOperator", "monitor_databricks_job"),
    ("databricks", "databricks.operators.databricks.DatabricksTaskOperator", "monitor_databricks_job"),
    ("livy", "apache.livy.operators.livy.LivyOperator", "poll_for_termination"),
    ("kubernetes", "cncf.kubernetes.operators.job.KubernetesJobOperator", "get_pods"),
]
STILL_CALLED: list[Any] = [
    ("amazon", "amazon.aws.operators.glue.GlueJobOperator", "upload_etl_script_to_s3"),
    ("amazon", "amazon.aws.operators.redshift_data.RedshiftDataOperator", "get_sql_results"),
    ("amazon", "amazon.aws.operators.emr.EmrServerlessStartJobOperator", "persist_links"),
    ("amazon", "amazon.aws.operators.sagemaker.SageMakerTrainingOperator", "preprocess_config"),
    ("amazon", "amazon.aws.operators.athena.AthenaOperator", "validate_attributes"),
    ("kubernetes", "cncf.kubernetes.operators.job.KubernetesJobOperator", "build_job_request_obj"),
    ("kubernetes", "cncf.kubernetes.operators.job.KubernetesJobOperator", "build_pod_request_obj"),
    ("docker", "docker.operators.docker.DockerOperator", "format_command"),
    ("google", "google.cloud.operators.bigquery.BigQueryInsertJobOperator", "prepare_template"),
]


def why_not_with_own(item: str, path: str, name: str) -> str | None:
    from airflow_resume_mixins.providers.twins import read_twins
    from airflow_resume_mixins.providers.upgrade import why_not

    kind = operator(path)
    assert callable(getattr(kind, name))
    own = type("Own", (kind,), {name: lambda self, *args, **options: None})
    twin = read_twins((item,)).of(own)
    assert twin is not None

    class Task:
        operator_class = own

    return why_not(Task(), twin)


@pytest.mark.parametrize(("item", "path", "name"), OVERRIDDEN)
def test_a_method_that_would_no_longer_be_called_is_a_reason_not_to_upgrade(item: str, path: str, name: str) -> None:
    assert f"Own has its own {name}, which" in (why_not_with_own(item, path, name) or "")


@pytest.mark.parametrize(("item", "path", "name"), STILL_CALLED)
def test_a_method_that_is_still_called_is_none(item: str, path: str, name: str) -> None:
    assert why_not_with_own(item, path, name) is None
