"""Endpoints with the project's own images: their files and their lock entries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.environments import NAME, write_environment
from tests.files.one_endpoint import coded, environment, locked, names, only, violations
from tests.manifests import manifest
from tests.projects import add_image, edit
from tritonstack.files.checks.compatibility import unbuilt
from tritonstack.files.loading import load_workspace
from tritonstack.files.project.custom_images import endpoint_image, endpoint_images, locked_uri
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.lock_writing import add_image_to_lock, add_to_lock
from tritonstack.files.records.locks import LockedImage

DIGEST = f"sha256:{'cd' * 32}"
CPU = {"cpu": {}}


@pytest.fixture(autouse=True)
def serving(tmp_path: Path) -> Path:
    add_image(tmp_path, "serving")
    return tmp_path


def with_image(folder: Path, **changes: str) -> Workspace:
    """Return the endpoint's workspace after its current image was locked, with these changes."""
    workspace = locked(folder, "image: serving", CPU)
    image = endpoint_image(workspace.project, workspace.spec, "serving", gpu=False)
    entry = LockedImage(**{"digest": DIGEST, "tag": image.tag, **changes})
    add_image_to_lock(workspace.lock.file, "serving", "cpu", entry)
    return load_workspace(workspace.project, NAME)


def test_endpoint_with_an_unbuilt_image_is_not_deployed(tmp_path: Path) -> None:
    violation = only(unbuilt(locked(tmp_path, "image: serving", CPU)))
    assert coded(violation) == ("endpoints.e.image", "TS401")
    assert names(violation, f"{NAME}.lock.yaml 'serving' cpu `tritonstack build {NAME}`")


def test_locked_image_is_identified_by_its_digest(tmp_path: Path) -> None:
    workspace = with_image(tmp_path)
    assert unbuilt(workspace) == []
    found = workspace.image_for("e", workspace.spec.endpoints["e"].instance)
    assert found is not None
    repository = f"111111111111.dkr.ecr.eu-west-1.amazonaws.com/{workspace.spec.base}/serving"
    assert locked_uri(workspace.spec, found) == f"{repository}@{DIGEST}"


def test_image_with_a_changed_folder_is_outdated(tmp_path: Path) -> None:
    workspace = with_image(tmp_path)
    edit(workspace.project.containers_dir / "serving" / "Dockerfile", "FROM", "# changed\nFROM")
    violation = only(unbuilt(load_workspace(workspace.project, NAME)))
    assert coded(violation) == ("images.serving.cpu", "TS402")
    assert names(violation, "containers/serving")


@pytest.mark.parametrize(
    ("image", "words"),
    [("servign", "containers/servign 'serving'?"), ("builder", "available: serving")],
    ids=["a typing error", "the image of builds"],
)
def test_an_image_is_a_folder_with_a_file_for_serving(tmp_path: Path, image: str, words: str) -> None:
    (violation,) = violations(write_environment(tmp_path, environment(f"image: {image}")))
    assert (coded(violation), names(violation, words)) == (("endpoints.e.image", "TS209"), True)


def test_each_folder_and_kind_is_one_image_in_the_repository_of_endpoints(tmp_path: Path) -> None:
    add_image(tmp_path, "special")
    one = {"kind": "ensemble", "model": "encoder", "instance_type": "ml.c7i.xlarge", "image": "special"}
    other = {**one, "instance_type": "ml.g5.xlarge"}
    workspace = locked(tmp_path, "image: serving", CPU, endpoints={"a": one, "b": one, "c": other})
    images = endpoint_images(workspace.project, workspace.spec)
    assert [(image.folder, image.kind) for image in images] == [("special", "cpu"), ("special", "gpu")]
    assert len({image.uri.rpartition(":")[0] for image in images}) == 1
    assert images[0].uri.rpartition(":")[0].endswith("/serving")
    assert images[0].tag.startswith("special-25.04-py3-cpu-")
    assert images[0].arguments == ("special", images[0].base, images[0].uri)


def test_artifacts_and_images_of_a_lock_are_independent(tmp_path: Path) -> None:
    workspace = with_image(tmp_path)
    add_to_lock(workspace.lock.file, [manifest("another")])
    lock = load_workspace(workspace.project, NAME).lock.record
    assert set(lock.models) == {"another", "encoder"}
    assert lock.images["serving"]["cpu"].digest == DIGEST
