"""What builds an environment's models in its account: images, jobs on CPUs and GPUs, their roles and log.

Only what its endpoints' machines need: an environment without GPUs has no project with one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from constructs import Construct

from stacks.environment_stack import EnvironmentStack
from stacks.removal import removal_policy
from tritonstack.base import naming
from tritonstack.constructs.builds.build_grants import read_source
from tritonstack.constructs.builds.build_log import BuildLog
from tritonstack.constructs.builds.build_project import BuildSettings
from tritonstack.constructs.builds.build_roles import BuildPlace, BuildRoles
from tritonstack.constructs.builds.build_source import BuildSource
from tritonstack.constructs.builds.image_builds import ImageBuilds
from tritonstack.constructs.builds.model_builds import ModelBuilds
from tritonstack.constructs.iam.grants import Home, pull_image
from tritonstack.project.build_machines import ByHand, CodeBuildMachine, ProcessingMachine, Venue, venues
from tritonstack.project.custom_images import OwnImage, builder_image, endpoint_images
from tritonstack.project.workspace import Workspace
from tritonstack.spec.models.build_permissions import BuildReach, reach_of


class BuildStack(EnvironmentStack):
    """Deployed after the foundation, whose bucket and repository it writes to; no endpoint needs it."""

    def __init__(self, scope: Construct, *, workspace: Workspace) -> None:
        environment = workspace.spec
        base, options = environment.base, environment.builds
        super().__init__(
            scope,
            stack_name=naming.build_stack_name(base),
            description=f"tritonstack: what builds the models of {environment.name}",
            environment=environment,
        )
        key_arn = self.shared_value("KeyArn", what=naming.KEY_PARAMETER)
        source = BuildSource(
            self, "Source", root=workspace.project.root, encrypted_with=environment.bootstrap_kms_key
        )
        log = BuildLog(
            self,
            "Log",
            name=naming.build_log_group(base),
            retention_days=options.log_retention_days,
            key_arn=key_arn,
            removal=removal_policy(environment),
        )
        settings = BuildSettings(
            source.location, log.name, key_arn, options.timeout_minutes, options.concurrent
        )
        found = venues(environment)
        images = _images(workspace, found)
        run_by_endpoints = endpoint_images(workspace.project, environment)
        if images or run_by_endpoints:
            ImageBuilds(
                self,
                "Images",
                name=naming.image_project_name(base),
                images=[*images.values(), *run_by_endpoints],
                source=source,
                settings=settings,
            )
        if images:
            self._jobs(workspace, found, images, source, settings)
        self.output("SourceArchive", value=source.location, description="The files that builds start from")
        for image in images.values():
            self.output(
                f"{image.kind.capitalize()}Image", value=image.uri, description="What models are built in"
            )

    def _jobs(
        self,
        workspace: Workspace,
        found: Sequence[Venue],
        images: Mapping[bool, OwnImage],
        source: BuildSource,
        settings: BuildSettings,
    ) -> None:
        environment = workspace.spec
        home = Home.of(self)
        place = BuildPlace(
            base=environment.base,
            bucket=environment.artifact_bucket,
            key_arn=settings.key_arn,
            log_group=settings.log_group,
            token_secret=environment.builds.hugging_face_token_secret,
            venues=found,
            # Both images lie in one repository.
            grants=[
                *read_source(home, source.bucket, source.key, encrypted_with=source.encrypted_with),
                *pull_image(home, next(iter(images.values())).uri),
            ],
        )
        role = BuildRoles(self, "Jobs", place=place, models=_reaches(workspace)).shared
        machines = [venue for venue in found if isinstance(venue, CodeBuildMachine)]
        if machines:
            ModelBuilds(
                self,
                "Models",
                machines=machines,
                images=images,
                bucket=environment.artifact_bucket,
                role=role,
                settings=settings,
            )
        if any(isinstance(venue, ProcessingMachine) for venue in found):
            self.output("ProcessingRole", value=role.arn, description="What Processing jobs run with")


def _images(workspace: Workspace, found: Sequence[Venue]) -> dict[bool, OwnImage]:
    """The images that the machines need: with what a GPU needs, without, or both."""
    gpus = {venue.hardware != "cpu" for venue in found if not isinstance(venue, ByHand)}
    return {gpu: builder_image(workspace.project, workspace.spec, gpu=gpu) for gpu in sorted(gpus)}


def _reaches(workspace: Workspace) -> dict[str, BuildReach]:
    """The models that jobs build, and what each reaches for."""
    served = {item.model for endpoint in workspace.spec.endpoints for item in workspace.serves(endpoint)}
    return {name: reach_of(name, workspace.models) for name in served}
