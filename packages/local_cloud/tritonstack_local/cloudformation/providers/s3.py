"""AWS::S3 resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tritonstack_local.cloudformation.providers.base import (
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
from tritonstack_local.cloudformation.providers.s3_lifecycle import (
    LIFECYCLE_MEMBERS,
    NOT_STORED,
    lifecycle_rules,
)

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


class LoggingSetting(PropertySetting):
    """By default, a bucket logs to itself."""

    def arguments(self, value: Any, physical_id: str) -> dict[str, Any]:
        """Return the arguments that switch logging on or, without a value, off."""
        target = {
            "TargetBucket": value.get("DestinationBucketName", physical_id),
            "TargetPrefix": value.get("LogFilePrefix", ""),
        }
        return {self.argument: {"LoggingEnabled": target} if value else {}}


class BucketProvider(Provider):
    """Identifier: the bucket's name. A bucket that is not empty cannot be deleted."""

    def find(self, request: ResourceRequest) -> str | None:
        """Return the bucket's name if this account owns it."""
        name = request.properties.get("BucketName")
        owned = request.client("s3").list_buckets()["Buckets"]
        return name if name in {bucket["Name"] for bucket in owned} else None

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
            members=LIFECYCLE_MEMBERS,
            effect=False,
            reason="It is stored and returned; objects neither expire nor change their storage class.",
            inner=NOT_STORED,
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
        "AccessControl": PropertySetting(
            "put_bucket_acl", "ACL", default="Private", write=_CANNED_ACLS.__getitem__
        ),
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
            write=lambda value: {"Rules": lifecycle_rules(value)},
        ),
        "LoggingConfiguration": LoggingSetting("put_bucket_logging", "BucketLoggingStatus", default={}),
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
