"""Parse requests and write answers with botocore's service models."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.model import (
    ListShape,
    MapShape,
    OperationModel,
    ServiceModel,
    Shape,
    StringShape,
    StructureShape,
)
from werkzeug.wrappers import Request, Response

from tritonstack.base.files import parse_json
from tritonstack_local.access.requests import DeniedError, Reason
from tritonstack_local.scope import Scope, caller_of
from tritonstack_local.service.errors import ServiceError, constraints_broken

# botocore's clients check required members and types only; enums, patterns, lengths, and ranges are checked
# here.


# Java character classes of the service models as Python ones; \w is \p{L}, \p{N}, and _.
_JAVA_CLASSES = {
    r"\p{L}": r"\w",
    r"\p{N}": r"\w",
    r"\p{Z}": "\\u0020\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000",
    r"\p{ASCII}": r"\x00-\x7f",
    r"\p{Print}": r"\x20-\x7e",
    r"\z": r"\Z",
    # A surrogate pair at each end: all characters beyond 16 bits.
    r"\uD800\uDC00-\uDBFF\uDFFF": r"\U00010000-\U0010FFFF",
}

_BRACKETS = re.compile(r"(\[(?:\\.|[^\]\\])*\])")

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "structure": (dict,),
    "map": (dict,),
    "list": (list,),
    "string": (str,),
    "blob": (str, bytes),
    "integer": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "timestamp": (int, float),
    "boolean": (bool,),
}


def check(shape: StructureShape, request: object) -> None:
    """Raise one error that lists everything in `request` that violates the model."""
    violations = list(_violations(shape, request, ""))
    if violations:
        raise constraints_broken(violations)


def _violations(shape: Shape, value: object, path: str) -> Iterator[str]:
    if not _has_type(shape, value):
        raise ServiceError("SerializationException", f"{path or 'The request'} is no {shape.type_name}")
    walk = _WALKS.get(shape.type_name)
    if walk is not None:
        yield from walk(shape, value, path)
    yield from (
        f"Value '{_shown(value)}' at '{path}' failed to satisfy constraint: {constraint}"
        for constraint in _broken(shape, value)
    )


def _has_type(shape: Shape, value: object) -> bool:
    kind: str = shape.type_name
    if isinstance(value, bool):  # which Python counts among the integers
        return kind == "boolean"
    return isinstance(value, _PYTHON_TYPES[kind])


def _structure(shape: StructureShape, value: dict[str, Any], path: str) -> Iterator[str]:
    for name in shape.required_members:
        if value.get(name) is None:
            yield (
                f"Value null at '{_join(path, name)}' failed to satisfy constraint: Member must not be null"
            )
    for name, item in value.items():
        if name not in shape.members:
            raise ServiceError("SerializationException", f"{_join(path, name)} is not part of {shape.name}")
        if item is not None:
            yield from _violations(shape.members[name], item, _join(path, name))


def _list(shape: ListShape, value: list[Any], path: str) -> Iterator[str]:
    for number, item in enumerate(value, start=1):
        yield from _violations(shape.member, item, f"{path}.{number}.member")


def _map(shape: MapShape, value: dict[str, Any], path: str) -> Iterator[str]:
    for key, item in value.items():
        yield from _violations(shape.key, key, f"{path}.key")
        yield from _violations(shape.value, item, f"{path}.{key}")


_WALKS: dict[str, Callable[[Any, Any, str], Iterator[str]]] = {
    "structure": _structure,
    "list": _list,
    "map": _map,
}


def _broken(shape: Shape, value: Any) -> Iterator[str]:
    """Return the constraints of this shape that the value violates."""
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if isinstance(value, int | float):
        measure, noun = float(value), "value"
    else:
        measure, noun = float(len(value)), "length"
    if least is not None and measure < least:
        yield f"Member must have {noun} greater than or equal to {least}"
    if most is not None and measure > most:
        yield f"Member must have {noun} less than or equal to {most}"
        return
    if isinstance(shape, StringShape) and shape.enum and value not in shape.enum:
        yield f"Member must satisfy enum value set: [{', '.join(shape.enum)}]"
    pattern = shape.metadata.get("pattern")
    if pattern is not None and _compiled(pattern).fullmatch(value) is None:
        yield f"Member must satisfy regular expression pattern: {pattern}"


@cache
def _compiled(java_pattern: str) -> re.Pattern[str]:
    pattern = java_pattern
    parts = _BRACKETS.split(pattern)
    for number, part in enumerate(parts):
        for java, python in _JAVA_CLASSES.items():
            # Outside of brackets, a range needs its own.
            bare = not number % 2 and "-" in python
            part = part.replace(java, f"[{python}]" if bare else python)  # noqa: PLW2901
        parts[number] = part
    return re.compile("".join(parts))


def _join(path: str, name: str) -> str:
    """Return the member path as in AWS messages: starting with a lower-case letter."""
    member = name[:1].lower() + name[1:]
    return f"{path}.{member}" if path else member


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


_ROLE_FIELD = re.compile(r"(execution|service|)role(arn|override|)", re.IGNORECASE)


def check_passed_roles(account: str, fields: Mapping[str, Any]) -> None:
    """Deny passing roles of other accounts to a service. Lists are left out: some name roles to assume."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            check_passed_roles(account, value)
        elif isinstance(value, str) and _ROLE_FIELD.fullmatch(name):
            owner = value.split(":")[4] if value.count(":") >= 5 else account
            if owner != account:
                raise DeniedError(Reason.ACCESS_DENIED, "Cross-account pass role is not allowed.")


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
    check(_operation(service, operation).input_shape, fields)
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
            check_passed_roles(scope.account, call.fields)
            result = self._actions[call.operation](scope, call.fields)
            return control_answer(call.operation, result, service=self._service)
        except ServiceError as error:
            return control_failure(error)
