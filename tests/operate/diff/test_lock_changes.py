"""Model changes of a deploy: digests, their origin, and a comparison with what is deployed."""

from typing import Any

import pytest

from tests.git import Repository
from tests.projects import add_image, edit
from tritonstack.base.files import short_digest
from tritonstack.base.paths import Project
from tritonstack.files.loading import load_workspace
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.events import Event, TouchedArtifact
from tritonstack.files.records.lock_writing import write_lock
from tritonstack.files.records.locks import Figures, Lock, LockedArtifact, LockedImage
from tritonstack.operate.diff.diff import (
    ArtifactChange,
    ImageChange,
    artifact_changes,
    deployed_digests,
    deployed_lock,
    image_changes,
)

OLD, NEW = "a" * 64, "b" * 64


def artifact(digest: str, **facts: Any) -> LockedArtifact:
    return LockedArtifact(digest=digest, spec_hash="c" * 64, archive_bytes=1, unpacked_bytes=1, **facts)


def locked(project: Project, digest: str, **facts: Any) -> Workspace:
    spec_hash = load_workspace(project, "dev").hashes["minilm"]
    entry = artifact(digest, **facts).model_copy(update={"spec_hash": spec_hash})
    write_lock(project.lock_file("dev"), Lock(models={"minilm": {"cpu": entry}}))
    return load_workspace(project, "dev")


def deployed(digest: str, *, commit: str | None = None) -> dict[str, Event]:
    return {
        "search": Event(
            kind="deployed",
            environment="dev",
            at="2026-11-22T08:30:00Z",
            by="Ada",
            commit=commit,
            endpoints=("search",),
            artifacts=(TouchedArtifact(model="minilm", target="cpu", digest=digest),),
        )
    }


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ({"y": "cosine >= 0.9999"}, {"y": "cosine >= 0.9999"}, []),
        ({"y": "cosine >= 0.9999"}, {"y": "cosine >= 0.9"}, ["y: cosine >= 0.9999 → cosine >= 0.9"]),
        (
            {"y": "cosine >= 0.9999"},
            {"z": "cosine >= 0.9999"},
            ["y: cosine >= 0.9999 → no output", "z: no output → cosine >= 0.9999"],
        ),
        (None, {"y": "cosine >= 0.9"}, []),  # built by an earlier version
        ({"y": "cosine >= 0.9999"}, None, []),
    ],
)
def test_changed_bounds_are_listed_by_output(old, new, lines):
    change = ArtifactChange("minilm", "cpu", OLD, artifact(OLD, accepted=old), artifact(NEW, accepted=new))
    assert change.changed_bounds == lines
    assert change.summary.count("accepted bounds changed: ") == len(lines)


def test_only_undeployed_changes_are_reported(project):
    """With the figures of the deployed artifact only."""
    workspace, figures = locked(project, NEW), Figures(p99_ms=5.0)
    before = Lock(models={"minilm": {"cpu": artifact(OLD, figures=figures)}})
    assert artifact_changes(workspace, before, {("minilm", "cpu"): NEW}) == []
    for deployed_digest, lock, expected in (
        (OLD, None, None),
        (OLD, before, figures),
        ("e" * 64, before, None),
    ):
        (change,) = artifact_changes(workspace, lock, {("minilm", "cpu"): deployed_digest})
        assert (change.before, change.after.digest) == (deployed_digest, NEW)
        assert change.figures_before == expected


def test_deployed_templates_take_precedence_over_records(project):
    workspace = locked(project, NEW)
    template = {"Resources": {"Model": {"Url": f"s3://bucket/models/minilm/{OLD}/model.tar.gz"}}}
    key = ("minilm", "cpu")
    assert deployed_digests(workspace, {}, {}) == {}
    assert deployed_digests(workspace, deployed("e" * 64), {}) == {key: "e" * 64}
    assert deployed_digests(workspace, deployed("e" * 64), {"search": template}) == {key: OLD}


def test_the_lock_of_the_deployed_commit_is_read_from_git(project):
    workspace = locked(project, OLD)
    assert deployed_lock(workspace, {}) is None
    assert deployed_lock(workspace, deployed(OLD, commit="0" * 40)) is None
    commit = Repository(project.root).commit("First")
    workspace = locked(project, NEW)
    lock = deployed_lock(workspace, deployed(OLD, commit=f"{commit}+"))
    assert lock.models["minilm"]["cpu"].digest == OLD


def test_custom_images(project):
    add_image(project.root, "serving")
    edit(
        project.environment_file("dev"), "instance_type: ml.c7i", "image: serving\n    instance_type: ml.c7i"
    )
    spec_hash = load_workspace(project, "dev").hashes["minilm"]
    entry = artifact(OLD).model_copy(update={"spec_hash": spec_hash})

    def lock(digest: str) -> Lock:
        image = LockedImage(digest=f"sha256:{digest}", tag="t")
        return Lock(models={"minilm": {"cpu": entry}}, images={"serving": {"cpu": image}})

    write_lock(project.lock_file("dev"), lock(NEW))
    workspace = load_workspace(project, "dev")
    assert image_changes(workspace, lock(NEW)) == []
    assert image_changes(workspace, None) == []
    (change,) = image_changes(workspace, lock(OLD))
    assert change == ImageChange("serving", "cpu", f"sha256:{OLD}", f"sha256:{NEW}")
    assert change.summary == f"image serving (cpu): {short_digest(OLD)} → {short_digest(NEW)}"
