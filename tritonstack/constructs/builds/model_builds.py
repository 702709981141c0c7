"""Create the CodeBuild projects that build models, one per machine type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from constructs import Construct

from tritonstack.constructs.builds.build_project import (
    BuildMachine,
    BuildSettings,
    BuildTask,
    build_project,
)
from tritonstack.constructs.iam.service_role import ServiceRole
from tritonstack.files.project.build_machines import CodeBuildMachine
from tritonstack.files.project.custom_images import OwnImage

MODEL_BUILDSPEC: Mapping[str, object] = {
    "version": "0.2",
    # Run as a non-root user, because models bring custom code.
    "run-as": "builder",
    "phases": {
        "build": {
            "commands": [
                # Set HOME explicitly: libraries keep their caches there.
                "HOME=/home/builder /opt/builder/bin/python -m model_build --project . "
                '--model "$MODEL" --targets "$TARGETS" --choices "$CHOICES" '
                '--publish "$BUCKET" --cache "s3://$BUCKET/models/$MODEL/caches" --job "$JOB" --json-progress'
            ]
        }
    },
}
"""Variables that StartBuild passes; HF_TOKEN only for models that need it."""


class ModelBuilds(Construct):
    """Create build projects; each build receives its model and targets when it starts.

    `role` is the shared role. Builds of models with custom code override it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        machines: Sequence[CodeBuildMachine],
        images: Mapping[bool, OwnImage],
        bucket: str,
        role: ServiceRole,
        settings: BuildSettings,
    ) -> None:
        super().__init__(scope, construct_id)
        cdk.Validations.of(self).acknowledge(
            cdk.Acknowledgment(
                id="AwsSolutions::AwsSolutions-CB5",
                reason="models are built and checked in the image that serves them",
            )
        )
        for machine in machines:
            build_project(
                Construct(self, machine.hardware),
                task=BuildTask(
                    name=machine.project,
                    description=f"Builds models for {machine.hardware}",
                    role=role,
                    buildspec=MODEL_BUILDSPEC,
                    variables={"BUCKET": bucket},
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
