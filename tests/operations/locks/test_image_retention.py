"""Which images of endpoints a deployment deletes, and which never."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.git import Repository
from tests.projects import edit, write_project
from tests.records.test_locks import BUILT
from tritonstack.base.paths import Project
from tritonstack.operations.aws import Cloud
from tritonstack.operations.destruction.retained import RunningEndpoint
from tritonstack.operations.locks import image_retention
from tritonstack.operations.locks.image_retention import delete_superseded_images
from tritonstack.project.loading import load_workspace
from tritonstack.records.lock_writing import add_image_to_lock
from tritonstack.records.locks import LockedImage

REPOSITORY = "tritonstack-dev/serving"
LATER = datetime.now(UTC) + timedelta(days=31)


def content(number: str) -> str:
    media = "application/vnd.docker.distribution.manifest.v2+json"
    return json.dumps({"schemaVersion": 2, "mediaType": media, "layers": [{"digest": number * 32}]})


def digest(number: str) -> str:
    """Return the digest that moto makes: of the layers' digests."""
    return f"sha256:{hashlib.sha256((number * 32).encode()).hexdigest()}"


def lock_image(project: Project, environment: str, number: str, folder: str = "serving") -> None:
    image = LockedImage(digest=digest(number), tag=f"t{number}")
    add_image_to_lock(project.lock_file(environment), folder, "cpu", image, built=BUILT)


class Images:
    """A project in git with an environment that keeps two locks, and its repository of images."""

    def __init__(self, root: Path, cloud: Cloud) -> None:
        root.mkdir()
        self.cloud, self.project = cloud, write_project(root)
        edit(self.project.environment_file("dev"), "endpoints:", "keep_locks: 2\nendpoints:")
        self.repository = Repository(root)
        self.ecr = cloud.client("ecr")
        self.ecr.create_repository(repositoryName=REPOSITORY, imageTagMutability="IMMUTABLE")

    def lock(self, number: str) -> None:
        if digest(number) not in self.held():
            text = content(number)
            self.ecr.put_image(repositoryName=REPOSITORY, imageManifest=text, imageTag=f"t{number}")
        lock_image(self.project, "dev", number)
        self.repository.commit(number)

    def held(self) -> set[str]:
        details = self.ecr.describe_images(repositoryName=REPOSITORY)["imageDetails"]
        return {image["imageDigest"] for image in details}

    def delete(self, *live: RunningEndpoint, now: datetime = LATER) -> list[tuple[str, str]]:
        return delete_superseded_images(self.cloud, load_workspace(self.project, "dev"), live, now=now)


@pytest.fixture
def images(tmp_path, cloud):
    repository = Images(tmp_path / "project", cloud)
    for number in ("11", "22", "33", "44"):
        repository.lock(number)
    return repository


def running(*uris: str, missing: str | None = None) -> RunningEndpoint:
    none = frozenset[str]()
    return RunningEndpoint(
        "tritonstack-dev-search", none, none, none, missing=missing, images=frozenset(uris)
    )


def uri(number: str) -> str:
    return f"111111111111.dkr.ecr.eu-west-1.amazonaws.com/{REPOSITORY}@{digest(number)}"


def test_images_of_older_locks_only_are_deleted(images):
    images.ecr.put_image(repositoryName=REPOSITORY, imageManifest=content("55"), imageTag="t55")
    assert sorted(images.delete()) == sorted(("serving", digest(number)) for number in ("11", "22"))
    assert images.held() == {digest(number) for number in ("33", "44", "55")}  # no lock has named 55
    assert images.delete() == []


def test_an_image_that_a_live_endpoint_runs_is_kept(images):
    """As after a rollback that no lock knows of."""
    assert images.delete(running(uri("11"))) == [("serving", digest("22"))]


def test_an_image_of_a_retained_model_is_kept(images, monkeypatch):
    """moto has no tags of models; tests/operations/test_retained.py reads them from the local cloud."""
    monkeypatch.setattr(image_retention, "tagged_models", lambda *_: ({uri("22")}, set[str]()))
    assert images.delete() == [("serving", digest("11"))]


def test_an_image_that_another_environment_or_the_next_lock_names_is_kept(images):
    text = images.project.environment_file("dev").read_text()
    images.project.environment_file("prod").write_text(text.replace("name: dev", "name: prod"))
    lock_image(images.project, "prod", "11")
    lock_image(images.project, "dev", "22")  # not committed: it is the latest of the two locks that are kept
    assert images.delete() == [("serving", digest("33"))]


def test_a_young_image_is_kept(images):
    assert images.delete(now=datetime.now(UTC) + timedelta(days=29)) == []


@pytest.mark.parametrize("unknown", ["history", "endpoint", "repository"])
def test_nothing_is_deleted_if_something_is_unknown(images, unknown):
    live = [running(missing="config")] if unknown == "endpoint" else []
    if unknown == "history":
        (images.project.root / ".git").rename(images.project.root / "gone")
    if unknown == "repository":
        images.ecr.delete_repository(repositoryName=REPOSITORY, force=True)
    assert images.delete(*live) == []
    assert unknown == "repository" or len(images.held()) == 4


def test_images_of_every_folder_are_in_one_repository(images):
    images.ecr.put_image(repositoryName=REPOSITORY, imageManifest=content("55"), imageTag="ranker-t55")
    for number in ("55", "33", "44"):
        lock_image(images.project, "dev", number, "ranker")
        images.repository.commit(f"ranker {number}")
    assert ("ranker", digest("55")) in images.delete()
    assert digest("55") not in images.held()
