"""Create a CodeBuild project with the settings that all projects share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aws_cdk import aws_codebuild as codebuild
from constructs import Construct

from tritonstack.constructs.iam.service_role import ServiceRole

QUEUED_MINUTES = 480
"""The longest time that CodeBuild keeps a build in the queue."""


@dataclass(frozen=True)
class BuildSettings:
    """Settings that all projects of a stack share."""

    source: str
    """bucket/key of the source archive."""
    log_group: str
    key_arn: str
    timeout_minutes: int
    concurrent: int | None = None
    """Maximum number of concurrent builds; None means the account's quota. CodeBuild rejects a project whose
    limit exceeds that quota."""


@dataclass(frozen=True)
class BuildMachine:
    """The CodeBuild environment of a project."""

    type: str
    compute_type: str
    image: str
    pulled_by: str
    """SERVICE_ROLE for images in the account, CODEBUILD for images from CodeBuild."""
    privileged: bool = False
    fleet: str | None = None


@dataclass(frozen=True)
class BuildTask:
    """The name, role, and commands of one project."""

    name: str
    description: str
    role: ServiceRole
    buildspec: Mapping[str, Any]
    variables: Mapping[str, str] = field(default_factory=dict)


class BuildProject(Construct):
    """Create a project that builds from the source archive and writes to one log group."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        task: BuildTask,
        machine: BuildMachine,
        settings: BuildSettings,
    ) -> None:
        super().__init__(scope, construct_id)
        project = codebuild.CfnProject(
            self,
            "Project",
            name=task.name,
            description=task.description,
            service_role=task.role.arn,
            source=codebuild.CfnProject.SourceProperty(
                type="S3", location=settings.source, build_spec=json.dumps(task.buildspec, indent=1)
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
                environment_variables=[
                    codebuild.CfnProject.EnvironmentVariableProperty(name=name, value=value, type="PLAINTEXT")
                    for name, value in task.variables.items()
                ],
            ),
            cache=codebuild.CfnProject.ProjectCacheProperty(type="LOCAL", modes=["LOCAL_DOCKER_LAYER_CACHE"])
            if machine.privileged
            else None,
            logs_config=codebuild.CfnProject.LogsConfigProperty(
                cloud_watch_logs=codebuild.CfnProject.CloudWatchLogsConfigProperty(
                    status="ENABLED", group_name=settings.log_group, stream_name=task.name
                )
            ),
            encryption_key=settings.key_arn,
            timeout_in_minutes=settings.timeout_minutes,
            queued_timeout_in_minutes=QUEUED_MINUTES,
            concurrent_build_limit=settings.concurrent,
        )
        # Builds fail if they start before the role's policy exists.
        project.node.add_dependency(task.role.policy)
