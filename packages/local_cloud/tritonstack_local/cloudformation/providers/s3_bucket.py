"""AWS::S3::Bucket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import (
    Property,
    Provider,
    ResourceRequest,
    ignoring,
    removed,
)
from tritonstack_local.cloudformation.providers.s3_lifecycle import (
    LIFECYCLE_MEMBERS,
    NOT_EVEN_KEPT,
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


class Bucket(Provider):
    """Identifier: the bucket's name. A bucket that is not empty cannot be deleted."""

    type_name = "AWS::S3::Bucket"
    name_property = "BucketName"
    properties: ClassVar = {
        "BucketName": Property(create_only=True),
        "AccessControl": Property(why="Kept and read back; only anonymous callers are held to it."),
        "BucketEncryption": Property(
            members=_ENCRYPTION, why="Objects are said to be encrypted as it asks; none is."
        ),
        "LifecycleConfiguration": Property(
            members=LIFECYCLE_MEMBERS,
            effect=False,
            why="It is kept and read back; objects neither expire nor move to another class.",
            inner=NOT_EVEN_KEPT,
        ),
        "LoggingConfiguration": Property(members={"DestinationBucketName": None, "LogFilePrefix": None}),
        "OwnershipControls": Property(
            shape="s3:OwnershipControls",
            effect=False,
            why="Kept and read back; access lists go on to be taken.",
        ),
        "PublicAccessBlockConfiguration": Property(
            shape="s3:PublicAccessBlockConfiguration",
            effect=False,
            why="It is kept and read back; public access lists and policies are taken all the same.",
        ),
        "Tags": Property(shape="s3:TagSet"),
        "VersioningConfiguration": Property(members={"Status": None}),
    }
    attribute_names = frozenset(
        {"Arn", "DomainName", "DualStackDomainName", "RegionalDomainName", "WebsiteURL"}
    )

    def find(self, request: ResourceRequest) -> str | None:
        """Return the bucket's name if this account owns one of that name."""
        name = request.properties.get("BucketName")
        owned = request.client("s3").list_buckets()["Buckets"]
        return name if name in {bucket["Name"] for bucket in owned} else None

    def create(self, request: ResourceRequest) -> str:
        """Make an empty bucket."""
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
        """Take back settings that the template no longer has."""
        s3 = request.client("s3")
        for name, (_, reset) in _SETTINGS.items():
            if removed(request, previous, name):
                reset(s3, physical_id)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the bucket; S3 refuses while anything is in it."""
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
