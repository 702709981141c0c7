"""By the clock: destroys the environments that have expired."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_events as events
from constructs import Construct

from tritonstack.constructs.iam.granted_role import GrantedRole
from tritonstack.constructs.iam.grants import Grant
from tritonstack.constructs.iam.service_role import ServiceRole

_TIMEOUT_MINUTES = 60


@dataclass(frozen=True)
class Reaping:
    """What is run, how often, and with what."""

    name: str
    every_hours: int
    commands: Sequence[str]
    role: GrantedRole
    image: str
    runtimes: dict[str, str]
    source: codebuild.CfnProject.SourceProperty
    """Where the project's files come from; its buildspec is put in here."""
    log_group: str
    key_arn: str


class ScheduledReaping(Construct):
    """A rule starts a build, and that runs `tritonstack reap`."""

    def __init__(self, scope: Construct, construct_id: str, *, reaping: Reaping) -> None:
        super().__init__(scope, construct_id)
        phases = {
            "install": {"runtime-versions": reaping.runtimes},
            "build": {"commands": list(reaping.commands)},
        }
        source = reaping.source
        self.project = codebuild.CfnProject(
            self,
            "Project",
            name=reaping.name,
            description="Destroys environments that have expired",
            service_role=reaping.role.arn,
            source=codebuild.CfnProject.SourceProperty(
                type=source.type,
                location=source.location,
                auth=source.auth,
                build_spec=json.dumps({"version": "0.2", "phases": phases}, indent=1),
            ),
            artifacts=codebuild.CfnProject.ArtifactsProperty(type="NO_ARTIFACTS"),
            environment=codebuild.CfnProject.EnvironmentProperty(
                type="LINUX_CONTAINER", compute_type="BUILD_GENERAL1_MEDIUM", image=reaping.image
            ),
            logs_config=codebuild.CfnProject.LogsConfigProperty(
                cloud_watch_logs=codebuild.CfnProject.CloudWatchLogsConfigProperty(
                    status="ENABLED", group_name=reaping.log_group, stream_name="reap"
                )
            ),
            encryption_key=reaping.key_arn,
            timeout_in_minutes=_TIMEOUT_MINUTES,
            # One that takes longer than its hour is not joined by a second.
            concurrent_build_limit=1,
        )
        # CodeBuild tries the source's connection with this role before it makes the project.
        self.project.node.add_dependency(reaping.role.policy)
        clock = ServiceRole(
            self,
            "Clock",
            taken_on_by={"events.amazonaws.com": None},
            description="EventBridge starts the clean-up with it",
            policy_name="start-clean-up",
        )
        clock.allow([Grant(["codebuild:StartBuild"], [self.project.attr_arn])])
        unit = "hour" if reaping.every_hours == 1 else "hours"
        rule = events.CfnRule(
            self,
            "Rule",
            name=reaping.name,
            description="Starts the destruction of what has expired",
            schedule_expression=f"rate({reaping.every_hours} {unit})",
            targets=[events.CfnRule.TargetProperty(id="reap", arn=self.project.attr_arn, role_arn=clock.arn)],
        )
        rule.node.add_dependency(clock.policy)
