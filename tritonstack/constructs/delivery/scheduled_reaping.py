"""Destroy expired environments on a schedule."""

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
class ReapingOptions:
    """The commands, the schedule, and the project settings."""

    name: str
    every_hours: int
    commands: Sequence[str]
    role: GrantedRole
    image: str
    runtimes: dict[str, str]
    source: codebuild.CfnProject.SourceProperty
    """The source of the project; its buildspec is added here."""
    log_group: str
    key_arn: str


class ScheduledReaping(Construct):
    """Create a rule that starts a build, which runs `tritonstack reap`."""

    def __init__(self, scope: Construct, construct_id: str, *, reaping: ReapingOptions) -> None:
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
            description="Destroys expired environments",
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
            # A run that takes longer than its interval does not overlap with the next.
            concurrent_build_limit=1,
        )
        # CodeBuild tests the source's connection with this role before it creates the project.
        self.project.node.add_dependency(reaping.role.policy)
        clock = ServiceRole(
            self,
            "Clock",
            assumed_by={"events.amazonaws.com": None},
            description="IAM role for the EventBridge rule that starts the clean-up",
            policy_name="start-clean-up",
        )
        clock.allow([Grant(["codebuild:StartBuild"], [self.project.attr_arn])])
        unit = "hour" if reaping.every_hours == 1 else "hours"
        rule = events.CfnRule(
            self,
            "Rule",
            name=reaping.name,
            description="Starts the clean-up of expired environments",
            schedule_expression=f"rate({reaping.every_hours} {unit})",
            targets=[events.CfnRule.TargetProperty(id="reap", arn=self.project.attr_arn, role_arn=clock.arn)],
        )
        rule.node.add_dependency(clock.policy)
