"""Fields that CodeBuild rejects because they are not implemented, and fields accepted without effect.

Every field of the service model in neither table has its effect; a test compares the tables with botocore's
model, to detect new fields.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.model import ListShape, Shape, StructureShape

from tritonstack_local.codebuild.errors import not_supported
from tritonstack_local.service.errors import ServiceError
from tritonstack_local.service.wire import service_model

_THIS_MACHINE = "builds run on this machine"
_NO_GIT = "supported sources: S3, NO_SOURCE"
_NO_CACHE = "every build starts with an empty cache"
_NO_RETRY = "automatic retries are not supported"
_NO_ARTIFACTS = "commands upload what they make"
_ONE_SOURCE = "builds have one source"
_PLAIN = "supported variables: PLAINTEXT"
_NO_REGISTRY = "images must be in this machine's Docker engine"
_NOT_ENCRYPTED = "nothing is encrypted"
_NO_QUEUE = "builds are never queued; builds beyond the project's limit are rejected"

# Field of the service model, by structure -> why it has no effect.
ACCEPTED_WITHOUT_EFFECT: dict[str, str] = {
    "CreateProject.cache": _NO_CACHE,
    "CreateProject.encryptionKey": _NOT_ENCRYPTED,
    "CreateProject.queuedTimeoutInMinutes": _NO_QUEUE,
    "CreateProject.vpcConfig": "builds use this machine's network",
    "ProjectEnvironment.computeType": _THIS_MACHINE,
    "ProjectEnvironment.fleet": _THIS_MACHINE,
    "ProjectEnvironment.hostKernel": _THIS_MACHINE,
    "ProjectEnvironment.imagePullCredentialsType": _NO_REGISTRY,
    "StartBuild.cacheOverride": _NO_CACHE,
    "StartBuild.encryptionKeyOverride": _NOT_ENCRYPTED,
    "StartBuild.queuedTimeoutInMinutesOverride": _NO_QUEUE,
    "StartBuild.computeTypeOverride": _THIS_MACHINE,
    "StartBuild.fleetOverride": _THIS_MACHINE,
    "StartBuild.hostKernelOverride": _THIS_MACHINE,
    "StartBuild.imagePullCredentialsTypeOverride": _NO_REGISTRY,
    "buildspec.cache": _NO_CACHE,
    "buildspec.reports": "test reports are not stored",
    "buildspec.proxy": "builds use no proxy",
    "buildspec.env.git-credential-helper": _NO_GIT,
    "buildspec.phases.install.runtime-versions": "runtime versions depend on the image",
    "buildspec.run-as": "effective in containers only; otherwise commands run as the user of the local cloud",
}

# Field -> why it is rejected.
UNSUPPORTED: dict[str, str] = {
    "CreateProject.badgeEnabled": "build badges are not supported",
    "CreateProject.fileSystemLocations": "there are no file systems to mount",
    "CreateProject.buildBatchConfig": "batch builds are not supported",
    "CreateProject.autoRetryLimit": _NO_RETRY,
    "CreateProject.secondarySources": _ONE_SOURCE,
    "CreateProject.secondarySourceVersions": _ONE_SOURCE,
    "CreateProject.secondaryArtifacts": _NO_ARTIFACTS,
    "ProjectSource.sourceIdentifier": _ONE_SOURCE,
    "ProjectSource.gitCloneDepth": _NO_GIT,
    "ProjectSource.gitSubmodulesConfig": _NO_GIT,
    "ProjectSource.auth": _NO_GIT,
    "ProjectSource.reportBuildStatus": _NO_GIT,
    "ProjectSource.buildStatusConfig": _NO_GIT,
    "ProjectSource.insecureSsl": _NO_GIT,
    "ProjectEnvironment.computeConfiguration": _THIS_MACHINE,
    "ProjectEnvironment.certificate": "S3 uses no TLS here",
    "ProjectEnvironment.registryCredential": _NO_REGISTRY,
    "ProjectEnvironment.dockerServer": "only this machine's Docker engine is available",
    "StartBuild.sourceAuthOverride": _NO_GIT,
    "StartBuild.gitCloneDepthOverride": _NO_GIT,
    "StartBuild.gitSubmodulesConfigOverride": _NO_GIT,
    "StartBuild.insecureSslOverride": _NO_GIT,
    "StartBuild.reportBuildStatusOverride": _NO_GIT,
    "StartBuild.buildStatusConfigOverride": _NO_GIT,
    "StartBuild.certificateOverride": "S3 uses no TLS here",
    "StartBuild.registryCredentialOverride": _NO_REGISTRY,
    "StartBuild.debugSessionEnabled": "debug sessions are not supported",
    "StartBuild.autoRetryLimitOverride": _NO_RETRY,
    "StartBuild.secondarySourcesOverride": _ONE_SOURCE,
    "StartBuild.secondarySourcesVersionOverride": _ONE_SOURCE,
    "StartBuild.artifactsOverride": _NO_ARTIFACTS,
    "StartBuild.secondaryArtifactsOverride": _NO_ARTIFACTS,
    "buildspec.artifacts": _NO_ARTIFACTS,
    "buildspec.env.exported-variables": "no later step reads them",
    "buildspec.env.parameter-store": _PLAIN,
    "buildspec.env.secrets-manager": _PLAIN,
    "buildspec.batch": "batch builds are not supported",
    "buildspec.version 0.1": "use version 0.2",
    "buildspec.on-failure RETRY": _NO_RETRY,
}
_SOURCES = ("S3", "NO_SOURCE")
_ENVIRONMENTS = {
    "x86_64": ("LINUX_CONTAINER", "LINUX_GPU_CONTAINER", "LINUX_EC2"),
    "aarch64": ("ARM_CONTAINER", "ARM_EC2"),
}


def reject_unsupported(operation: str, fields: Mapping[str, Any]) -> None:
    """Reject a request with an unsupported field, at any depth."""
    for path, reason in _unsupported(
        service_model("codebuild").operation_model(operation).input_shape, fields
    ):
        raise not_supported(path, reason)


def check_settings(fields: Mapping[str, Any]) -> None:
    """Check the fields of a project or a build against the tables."""
    reject_unsupported("CreateProject", fields)
    _reject_other("ProjectSource.type", fields.get("source", {}).get("type"), _SOURCES, _NO_GIT)
    environment = fields.get("environment", {})
    machines = _ENVIRONMENTS.get(platform.machine(), ())
    _reject_other("ProjectEnvironment.type", environment.get("type"), machines, _THIS_MACHINE)
    for variable in environment.get("environmentVariables", []):
        _reject_other("EnvironmentVariable.type", variable.get("type"), ("PLAINTEXT",), _PLAIN)
    artifacts = fields.get("artifacts", {}).get("type")
    _reject_other("ProjectArtifacts.type", artifacts, ("NO_ARTIFACTS",), _NO_ARTIFACTS)
    if fields.get("logsConfig", {}).get("s3Logs", {}).get("status") == "ENABLED":
        raise not_supported("LogsConfig.s3Logs", "logs go to CloudWatch Logs")


def project_rejection(fields: Mapping[str, Any]) -> str | None:
    """Return why a template's project is rejected; None if it is accepted.

    Values unknown before the deployment are ignored.
    """
    try:
        check_settings(fields)
    except ServiceError as error:
        return error.message
    return None


def _unsupported(shape: Shape, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(shape, StructureShape) and isinstance(value, Mapping):
        name = shape.name.removesuffix("Input")
        for member, inner in value.items():
            reason = UNSUPPORTED.get(f"{name}.{member}")
            if reason is not None and inner not in (None, False, [], {}, 0):
                yield f"{name}.{member}", reason
            yield from _unsupported(shape.members[member], inner)
    elif isinstance(shape, ListShape) and isinstance(value, list):
        for item in value:
            yield from _unsupported(shape.member, item)


def _reject_other(field: str, value: Any, offered: tuple[str, ...], reason: str) -> None:
    if isinstance(value, str) and value not in offered:
        raise not_supported(f"{field}={value}", reason)
