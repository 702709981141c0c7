"""Which artifacts are marked for expiry, which never are, and how they are restored."""

from pathlib import Path
from typing import Any

import pytest

from tests.operate.locks.locked_project import LockedProject, running
from tritonstack.base.error_kinds import NotDeployedError
from tritonstack.base.errors import TritonstackError
from tritonstack.base.naming import artifact_prefix
from tritonstack.operate.destroy.retained import RunningEndpoint
from tritonstack.operate.locks import retention
from tritonstack.operate.locks.retention import TaggingResult, mark_superseded, unmark_superseded
from tritonstack.operate.rollback import rollback as restoring
from tritonstack.operate.rollback.rollback import restore_artifact
from tritonstack.operate.shared.aws import Cloud

MIB = 1024**2
NAMES = ("model.tar.gz", "examples.json", "manifest.json")
SUPERSEDED = {"Key": "superseded", "Value": "true"}


class Dev(LockedProject):
    """An environment that keeps two locks, and its versioned bucket of artifacts."""

    def __init__(self, root: Path, cloud: Cloud) -> None:
        super().__init__(root, keep_locks=2)
        self.cloud, self.s3 = cloud, cloud.client("s3")
        self.bucket = self.workspace.spec.artifact_bucket
        self.s3.create_bucket(Bucket=self.bucket)
        enabled = {"Status": "Enabled"}
        self.s3.put_bucket_versioning(Bucket=self.bucket, VersioningConfiguration=enabled)

    def place(self, number: str, name: str = "manifest.json") -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": f"{artifact_prefix('minilm', number * 32)}/{name}"}

    def put(self, number: str) -> None:
        for name in NAMES:
            self.s3.put_object(**self.place(number, name), Body=b"x")

    def delete(self, number: str) -> None:
        for name in NAMES:
            self.s3.delete_object(**self.place(number, name))

    def publish(self, *numbers: str) -> None:
        """Publish artifacts, and commit a lock for each."""
        for number in numbers:
            if not self.held(number):
                self.put(number)
            self.lock(number)

    def tags(self, place: dict[str, str]) -> list[dict[str, str]]:
        return list(self.s3.get_object_tagging(**place)["TagSet"])

    def held(self, number: str) -> set[str]:
        """Return the objects of an artifact."""
        keys = [item["Key"] for item in self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", ())]
        return {key.rpartition("/")[2] for key in keys if number * 32 in key and key.startswith("models/")}

    def marked(self) -> set[str]:
        """Return the numbers of artifacts with marked objects; each is marked whole."""
        keys = [item["Key"] for item in self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", ())]
        marks = [key for key in keys if SUPERSEDED in self.tags({"Bucket": self.bucket, "Key": key})]
        assert all(key.startswith("models/minilm/") for key in marks)
        numbers = {key.split("/")[2][:2] for key in marks}
        assert len(marks) == len(numbers) * len(NAMES)
        return numbers

    def mark(self, *live: RunningEndpoint) -> TaggingResult:
        return mark_superseded(self.cloud, self.workspace, live)

    def newly_marked(self, *live: RunningEndpoint) -> list[str]:
        return [digest[:2] for _, digest in self.mark(*live).marked]

    def restore(self, number: str = "11") -> bool:
        return restore_artifact(self.cloud, bucket=self.bucket, model="minilm", digest=number * 32)


@pytest.fixture
def dev(tmp_path, cloud):
    return Dev(tmp_path / "project", cloud)


def test_only_superseded_artifacts_are_marked(dev):
    for key in (
        "models/minilm/builds/0a1b.json",
        "models/minilm/caches/x",
        "events/2026-11-22T08:30:00Z-built-1.json",
        f"endpoints/tritonstack-dev-search/minilm/{'11' * 32}/model.tar.gz",
        f"models/minilm/{'ee' * 32}/manifest.json",
    ):
        dev.s3.put_object(Bucket=dev.bucket, Key=key, Body=b"x")
    dev.publish("11", "22")
    assert dev.newly_marked() == []  # a short history
    dev.publish("33", "44")
    assert (dev.newly_marked(), dev.marked()) == (["11", "22"], {"11", "22"})
    assert dev.newly_marked() == []


def test_artifacts_that_an_endpoint_or_a_retained_model_runs_are_kept_and_lose_the_mark(dev, monkeypatch):
    """As after a rollback that no lock knows of.

    moto has no tags of models; `destruction/test_retained.py` reads them from the local cloud.
    """
    dev.publish("11", "22", "33", "44")
    archive, other = (f"s3://{dev.bucket}/{dev.place(number, NAMES[0])['Key']}" for number in ("11", "22"))
    elsewhere = other.replace(dev.bucket, "other")
    prefix = f"s3://{dev.bucket}/endpoints/tritonstack-dev-search/"
    with monkeypatch.context() as patched:
        patched.setattr(retention, "tagged_models", lambda *_: (set[str](), {archive}))
        assert dev.newly_marked(running(other)) == []
    assert dev.newly_marked(running(archive), running(elsewhere, prefix)) == ["22"]
    assert dev.newly_marked() == ["11"]
    dev.mark(running(archive))
    assert dev.marked() == {"22"}


def test_artifacts_that_return_lose_the_mark_and_keep_other_tags(dev):
    dev.publish("11", "22", "33")
    mine = [{"Key": "mine", "Value": "x"}]
    dev.s3.put_object_tagging(**dev.place("11"), Tagging={"TagSet": mine})
    dev.mark()
    dev.publish("11")
    assert (dev.newly_marked(), dev.marked()) == (["22"], {"22"})
    assert dev.tags(dev.place("11")) == mine


def test_next_run_finishes_after_a_kill_between_two_tags(dev):
    dev.publish("11", "22", "33")
    dev.s3.put_object_tagging(**dev.place("11"), Tagging={"TagSet": [SUPERSEDED]})
    assert (dev.newly_marked(), dev.marked()) == (["11"], {"11"})


def test_artifacts_of_another_environment_are_kept(dev):
    dev.publish("11", "22", "33")
    dev.add_prod()
    dev.build("11", environment="prod")
    assert dev.newly_marked() == []


@pytest.mark.parametrize(
    ("unknown", "gap"),
    [("git", "not in git"), ("lock", "cannot read"), ("other", "lock of prod"), ("endpoint", "config")],
)
def test_what_is_unknown_marks_nothing_and_is_reported(dev, unknown, gap):
    dev.publish("11", "22", "33")
    if unknown == "git":
        (dev.project.root / ".git").rename(dev.project.root / "gone")
    elif unknown == "lock":
        dev.break_lock()
        dev.repository.commit("mended")
    elif unknown == "other":
        dev.add_prod()
        dev.project.lock_file("prod").write_text("models: 3\n")
    result = dev.mark(*([running(missing="config")] if unknown == "endpoint" else []))
    assert (result.marked, dev.marked()) == ((), set())
    assert gap in str(result.gap)


@pytest.mark.parametrize("again", ["brought back", "built"])
def test_objects_of_a_new_manifest_also_lose_their_expiry_tag(dev, again):
    """The rule deletes one object after the other; the archive was next."""
    dev.publish("11", "22", "33")
    dev.mark()
    dev.s3.delete_object(**dev.place("11"))
    if again == "brought back":
        assert dev.restore()
    else:
        dev.s3.put_object(**dev.place("11"), Body=b"x")
    assert [SUPERSEDED in dev.tags(dev.place("11", name)) for name in NAMES] == [True, True, False]
    artifact = ("minilm", "11" * 32)
    assert unmark_superseded(dev.cloud, dev.bucket, [artifact]) == (artifact,)
    assert dev.marked() == set()


@pytest.mark.parametrize("part_bytes", [5 * MIB, 256 * MIB])
def test_restored_artifacts_equal_the_published_ones(dev, monkeypatch, part_bytes):
    """Single-part or multipart; no version is deleted, because the deploy role cannot do that."""

    def versions_and_marks() -> set[str]:
        listing = dev.s3.list_object_versions(Bucket=dev.bucket)
        return {item["VersionId"] for item in (*listing["Versions"], *listing.get("DeleteMarkers", ()))}

    monkeypatch.setattr("tritonstack.operate.shared.artifacts.PART_BYTES", part_bytes)
    place, body = dev.place("11", "model.tar.gz"), bytes(6 * MIB)
    settings = {"ContentType": "application/gzip", "Metadata": {"sha256": "11" * 32}}
    tagging = "superseded=true&team=a%20b"
    dev.s3.put_object(**place, Body=body, ChecksumAlgorithm="SHA256", Tagging=tagging, **settings)
    dev.s3.delete_object(**place)
    before = versions_and_marks()
    assert dev.restore()
    assert before < versions_and_marks()
    restored = dev.s3.get_object(**place, ChecksumMode="ENABLED")
    assert restored["Body"].read() == body
    assert {name: restored[name] for name in settings} == settings
    assert "ChecksumSHA256" in restored
    assert dev.tags(place) == [{"Key": "team", "Value": "a b"}]


def test_a_killed_restore_resumes_and_restores_the_manifest_last(dev, monkeypatch):
    dev.put("11")
    dev.delete("11")
    real, copied = restoring.copy_object, list[str]()

    def counted(s3: Any, origin: Any, **settings: Any) -> None:
        if len(copied) == 2:
            raise KeyboardInterrupt
        real(s3, origin, **settings)
        copied.append(origin["Key"])

    with monkeypatch.context() as killed:
        killed.setattr(restoring, "copy_object", counted)
        with pytest.raises(KeyboardInterrupt):
            dev.restore()
    assert dev.held("11") == set(NAMES[:2])
    assert dev.restore()
    assert dev.held("11") == set(NAMES)


def test_what_does_not_exist_is_not_restored(dev):
    assert not dev.restore("99")
    with pytest.raises(TritonstackError, match="nowhere") as caught:
        restore_artifact(dev.cloud, bucket="nowhere", model="minilm", digest="11" * 32)
    assert caught.value.code == NotDeployedError.code
