"""The project that builds the images which models are built in."""

from __future__ import annotations

from collections.abc import Sequence

from constructs import Construct

from catalog.build_images import BuilderImage
from stacks.constructs.build_grants import push_image, read_source, write_build_log
from stacks.constructs.build_project import BuildMachine, BuildProject, BuildSettings, BuildTask
from stacks.constructs.build_source import BuildSource
from stacks.constructs.grants import Home, pull_image
from stacks.constructs.service_role import ServiceRole

_STANDARD_IMAGE = "aws/codebuild/standard:7.0"


class ImageBuilds(Construct):
    """The one project with a Docker daemon, and so the one that is privileged."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        images: Sequence[BuilderImage],
        source: BuildSource,
        settings: BuildSettings,
    ) -> None:
        super().__init__(scope, construct_id)
        home = Home.of(self)
        role = ServiceRole(
            self,
            "Role",
            taken_on_by={
                "codebuild.amazonaws.com": {
                    "StringEquals": {"aws:SourceArn": home.arn("codebuild", f"project/{name}")}
                }
            },
            description="CodeBuild builds the builder's images with it",
            policy_name="build-images",
        )
        role.allow(
            [
                *read_source(home, source.bucket, source.key),
                write_build_log(home, settings.log_group),
                *(grant for image in images for grant in pull_image(home, image.base)),
                push_image(home, images[0].uri),
            ]
        )
        BuildProject(
            self,
            "Images",
            task=BuildTask(
                name=name,
                description="Builds the images that models are built in",
                role=role,
                buildspec=image_buildspec(images),
            ),
            machine=BuildMachine(
                "LINUX_CONTAINER", "BUILD_GENERAL1_LARGE", _STANDARD_IMAGE, "CODEBUILD", privileged=True
            ),
            settings=settings,
        )


def image_buildspec(images: Sequence[BuilderImage]) -> dict[str, object]:
    """Build and push what is not there yet, one image after the other."""
    return {
        "version": "0.2",
        "phases": {
            "build": {
                "on-failure": "ABORT",
                "commands": [
                    " ".join(
                        ["sh containers/builder/publish.sh", image.base, image.uri, image.torch_index]
                    ).rstrip()
                    for image in images
                ],
            }
        },
    }
