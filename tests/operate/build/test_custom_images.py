"""`tritonstack build` for endpoints with the project's own image: existing images are locked unchanged."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.moto_aws import simulated_aws
from tests.projects import add_image, edit
from tritonstack.base.paths import Project
from tritonstack.cli.context import Context
from tritonstack.cli.output import Output
from tritonstack.files.loading import load_workspace
from tritonstack.files.project.custom_images import OwnImage, endpoint_images
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.locks import Built
from tritonstack.operate.build.custom_images import lock_images
from tritonstack.operate.jobs.codebuild import UnusableImageError
from tritonstack.operate.shared.aws import Cloud

MANIFEST = json.dumps({"schemaVersion": 2, "layers": []})


class Account:
    """A project whose endpoint has its own image, and an account simulated by moto."""

    def __init__(self, project: Project) -> None:
        add_image(project.root, "serving")
        file = project.environment_file("dev")
        edit(file, "    kind: ensemble\n", "    kind: ensemble\n    image: serving\n")
        edit(file, "endpoints:\n", "builds: {enabled: false}\nendpoints:\n")
        self.project = project
        self.cloud = Cloud("111111111111", "eu-west-1", {})
        self.ecr: Any = boto3.client("ecr", region_name="eu-west-1")
        self.ecr.create_repository(repositoryName=self.repository)

    @property
    def workspace(self) -> Workspace:
        return load_workspace(self.project, "dev")

    @property
    def image(self) -> OwnImage:
        (image,) = endpoint_images(self.project, self.workspace.spec)
        return image

    @property
    def repository(self) -> str:
        return f"{self.workspace.spec.base}/serving"

    def push(self) -> str:
        """Push the image; return its digest."""
        media_type = "application/vnd.docker.distribution.manifest.v2+json"
        pushed = self.ecr.put_image(
            repositoryName=self.repository,
            imageTag=self.image.tag,
            imageManifest=MANIFEST,
            imageManifestMediaType=media_type,
        )
        return str(pushed["image"]["imageId"]["imageDigest"])

    def lock(self) -> bool:
        built = Built(by="ann", at="2026-11-22T08:30:00Z")
        return lock_images(Context(self.project, Output()), self.workspace, self.cloud, built, locally=False)


@pytest.fixture
def account(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with simulated_aws():
        yield Account(project)


def publish_by(account: Account, folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace containers/publish.sh of this project."""
    (account.project.containers_dir / "publish.sh").write_text(script)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_existing_image_is_locked_by_its_digest(account: Account) -> None:
    digest = account.push()
    assert account.lock() is True
    locked = account.workspace.lock.record.images["serving"]["cpu"]
    assert (locked.digest, locked.tag) == (digest, account.image.tag)
    assert account.lock() is False


def test_local_machine_builds_and_pushes_without_remote_builds(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = tmp_path / "arguments"
    publish_by(account, tmp_path, f'echo "$@" >{arguments}; exit 3', monkeypatch)
    with pytest.raises(UnusableImageError, match="build and push"):
        account.lock()
    assert arguments.read_text() == f"serving {account.image.base} {account.image.uri}\n"
    assert account.workspace.lock.record.images == {}


def test_an_image_missing_after_its_build_is_reported(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_by(account, tmp_path, "exit 0", monkeypatch)
    with pytest.raises(UnusableImageError, match="its repository"):
        account.lock()
