"""AWS::S3 resources."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import (
    Property,
    Provider,
    ResourceRequest,
    ignoring,
    removed,
)

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


_ENCRYPTION = {
    "ServerSideEncryptionConfiguration": {
        "BucketKeyEnabled": None,
        "ServerSideEncryptionByDefault": {"SSEAlgorithm": None, "KMSMasterKeyID": None},
    }
}
_CANNED_ACLS = {
    "Private": "private",
    "PublicRead": "public-read",
    "PublicReadWrite": "public-read-write",
    "AuthenticatedRead": "authenticated-read",
    "LogDeliveryWrite": "log-delivery-write",
    "BucketOwnerRead": "bucket-owner-read",
    "BucketOwnerFullControl": "bucket-owner-full-control",
}


class BucketProvider(Provider):
    """Identifier: the bucket's name. A bucket that is not empty cannot be deleted."""

    type_name = "AWS::S3::Bucket"
    name_property = "BucketName"
    properties: ClassVar = {
        "BucketName": Property(create_only=True),
        "AccessControl": Property(reason="It is stored and returned; it applies to anonymous callers only."),
        "BucketEncryption": Property(
            members=_ENCRYPTION, reason="Objects are reported as encrypted, but stored as plain text."
        ),
        "LifecycleConfiguration": Property(
            members=LIFECYCLE_MEMBERS,
            effect=False,
            reason="It is stored and returned; objects neither expire nor change their storage class.",
            inner=NOT_STORED,
        ),
        "LoggingConfiguration": Property(members={"DestinationBucketName": None, "LogFilePrefix": None}),
        "OwnershipControls": Property(
            shape="s3:OwnershipControls",
            effect=False,
            reason="It is stored and returned; ACLs are still accepted.",
        ),
        "PublicAccessBlockConfiguration": Property(
            shape="s3:PublicAccessBlockConfiguration",
            effect=False,
            reason="It is stored and returned; public ACLs and policies are still accepted.",
        ),
        "Tags": Property(shape="s3:TagSet"),
        "VersioningConfiguration": Property(members={"Status": None}),
    }
    attribute_names = frozenset(
        {"Arn", "DomainName", "DualStackDomainName", "RegionalDomainName", "WebsiteURL"}
    )

    def find(self, request: ResourceRequest) -> str | None:
        """Return the bucket's name if this account owns it."""
        name = request.properties.get("BucketName")
        owned = request.client("s3").list_buckets()["Buckets"]
        return name if name in {bucket["Name"] for bucket in owned} else None

    def create(self, request: ResourceRequest) -> str:
        """Create an empty bucket."""
        name = request.name("BucketName", max_length=63, lower=True)
        region = request.stack.region
        place: dict[str, Any] = (
            {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        )
        request.client("s3").create_bucket(Bucket=name, **place)
        return name

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Apply every setting."""
        s3 = request.client("s3")
        for name, (apply, _) in _SETTINGS.items():
            if request.properties.get(name):
                apply(s3, physical_id, request)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Remove settings that the template no longer has."""
        s3 = request.client("s3")
        for name, (_, reset) in _SETTINGS.items():
            if removed(request, previous, name):
                reset(s3, physical_id)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the bucket; S3 rejects this unless it is empty."""
        with ignoring("NoSuchBucket"):
            request.client("s3").delete_bucket(Bucket=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the bucket's names."""
        region = request.stack.region
        return {
            "Arn": f"arn:aws:s3:::{physical_id}",
            "DomainName": f"{physical_id}.s3.amazonaws.com",
            "DualStackDomainName": f"{physical_id}.s3.dualstack.{region}.amazonaws.com",
            "RegionalDomainName": f"{physical_id}.s3.{region}.amazonaws.com",
            "WebsiteURL": f"http://{physical_id}.s3-website-{region}.amazonaws.com",
        }


def _acl(s3: Any, bucket: str, request: ResourceRequest) -> None:
    s3.put_bucket_acl(Bucket=bucket, ACL=_CANNED_ACLS[request.properties["AccessControl"]])


def _encryption(s3: Any, bucket: str, request: ResourceRequest) -> None:
    rules = [
        {
            "ApplyServerSideEncryptionByDefault": dict(rule["ServerSideEncryptionByDefault"]),
            "BucketKeyEnabled": str(rule.get("BucketKeyEnabled", False)).lower() == "true",
        }
        for rule in request.properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    ]
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": rules})


def _lifecycle(s3: Any, bucket: str, request: ResourceRequest) -> None:
    rules = lifecycle_rules(request.properties["LifecycleConfiguration"])
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})


def _logging(s3: Any, bucket: str, request: ResourceRequest) -> None:
    wanted = request.properties["LoggingConfiguration"]
    target = {
        "TargetBucket": wanted.get("DestinationBucketName", bucket),
        "TargetPrefix": wanted.get("LogFilePrefix", ""),
    }
    s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={"LoggingEnabled": target})


def _ownership(s3: Any, bucket: str, request: ResourceRequest) -> None:
    s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=request.value("OwnershipControls"))


def _public_access(s3: Any, bucket: str, request: ResourceRequest) -> None:
    s3.put_public_access_block(
        Bucket=bucket, PublicAccessBlockConfiguration=request.value("PublicAccessBlockConfiguration")
    )


def _tags(s3: Any, bucket: str, request: ResourceRequest) -> None:
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": request.value("Tags")})


def _versioning(s3: Any, bucket: str, request: ResourceRequest) -> None:
    status = request.properties["VersioningConfiguration"]["Status"]
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})


_Apply = Callable[[Any, str, ResourceRequest], None]
_Reset = Callable[[Any, str], object]
_SETTINGS: dict[str, tuple[_Apply, _Reset]] = {
    "OwnershipControls": (_ownership, lambda s3, name: s3.delete_bucket_ownership_controls(Bucket=name)),
    "AccessControl": (_acl, lambda s3, name: s3.put_bucket_acl(Bucket=name, ACL="private")),
    "PublicAccessBlockConfiguration": (
        _public_access,
        lambda s3, name: s3.delete_public_access_block(Bucket=name),
    ),
    "BucketEncryption": (_encryption, lambda s3, name: s3.delete_bucket_encryption(Bucket=name)),
    "VersioningConfiguration": (
        _versioning,
        lambda s3, name: s3.put_bucket_versioning(
            Bucket=name, VersioningConfiguration={"Status": "Suspended"}
        ),
    ),
    "LifecycleConfiguration": (_lifecycle, lambda s3, name: s3.delete_bucket_lifecycle(Bucket=name)),
    "LoggingConfiguration": (
        _logging,
        lambda s3, name: s3.put_bucket_logging(Bucket=name, BucketLoggingStatus={}),
    ),
    "Tags": (_tags, lambda s3, name: s3.delete_bucket_tagging(Bucket=name)),
}


class BucketPolicyProvider(Provider):
    """Identifier: the bucket's name; a bucket has one policy."""

    type_name = "AWS::S3::BucketPolicy"
    properties: ClassVar = {
        "Bucket": Property(create_only=True, required=True),
        "PolicyDocument": Property(
            required=True,
            reason="Enforced by the caller's account and the requested encryption; others are rejected.",
        ),
    }

    def create(self, request: ResourceRequest) -> str:
        """Return the bucket; `settle` sets its policy."""
        return str(request.properties["Bucket"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set the policy."""
        policy = json.dumps(request.properties["PolicyDocument"])
        request.client("s3").put_bucket_policy(Bucket=physical_id, Policy=policy)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Remove the policy."""
        with ignoring("NoSuchBucket"):
            request.client("s3").delete_bucket_policy(Bucket=physical_id)
