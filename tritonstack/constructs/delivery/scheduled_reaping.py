"""Destroy expired environments on a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import aws_events as events
from constructs import Construct

from tritonstack.constructs.builds.build_project import BuildMachine, BuildSettings, BuildTask, build_project
from tritonstack.constructs.iam.granted_role import GrantedRole
from tritonstack.constructs.iam.grants import allow
from tritonstack.constructs.iam.service_role import ServiceRole


class ScheduledReaping(Construct):
    """Create a rule that starts a build, which runs `tritonstack reap`."""

    def __init__(  # noqa: PLR0913  seven parameters are the limit of a construct, beside scope and id
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        every_hours: int,
        commands: Sequence[str],
        role: GrantedRole,
        image: str,
        runtimes: Mapping[str, str],
        settings: BuildSettings,
    ) -> None:
        super().__init__(scope, construct_id)
        phases = {"install": {"runtime-versions": runtimes}, "build": {"commands": list(commands)}}
        self.project = build_project(
            self,
            task=BuildTask(
                name=name,
                description="Destroys expired environments",
                role=role,
                buildspec={"version": "0.2", "phases": phases},
                log_stream="reap",
            ),
            machine=BuildMachine("LINUX_CONTAINER", "BUILD_GENERAL1_MEDIUM", image, privileged=None),
            settings=settings,
        )
        clock = ServiceRole(
            self,
            "Clock",
            assumed_by={"events.amazonaws.com": None},
            description="IAM role for the EventBridge rule that starts the clean-up",
            policy_name="start-clean-up",
        )
        clock.allow([allow("codebuild: StartBuild", self.project.attr_arn)])
        rule = events.CfnRule(
            self,
            "Rule",
            name=name,
            description="Starts the clean-up of expired environments",
            schedule_expression=f"rate({every_hours} {'hour' if every_hours == 1 else 'hours'})",
            targets=[events.CfnRule.TargetProperty(id="reap", arn=self.project.attr_arn, role_arn=clock.arn)],
        )
        rule.node.add_dependency(clock.policy)
