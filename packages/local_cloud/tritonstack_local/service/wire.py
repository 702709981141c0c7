"""Parse requests and write answers with botocore's service models."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.model import OperationModel, ServiceModel, StructureShape
from werkzeug.wrappers import Request, Response

from tritonstack.base.files import parse_json
from tritonstack_local.scope import Scope, caller_of
from tritonstack_local.service import validation
from tritonstack_local.service.errors import ServiceError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

JSON_1_1 = "application/x-amz-json-1.1"


@cache
def service_model(service: str) -> ServiceModel:
    """Load botocore's model of a service."""
    return botocore.session.get_session().get_service_model(service)


@dataclass(frozen=True)
class ControlCall:
    """One call of the control plane: operation and validated fields."""

    operation: str
    fields: Mapping[str, Any]


def read_control_call(request: Request, *, offered: Mapping[str, object], service: str) -> ControlCall:
    """Read a JSON 1.1 request; `offered` are the supported operations."""
    metadata = service_model(service).metadata
    operation = request.headers.get("X-Amz-Target", "").removeprefix(f"{metadata['targetPrefix']}.")
    if operation not in offered:
        raise ServiceError(
            "UnknownOperationException",
            f"The local cloud does not support {metadata['serviceId']}'s "
            f"{operation or 'request without X-Amz-Target'}; it supports {', '.join(sorted(offered))}.",
        )
    try:
        fields = parse_json(request.get_data() or b"{}")
    except ValueError as error:
        raise ServiceError("SerializationException", f"The body is not valid JSON: {error}") from error
    validation.check(_operation(service, operation).input_shape, fields)
    return ControlCall(operation, {name: value for name, value in fields.items() if value is not None})


def control_answer(operation: str, result: Mapping[str, Any], *, service: str) -> Response:
    """Write a result as the operation's output; fields missing from the model are an internal error."""
    shape = _operation(service, operation).output_shape
    body = {} if shape is None else _written(shape, result)
    return Response(json.dumps(body), content_type=JSON_1_1, headers=_request_id())


def control_failure(failure: ServiceError) -> Response:
    """Write an error in the JSON 1.1 format."""
    return _failure(failure, content_type=JSON_1_1)


def runtime_failure(failure: ServiceError) -> Response:
    """Write an error in the REST JSON format."""
    return _failure(failure, content_type="application/json")


def _failure(failure: ServiceError, *, content_type: str) -> Response:
    body = {"__type": failure.code, "message": failure.message, "Message": failure.message, **failure.fields}
    headers = {"x-amzn-ErrorType": failure.code, **_request_id()}
    return Response(json.dumps(body), status=failure.status, content_type=content_type, headers=headers)


def _request_id() -> dict[str, str]:
    return {"x-amzn-RequestId": str(uuid.uuid4())}


def _operation(service: str, name: str) -> OperationModel:
    return service_model(service).operation_model(name)


def _written(shape: StructureShape, result: Mapping[str, Any]) -> dict[str, Any]:
    unknown = result.keys() - shape.members.keys()
    if unknown:
        raise ServiceError("InternalFailure", f"{shape.name} has no {', '.join(unknown)}", status=500)
    return {name: _plain(value) for name, value in result.items() if value is not None}


def _plain(value: Any) -> Any:
    """Encode times as seconds since 1970."""
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


Fields = Mapping[str, Any]
Action = Callable[[Scope, Fields], Fields]


class ControlPlane:
    """Serves the actions of one service. Thread-safe."""

    def __init__(self, *, service: str, actions: Mapping[str, Action]) -> None:
        """`service` is its botocore name."""
        self._service = service
        self._actions = actions

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        return self.answer(Request(environ))(environ, start_response)

    def answer(self, request: Request) -> Response:
        """Answer one request, including rejected ones."""
        try:
            call = read_control_call(request, offered=self._actions, service=self._service)
            scope = caller_of(request.environ).scope
            validation.check_passed_roles(scope.account, call.fields)
            result = self._actions[call.operation](scope, call.fields)
            return control_answer(call.operation, result, service=self._service)
        except ServiceError as error:
            return control_failure(error)
