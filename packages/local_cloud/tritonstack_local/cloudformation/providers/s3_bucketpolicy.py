"""AWS::S3::BucketPolicy."""

from __future__ import annotations

import json
from typing import ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest, ignoring


class BucketPolicy(Provider):
    """Identifier: the bucket's name, as a bucket has one policy."""

    type_name = "AWS::S3::BucketPolicy"
    properties: ClassVar = {
        "Bucket": Property(create_only=True, required=True),
        "PolicyDocument": Property(
            required=True,
            why="It is held against the caller's account and the encryption that a request names; "
            "conditions of other kinds are refused.",
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
