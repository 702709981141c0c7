"""What builds an environment's models in its account: images, jobs on CPUs and GPUs, their roles and log.

Only what its endpoints' machines need: an environment without GPUs has no project with one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from constructs import Construct

from catalog import naming
from catalog.build_images import BuilderImage, builder_image
from catalog.builds import ByHand, CodeBuildMachine, ProcessingMachine, Venue, venues
from catalog.environments import EnvironmentSpec
from catalog.workspace import Workspace
from stacks.constructs.build_grants import keep_artifacts, read_secret, read_source, read_sources
from stacks.constructs.build_log import BuildLog
from stacks.constructs.build_project import BuildSettings
from stacks.constructs.build_source import BuildSource
from stacks.constructs.grants import Grant, Home, pull_image
from stacks.constructs.image_builds import ImageBuilds
from stacks.constructs.model_builds import ModelBuilds
from stacks.constructs.processing_builds import ProcessingBuilds
from stacks.environment_stack import EnvironmentStack
from stacks.removal import removal_policy


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
        source = BuildSource(self, "Source", root=workspace.project.root)
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
        if images:
            ImageBuilds(
                self,
                "Images",
                name=naming.image_project_name(base),
                images=list(images.values()),
                source=source,
                settings=settings,
            )
            grants = _job_grants(Home.of(self), workspace, source, key_arn, images)
            self._jobs(environment, found, images, grants, settings)
        self.output("SourceArchive", value=source.location, description="The files that builds start from")
        for image in images.values():
            self.output(
                f"{image.kind.capitalize()}Image", value=image.uri, description="What models are built in"
            )

    def _jobs(
        self,
        environment: EnvironmentSpec,
        found: Sequence[Venue],
        images: Mapping[bool, BuilderImage],
        grants: Sequence[Grant],
        settings: BuildSettings,
    ) -> None:
        machines = [venue for venue in found if isinstance(venue, CodeBuildMachine)]
        if machines:
            ModelBuilds(
                self,
                "Models",
                machines=machines,
                images=images,
                bucket=environment.artifact_bucket,
                token_secret=environment.builds.hugging_face_token_secret,
                grants=grants,
                settings=settings,
            )
        if any(isinstance(venue, ProcessingMachine) for venue in found):
            jobs = ProcessingBuilds(self, "Processing", base=environment.base, grants=grants)
            self.output("ProcessingRole", value=jobs.role_arn, description="What Processing jobs run with")


def _images(workspace: Workspace, found: Sequence[Venue]) -> dict[bool, BuilderImage]:
    """The images that the machines need: with what a GPU needs, without, or both."""
    gpus = {venue.hardware != "cpu" for venue in found if not isinstance(venue, ByHand)}
    return {gpu: builder_image(workspace.project, workspace.spec, gpu=gpu) for gpu in sorted(gpus)}


def _job_grants(
    home: Home, workspace: Workspace, source: BuildSource, key_arn: str, images: Mapping[bool, BuilderImage]
) -> list[Grant]:
    """What a job needs, wherever it runs."""
    environment = workspace.spec
    secret = environment.builds.hugging_face_token_secret
    elsewhere = sorted(
        {
            model.record.source
            for model in workspace.models.values()
            if model.record.source and model.record.source.startswith("s3://")
        }
    )
    return [
        *read_source(home, source.bucket, source.key),
        # Both images lie in one repository.
        *pull_image(home, next(iter(images.values())).uri),
        *keep_artifacts(home, environment.artifact_bucket, key_arn),
        *read_sources(home, elsewhere),
        *(read_secret(home, secret, key_arn) if secret else []),
    ]
