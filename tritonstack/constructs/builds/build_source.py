"""Upload the project files that builds need as one content-addressed archive."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

READ_BY_BUILDS = (
    "containers",
    "model_build",
    "models",
    *(
        f"tritonstack/{name}"
        for name in ("base", "reference", "spec", "records", "project", "client", "runtime")
    ),
    "tritonstack/__init__.py",
)
"""The archive's hash depends on these files only."""
_NOT_READ = ("**/__pycache__", "**/.*", "tritonstack/project/schemas")


class BuildSource(Construct):
    """Upload the source archive as a CDK asset, so a build uses the commit that the stack was deployed
    from."""

    def __init__(
        self, scope: Construct, construct_id: str, *, root: Path, encrypted_with: str | None = None
    ) -> None:
        """Allow reading the archive. `encrypted_with` is the bootstrap bucket's customer-managed key, if
        any."""
        super().__init__(scope, construct_id)
        self.encrypted_with = encrypted_with
        asset = s3_assets.Asset(
            self,
            "Archive",
            path=str(root),
            ignore_mode=cdk.IgnoreMode.DOCKER,
            exclude=["*", *(f"!{folder}" for folder in READ_BY_BUILDS), *_NOT_READ],
        )
        self.bucket = asset.s3_bucket_name
        self.key = asset.s3_object_key

    @property
    def location(self) -> str:
        """Return the location as CodeBuild expects it: bucket/key."""
        return f"{self.bucket}/{self.key}"
