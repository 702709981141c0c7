"""Check template properties against botocore's API shapes: unknown members, letter case, and types.

CloudFormation uses its own letter case (`ScanOnPush` for `scanOnPush`) and accepts `"true"` and `"60"` for
true and 60.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StructureShape

from tritonstack_local.cloudformation.evaluation import UnknownValue
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


_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "boolean": lambda value: {"true": True, "false": False}.get(str(value).lower(), value),
    "integer": lambda value: int(value) if isinstance(value, str | float) else value,
    "long": lambda value: int(value) if isinstance(value, str | float) else value,
    "float": lambda value: float(value) if isinstance(value, str) else value,
    "double": lambda value: float(value) if isinstance(value, str) else value,
    "string": lambda value: text(value) if isinstance(value, int | float) else value,
}


def _scalar(value: Any, type_name: str) -> Any:
    convert = _CONVERSIONS.get(type_name)
    return value if convert is None or isinstance(value, UnknownValue) else convert(value)


def flag(value: object) -> bool:
    """Return a boolean that a template may spell as a string."""
    return str(value).lower() == "true"


def text(value: object) -> str:
    """Return a template's value as a string, objects as JSON."""
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


_RENAMED = {
    "ExpirationInDays": ("Expiration", "Days"),
    "ExpiredObjectDeleteMarker": ("Expiration", "ExpiredObjectDeleteMarker"),
}


def _lifecycle_rule(rule: Mapping[str, Any]) -> Any:
    """Return a rule, whose filter and expiration are structures in the API."""
    converted: dict[str, Any] = {"Filter": _filter(rule)}
    for name, value in rule.items():
        if name in _RENAMED:
            structure, member = _RENAMED[name]
            converted.setdefault(structure, {})[member] = value
        elif name not in ("Prefix", "TagFilters"):
            converted[name] = value
    return to_api(converted, shape_named("s3:LifecycleRule"))


def _filter(rule: Mapping[str, Any]) -> dict[str, Any]:
    prefix, tags = {"Prefix": rule.get("Prefix", "")}, rule.get("TagFilters") or []
    if not tags:
        return prefix
    return {"Tag": tags[0]} if len(tags) == 1 and "Prefix" not in rule else {"And": prefix | {"Tags": tags}}


def _encryption(configuration: Mapping[str, Any]) -> Any:
    rules = [
        {f"Apply{name}" if name == "ServerSideEncryptionByDefault" else name: rule[name] for name in rule}
        for rule in configuration["ServerSideEncryptionConfiguration"]
    ]
    return to_api({"Rules": rules}, shape_named("s3:ServerSideEncryptionConfiguration"))


def _logging(configuration: Mapping[str, Any]) -> dict[str, Any]:
    bucket, prefix = configuration.get("DestinationBucketName"), configuration.get("LogFilePrefix", "")
    return {"LoggingEnabled": {"TargetBucket": bucket, "TargetPrefix": prefix}} if bucket else {}


CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "attribute": lambda value: {"Value": flag(value)},
    "canned_acl": lambda name: re.sub("(?<!^)(?=[A-Z])", "-", name).lower(),
    "encryption": _encryption,
    "kms_tags": lambda tags: [{"TagKey": key, "TagValue": value} for key, value in tags.items()],
    "lifecycle": lambda value: {"Rules": [_lifecycle_rule(rule) for rule in value["Rules"]]},
    "lifecycle_policy_text": lambda policy: policy["LifecyclePolicyText"],
    "logging": _logging,
    "mapping": dict,
    "tag_set": lambda tags: {"TagSet": tags},
}
