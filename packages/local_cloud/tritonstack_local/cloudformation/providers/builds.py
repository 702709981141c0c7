"""CodeBuild and ECR."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import (
    NOT_ENFORCED,
    Property,
    Provider,
    ResourceRequest,
    api_property,
    ignoring,
    removed,
)
from tritonstack_local.cloudformation.templates.shapes import shape_named, to_api
from tritonstack_local.codebuild.unsupported import ACCEPTED_WITHOUT_EFFECT as ACCEPTED_IN_CODEBUILD
from tritonstack_local.codebuild.unsupported import project_rejection

# Property -> field of CreateProject.
_PROJECT_FIELDS = {
    "Artifacts": "artifacts",
    "AutoRetryLimit": "autoRetryLimit",
    "BuildBatchConfig": "buildBatchConfig",
    "Cache": "cache",
    "ConcurrentBuildLimit": "concurrentBuildLimit",
    "Description": "description",
    "EncryptionKey": "encryptionKey",
    "Environment": "environment",
    "FileSystemLocations": "fileSystemLocations",
    "LogsConfig": "logsConfig",
    "QueuedTimeoutInMinutes": "queuedTimeoutInMinutes",
    "SecondaryArtifacts": "secondaryArtifacts",
    "SecondarySourceVersions": "secondarySourceVersions",
    "SecondarySources": "secondarySources",
    "ServiceRole": "serviceRole",
    "Source": "source",
    "SourceVersion": "sourceVersion",
    "Tags": "tags",
    "TimeoutInMinutes": "timeoutInMinutes",
    "VpcConfig": "vpcConfig",
}
_PROJECT_REQUIRED = ("Artifacts", "Environment", "ServiceRole", "Source")
# Values that an update sends for removed properties.
_ABSENT: Mapping[str, Any] = {
    "cache": {"type": "NO_CACHE"},
    "concurrentBuildLimit": -1,
    "description": "",
    "logsConfig": {"cloudWatchLogs": {"status": "ENABLED"}},
    "queuedTimeoutInMinutes": 480,
    "secondaryArtifacts": [],
    "secondarySourceVersions": [],
    "secondarySources": [],
    "sourceVersion": "",
    "tags": [],
    "timeoutInMinutes": 60,
    "vpcConfig": {},
}


class ProjectProvider(Provider):
    """Identifier: the project's name, also returned by `Ref`."""

    type_name = "AWS::CodeBuild::Project"
    name_property = "Name"
    properties: ClassVar = {
        "Name": Property(create_only=True),
        **{
            name: api_property(
                f"codebuild:CreateProject.{field}",
                required=name in _PROJECT_REQUIRED,
                reason=ACCEPTED_IN_CODEBUILD.get(f"CreateProject.{field}"),
            )
            for name, field in _PROJECT_FIELDS.items()
        },
    }
    attribute_names = frozenset({"Arn"})

    def violations(self, logical_id: str, properties: Mapping[str, Any]) -> Iterator[str]:
        """Yield what CodeBuild would reject, before any resource is created."""
        yield from super().violations(logical_id, properties)
        fields = {
            field: to_api(properties[name], shape_named(f"codebuild:CreateProject.{field}"))
            for name, field in _PROJECT_FIELDS.items()
            if name in properties
        }
        rejection = project_rejection(fields)
        if rejection is not None:
            yield f"{logical_id}: {rejection}"

    def find(self, request: ResourceRequest) -> str | None:
        """Return the project's name if it exists."""
        name = request.properties.get("Name")
        if name is None:
            return None
        found = request.client("codebuild").batch_get_projects(names=[name])["projects"]
        return name if found else None

    def create(self, request: ResourceRequest) -> str:
        """Create the project."""
        name = request.name("Name", max_length=150)
        request.client("codebuild").create_project(name=name, **_asked(request))
        return name

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Change all settings, and remove those that the template no longer has."""
        absent = {
            field: _ABSENT[field]
            for name, field in _PROJECT_FIELDS.items()
            if field in _ABSENT and removed(request, previous, name)
        }
        request.client("codebuild").update_project(name=physical_id, **absent, **_asked(request))

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the project; a missing one is not an error."""
        request.client("codebuild").delete_project(name=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the ARN."""
        stack = request.stack
        return {"Arn": f"arn:aws:codebuild:{stack.region}:{stack.account}:project/{physical_id}"}


def _asked(request: ResourceRequest) -> dict[str, Any]:
    return {
        field: request.value(name) for name, field in _PROJECT_FIELDS.items() if name in request.properties
    }


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
            reason="It is stored and returned; nothing is encrypted.",
        ),
        "ImageScanningConfiguration": Property(
            shape="ecr:ImageScanningConfiguration",
            effect=False,
            reason="It is stored and returned; no image is scanned.",
        ),
        "ImageTagMutability": Property(),
        "LifecyclePolicy": Property(
            members={"LifecyclePolicyText": None},
            effect=False,
            reason="It is stored and returned; no image expires.",
        ),
        "RepositoryName": Property(create_only=True),
        "RepositoryPolicyText": Property(effect=False, reason=NOT_ENFORCED),
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
            ecr.tag_resource(resourceArn=_repository_arn(request, physical_id), tags=request.value("Tags"))

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
            ecr.untag_resource(resourceArn=_repository_arn(request, physical_id), tagKeys=gone)

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
        return {"Arn": _repository_arn(request, physical_id), "RepositoryUri": uri}


def _repository_arn(request: ResourceRequest, name: str) -> str:
    return f"arn:aws:ecr:{request.stack.region}:{request.stack.account}:repository/{name}"
