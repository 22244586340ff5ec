"""Which operators have a twin in the pack, known without the import of a provider.

To import a provider takes seconds, and every process that parses a Dag file would pay for it. So a twin is imported
only for a Dag that has a task of its operator, which is looked up here by the name of the task's class. A test compares
this table with the classes themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple


class Entry(NamedTuple):
    """What a module of the pack has."""

    package: str
    """Of the provider. In which of its modules an operator is may differ between its releases."""
    operators: tuple[str, ...]
    """The operators that have a twin, which has the same name."""


INDEX: Mapping[str, Entry] = {
    "airbyte": Entry("airflow.providers.airbyte", ("AirbyteTriggerSyncOperator",)),
    "amazon": Entry(
        "airflow.providers.amazon",
        (
            "AthenaOperator",
            "BatchOperator",
            "EcsRunTaskOperator",
            "EmrAddStepsOperator",
            "EmrContainerOperator",
            "EmrServerlessStartJobOperator",
            "GlueJobOperator",
            "RedshiftDataOperator",
            "SageMakerProcessingOperator",
            "SageMakerTrainingOperator",
            "SageMakerTransformOperator",
            "StepFunctionStartExecutionOperator",
        ),
    ),
    "databricks": Entry(
        "airflow.providers.databricks",
        (
            "DatabricksNotebookOperator",
            "DatabricksRunNowOperator",
            "DatabricksSubmitRunOperator",
            "DatabricksTaskOperator",
        ),
    ),
    "dbt_cloud": Entry("airflow.providers.dbt.cloud", ("DbtCloudRunJobOperator",)),
    "docker": Entry("airflow.providers.docker", ("DockerOperator",)),
    "google": Entry(
        "airflow.providers.google",
        (
            "BigQueryInsertJobOperator",
            "DataflowStartFlexTemplateOperator",
            "DataflowTemplatedJobStartOperator",
            "DataprocCreateBatchOperator",
            "DataprocInstantiateInlineWorkflowTemplateOperator",
            "DataprocInstantiateWorkflowTemplateOperator",
            "DataprocSubmitJobOperator",
        ),
    ),
    "kubernetes": Entry("airflow.providers.cncf.kubernetes", ("KubernetesJobOperator", "SparkKubernetesOperator")),
    "livy": Entry("airflow.providers.apache.livy", ("LivyOperator",)),
    "microsoft_azure": Entry(
        "airflow.providers.microsoft.azure",
        ("AzureBatchOperator", "AzureDataFactoryRunPipelineOperator", "AzureSynapseRunSparkBatchOperator"),
    ),
    "snowflake": Entry("airflow.providers.snowflake", ("SnowflakeNotebookOperator", "SnowflakeSqlApiOperator")),
    "spark": Entry("airflow.providers.apache.spark", ("SparkSubmitOperator",)),
    "ssh": Entry("airflow.providers.ssh", ("SSHRemoteJobOperator",)),
    "standard": Entry("airflow.providers.standard", ("TriggerDagRunOperator",)),
}


def short(item: str) -> str:
    """The item without the name of the pack before it. A module may be written as Airflow's own package: `dbt.cloud`.

    Args:
        item: of the setting.
    """
    item = item.removeprefix(f"{__package__}.")
    for module in INDEX:
        dotted = module.replace("_", ".")
        if f"{item}.".startswith(f"{dotted}."):
            return f"{module}{item.removeprefix(dotted)}"
    return item


def operators_for(item: str, kinds: Iterable[type]) -> Collection[str] | None:
    """Which operators of an item of the setting the classes of tasks may be of.

    Args:
        item: of the setting.
        kinds: the classes of the tasks of a Dag.

    Returns:
        Their names; None if only an import can say it, as the item is not in the table.
    """
    module, dot, name = short(item).partition(".")
    entry = INDEX.get(module)
    if entry is None or (dot and name not in entry.operators):
        return None
    wanted = {name} if name else set(entry.operators)
    return wanted & {
        base.__name__ for kind in kinds for base in kind.__mro__ if base.__module__.startswith(f"{entry.package}.")
    }


def may_be_named(items: Iterable[str], kinds: Collection[type]) -> bool:
    """Whether the setting may be for one of the classes, or an item of it has to be looked at.

    Args:
        items: of the setting.
        kinds: the classes of the tasks of a Dag.
    """
    return any(names is None or names for names in (operators_for(item, kinds) for item in items))
