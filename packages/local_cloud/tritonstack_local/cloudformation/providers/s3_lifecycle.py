"""Lifecycle rules of buckets, from CloudFormation's structure to the API's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tritonstack_local.cloudformation.providers.base import KEYS_AND_VALUES
from tritonstack_local.cloudformation.templates.shapes import shape_named, to_api

_RULE_MEMBERS = {
    **dict.fromkeys(
        (
            *("Id", "Status", "Prefix", "ExpirationInDays", "ExpirationDate", "ExpiredObjectDeleteMarker"),
            *("NoncurrentVersionExpirationInDays", "ObjectSizeGreaterThan", "ObjectSizeLessThan"),
        )
    ),
    "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": None},
    "NoncurrentVersionExpiration": {"NoncurrentDays": None, "NewerNoncurrentVersions": None},
    "NoncurrentVersionTransitions": dict.fromkeys(
        ("StorageClass", "TransitionInDays", "NewerNoncurrentVersions")
    ),
    "TagFilters": KEYS_AND_VALUES,
    "Transitions": dict.fromkeys(("StorageClass", "TransitionInDays", "TransitionDate")),
}
LIFECYCLE_MEMBERS = {"Rules": _RULE_MEMBERS}
NOT_STORED = dict.fromkeys(
    (
        "Rules.NoncurrentVersionExpiration.NewerNoncurrentVersions",
        "Rules.NoncurrentVersionTransitions.NewerNoncurrentVersions",
        "Rules.ObjectSizeGreaterThan",
        "Rules.ObjectSizeLessThan",
    ),
    "It is not stored, and missing from the returned rules.",
)


def lifecycle_rules(configuration: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rules of a LifecycleConfiguration in the API's format."""
    return [_rule(rule) for rule in configuration["Rules"]]


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    structures = {
        **_renamed(rule, Id="ID", Status="Status"),
        "Filter": _filter(rule),
        "Expiration": _renamed(
            rule,
            ExpirationInDays="Days",
            ExpirationDate="Date",
            ExpiredObjectDeleteMarker="ExpiredObjectDeleteMarker",
        ),
        "AbortIncompleteMultipartUpload": rule.get("AbortIncompleteMultipartUpload"),
        "NoncurrentVersionExpiration": _renamed(rule, NoncurrentVersionExpirationInDays="NoncurrentDays")
        or rule.get("NoncurrentVersionExpiration"),
        "Transitions": [
            _renamed(item, StorageClass="StorageClass", TransitionInDays="Days", TransitionDate="Date")
            for item in rule.get("Transitions", ())
        ],
        "NoncurrentVersionTransitions": [
            {**item, **_renamed(item, TransitionInDays="NoncurrentDays")}
            for item in rule.get("NoncurrentVersionTransitions", ())
        ],
    }
    given = {name: value for name, value in structures.items() if value}
    converted: dict[str, Any] = to_api(given, shape_named("s3:LifecycleRule"))
    return converted


def _renamed(source: Mapping[str, Any], **names: str) -> dict[str, Any]:
    return {api: source[name] for name, api in names.items() if name in source}


def _filter(rule: Mapping[str, Any]) -> dict[str, Any]:
    names = ("Prefix", "ObjectSizeGreaterThan", "ObjectSizeLessThan")
    conditions = {name: rule[name] for name in names if name in rule}
    tags = list(rule.get("TagFilters", ()))
    if len(tags) == 1 and not conditions:
        return {"Tag": tags[0]}
    if len(conditions) + len(tags) > 1:
        return {"And": conditions | ({"Tags": tags} if tags else {})}
    return conditions or {"Prefix": ""}
