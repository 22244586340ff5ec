"""Google Cloud's operators that resume.

What closes the window between submit and save:

- `bigquery`: the id of the job ends with the token, and BigQuery takes an id once.
- `dataproc`: `request_id` is the token. The id of a batch ends with it, too.
- `dataflow`: the name of the job ends with the token, and the job is looked up by it.

As in Google's provider, the operators of Dataflow need the provider of Apache Beam. Without it the others are here.
"""

from __future__ import annotations

from importlib.util import find_spec

from airflow_resume_mixins.providers.google.bigquery import BigQueryInsertJobOperator
from airflow_resume_mixins.providers.google.dataproc import (
    DataprocCreateBatchOperator,
    DataprocInstantiateInlineWorkflowTemplateOperator,
    DataprocInstantiateWorkflowTemplateOperator,
    DataprocSubmitJobOperator,
)

__all__ = [
    "BigQueryInsertJobOperator",
    "DataprocCreateBatchOperator",
    "DataprocInstantiateInlineWorkflowTemplateOperator",
    "DataprocInstantiateWorkflowTemplateOperator",
    "DataprocSubmitJobOperator",
]


def _has_beam() -> bool:
    try:
        return find_spec("airflow.providers.apache.beam") is not None
    except ModuleNotFoundError:  # no provider of Apache is installed
        return False


if _has_beam():
    from airflow_resume_mixins.providers.google.dataflow import (
        DataflowStartFlexTemplateOperator,
        DataflowTemplatedJobStartOperator,
    )

    __all__ += ["DataflowStartFlexTemplateOperator", "DataflowTemplatedJobStartOperator"]
