"""Images of the local cloud's environments are in this machine's engine: promotion tags the same image.

Those of environments on AWS are in ECR; promotion copies them only to another registry.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from docker.errors import ImageNotFound

from tests.projects import edit
from tritonstack.base.errors import TritonstackError
from tritonstack.base.paths import Project
from tritonstack.files.loading import load_workspace
from tritonstack.files.records.locks import LockedImage
from tritonstack.operate.artifacts import local_images
from tritonstack.operate.artifacts.image_stores import ImageStore, image_store
from tritonstack.operate.artifacts.local_images import tag_image
from tritonstack.operate.jobs.codebuild import UnusableImageError
from tritonstack.operate.shared.aws import Cloud

DIGEST = f"sha256:{'ab' * 32}"
DEV, PROD = (
    "1.dkr.ecr.us-east-1.amazonaws.com/dev/serving:v1",
    "2.dkr.ecr.us-east-1.amazonaws.com/prod/serving:v1",
)


class Engine:
    """A Docker engine's list of images."""

    def __init__(self) -> None:
        self.names = {DEV: DIGEST}
        self.images = self

    def get(self, name: str) -> SimpleNamespace:
        digest = name if name in self.names.values() else self.names.get(name)
        if digest is None:
            raise ImageNotFound(name)

        def tag(repository: str, *, tag: str) -> None:
            self.names[f"{repository}:{tag}"] = digest

        tags = [other for other, image in self.names.items() if image == digest]
        return SimpleNamespace(id=digest, tags=tags, tag=tag)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine()
    monkeypatch.setattr(local_images, "docker_engine", lambda: engine)
    return engine


@pytest.mark.usefixtures("engine")
def test_image_on_another_machine() -> None:
    with pytest.raises(UnusableImageError, match="cannot tag it v1"):
        tag_image(f"sha256:{'cd' * 32}", PROD)


def stores_of(project: Project) -> tuple[ImageStore, ImageStore]:
    """Return the image stores of one environment on AWS, and on the local cloud."""
    on_aws = load_workspace(project, "dev").spec
    edit(project.environment_file("dev"), on_aws.account, "000000000003")
    local = load_workspace(project, "dev").spec
    registry, engine = (image_store(spec, Cloud(spec.account, spec.region, {})) for spec in (on_aws, local))
    return registry, engine


def copied(source: ImageStore, target: ImageStore) -> str:
    image = LockedImage(digest=DIGEST, tag="v2")

    def counter(total: int) -> Callable[[int], None]:
        pytest.fail(f"{total} bytes are copied")

    return target.copy(source, image, counter=counter, sleep=time.sleep)


def test_the_local_cloud_keeps_images_in_the_engine(project: Project, engine: Engine) -> None:
    _, local = stores_of(project)
    assert local.digest("v2") is None
    assert local.bytes_from(local, DIGEST) == 0
    assert "same image" in copied(local, local)
    assert local.digest("v2") == DIGEST
    assert any(re.fullmatch(r"000000000003\.dkr\.ecr\..*/serving:v2", name) for name in engine.names)


@pytest.mark.usefixtures("engine")
def test_images_are_not_copied_between_an_engine_and_a_registry(project: Project) -> None:
    registry, local = stores_of(project)
    for source, target in ((registry, local), (local, registry)):
        assert target.bytes_from(source, DIGEST) == 0
        with pytest.raises(TritonstackError, match="without a registry") as caught:
            copied(source, target)
        assert "`tritonstack build dev`" in str(caught.value.remedy)
