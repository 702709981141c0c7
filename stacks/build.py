"""Create the build infrastructure of an environment: CodeBuild projects, roles, images, and log.

Only needed projects exist: an environment without GPUs has no GPU project.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from constructs import Construct

from stacks.environment_stack import EnvironmentStack
from tritonstack.base import naming
from tritonstack.constructs.builds.build_grants import read_source
from tritonstack.constructs.builds.build_project import BuildSettings, Source
from tritonstack.constructs.builds.build_roles import BuildLocation, build_roles
from tritonstack.constructs.builds.builds import BuildSource, image_builds, model_builds
from tritonstack.constructs.data.stored_values import log_group
from tritonstack.constructs.iam.grants import AwsScope, pull_image
from tritonstack.files.model.build_permissions import BuildPermissions, permissions_of
from tritonstack.files.project.build_machines import (
    BuildMachine,
    CodeBuildMachine,
    ManualBuild,
    ProcessingMachine,
    list_build_machines,
)
from tritonstack.files.project.custom_images import OwnImage, builder_image, endpoint_images
from tritonstack.files.project.workspace import Workspace


class BuildStack(EnvironmentStack):
    """The build stack; deployed after the foundation, because it uses its bucket and repository."""

    def __init__(self, scope: Construct, *, workspace: Workspace) -> None:
        environment = workspace.spec
        base, options = environment.base, environment.builds
        super().__init__(
            scope,
            stack_name=naming.build_stack_name(base),
            description=f"tritonstack: build infrastructure of {environment.name}",
            environment=environment,
        )
        key_arn = self.shared_value("KeyArn", name=naming.KEY_PARAMETER)
        source = BuildSource(
            self, "Source", project=workspace.project, encrypted_with=environment.bootstrap_kms_key
        )
        log = log_group(
            Construct(self, "Log"),
            name=naming.build_log_group(base),
            retention_days=options.log_retention_days,
            key_arn=key_arn,
            removal=self.removal,
        )
        settings = BuildSettings(
            Source(type="S3", location=source.location),
            log,
            key_arn,
            options.timeout_minutes,
            options.concurrent,
        )
        machines = list_build_machines(environment)
        images = _images(workspace, machines)
        run_by_endpoints = endpoint_images(workspace.project, environment)
        if images or run_by_endpoints:
            image_builds(
                self,
                "Images",
                name=naming.image_project_name(base),
                images=[*images.values(), *run_by_endpoints],
                source=source,
                settings=settings,
            )
        if images:
            self._jobs(workspace, machines, images, source, settings)
        self.output(
            "SourceArchive", value=source.location, description="Location of the build source archive"
        )
        for image in images.values():
            name = f"{image.kind.capitalize()}Image"
            self.output(name, value=image.uri, description="URI of the model build image")

    def _jobs(
        self,
        workspace: Workspace,
        machines: Sequence[BuildMachine],
        images: Mapping[bool, OwnImage],
        source: BuildSource,
        settings: BuildSettings,
    ) -> None:
        environment = workspace.spec
        aws = AwsScope.of(self)
        place = BuildLocation(
            base=environment.base,
            bucket=environment.artifact_bucket,
            key_arn=settings.key_arn,
            log_group=settings.log_group,
            token_secret=environment.builds.hugging_face_token_secret,
            machines=machines,
            # Both images are in one repository.
            grants=[
                *read_source(aws, source.bucket, source.key, encrypted_with=source.encrypted_with),
                *pull_image(aws, next(iter(images.values())).uri),
            ],
        )
        role = build_roles(self, "Jobs", place=place, models=_reaches(workspace))
        codebuild_machines = [machine for machine in machines if isinstance(machine, CodeBuildMachine)]
        if codebuild_machines:
            model_builds(
                self,
                "Models",
                machines=codebuild_machines,
                images=images,
                bucket=environment.artifact_bucket,
                role=role,
                settings=settings,
            )
        if any(isinstance(machine, ProcessingMachine) for machine in machines):
            self.output("ProcessingRole", value=role.arn, description="Role ARN for Processing jobs")


def _images(workspace: Workspace, machines: Sequence[BuildMachine]) -> dict[bool, OwnImage]:
    """Return the image variants that the machines need: for GPUs, without GPUs, or both."""
    gpus = {machine.hardware != "cpu" for machine in machines if not isinstance(machine, ManualBuild)}
    return {gpu: builder_image(workspace.project, workspace.spec, gpu=gpu) for gpu in sorted(gpus)}


def _reaches(workspace: Workspace) -> dict[str, BuildPermissions]:
    """Return the models to build and the permissions that each needs."""
    served = {item.model for endpoint in workspace.spec.endpoints for item in workspace.serves(endpoint)}
    return {name: permissions_of(name, workspace.models) for name in served}
