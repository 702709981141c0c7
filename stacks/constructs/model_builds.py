"""The projects that build models, one for each kind of machine, and the role that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from constructs import Construct

from catalog.build_images import BuilderImage
from catalog.builds import CodeBuildMachine
from stacks.constructs.build_grants import write_build_log
from stacks.constructs.build_project import BuildMachine, BuildProject, BuildSettings, BuildTask
from stacks.constructs.grants import Grant, Home
from stacks.constructs.service_role import ServiceRole

MODEL_BUILDSPEC: Mapping[str, object] = {
    "version": "0.2",
    # Not as root: models bring code of their own along.
    "run-as": "builder",
    "phases": {
        "build": {
            "commands": [
                '/opt/builder/bin/python -m model_build --project . --model "$MODEL" --targets "$TARGETS" '
                '--publish "$BUCKET" --cache "s3://$BUCKET/caches" --job "$JOB" --json-progress'
            ]
        }
    },
}
"""Who starts a build gives MODEL, TARGETS and JOB."""


class ModelBuilds(Construct):
    """Each build is told its model and what to build it for when it is started."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        machines: Sequence[CodeBuildMachine],
        images: Mapping[bool, BuilderImage],
        bucket: str,
        token_secret: str | None,
        grants: Sequence[Grant],
        settings: BuildSettings,
    ) -> None:
        super().__init__(scope, construct_id)
        home = Home.of(self)
        projects = [home.arn("codebuild", f"project/{machine.project}") for machine in machines]
        role = ServiceRole(
            self,
            "Role",
            service="codebuild.amazonaws.com",
            description="CodeBuild builds models with it",
            policy_name="build-models",
            only_for={"StringEquals": {"aws:SourceArn": projects}},
        )
        role.allow([*grants, write_build_log(home, settings.log_group)])
        cdk.Validations.of(self).acknowledge(
            cdk.Acknowledgment(
                id="AwsSolutions::AwsSolutions-CB5",
                reason="models are built and checked in the very image that serves them",
            )
        )
        for machine in machines:
            BuildProject(
                self,
                machine.hardware,
                task=BuildTask(
                    name=machine.project,
                    description=f"Builds models for {machine.hardware}",
                    role=role,
                    buildspec=MODEL_BUILDSPEC,
                    variables={"BUCKET": bucket},
                    secrets={"HF_TOKEN": token_secret} if token_secret else {},
                ),
                machine=BuildMachine(
                    "LINUX_GPU_CONTAINER" if machine.gpu else "LINUX_CONTAINER",
                    machine.compute_type,
                    images[machine.gpu].uri,
                    "SERVICE_ROLE",
                    fleet=machine.fleet,
                ),
                settings=settings,
            )
