"""Lifecycle rules of a bucket: CloudFormation spells them differently from the S3 API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RULE_MEMBERS = {
    "Id": None,
    "Status": None,
    "Prefix": None,
    "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": None},
    "ExpirationInDays": None,
    "ExpirationDate": None,
    "ExpiredObjectDeleteMarker": None,
    "NoncurrentVersionExpiration": {"NoncurrentDays": None, "NewerNoncurrentVersions": None},
    "NoncurrentVersionExpirationInDays": None,
    "NoncurrentVersionTransitions": {
        "StorageClass": None,
        "TransitionInDays": None,
        "NewerNoncurrentVersions": None,
    },
    "ObjectSizeGreaterThan": None,
    "ObjectSizeLessThan": None,
    "TagFilters": {"Key": None, "Value": None},
    "Transitions": {"StorageClass": None, "TransitionInDays": None, "TransitionDate": None},
}
LIFECYCLE_MEMBERS = {"Rules": _RULE_MEMBERS}
NOT_EVEN_KEPT = dict.fromkeys(
    (
        "Rules.NoncurrentVersionExpiration.NewerNoncurrentVersions",
        "Rules.NoncurrentVersionTransitions.NewerNoncurrentVersions",
        "Rules.ObjectSizeGreaterThan",
        "Rules.ObjectSizeLessThan",
    ),
    "Not even kept: it is missing when the rules are read back.",
)


def lifecycle_rules(configuration: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rules of a LifecycleConfiguration as the S3 API takes them."""
    return [_rule(rule) for rule in configuration["Rules"]]


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    converted = {
        "ID": rule.get("Id"),
        "Status": rule["Status"],
        "Filter": _filter(rule),
        "Expiration": _expiration(rule),
        "AbortIncompleteMultipartUpload": _numbers(rule.get("AbortIncompleteMultipartUpload")),
        "NoncurrentVersionExpiration": _noncurrent_expiration(rule),
        "Transitions": [_transition(item, "Days") for item in rule.get("Transitions", ())],
        "NoncurrentVersionTransitions": [
            _transition(item, "NoncurrentDays") for item in rule.get("NoncurrentVersionTransitions", ())
        ],
    }
    return {key: value for key, value in converted.items() if value not in (None, [], {})} | {
        "Filter": converted["Filter"]
    }


def _filter(rule: Mapping[str, Any]) -> dict[str, Any]:
    conditions: dict[str, Any] = {}
    if "Prefix" in rule:
        conditions["Prefix"] = rule["Prefix"]
    for name in ("ObjectSizeGreaterThan", "ObjectSizeLessThan"):
        if name in rule:
            conditions[name] = int(rule[name])
    tags = [dict(tag) for tag in rule.get("TagFilters", ())]
    if len(tags) == 1 and not conditions:
        return {"Tag": tags[0]}
    if len(conditions) + len(tags) > 1:
        return {"And": conditions | ({"Tags": tags} if tags else {})}
    return conditions or {"Prefix": ""}


def _expiration(rule: Mapping[str, Any]) -> dict[str, Any]:
    expiration: dict[str, Any] = {}
    if "ExpirationInDays" in rule:
        expiration["Days"] = int(rule["ExpirationInDays"])
    if "ExpirationDate" in rule:
        expiration["Date"] = rule["ExpirationDate"]
    if "ExpiredObjectDeleteMarker" in rule:
        expiration["ExpiredObjectDeleteMarker"] = str(rule["ExpiredObjectDeleteMarker"]).lower() == "true"
    return expiration


def _noncurrent_expiration(rule: Mapping[str, Any]) -> dict[str, int] | None:
    if "NoncurrentVersionExpirationInDays" in rule:
        return {"NoncurrentDays": int(rule["NoncurrentVersionExpirationInDays"])}
    return _numbers(rule.get("NoncurrentVersionExpiration"))


def _transition(item: Mapping[str, Any], days: str) -> dict[str, Any]:
    converted: dict[str, Any] = {"StorageClass": item["StorageClass"]}
    if "TransitionInDays" in item:
        converted[days] = int(item["TransitionInDays"])
    if "TransitionDate" in item:
        converted["Date"] = item["TransitionDate"]
    if "NewerNoncurrentVersions" in item:
        converted["NewerNoncurrentVersions"] = int(item["NewerNoncurrentVersions"])
    return converted


def _numbers(members: Mapping[str, Any] | None) -> dict[str, int] | None:
    return None if members is None else {key: int(value) for key, value in members.items()}
