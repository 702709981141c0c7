"""The files that builds in the account read, as one archive named by its content."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

import tritonstack
from tritonstack.base.paths import Project
from tritonstack.base.revisions import BUILD_CODE
from tritonstack.base.source_files import IGNORED, IGNORED_SUFFIXES

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
