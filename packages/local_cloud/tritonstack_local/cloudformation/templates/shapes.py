"""Check template properties against botocore's API shapes: unknown members, letter case, and types.

CloudFormation uses its own letter case (`ScanOnPush` for `scanOnPush`) and accepts `"true"` and `"60"` for
true and 60.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StructureShape

from tritonstack_local.cloudformation.templates.intrinsics import UnknownValue
from tritonstack_local.service.wire import service_model


@lru_cache
def shape_named(name: str) -> Shape:
    """Return a shape by `service:Shape`, or the input of an operation by `service:Operation.member`."""
    service, _, rest = name.partition(":")
    operation, _, member = rest.partition(".")
    if not member:
        return service_model(service).shape_for(operation)
    arguments = service_model(service).operation_model(operation).input_shape
    shape: Shape = arguments.members[_member_name(arguments, member)]
    return shape


def unknown_members(value: Any, shape: Shape, path: str) -> Iterator[str]:
    """Yield the path of every member of `value` that is not in the shape."""
    if isinstance(shape, StructureShape) and isinstance(value, Mapping):
        for key, member in value.items():
            name = _member_name(shape, key)
            if name is None:
                yield f"{path}.{key}"
            else:
                yield from unknown_members(member, shape.members[name], f"{path}.{key}")
    elif isinstance(shape, ListShape) and isinstance(value, list):
        for item in value:
            yield from unknown_members(item, shape.member, path)


def to_api(value: Any, shape: Shape) -> Any:
    """Return a template value in the API's format."""
    if isinstance(shape, StructureShape) and isinstance(value, Mapping):
        return {
            name: to_api(member, shape.members[name])
            for name, member in ((_member_name(shape, key), member) for key, member in value.items())
            if name is not None
        }
    if isinstance(shape, ListShape) and isinstance(value, list):
        return [to_api(item, shape.member) for item in value]
    if isinstance(shape, MapShape) and isinstance(value, Mapping):
        return {key: to_api(member, shape.value) for key, member in value.items()}
    return _scalar(value, shape.type_name)


def _member_name(shape: StructureShape, key: str) -> str | None:
    return next((name for name in shape.members if name.lower() == key.lower()), None)


def _scalar(value: Any, type_name: str) -> Any:
    convert = _CONVERSIONS.get(type_name)
    return value if convert is None or isinstance(value, UnknownValue) else convert(value)


def _boolean(value: Any) -> Any:
    return {"true": True, "false": False}.get(str(value).lower(), value)


def _string(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _integer(value: Any) -> Any:
    return int(value) if isinstance(value, str | float) else value


def _float(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value


_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "boolean": _boolean,
    "integer": _integer,
    "long": _integer,
    "float": _float,
    "double": _float,
    "string": _string,
}
