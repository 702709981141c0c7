"""AWS::CodeBuild::Project."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import (
    Property,
    Provider,
    ResourceRequest,
    api_property,
    removed,
)
from tritonstack_local.cloudformation.templates.shapes import shape_named, to_api
from tritonstack_local.codebuild.refusals import ACCEPTED_WITHOUT_EFFECT, refusal_of

# Property -> field of CreateProject.
_FIELDS = {
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
_REQUIRED = ("Artifacts", "Environment", "ServiceRole", "Source")
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
                required=name in _REQUIRED,
                reason=ACCEPTED_WITHOUT_EFFECT.get(f"CreateProject.{field}"),
            )
            for name, field in _FIELDS.items()
        },
    }
    attribute_names = frozenset({"Arn"})

    def problems(self, logical_id: str, properties: Mapping[str, Any]) -> Iterator[str]:
        """Yield what CodeBuild would reject, before any resource is created."""
        yield from super().problems(logical_id, properties)
        fields = {
            field: to_api(properties[name], shape_named(f"codebuild:CreateProject.{field}"))
            for name, field in _FIELDS.items()
            if name in properties
        }
        refusal = refusal_of(fields)
        if refusal is not None:
            yield f"{logical_id}: {refusal}"

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
            for name, field in _FIELDS.items()
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
    return {field: request.value(name) for name, field in _FIELDS.items() if name in request.properties}
