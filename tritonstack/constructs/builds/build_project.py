"""Create a CodeBuild project with the settings that all projects share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws_cdk import aws_codebuild as codebuild
from constructs import Construct

from tritonstack.constructs.iam.granted_role import GrantedRole

STANDARD_IMAGE = "aws/codebuild/standard:7.0"
QUEUED_MINUTES = 480
"""The longest time that CodeBuild keeps a build in the queue."""
Source = codebuild.CfnProject.SourceProperty


@dataclass(frozen=True)
class BuildSettings:
    """Settings that all projects of a stack share."""

    source: Source
    """Where the source comes from; each project adds its buildspec."""
    log_group: str
    key_arn: str
    timeout_minutes: int
    concurrent: int | None = None
    """Maximum number of concurrent builds; None means the account's quota. CodeBuild rejects a project whose
    limit exceeds that quota."""
    queued_minutes: int | None = QUEUED_MINUTES


@dataclass(frozen=True)
class BuildMachine:
    """The CodeBuild environment of a project."""

    type: str
    compute_type: str
    image: str
    pulled_by: str | None = None
    """SERVICE_ROLE for images in the account, CODEBUILD for images from CodeBuild."""
    privileged: bool | None = False
    fleet: str | None = None


@dataclass(frozen=True)
class BuildTask:
    """The name, role, and commands of one project."""

    name: str
    description: str
    role: GrantedRole
    buildspec: Mapping[str, Any]
    variables: Mapping[str, str] | None = None
    log_stream: str = ""
    """By default the project's name."""


def build_project(
    scope: Construct, *, task: BuildTask, machine: BuildMachine, settings: BuildSettings
) -> codebuild.CfnProject:
    """Create a project that writes to one log group."""
    source = settings.source
    variables = None
    if task.variables is not None:
        variables = [
            codebuild.CfnProject.EnvironmentVariableProperty(name=name, value=value, type="PLAINTEXT")
            for name, value in task.variables.items()
        ]
    project = codebuild.CfnProject(
        scope,
        "Project",
        name=task.name,
        description=task.description,
        service_role=task.role.arn,
        source=Source(
            type=source.type,
            location=source.location,
            auth=source.auth,
            build_spec=json.dumps(task.buildspec, indent=1),
        ),
        artifacts=codebuild.CfnProject.ArtifactsProperty(type="NO_ARTIFACTS"),
        environment=codebuild.CfnProject.EnvironmentProperty(
            type=machine.type,
            compute_type=machine.compute_type,
            image=machine.image,
            image_pull_credentials_type=machine.pulled_by,
            privileged_mode=machine.privileged,
            fleet=codebuild.CfnProject.ProjectFleetProperty(fleet_arn=machine.fleet)
            if machine.fleet
            else None,
            environment_variables=variables,
        ),
        cache=codebuild.CfnProject.ProjectCacheProperty(type="LOCAL", modes=["LOCAL_DOCKER_LAYER_CACHE"])
        if machine.privileged
        else None,
        logs_config=codebuild.CfnProject.LogsConfigProperty(
            cloud_watch_logs=codebuild.CfnProject.CloudWatchLogsConfigProperty(
                status="ENABLED", group_name=settings.log_group, stream_name=task.log_stream or task.name
            )
        ),
        encryption_key=settings.key_arn,
        timeout_in_minutes=settings.timeout_minutes,
        queued_timeout_in_minutes=settings.queued_minutes,
        concurrent_build_limit=settings.concurrent,
    )
    # Builds fail if they start before the role's policy exists, and CodeBuild tests a source's connection
    # with this role before it creates the project.
    project.node.add_dependency(task.role.policy)
    return project
