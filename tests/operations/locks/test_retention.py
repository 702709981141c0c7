"""Which artifacts are marked for expiry, which never are, and how they are restored."""

from pathlib import Path
from typing import Any

import pytest

from tests.git import Repository
from tests.manifests import manifest
from tests.projects import edit, write_project
from tests.records.test_locks import BUILT
from tritonstack.base.error_kinds import NotDeployedError
from tritonstack.base.errors import TritonstackError
from tritonstack.base.naming import artifact_prefix
from tritonstack.operations.aws import Cloud
from tritonstack.operations.destruction.retained import RunningEndpoint
from tritonstack.operations.locks import artifact_versions, retention
from tritonstack.operations.locks.artifact_versions import restore_artifact
from tritonstack.operations.locks.retention import TaggingResult, decide, mark_superseded, unmark_superseded
from tritonstack.operations.locks.versions import LockVersion
from tritonstack.project.loading import load_workspace
from tritonstack.records.lock_writing import add_to_lock
from tritonstack.records.locks import Lock

MIB = 1024**2


def lock(*numbers: str) -> Lock:
    """Return a lock that names an artifact of the model m for each of these targets."""
    result = Lock()
    for place, number in enumerate(numbers):
        result = result.with_artifact(manifest("m", digest=number * 32, target=("cpu", "sm86-25.04")[place]))
    return result


def versions(*locks: Lock | None) -> list[LockVersion]:
    return [LockVersion(None, record) for record in locks]


def superseded(keep: int, *locks: Lock | None, current: Any = (), gap: str | None = None) -> set[str]:
    plan = decide(versions(*locks), keep=keep, current=current, gap=gap)
    return {digest[:2] for _, digest in plan.superseded}


HISTORY = [lock("44"), lock("33"), lock("22"), lock("11")]


@pytest.mark.parametrize(
    ("keep", "history", "more", "expected"),
    [
        pytest.param(2, HISTORY, {}, {"22", "11"}, id="older locks"),
        pytest.param(4, HISTORY, {}, set(), id="all are kept"),
        pytest.param(10, HISTORY, {}, set(), id="a short history"),
        pytest.param(2, [lock("11"), *HISTORY[1:]], {}, {"22"}, id="returned to a lock"),
        pytest.param(2, HISTORY, {"current": [lock("44"), lock("11")]}, {"22"}, id="in any current lock"),
        pytest.param(2, HISTORY, {"gap": "shallow clone"}, set(), id="a gap"),
    ],
)
def test_artifacts_of_older_locks_only_are_superseded(keep, history, more, expected):
    assert superseded(keep, *history, **more) == expected


class Bucket:
    """The versioned artifact bucket of `dev`."""

    def __init__(self, cloud: Cloud, name: str) -> None:
        self.s3, self.name = cloud.client("s3"), name
        self.s3.create_bucket(Bucket=name)
        self.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})

    def put(self, number: str) -> None:
        for name in ("model.tar.gz", "examples.json", "manifest.json"):
            self.s3.put_object(Bucket=self.name, Key=self.key(number, name), Body=b"x")

    def key(self, number: str, name: str = "manifest.json") -> str:
        return f"{artifact_prefix('minilm', number * 32)}/{name}"

    def marked(self) -> set[str]:
        objects = self.s3.list_objects_v2(Bucket=self.name).get("Contents", [])
        return {
            item["Key"]
            for item in objects
            if {"Key": "superseded", "Value": "true"}
            in self.s3.get_object_tagging(Bucket=self.name, Key=item["Key"])["TagSet"]
        }

    def held(self) -> set[str]:
        return {item["Key"] for item in self.s3.list_objects_v2(Bucket=self.name).get("Contents", [])}


class Dev:
    """A project in git with an environment that keeps two locks, and its bucket."""

    def __init__(self, root: Path, cloud: Cloud) -> None:
        root.mkdir()
        self.cloud, self.project = cloud, write_project(root)
        edit(self.project.environment_file("dev"), "endpoints:", "keep_locks: 2\nendpoints:")
        self.repository = Repository(root)
        self.bucket = Bucket(cloud, load_workspace(self.project, "dev").spec.artifact_bucket)

    def lock(self, *numbers: str) -> None:
        """Publish artifacts, and commit a lock for each."""
        for number in numbers:
            if self.bucket.key(number) not in self.bucket.held():
                self.bucket.put(number)
            add_to_lock(self.project.lock_file("dev"), [manifest("minilm", digest=number * 32)], built=BUILT)
            self.repository.commit(number)

    def mark(self, *live: RunningEndpoint) -> TaggingResult:
        return mark_superseded(self.cloud, load_workspace(self.project, "dev"), live)


@pytest.fixture
def dev(tmp_path, cloud):
    return Dev(tmp_path / "project", cloud)


def test_only_superseded_artifacts_are_marked(dev):
    others = {
        "models/minilm/builds/0a1b.json",
        "models/minilm/caches/x",
        "events/2026-11-22T08:30:00Z-built-1.json",
        f"endpoints/tritonstack-dev-search/minilm/{'11' * 32}/model.tar.gz",
        f"models/minilm/{'ee' * 32}/manifest.json",
    }
    for key in others:
        dev.bucket.s3.put_object(Bucket=dev.bucket.name, Key=key, Body=b"x")
    dev.lock("11", "22", "33")
    marked = dev.mark()
    assert marked.marked == (("minilm", "11" * 32),)
    assert dev.bucket.marked() == {
        dev.bucket.key("11", name) for name in ("model.tar.gz", "examples.json", "manifest.json")
    }
    assert dev.mark().marked == ()


def running(*urls: str, missing: str | None = None) -> RunningEndpoint:
    none = frozenset[str]()
    return RunningEndpoint("tritonstack-dev-search", none, none, frozenset(urls), missing=missing)


def test_artifacts_that_an_endpoint_runs_are_kept_and_lose_the_mark(dev):
    """As after a rollback that no lock knows of."""
    dev.lock("11", "22", "33", "44")
    archive = f"s3://{dev.bucket.name}/{dev.bucket.key('11', 'model.tar.gz')}"
    elsewhere = f"s3://other/{dev.bucket.key('22', 'model.tar.gz')}"
    prefix = f"s3://{dev.bucket.name}/endpoints/tritonstack-dev-search/"
    assert dev.mark(running(archive), running(elsewhere, prefix)).marked == (("minilm", "22" * 32),)
    assert dev.mark().marked == (("minilm", "11" * 32),)
    dev.mark(running(archive))
    assert dev.bucket.key("11") not in dev.bucket.marked()


def test_artifacts_of_retained_models_are_kept(dev, monkeypatch):
    """moto has no tags of models; test_retained.py reads them from the local cloud."""
    dev.lock("11", "22", "33", "44")
    archive = f"s3://{dev.bucket.name}/{dev.bucket.key('11', 'model.tar.gz')}"
    monkeypatch.setattr(retention, "tagged_models", lambda *_: (set[str](), {archive}))
    assert dev.mark().marked == (("minilm", "22" * 32),)


def test_nothing_is_marked_if_what_an_endpoint_runs_is_unknown(dev):
    dev.lock("11", "22", "33")
    result = dev.mark(running(missing="config"))
    assert (result.marked, dev.bucket.marked()) == ((), set())
    assert result.gap is not None


def test_artifacts_that_return_lose_the_mark_and_keep_other_tags(dev):
    dev.lock("11", "22", "33")
    mine = {"TagSet": [{"Key": "mine", "Value": "x"}]}
    dev.bucket.s3.put_object_tagging(Bucket=dev.bucket.name, Key=dev.bucket.key("11"), Tagging=mine)
    dev.mark()
    dev.lock("11")
    result = dev.mark()
    assert result.marked == (("minilm", "22" * 32),)
    assert dev.bucket.marked() == {
        dev.bucket.key("22", name) for name in ("model.tar.gz", "examples.json", "manifest.json")
    }
    tags = dev.bucket.s3.get_object_tagging(Bucket=dev.bucket.name, Key=dev.bucket.key("11"))["TagSet"]
    assert tags == mine["TagSet"]


def test_next_run_finishes_after_a_kill_between_two_tags(dev):
    dev.lock("11", "22", "33")
    tag = {"TagSet": [{"Key": "superseded", "Value": "true"}]}
    dev.bucket.s3.put_object_tagging(Bucket=dev.bucket.name, Key=dev.bucket.key("11"), Tagging=tag)
    assert dev.mark().marked == (("minilm", "11" * 32),)
    assert len(dev.bucket.marked()) == 3


def test_artifacts_of_another_environment_are_kept(dev):
    dev.lock("11", "22", "33")
    text = dev.project.environment_file("dev").read_text()
    dev.project.environment_file("prod").write_text(text.replace("name: dev", "name: prod"))
    add_to_lock(dev.project.lock_file("prod"), [manifest("minilm", digest="11" * 32)], built=BUILT)
    assert dev.mark().marked == ()


@pytest.mark.parametrize("damage", ["git", "lock", "other lock"])
def test_unknown_history_marks_nothing_and_is_reported(dev, damage):
    dev.lock("11", "22", "33")
    if damage == "git":
        (dev.project.root / ".git").rename(dev.project.root / "gone")
    elif damage == "lock":
        file = dev.project.lock_file("dev")
        good = file.read_text()
        file.write_text(good.replace("spec_hash", "spec_hush"))
        dev.repository.commit("broken")
        file.write_text(good)
        dev.repository.commit("mended")
    else:
        text = dev.project.environment_file("dev").read_text()
        dev.project.environment_file("prod").write_text(text.replace("name: dev", "name: prod"))
        dev.project.lock_file("prod").write_text("models: 3\n")
    result = dev.mark()
    assert result.marked == ()
    assert {"git": "not in git", "lock": "cannot read", "other lock": "lock of prod"}[damage] in str(
        result.gap
    )
    assert dev.bucket.marked() == set()


def test_a_deleted_artifact_is_restored_without_its_mark(dev):
    dev.lock("11", "22", "33")
    dev.mark()
    for name in ("model.tar.gz", "examples.json", "manifest.json"):
        dev.bucket.s3.delete_object(Bucket=dev.bucket.name, Key=dev.bucket.key("11", name))
    assert not any("11" * 32 in key for key in dev.bucket.held())
    assert restore_artifact(dev.cloud, bucket=dev.bucket.name, model="minilm", digest="11" * 32)
    assert {key for key in dev.bucket.held() if "11" * 32 in key} == {
        dev.bucket.key("11", name) for name in ("model.tar.gz", "examples.json", "manifest.json")
    }
    assert dev.bucket.marked() == set()
    assert not restore_artifact(dev.cloud, bucket=dev.bucket.name, model="minilm", digest="11" * 32)


@pytest.mark.parametrize("again", ["brought back", "built"])
def test_objects_of_a_new_manifest_also_lose_their_expiry_tag(dev, again):
    """The rule deletes one object after the other; the archive was next."""
    dev.lock("11", "22", "33")
    dev.mark()
    manifest = {"Bucket": dev.bucket.name, "Key": dev.bucket.key("11")}
    dev.bucket.s3.delete_object(**manifest)
    if again == "brought back":
        assert restore_artifact(dev.cloud, bucket=dev.bucket.name, model="minilm", digest="11" * 32)
    else:
        dev.bucket.s3.put_object(**manifest, Body=b"x")
    assert dev.bucket.marked() == {dev.bucket.key("11", name) for name in ("model.tar.gz", "examples.json")}
    assert unmark_superseded(dev.cloud, dev.bucket.name, [("minilm", "11" * 32)]) == (("minilm", "11" * 32),)
    assert dev.bucket.marked() == set()


def versions_and_marks(bucket: Bucket) -> set[str]:
    listing = bucket.s3.list_object_versions(Bucket=bucket.name)
    return {item["VersionId"] for item in (*listing["Versions"], *listing.get("DeleteMarkers", ()))}


@pytest.mark.parametrize("part_bytes", [5 * MIB, 256 * MIB])
def test_restored_artifacts_equal_the_published_ones(dev, monkeypatch, part_bytes):
    """Single-part or multipart; no version is deleted, because the deploy role cannot do that."""
    monkeypatch.setattr("tritonstack.operations.artifacts.PART_BYTES", part_bytes)
    place = {"Bucket": dev.bucket.name, "Key": dev.bucket.key("11", "model.tar.gz")}
    body = bytes(6 * MIB)
    dev.bucket.s3.put_object(
        **place,
        Body=body,
        ContentType="application/gzip",
        Metadata={"sha256": "11" * 32},
        ChecksumAlgorithm="SHA256",
        Tagging="superseded=true&team=a%20b",
    )
    dev.bucket.s3.delete_object(**place)
    before = versions_and_marks(dev.bucket)
    assert restore_artifact(dev.cloud, bucket=dev.bucket.name, model="minilm", digest="11" * 32)
    assert before < versions_and_marks(dev.bucket)
    restored = dev.bucket.s3.get_object(**place, ChecksumMode="ENABLED")
    assert (restored["Body"].read(), restored["ContentType"]) == (body, "application/gzip")
    assert restored["Metadata"] == {"sha256": "11" * 32}
    assert "ChecksumSHA256" in restored
    assert dev.bucket.s3.get_object_tagging(**place)["TagSet"] == [{"Key": "team", "Value": "a b"}]


def test_a_killed_restore_resumes_and_restores_the_manifest_last(dev, monkeypatch):
    dev.bucket.put("11")
    names = ("model.tar.gz", "examples.json", "manifest.json")
    for name in names:
        dev.bucket.s3.delete_object(Bucket=dev.bucket.name, Key=dev.bucket.key("11", name))
    real, copied = artifact_versions.copy_object, list[str]()

    def counted(s3: Any, origin: Any, **settings: Any) -> None:
        if len(copied) == 2:
            raise KeyboardInterrupt
        real(s3, origin, **settings)
        copied.append(origin["Key"])

    with monkeypatch.context() as killed:
        killed.setattr(artifact_versions, "copy_object", counted)
        with pytest.raises(KeyboardInterrupt):
            restore_artifact(dev.cloud, bucket=dev.bucket.name, model="minilm", digest="11" * 32)
    assert dev.bucket.held() == {dev.bucket.key("11", name) for name in names[:2]}
    assert restore_artifact(dev.cloud, bucket=dev.bucket.name, model="minilm", digest="11" * 32)
    assert dev.bucket.held() == {dev.bucket.key("11", name) for name in names}


def test_permanently_deleted_artifacts_cannot_be_restored(dev):
    assert not restore_artifact(dev.cloud, bucket=dev.bucket.name, model="minilm", digest="11" * 32)


def test_a_missing_bucket_is_not_searched(cloud):
    with pytest.raises(TritonstackError, match="nowhere") as caught:
        restore_artifact(cloud, bucket="nowhere", model="minilm", digest="11" * 32)
    assert caught.value.code == NotDeployedError.code
