"""AWS::ECR::Repository."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import (
    NOT_ENFORCED,
    Property,
    Provider,
    ResourceRequest,
    ignoring,
    removed,
)


class RepositoryProvider(Provider):
    """Identifier: the repository's name. With images, it is deleted only if EmptyOnDelete is set."""

    type_name = "AWS::ECR::Repository"
    name_property = "RepositoryName"
    properties: ClassVar = {
        "EmptyOnDelete": Property(),
        "EncryptionConfiguration": Property(
            shape="ecr:EncryptionConfiguration",
            create_only=True,
            effect=False,
            why="It is stored and returned; nothing is encrypted.",
        ),
        "ImageScanningConfiguration": Property(
            shape="ecr:ImageScanningConfiguration",
            effect=False,
            why="It is stored and returned; no image is scanned.",
        ),
        "ImageTagMutability": Property(),
        "LifecyclePolicy": Property(
            members={"LifecyclePolicyText": None},
            effect=False,
            why="It is stored and returned; no image expires.",
        ),
        "RepositoryName": Property(create_only=True),
        "RepositoryPolicyText": Property(effect=False, why=NOT_ENFORCED),
        "Tags": Property(shape="ecr:TagList"),
    }
    attribute_names = frozenset({"Arn", "RepositoryUri"})

    def create(self, request: ResourceRequest) -> str:
        """Create the repository."""
        name = request.name("RepositoryName", max_length=256, lower=True)
        encryption = request.value("EncryptionConfiguration")
        extra = {"encryptionConfiguration": encryption} if encryption else {}
        request.client("ecr").create_repository(repositoryName=name, **extra)
        return name

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Apply every setting."""
        ecr = request.client("ecr")
        scanning = request.value("ImageScanningConfiguration") or {"scanOnPush": False}
        ecr.put_image_scanning_configuration(repositoryName=physical_id, imageScanningConfiguration=scanning)
        mutability = request.properties.get("ImageTagMutability", "MUTABLE")
        ecr.put_image_tag_mutability(repositoryName=physical_id, imageTagMutability=mutability)
        lifecycle = request.properties.get("LifecyclePolicy", {}).get("LifecyclePolicyText")
        if lifecycle:
            ecr.put_lifecycle_policy(repositoryName=physical_id, lifecyclePolicyText=lifecycle)
        policy = request.properties.get("RepositoryPolicyText")
        if policy:
            text = policy if isinstance(policy, str) else json.dumps(policy)
            ecr.set_repository_policy(repositoryName=physical_id, policyText=text)
        if request.properties.get("Tags"):
            ecr.tag_resource(resourceArn=_arn(request, physical_id), tags=request.value("Tags"))

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Remove policies and tags."""
        ecr = request.client("ecr")
        if removed(request, previous, "LifecyclePolicy"):
            ecr.delete_lifecycle_policy(repositoryName=physical_id)
        if removed(request, previous, "RepositoryPolicyText"):
            ecr.delete_repository_policy(repositoryName=physical_id)
        kept = {tag["Key"] for tag in request.properties.get("Tags", [])}
        gone = [tag["Key"] for tag in previous.properties.get("Tags", []) if tag["Key"] not in kept]
        if gone:
            ecr.untag_resource(resourceArn=_arn(request, physical_id), tagKeys=gone)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the repository."""
        with ignoring("RepositoryNotFoundException"):
            request.client("ecr").delete_repository(
                repositoryName=physical_id, force=request.flag("EmptyOnDelete")
            )

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the repository's names."""
        stack = request.stack
        uri = f"{stack.account}.dkr.ecr.{stack.region}.amazonaws.com/{physical_id}"
        return {"Arn": _arn(request, physical_id), "RepositoryUri": uri}


def _arn(request: ResourceRequest, name: str) -> str:
    return f"arn:aws:ecr:{request.stack.region}:{request.stack.account}:repository/{name}"
