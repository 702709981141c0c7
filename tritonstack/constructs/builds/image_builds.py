"""Create the CodeBuild project that builds the project's own container images."""

from __future__ import annotations

from collections.abc import Sequence

from constructs import Construct

from tritonstack.constructs.builds.build_grants import push_image, read_source, write_build_log
from tritonstack.constructs.builds.build_project import (
    BuildMachine,
    BuildSettings,
    BuildTask,
    build_project,
)
from tritonstack.constructs.builds.build_source import BuildSource
from tritonstack.constructs.iam.grants import AwsScope, pull_image
from tritonstack.constructs.iam.service_role import ServiceRole
from tritonstack.files.project.build_machines import IMAGE_BUILD_SIZE
from tritonstack.files.project.custom_images import OwnImage

_STANDARD_IMAGE = "aws/codebuild/standard:7.0"


class ImageBuilds(Construct):
    """Create the image build project, the only one with a Docker daemon and privileged mode."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        images: Sequence[OwnImage],
        source: BuildSource,
        settings: BuildSettings,
    ) -> None:
        super().__init__(scope, construct_id)
        aws = AwsScope.of(self)
        role = ServiceRole(
            self,
            "Role",
            assumed_by={
                "codebuild.amazonaws.com": {
                    "StringEquals": {"aws:SourceArn": aws.arn("codebuild", f"project/{name}")}
                }
            },
            description="IAM role for image builds",
            policy_name="build-images",
        )
        role.allow(
            [
                *read_source(aws, source.bucket, source.key, encrypted_with=source.encrypted_with),
                write_build_log(aws, settings.log_group),
                *(
                    grant
                    for base in sorted({image.base for image in images})
                    for grant in pull_image(aws, base)
                ),
                *(push_image(aws, uri) for uri in _distinct_repositories(images)),
            ]
        )
        build_project(
            Construct(self, "Images"),
            task=BuildTask(
                name=name,
                description="Builds the model build image and the custom serving images",
                role=role,
                buildspec=image_buildspec(images),
                variables={},
            ),
            machine=BuildMachine(
                "LINUX_CONTAINER", IMAGE_BUILD_SIZE, _STANDARD_IMAGE, "CODEBUILD", privileged=True
            ),
            settings=settings,
        )


def _distinct_repositories(images: Sequence[OwnImage]) -> list[str]:
    return list({image.uri.rpartition(":")[0]: image.uri for image in images}.values())


def image_buildspec(images: Sequence[OwnImage]) -> dict[str, object]:
    """Build and push each missing image."""
    return {
        "version": "0.2",
        "phases": {
            "build": {
                "on-failure": "ABORT",
                "commands": [" ".join(["sh containers/publish.sh", *image.arguments]) for image in images],
            }
        },
    }
