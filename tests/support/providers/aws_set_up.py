"""What must be in AWS before a job can be submitted, and the parameters of the calls about a job."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.providers.aws_service import AwsService

ROLE = "arn:aws:iam::123456789012:role/r"
_numbers = itertools.count(1)
"""Names in moto, whose state is that of the process."""

Params = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Calls:
    """The parameters of the calls about jobs of one kind.

    Args:
        submit: of the submit.
        other: of a submit that asks for something else.
        ask: of the question about a job, given its id.
        cancel: of its cancellation.
        find: of the list that has it; None if there is no list.
    """

    submit: Params
    other: Params
    ask: Callable[[Any], Params]
    cancel: Callable[[Any], Params]
    find: Params | None = None


def athena(_service: AwsService) -> Calls:
    return Calls(
        submit={"QueryString": "select 1", "ResultConfiguration": {"OutputLocation": "s3://b/o/"}},
        other={"QueryString": "select 2"},
        ask=lambda job_id: {"QueryExecutionId": job_id},
        cancel=lambda job_id: {"QueryExecutionId": job_id},
    )


def batch(service: AwsService) -> Calls:
    number = next(_numbers)
    iam, client = service.client("iam"), service.client("batch")
    role = iam.create_role(RoleName=f"batch-{number}", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    environment = client.create_compute_environment(
        computeEnvironmentName=f"environment-{number}", type="UNMANAGED", state="ENABLED", serviceRole=role
    )["computeEnvironmentArn"]
    client.create_job_queue(
        jobQueueName=f"queue-{number}",
        state="ENABLED",
        priority=1,
        computeEnvironmentOrder=[{"order": 1, "computeEnvironment": environment}],
    )
    client.register_job_definition(
        jobDefinitionName=f"definition-{number}",
        type="container",
        containerProperties={"image": "busybox", "vcpus": 1, "memory": 128, "command": ["true"]},
    )
    return Calls(
        submit={"jobName": "n", "jobQueue": f"queue-{number}", "jobDefinition": f"definition-{number}"},
        other={"jobName": "m"},
        ask=lambda job_id: {"jobs": [job_id]},
        cancel=lambda job_id: {"jobId": job_id, "reason": "test"},
        find={"jobQueue": f"queue-{number}", "filters": [{"name": "JOB_NAME", "values": ["n"]}]},
    )


def ecs(service: AwsService) -> Calls:
    number = next(_numbers)
    ec2, client = service.client("ec2"), service.client("ecs")
    network = {
        "subnets": [ec2.describe_subnets()["Subnets"][0]["SubnetId"]],
        "securityGroups": [ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]],
    }
    client.create_cluster(clusterName=f"cluster-{number}")
    client.register_task_definition(
        family=f"family-{number}",
        requiresCompatibilities=["FARGATE"],
        networkMode="awsvpc",
        cpu="256",
        memory="512",
        containerDefinitions=[{"name": "main", "image": "busybox", "memory": 128, "cpu": 10}],
    )
    cluster = f"cluster-{number}"
    return Calls(
        submit={
            "taskDefinition": f"family-{number}",
            "cluster": cluster,
            "launchType": "FARGATE",
            "startedBy": "us",
            "networkConfiguration": {"awsvpcConfiguration": network},
        },
        other={"startedBy": "them"},
        ask=lambda job_id: {"cluster": cluster, "tasks": [job_id]},
        cancel=lambda job_id: {"cluster": cluster, "task": job_id},
        find={"cluster": cluster, "startedBy": "us"},
    )


def emr_containers(service: AwsService) -> Calls:
    number = next(_numbers)
    service.client("eks").create_cluster(name=f"cluster-{number}", roleArn=ROLE, resourcesVpcConfig={})
    where = {"id": f"cluster-{number}", "type": "EKS", "info": {"eksInfo": {"namespace": f"n-{number}"}}}
    client = service.client("emr-containers")
    cluster = client.create_virtual_cluster(name=f"virtual-{number}", containerProvider=where)["id"]
    return Calls(
        submit={
            "name": "n",
            "virtualClusterId": cluster,
            "executionRoleArn": ROLE,
            "releaseLabel": "emr-7.0.0-latest",
            "jobDriver": {"sparkSubmitJobDriver": {"entryPoint": "s3://b/a.py"}},
        },
        other={"name": "m"},
        ask=lambda job_id: {"virtualClusterId": cluster, "id": job_id},
        cancel=lambda job_id: {"virtualClusterId": cluster, "id": job_id},
        find={"virtualClusterId": cluster},
    )


def emr_serverless(service: AwsService) -> Calls:
    application = service.client("emr-serverless").create_application(
        name=f"application-{next(_numbers)}", releaseLabel="emr-7.0.0", type="SPARK"
    )["applicationId"]
    return Calls(
        submit={
            "applicationId": application,
            "executionRoleArn": ROLE,
            "jobDriver": {"sparkSubmit": {"entryPoint": "s3://b/a.py"}},
        },
        other={"name": "another"},
        ask=lambda job_id: {"applicationId": application, "jobRunId": job_id},
        cancel=lambda job_id: {"applicationId": application, "jobRunId": job_id},
        find={"applicationId": application},
    )


def emr_steps(service: AwsService) -> Calls:
    cluster = service.client("emr").run_job_flow(
        Name="c",
        Instances={"InstanceCount": 1, "MasterInstanceType": "m5.large", "KeepJobFlowAliveWhenNoSteps": True},
        JobFlowRole="r",
        ServiceRole="r",
        LogUri="s3://logs/",
    )["JobFlowId"]
    return Calls(
        submit={"JobFlowId": cluster, "Steps": [_step("s")]},
        other={"Steps": [_step("t")]},
        ask=lambda job_id: {"ClusterId": cluster, "StepId": job_id},
        cancel=lambda job_id: {"ClusterId": cluster, "StepIds": [job_id]},
        find={"ClusterId": cluster},
    )


def _step(name: str) -> Params:
    return {"Name": name, "ActionOnFailure": "CONTINUE", "HadoopJarStep": {"Jar": "command-runner.jar"}}


def glue(service: AwsService) -> Calls:
    name = f"job-{next(_numbers)}"
    service.client("glue").create_job(
        Name=name,
        Role=ROLE,
        Command={"Name": "glueetl", "ScriptLocation": "s3://b/a.py"},
        ExecutionProperty={"MaxConcurrentRuns": 1000},
    )
    return Calls(
        submit={"JobName": name, "Arguments": {"--a": "1"}},
        other={"Arguments": {"--a": "2"}},
        ask=lambda job_id: {"JobName": name, "RunId": job_id},
        cancel=lambda job_id: {"JobName": name, "JobRunIds": [job_id]},
        find={"JobName": name},
    )


def redshift_data(_service: AwsService) -> Calls:
    return Calls(
        submit={"ClusterIdentifier": "c", "Database": "d", "DbUser": "u", "Sql": "select 1"},
        other={"Sql": "select 2"},
        ask=lambda job_id: {"Id": job_id},
        cancel=lambda job_id: {"Id": job_id},
    )


def sagemaker_training(_service: AwsService) -> Calls:
    return Calls(
        submit={
            "TrainingJobName": f"train-{next(_numbers)}",
            "AlgorithmSpecification": {"TrainingImage": "i", "TrainingInputMode": "File"},
            "RoleArn": ROLE,
            "OutputDataConfig": {"S3OutputPath": "s3://b/o"},
            "ResourceConfig": {"InstanceCount": 1, "InstanceType": "ml.m4.xlarge", "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 60},
        },
        other={"RoleArn": f"{ROLE}2"},
        ask=lambda job_id: {"TrainingJobName": job_id},
        cancel=lambda job_id: {"TrainingJobName": job_id},
        find={},
    )


def sagemaker_processing(_service: AwsService) -> Calls:
    cluster = {"InstanceCount": 1, "InstanceType": "ml.m4.xlarge", "VolumeSizeInGB": 1}
    return Calls(
        submit={
            "ProcessingJobName": f"process-{next(_numbers)}",
            "AppSpecification": {"ImageUri": "i"},
            "RoleArn": ROLE,
            "ProcessingResources": {"ClusterConfig": cluster},
        },
        other={"RoleArn": f"{ROLE}2"},
        ask=lambda job_id: {"ProcessingJobName": job_id},
        cancel=lambda job_id: {"ProcessingJobName": job_id},
        find={},
    )


def sagemaker_transform(service: AwsService) -> Calls:
    number = next(_numbers)
    s3 = service.client("s3")
    s3.create_bucket(Bucket=f"bucket-{number}")
    s3.put_object(Bucket=f"bucket-{number}", Key="in/a", Body=b"1")
    service.client("sagemaker").create_model(
        ModelName=f"model-{number}", PrimaryContainer={"Image": "i"}, ExecutionRoleArn=ROLE
    )
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": f"s3://bucket-{number}/in/"}}
    return Calls(
        submit={
            "TransformJobName": f"transform-{number}",
            "ModelName": f"model-{number}",
            "TransformInput": {"DataSource": source},
            "TransformOutput": {"S3OutputPath": f"s3://bucket-{number}/out"},
            "TransformResources": {"InstanceCount": 1, "InstanceType": "ml.m4.xlarge"},
        },
        other={"TransformOutput": {"S3OutputPath": "s3://another/out"}},
        ask=lambda job_id: {"TransformJobName": job_id},
        cancel=lambda job_id: {"TransformJobName": job_id},
        find={},
    )


def step_functions(service: AwsService) -> Calls:
    definition = {"StartAt": "a", "States": {"a": {"Type": "Pass", "End": True}}}
    machine = service.client("stepfunctions").create_state_machine(
        name=f"machine-{next(_numbers)}", definition=json.dumps(definition), roleArn=ROLE
    )["stateMachineArn"]
    return Calls(
        submit={"stateMachineArn": machine, "input": "{}", "name": f"execution-{next(_numbers)}"},
        other={"input": '{"a": 1}'},
        ask=lambda job_id: {"executionArn": job_id},
        cancel=lambda job_id: {"executionArn": job_id},
        find={"stateMachineArn": machine},
    )


SET_UP: Mapping[str, Callable[[AwsService], Calls]] = {
    make.__name__: make
    for make in (
        athena,
        batch,
        ecs,
        emr_containers,
        emr_serverless,
        emr_steps,
        glue,
        redshift_data,
        sagemaker_processing,
        sagemaker_training,
        sagemaker_transform,
        step_functions,
    )
}
"""By the names of `JOB_APIS`."""
