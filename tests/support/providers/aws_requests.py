"""Requests to AWS, decoded by botocore's models: which operation it is, its parameters, its token, its errors."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import botocore.session
from botocore.model import OperationModel, ServiceModel

_SIGNED_AS = {"elasticmapreduce": "emr", "states": "stepfunctions"}
"""Names of services where they differ from the name in the signature."""

_MISMATCH = ("Idempotent", "Conflict", "InvalidRequest", "InvalidParameter", "InvalidInput", "Validation")
"""Which error of an operation says that a token was used with other parameters: the first one with such a name."""


@lru_cache
def service_model(service: str) -> ServiceModel:
    """The model of a service; reading one takes a moment."""
    return botocore.session.Session().get_service_model(service)


@dataclass(frozen=True)
class AwsRequest:
    """A request whose operation is known."""

    service: str
    operation: OperationModel
    params: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.operation.name)

    @property
    def token(self) -> str | None:
        """The parameter that the model marks as `idempotencyToken`."""
        given = (self.params.get(name) for name in self.operation.idempotent_members)
        return next((str(token) for token in given if token), None)

    @property
    def mismatch(self) -> str:
        """The code of the error for a token that was used with other parameters."""
        errors = [str(shape.name) for shape in self.operation.error_shapes]
        found = (error for part in _MISMATCH for error in errors if part in error)
        return next(found, "ValidationException")


def decoded(environ: dict[str, Any], body: bytes) -> AwsRequest | None:
    """The request; None if it is not one of a service that speaks JSON, such as S3 or EC2."""
    signed = re.search(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
    if signed is None:
        return None
    try:
        model = service_model(_SIGNED_AS.get(signed[1], signed[1]))
    except botocore.exceptions.UnknownServiceError:
        return None
    match model.protocol:
        case "json":
            name = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
            return AwsRequest(model.service_name, model.operation_model(name), json.loads(body or b"{}"))
        case "rest-json":
            return _by_path(model, environ["REQUEST_METHOD"], environ["PATH_INFO"], body)
    return None


def _by_path(model: ServiceModel, method: str, path: str, body: bytes) -> AwsRequest | None:
    for name in model.operation_names:
        operation = model.operation_model(name)
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(operation.http["requestUri"].split("?")[0]))
        found = re.fullmatch(pattern, path)
        if found and operation.http["method"] == method:
            named = {key: unquote(value) for key, value in found.groupdict().items()}
            return AwsRequest(model.service_name, operation, {**json.loads(body or b"{}"), **named})
    return None
