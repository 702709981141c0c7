"""The fields of CodeBuild that have their effect, and those accepted without it; all others are rejected."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.model import ListShape, Shape, StructureShape

from tritonstack_local.codebuild.records import not_supported
from tritonstack_local.service.errors import ServiceError
from tritonstack_local.service.wire import service_model

_THIS_MACHINE = "builds run on this machine"
_NO_QUEUE = "builds are never queued; builds beyond the project's limit are rejected"

# Structure of the service model -> fields with their effect. All fields of other structures are accepted.
_PROJECT = frozenset(
    {
        *("name", "description", "source", "sourceVersion", "artifacts", "environment", "serviceRole"),
        *("timeoutInMinutes", "tags", "logsConfig", "concurrentBuildLimit"),
    }
)
IN_EFFECT: Mapping[str, frozenset[str]] = {
    "CreateProject": _PROJECT,
    "UpdateProject": _PROJECT,
    "ListProjects": frozenset({"nextToken"}),
    "ProjectSource": frozenset({"type", "location", "buildspec"}),
    "ProjectEnvironment": frozenset({"type", "image", "environmentVariables", "privilegedMode"}),
    "StartBuild": frozenset(
        {
            *("projectName", "idempotencyToken", "sourceVersion", "sourceTypeOverride"),
            *("sourceLocationOverride", "buildspecOverride", "environmentVariablesOverride"),
            *("imageOverride", "serviceRoleOverride", "timeoutInMinutesOverride"),
        }
    ),
}
# Field -> why it has no effect.
ACCEPTED_WITHOUT_EFFECT: Mapping[str, str] = {
    "CreateProject.cache": "every build starts with an empty cache",
    "CreateProject.encryptionKey": "nothing is encrypted",
    "CreateProject.queuedTimeoutInMinutes": _NO_QUEUE,
    "CreateProject.vpcConfig": "builds use this machine's network",
    "ProjectEnvironment.computeType": _THIS_MACHINE,
    "ProjectEnvironment.fleet": _THIS_MACHINE,
    "ProjectEnvironment.hostKernel": _THIS_MACHINE,
    "ProjectEnvironment.imagePullCredentialsType": "images must be in this machine's Docker engine",
    "buildspec.phases.install.runtime-versions": "runtime versions depend on the image",
    "buildspec.run-as": "effective in containers only; otherwise commands run as the user of the local cloud",
}
# What is accepted -> all else is rejected.
ONLY: Mapping[str, str] = {
    "ProjectSource.type other than S3 and NO_SOURCE": "there is no other source",
    "ProjectSource.buildspec in a file": "a project holds its buildspec",
    "EnvironmentVariable.type other than PLAINTEXT": "there are no secrets",
    "ProjectArtifacts.type other than NO_ARTIFACTS": "commands upload what they make",
    "other fields of CodeBuild": "only what model builds need is there",
}
_ENVIRONMENTS = {
    "x86_64": ("LINUX_CONTAINER", "LINUX_GPU_CONTAINER", "LINUX_EC2"),
    "aarch64": ("ARM_CONTAINER", "ARM_EC2"),
}


def reject_unsupported(operation: str, fields: Mapping[str, Any]) -> None:
    """Reject a request with an unsupported field, at any depth."""
    shape = service_model("codebuild").operation_model(operation).input_shape
    for field in _unsupported(shape, fields):
        raise not_supported(field)


def check_settings(fields: Mapping[str, Any]) -> None:
    """Check the fields of a project or a build."""
    reject_unsupported("CreateProject", fields)
    environment = fields.get("environment", {})
    _require("ProjectSource.type", fields.get("source", {}).get("type"), ("S3", "NO_SOURCE"))
    _require("ProjectEnvironment.type", environment.get("type"), _ENVIRONMENTS.get(platform.machine(), ()))
    for variable in environment.get("environmentVariables", []):
        _require("EnvironmentVariable.type", variable.get("type"), ("PLAINTEXT",))
    _require("ProjectArtifacts.type", fields.get("artifacts", {}).get("type"), ("NO_ARTIFACTS",))
    if fields.get("logsConfig", {}).get("s3Logs", {}).get("status") == "ENABLED":
        raise not_supported("LogsConfig.s3Logs")


def project_rejection(fields: Mapping[str, Any]) -> str | None:
    """Return why a template's project is rejected; None if it is accepted.

    Values unknown before the deployment are ignored.
    """
    try:
        check_settings(fields)
    except ServiceError as error:
        return error.message
    return None


def _unsupported(shape: Shape, value: Any) -> Iterator[str]:
    if isinstance(shape, StructureShape) and isinstance(value, Mapping):
        name = shape.name.removesuffix("Input")
        for member, inner in value.items():
            field = f"{name.replace('UpdateProject', 'CreateProject')}.{member}"
            is_known = member in IN_EFFECT.get(name, shape.members) or field in ACCEPTED_WITHOUT_EFFECT
            if not is_known and inner not in (None, False, [], {}, 0):
                yield field
            yield from _unsupported(shape.members[member], inner)
    elif isinstance(shape, ListShape) and isinstance(value, list):
        for item in value:
            yield from _unsupported(shape.member, item)


def _require(field: str, value: Any, offered: tuple[str, ...]) -> None:
    if isinstance(value, str) and value not in offered:
        raise not_supported(f"{field}={value}; supported: {', '.join(offered)}")
