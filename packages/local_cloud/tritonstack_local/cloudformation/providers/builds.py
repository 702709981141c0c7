"""CodeBuild and ECR."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tritonstack_local.cloudformation.providers.base import (
    NOT_ENFORCED,
    Creation,
    Deletion,
    Name,
    Property,
    PropertySetting,
    Provider,
    ResourceRequest,
    Tagging,
    kept,
    small,
)
from tritonstack_local.cloudformation.templates.shapes import shape_named, to_api
from tritonstack_local.codebuild.unsupported import ACCEPTED_WITHOUT_EFFECT as ACCEPTED_IN_CODEBUILD
from tritonstack_local.codebuild.unsupported import project_rejection
from tritonstack_local.service.errors import sentence

_PROJECT_PROPERTIES = (
    *("Artifacts", "Cache", "ConcurrentBuildLimit", "Description", "EncryptionKey", "Environment"),
    *("LogsConfig", "QueuedTimeoutInMinutes", "ServiceRole", "Source", "Tags", "TimeoutInMinutes"),
)
_PROJECT_REQUIRED = ("Artifacts", "Environment", "ServiceRole", "Source")
# Values that an update sends for removed properties.
_ABSENT: Mapping[str, Any] = {
    "Cache": {"type": "NO_CACHE"},
    "ConcurrentBuildLimit": -1,
    "Description": "",
    "LogsConfig": {"cloudWatchLogs": {"status": "ENABLED"}},
    "QueuedTimeoutInMinutes": 480,
    "Tags": [],
    "TimeoutInMinutes": 60,
}


def _project_property(name: str) -> Property:
    reason = ACCEPTED_IN_CODEBUILD.get(f"CreateProject.{small(name)}")
    return Property(
        shape=f"codebuild:CreateProject.{small(name)}",
        required=name in _PROJECT_REQUIRED,
        effect=reason is None,
        reason=sentence(reason) if reason else "",
    )


class ProjectProvider(Provider):
    """Identifier: the project's name, also returned by `Ref`."""

    def violations(self, logical_id: str, properties: Mapping[str, Any]) -> Iterator[str]:
        """Yield what CodeBuild would reject, before any resource is created."""
        yield from super().violations(logical_id, properties)
        fields = {
            small(name): to_api(properties[name], shape_named(f"codebuild:CreateProject.{small(name)}"))
            for name in _PROJECT_PROPERTIES
            if name in properties
        }
        if (rejection := project_rejection(fields)) is not None:
            yield f"{logical_id}: {rejection}"

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Change all settings, and remove those that the template no longer has."""
        absent = {small(name): value for name, value in _ABSENT.items() if previous.value(name) is not None}
        request.client("codebuild").update_project(name=physical_id, **absent | self.arguments(request))


_PROJECT = ProjectProvider(
    type_name="AWS::CodeBuild::Project",
    identifier="name",
    name=Name("Name", 150),
    properties={
        "Name": Property(create_only=True),
        **{name: _project_property(name) for name in _PROJECT_PROPERTIES},
    },
    creation=Creation("create_project"),
    camel_case=True,
    deletion=Deletion("delete_project"),
    attributes={"Arn": "arn:aws:codebuild:{region}:{account}:project/{id}"},
)

_REPOSITORY_ARN = "arn:aws:ecr:{region}:{account}:repository/{id}"


class RepositoryProvider(Provider):
    """Identifier: the repository's name. With images, it is deleted only if EmptyOnDelete is set."""

    def call(self, request: ResourceRequest, operation: str, **arguments: Any) -> Any:
        """Call an operation of ECR."""
        force = {"force": request.flag("EmptyOnDelete")} if operation == self.deletion.operation else {}
        return super().call(request, operation, **arguments, **force)


_REPOSITORY = RepositoryProvider(
    type_name="AWS::ECR::Repository",
    identifier="repositoryName",
    name=Name("RepositoryName", 256, lower=True),
    properties={
        "EmptyOnDelete": Property(),
        "EncryptionConfiguration": kept(
            "nothing is encrypted.", shape="ecr:EncryptionConfiguration", create_only=True
        ),
        "ImageScanningConfiguration": kept("no image is scanned.", shape="ecr:ImageScanningConfiguration"),
        "ImageTagMutability": Property(),
        "LifecyclePolicy": kept("no image expires.", members={"LifecyclePolicyText": None}),
        "RepositoryName": Property(create_only=True),
        "RepositoryPolicyText": Property(as_text=True, effect=False, reason=NOT_ENFORCED),
        "Tags": Property(shape="ecr:TagList"),
    },
    creation=Creation("create_repository"),
    camel_case=True,
    unsent=("EmptyOnDelete",),
    settings={
        "ImageScanningConfiguration": PropertySetting(
            "put_image_scanning_configuration", "imageScanningConfiguration", default={"scanOnPush": False}
        ),
        "ImageTagMutability": PropertySetting(
            "put_image_tag_mutability", "imageTagMutability", default="MUTABLE"
        ),
        "LifecyclePolicy": PropertySetting(
            "put_lifecycle_policy",
            "lifecyclePolicyText",
            "delete_lifecycle_policy",
            write=lambda policy: policy["LifecyclePolicyText"],
        ),
        "RepositoryPolicyText": PropertySetting(
            "set_repository_policy", "policyText", "delete_repository_policy"
        ),
    },
    tagging=Tagging(
        "tag_resource", "untag_resource", {"resourceArn": _REPOSITORY_ARN}, tags="tags", keys="tagKeys"
    ),
    deletion=Deletion("delete_repository", "RepositoryNotFoundException"),
    attributes={
        "Arn": _REPOSITORY_ARN,
        "RepositoryUri": "{account}.dkr.ecr.{region}.amazonaws.com/{id}",
    },
)

TYPES = (_PROJECT, _REPOSITORY)
