"""AWS::S3 resources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tritonstack_local.cloudformation.providers.base import (
    KEYS_AND_VALUES,
    Creation,
    Deletion,
    Name,
    Property,
    PropertySetting,
    Provider,
    ResourceRequest,
    alike,
    flag,
    kept,
)
from tritonstack_local.cloudformation.templates.shapes import shape_named, to_api

_ENCRYPTION = {
    "ServerSideEncryptionConfiguration": {
        "BucketKeyEnabled": None,
        "ServerSideEncryptionByDefault": {"SSEAlgorithm": None, "KMSMasterKeyID": None},
    }
}
_RENAMED = {
    "ExpirationInDays": ("Expiration", "Days"),
    "ExpiredObjectDeleteMarker": ("Expiration", "ExpiredObjectDeleteMarker"),
}
_LIFECYCLE = {
    "Rules": {
        **dict.fromkeys(("Id", "Status", "Prefix", *_RENAMED)),
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": None},
        "NoncurrentVersionExpiration": {"NoncurrentDays": None},
        "TagFilters": KEYS_AND_VALUES,
    }
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


class BucketProvider(Provider):
    """Identifier: the bucket's name. A bucket that is not empty cannot be deleted."""

    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        """Return the region, which us-east-1 does not accept."""
        region = request.stack.region
        place = {"CreateBucketConfiguration": {"LocationConstraint": region}}
        return {} if region == "us-east-1" else place


_BUCKET = BucketProvider(
    type_name="AWS::S3::Bucket",
    identifier="Bucket",
    name=Name("BucketName", 63, lower=True),
    properties={
        "BucketName": Property(create_only=True),
        "AccessControl": Property(reason="It is stored and returned; it applies to anonymous callers only."),
        "BucketEncryption": Property(
            members=_ENCRYPTION, reason="Objects are reported as encrypted, but stored as plain text."
        ),
        "LifecycleConfiguration": Property(
            members=_LIFECYCLE,
            effect=False,
            reason="It is stored and returned; objects neither expire nor change their storage class.",
        ),
        "LoggingConfiguration": Property(members={"DestinationBucketName": None, "LogFilePrefix": None}),
        "OwnershipControls": kept("ACLs are still accepted.", shape="s3:OwnershipControls"),
        "PublicAccessBlockConfiguration": kept(
            "public ACLs and policies are still accepted.", shape="s3:PublicAccessBlockConfiguration"
        ),
        "Tags": Property(shape="s3:TagSet"),
        "VersioningConfiguration": Property(members={"Status": None}),
    },
    creation=Creation("create_bucket"),
    settings={
        "OwnershipControls": PropertySetting(
            "put_bucket_ownership_controls", "OwnershipControls", "delete_bucket_ownership_controls"
        ),
        "AccessControl": PropertySetting("put_bucket_acl", "ACL", default="Private", write=_canned_acl),
        "PublicAccessBlockConfiguration": PropertySetting(
            "put_public_access_block", "PublicAccessBlockConfiguration", "delete_public_access_block"
        ),
        "BucketEncryption": PropertySetting(
            "put_bucket_encryption",
            "ServerSideEncryptionConfiguration",
            "delete_bucket_encryption",
            write=_encryption,
        ),
        "VersioningConfiguration": PropertySetting(
            "put_bucket_versioning", "VersioningConfiguration", default={"Status": "Suspended"}
        ),
        "LifecycleConfiguration": PropertySetting(
            "put_bucket_lifecycle_configuration",
            "LifecycleConfiguration",
            "delete_bucket_lifecycle",
            write=lambda value: {"Rules": [_lifecycle_rule(rule) for rule in value["Rules"]]},
        ),
        "LoggingConfiguration": PropertySetting(
            "put_bucket_logging", "BucketLoggingStatus", default={}, write=_logging
        ),
        "Tags": PropertySetting(
            "put_bucket_tagging", "Tagging", "delete_bucket_tagging", write=lambda tags: {"TagSet": tags}
        ),
    },
    deletion=Deletion("delete_bucket", "NoSuchBucket"),
    attributes={
        "Arn": "arn:aws:s3:::{id}",
        "DomainName": "{id}.s3.amazonaws.com",
        "DualStackDomainName": "{id}.s3.dualstack.{region}.amazonaws.com",
        "RegionalDomainName": "{id}.s3.{region}.amazonaws.com",
        "WebsiteURL": "http://{id}.s3-website-{region}.amazonaws.com",
    },
)

# A bucket has one policy, which is named like the bucket.
_BUCKET_POLICY = Provider(
    type_name="AWS::S3::BucketPolicy",
    identifier="Bucket",
    name=Name("Bucket"),
    properties={
        **alike("Bucket", create_only=True, required=True),
        "PolicyDocument": Property(
            required=True,
            as_text=True,
            reason="Enforced by the caller's account and the requested encryption; others are rejected.",
        ),
    },
    settings={"PolicyDocument": PropertySetting("put_bucket_policy", "Policy")},
    deletion=Deletion("delete_bucket_policy", "NoSuchBucket"),
)

TYPES = (_BUCKET, _BUCKET_POLICY)
