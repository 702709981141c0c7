"""Create the CodeBuild projects that build models, one per machine type."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

import tritonstack
from tritonstack.base.paths import Project
from tritonstack.base.revisions import BUILD_CODE
from tritonstack.base.source_files import IGNORED, IGNORED_SUFFIXES
from tritonstack.constructs.builds.build_grants import push_image, read_source, write_build_log
from tritonstack.constructs.builds.build_project import (
    STANDARD_IMAGE,
    BuildMachine,
    BuildSettings,
    BuildTask,
    build_project,
)
from tritonstack.constructs.iam.granted_role import ServiceRole
from tritonstack.constructs.iam.grants import AwsScope, pull_image
from tritonstack.files.project.build_machines import IMAGE_BUILD_SIZE, CodeBuildMachine
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


def model_builds(
    scope: Construct,
    construct_id: str,
    *,
    machines: Sequence[CodeBuildMachine],
    images: Mapping[bool, OwnImage],
    bucket: str,
    role: ServiceRole,
    settings: BuildSettings,
) -> None:
    """Create build projects; each build receives its model and targets when it starts.

    `role` is the shared role. Builds of models with custom code override it.
    """
    scope = Construct(scope, construct_id)
    cdk.Validations.of(scope).acknowledge(
        cdk.Acknowledgment(
            id="AwsSolutions::AwsSolutions-CB5",
            reason="models are built and checked in the image that serves them",
        )
    )
    for machine in machines:
        build_project(
            Construct(scope, machine.hardware),
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


PACKAGES = Path(tritonstack.__file__).resolve().parents[1]
"""Where model_build and tritonstack are installed: the source tree, or site-packages."""
BUILD_CODE_FILES = (*BUILD_CODE, "tritonstack/__init__.py")
"""model_build and the packages it imports. No other code changes the archive, and so starts new builds."""
_EXCLUDED = (
    "**/.*",
    *(f"**/{name}" for name in sorted(IGNORED)),
    *(f"**/*{suffix}" for suffix in IGNORED_SUFFIXES),
    "tritonstack/files/project/schemas",
)
"""Besides the schemas and hidden files, everything that a model's or a revision's digest ignores."""


class BuildSource(Construct):
    """The user's models and containers, and the installed build code. The CDK uploads it with the stack."""

    def __init__(
        self, scope: Construct, construct_id: str, *, project: Project, encrypted_with: str | None = None
    ) -> None:
        """Allow reading the archive. `encrypted_with` is the bootstrap bucket's customer-managed key, if
        any."""
        super().__init__(scope, construct_id)
        self.encrypted_with = encrypted_with
        # The CDK copies and hashes the files while it makes the asset; links avoid one more copy of models.
        with tempfile.TemporaryDirectory(prefix="tritonstack-source-") as folder:
            for name, source in sorted(build_files(project)):
                link = Path(folder, name)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(source)
            asset = s3_assets.Asset(
                self,
                "Archive",
                path=folder,
                ignore_mode=cdk.IgnoreMode.DOCKER,
                follow_symlinks=cdk.SymlinkFollowMode.ALWAYS,
                exclude=[*_EXCLUDED],
            )
        self.bucket = asset.s3_bucket_name
        self.key = asset.s3_object_key

    @property
    def location(self) -> str:
        """Return the location as CodeBuild expects it: bucket/key."""
        return f"{self.bucket}/{self.key}"


def build_files(project: Project) -> Iterator[tuple[str, Path]]:
    """Yield the name of each file or folder in the archive, and where it comes from."""
    yield "models", project.models_dir.resolve()
    for name, source in project.containers.items():
        yield f"containers/{name}", source.resolve()
    for name in BUILD_CODE_FILES:
        yield name, PACKAGES / name


def image_builds(
    scope: Construct,
    construct_id: str,
    *,
    name: str,
    images: Sequence[OwnImage],
    source: BuildSource,
    settings: BuildSettings,
) -> None:
    """Create the image build project, the only one with a Docker daemon and privileged mode."""
    scope = Construct(scope, construct_id)
    aws = AwsScope.of(scope)
    role = ServiceRole(
        scope,
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
            *(grant for base in sorted({image.base for image in images}) for grant in pull_image(aws, base)),
            *(push_image(aws, uri) for uri in _distinct_repositories(images)),
        ]
    )
    build_project(
        Construct(scope, "Images"),
        task=BuildTask(
            name=name,
            description="Builds the model build image and the custom serving images",
            role=role,
            buildspec=image_buildspec(images),
            variables={},
        ),
        machine=BuildMachine(
            "LINUX_CONTAINER", IMAGE_BUILD_SIZE, STANDARD_IMAGE, "CODEBUILD", privileged=True
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
