"""Operators of `airflow.providers.amazon` that resume. A Dag changes its import line only.

    from airflow_resume_mixins.providers.amazon import AthenaOperator

Each takes the arguments of the provider's operator, and `resume_policy=`. Its docstring says how it is made sure that a
crash right after the submit does not lead to a second job: by a token that the service recognises, by a name that can
be in use once only, or by looking the job up.

An operator's arguments for polling (`poll_interval`, `waiter_delay`, `waiter_max_attempts`, ...) are those of its
trigger. In a worker, `ResumePolicy.poll` says how often to ask. A token in the arguments (`client_request_token`) is
replaced.

A class is loaded when it is first used, with the one module that has it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_resume_mixins.providers.amazon.athena import AthenaOperator
    from airflow_resume_mixins.providers.amazon.batch import BatchOperator
    from airflow_resume_mixins.providers.amazon.ecs import EcsRunTaskOperator
    from airflow_resume_mixins.providers.amazon.emr import (
        EmrAddStepsOperator,
        EmrContainerOperator,
        EmrServerlessStartJobOperator,
    )
    from airflow_resume_mixins.providers.amazon.glue import GlueJobOperator
    from airflow_resume_mixins.providers.amazon.redshift_data import RedshiftDataOperator
    from airflow_resume_mixins.providers.amazon.sagemaker import (
        SageMakerProcessingOperator,
        SageMakerTrainingOperator,
        SageMakerTransformOperator,
    )
    from airflow_resume_mixins.providers.amazon.step_function import StepFunctionStartExecutionOperator

__all__ = [
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
]

_HOMES = {
    "AthenaOperator": "athena",
    "BatchOperator": "batch",
    "EcsRunTaskOperator": "ecs",
    "EmrAddStepsOperator": "emr",
    "EmrContainerOperator": "emr",
    "EmrServerlessStartJobOperator": "emr",
    "GlueJobOperator": "glue",
    "RedshiftDataOperator": "redshift_data",
    "SageMakerProcessingOperator": "sagemaker",
    "SageMakerTrainingOperator": "sagemaker",
    "SageMakerTransformOperator": "sagemaker",
    "StepFunctionStartExecutionOperator": "step_function",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
