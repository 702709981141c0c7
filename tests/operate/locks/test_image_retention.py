"""Which images of endpoints a deployment deletes, and which never."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.files.records.test_locks import BUILT
from tests.operate.locks.locked_project import LockedProject, running
from tritonstack.files.records.lock_writing import add_image_to_lock
from tritonstack.files.records.locks import LockedImage
from tritonstack.operate.destroy.retained import RunningEndpoint
from tritonstack.operate.locks import retention as image_retention
from tritonstack.operate.locks.retention import delete_superseded_images
from tritonstack.operate.shared.aws import Cloud

REPOSITORY = "tritonstack-dev/serving"


def digest(number: str) -> str:
    """Return the digest that moto makes: of the layers' digests."""
    return f"sha256:{hashlib.sha256((number * 32).encode()).hexdigest()}"


def digests(*numbers: str) -> set[str]:
    return {digest(number) for number in numbers}


def uri(number: str) -> str:
    return f"111111111111.dkr.ecr.eu-west-1.amazonaws.com/{REPOSITORY}@{digest(number)}"


class Images(LockedProject):
    """An environment that keeps two locks, and its repository of images."""

    def __init__(self, root: Path, cloud: Cloud) -> None:
        super().__init__(root, keep_locks=2)
        self.cloud, self.ecr = cloud, cloud.client("ecr")
        self.ecr.create_repository(repositoryName=REPOSITORY, imageTagMutability="IMMUTABLE")

    def push(self, number: str, tag: str = "") -> None:
        media = "application/vnd.docker.distribution.manifest.v2+json"
        text = json.dumps({"schemaVersion": 2, "mediaType": media, "layers": [{"digest": number * 32}]})
        self.ecr.put_image(repositoryName=REPOSITORY, imageManifest=text, imageTag=tag or f"t{number}")

    def name(self, number: str, folder: str = "serving", environment: str = "dev") -> None:
        """Lock an image without a commit."""
        image = LockedImage(digest=digest(number), tag=f"t{number}")
        add_image_to_lock(self.project.lock_file(environment), folder, "cpu", image, built=BUILT)

    def held(self) -> set[str]:
        details = self.ecr.describe_images(repositoryName=REPOSITORY)["imageDetails"]
        return {image["imageDigest"] for image in details}

    def delete(self, *live: RunningEndpoint, days: int = 31) -> set[str]:
        """Clean up so many days after the images were pushed; return the deleted images of `serving`."""
        now = datetime.now(UTC) + timedelta(days=days)
        named = delete_superseded_images(self.cloud, self.workspace, live, now=now)
        return {image_digest for folder, image_digest in named if folder == "serving"}


@pytest.fixture
def images(tmp_path, cloud):
    repository = Images(tmp_path / "project", cloud)
    for number in ("11", "22", "33", "44"):
        repository.push(number)
        repository.name(number)
        repository.repository.commit(number)
    return repository


def test_images_of_older_locks_only_are_deleted(images):
    images.push("55")  # no lock has named it
    assert images.delete() == digests("11", "22")
    assert images.held() == digests("33", "44", "55")
    assert images.delete() == set()


def test_an_image_that_is_used_is_kept(images, monkeypatch):
    """By an endpoint after a rollback that no lock knows of, or by a retained model.

    moto has no tags of models; `destruction/test_retained.py` reads them from the local cloud.
    """
    monkeypatch.setattr(image_retention, "tagged_models", lambda *_: ({uri("22")}, set[str]()))
    assert images.delete(running(images=(uri("11"),))) == set()
    assert images.delete() == digests("11")


def test_an_image_that_another_environment_or_the_next_lock_names_is_kept(images):
    images.add_prod()
    images.name("11", environment="prod")
    images.name("22")  # not committed: it is the latest of the two locks that are kept
    assert images.delete() == digests("33")


def test_a_young_image_is_kept(images):
    assert images.delete(days=29) == set()


@pytest.mark.parametrize("unknown", ["history", "endpoint", "repository"])
def test_nothing_is_deleted_if_something_is_unknown(images, unknown):
    live = [running(missing="config")] if unknown == "endpoint" else []
    if unknown == "history":
        (images.project.root / ".git").rename(images.project.root / "gone")
    if unknown == "repository":
        images.ecr.delete_repository(repositoryName=REPOSITORY, force=True)
    assert images.delete(*live) == set()
    assert unknown == "repository" or len(images.held()) == 4


def test_images_of_every_folder_are_in_one_repository(images):
    images.push("55", "ranker-t55")
    for number in ("55", "33", "44"):
        images.name(number, "ranker")
        images.repository.commit(f"ranker {number}")
    images.delete()
    assert digest("55") not in images.held()
