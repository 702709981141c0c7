"""Values of settings in the API's format, by their names in resource_types.yaml."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tritonstack_local.cloudformation.providers.base import flag
from tritonstack_local.cloudformation.templates.shapes import shape_named, to_api

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


def _canned_acl(name: str) -> str:
    return re.sub("(?<!^)(?=[A-Z])", "-", name).lower()


def _encryption(configuration: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "Rules": [
            {
                "ApplyServerSideEncryptionByDefault": dict(rule["ServerSideEncryptionByDefault"]),
                "BucketKeyEnabled": flag(rule.get("BucketKeyEnabled", False)),
            }
            for rule in configuration["ServerSideEncryptionConfiguration"]
        ]
    }


def _logging(configuration: Mapping[str, Any]) -> dict[str, Any]:
    if not configuration:
        return {}
    prefix = configuration.get("LogFilePrefix", "")
    return {
        "LoggingEnabled": {"TargetBucket": configuration["DestinationBucketName"], "TargetPrefix": prefix}
    }


CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "attribute": lambda value: {"Value": flag(value)},
    "canned_acl": _canned_acl,
    "encryption": _encryption,
    "kms_tags": lambda tags: [{"TagKey": key, "TagValue": value} for key, value in tags.items()],
    "lifecycle": lambda value: {"Rules": [_lifecycle_rule(rule) for rule in value["Rules"]]},
    "lifecycle_policy_text": lambda policy: policy["LifecyclePolicyText"],
    "logging": _logging,
    "mapping": dict,
    "tag_set": lambda tags: {"TagSet": tags},
}
