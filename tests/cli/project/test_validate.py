"""`tritonstack validate` on locks: compared with the project, and with buckets and registries."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import boto3
import pytest

from tests.cli.test_messages import outcome
from tests.files.records.test_locks import BUILT
from tests.git import Repository
from tests.manifests import manifest, measured
from tests.projects import add_image, edit
from tests.promoted_locks import add_promoted
from tritonstack.base.naming import artifact_prefix
from tritonstack.base.paths import Project
from tritonstack.base.yaml import documents
from tritonstack.files import loading
from tritonstack.files.loading import load_workspace
from tritonstack.files.project.custom_images import endpoint_image
from tritonstack.files.records import locks
from tritonstack.files.records.lock_writing import LockChange, add_image_to_lock, add_to_lock
from tritonstack.files.records.locks import LockedImage, Promoted, entry_of
from tritonstack.files.records.manifests import Manifest
from tritonstack.files.sources import model_files

DIGEST = "ab" * 32


@pytest.fixture
def built(project):
    hashes = load_workspace(project, "dev").hashes
    artifact = manifest("minilm", spec_hash=hashes["minilm"], **measured())
    add_to_lock(project.lock_file("dev"), [artifact], built=BUILT)
    return artifact


@pytest.mark.usefixtures("built")
def test_each_file_is_parsed_listed_and_hashed_once(project, capsys, monkeypatch):
    """Two environments with locks serve the same model."""
    text = project.environment_file("dev").read_text()
    project.environment_file("qa").write_text(text.replace("name: dev", "name: qa"))
    project.lock_file("qa").write_bytes(project.lock_file("dev").read_bytes())
    passes = Counter[object]()

    def counted(module: ModuleType, name: str, subject: Callable[..., object]) -> None:
        function = getattr(module, name)

        def count(*arguments: Any, **options: Any) -> Any:
            passes[name, subject(*arguments)] += 1
            return function(*arguments, **options)

        monkeypatch.setattr(module, name, count)

    counted(documents, "parse_yaml", lambda _, file: file)
    counted(locks, "parse_yaml", lambda _, file: file)
    counted(model_files, "list_files", lambda folder, *_: folder)
    counted(loading, "file_digests", lambda document, *_: document.file)
    assert outcome(capsys, project, "validate")[0] == 0
    assert passes == dict.fromkeys(passes, 1)
    assert {name for name, _ in passes} == {"parse_yaml", "list_files", "file_digests"}


@pytest.mark.usefixtures("built")
def test_lock_without_its_environment_is_reported_and_checked(project, capsys):
    add_to_lock(project.lock_file("gone"), [manifest("minilm", **measured())], built=BUILT)
    code, _, err = outcome(capsys, project, "validate")
    assert code == 0
    assert "gone.lock.yaml" in err
    assert "environment 'gone' does" in err
    assert outcome(capsys, project, "validate", "dev")[2] == ""
    project.lock_file("gone").write_text("models: 3\n")
    code, _, err = outcome(capsys, project, "validate")
    assert code == 2
    assert "gone.lock.yaml" in err


@pytest.mark.usefixtures("built")
def test_entry_never_in_the_source_is_rejected(project, capsys):
    repository = Repository(project.root)
    repository.commit("all")
    text = project.environment_file("dev").read_text()
    project.environment_file("prod").write_text(text.replace("name: dev", "name: prod"))
    for digest, code in (("cd" * 32, 2), (DIGEST, 0)):
        project.lock_file("prod").unlink(missing_ok=True)
        entry = entry_of(manifest("minilm", digest=digest))
        promoted = Promoted(source="dev", by="bob", at="2026-11-24T08:30:00Z")
        add_promoted(project.lock_file("prod"), promoted, [LockChange("minilm", "cpu", entry, None)])
        assert outcome(capsys, project, "validate", "prod")[0] == code


class Account:
    """The account of `dev`, simulated by moto."""

    def __init__(self, project: Project, number: str) -> None:
        edit(project.environment_file("dev"), "1" * 12, number)
        self.project, self.spec = project, load_workspace(project, "dev").spec
        self.s3 = boto3.client("s3", region_name="us-east-1")
        self.prefix = artifact_prefix("minilm", DIGEST)

    def make_bucket(self) -> None:
        self.s3.create_bucket(Bucket=self.spec.artifact_bucket)

    def put(self, name: str, body: str, **metadata: str) -> None:
        self.s3.put_object(
            Bucket=self.spec.artifact_bucket, Key=f"{self.prefix}/{name}", Body=body, Metadata=metadata
        )


@pytest.fixture
def dev(project, account):
    return Account(project, account)


def published(dev: Account, artifact: Manifest, *, archive: str = "x", digest: str = DIGEST) -> None:
    dev.make_bucket()
    dev.put("model.tar.gz", archive, sha256=digest)
    dev.put("manifest.json", artifact.to_json())


def test_online_check_accepts_a_lock_whose_objects_exist(dev, built, project, capsys):
    published(dev, built)
    code, out, _ = outcome(capsys, project, "--json", "validate", "dev", "--online")
    result = json.loads(out)
    assert (code, result["checked_online"]) == (0, ["dev"])
    (preflight,) = result["preflights"]
    assert (preflight["environment"], {check["status"] for check in preflight["checks"]}) == ("dev", {"ok"})


@pytest.mark.parametrize(
    ("archive", "digest", "changes", "words"),
    [
        ("xx", DIGEST, {}, "model.tar.gz has another size or digest"),
        ("x", "cd" * 32, {}, "model.tar.gz has another size or digest"),
        (
            "x",
            DIGEST,
            {"unpacked_bytes": 9},
            "models.minilm.cpu.unpacked_bytes: the lock says 1, its manifest says 9",
        ),
        ("x", DIGEST, {"target": "cpu-py310"}, "lock says target cpu, its manifest says target cpu-py310"),
        (
            "x",
            DIGEST,
            measured(cosine=0.5),
            "the lock says min_cosine 0.9999, its manifest says min_cosine 0.5",
        ),
    ],
)
def test_online_check_fails_on_a_different_object(
    dev, built, project, capsys, archive, digest, changes, words
):
    published(dev, built.model_copy(update=changes), archive=archive, digest=digest)
    code, out, err = outcome(capsys, project, "validate", "dev", "--online")
    assert (code, out) == (1, "")
    assert words in err
    assert "environments/dev.lock.yaml:" in err


@pytest.mark.parametrize(
    ("tag", "pushed", "words"),
    [(None, True, ""), ("moved", True, "does not point to"), (None, False, "image not found")],
    ids=["true", "moved", "absent"],
)
def test_online_check_looks_up_images_in_their_registry(project, account, capsys, tag, pushed, words):
    add_image(project.root, "serving")
    edit(project.environment_file("dev"), "    model: minilm", "    model: minilm\n    image: serving")
    dev = Account(project, account)
    dev.make_bucket()
    image = endpoint_image(project, dev.spec, "serving", gpu=False)
    ecr = boto3.client("ecr", region_name="eu-west-1")
    repository = f"{dev.spec.base}/serving"
    ecr.create_repository(repositoryName=repository)
    digest = f"sha256:{'cd' * 32}"
    if pushed:
        media_type = "application/vnd.docker.distribution.manifest.v2+json"
        body = json.dumps({"schemaVersion": 2, "mediaType": media_type, "config": {}, "layers": []})
        pushed_image = ecr.put_image(
            repositoryName=repository,
            imageTag=tag or image.tag,
            imageManifest=body,
            imageManifestMediaType=media_type,
        )
        digest = pushed_image["image"]["imageId"]["imageDigest"]
    entry = LockedImage(digest=digest, tag=image.tag)
    add_image_to_lock(project.lock_file("dev"), "serving", "cpu", entry, built=BUILT)
    code, _, err = outcome(capsys, project, "validate", "dev", "--online")
    assert code == (1 if words else 0)
    assert words in err
