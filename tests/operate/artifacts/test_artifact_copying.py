"""Copies of artifacts in an account and into the local store: complete, once, and as the lock names them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from tests.operate.changing_s3 import change_after
from tests.operate.two_accounts import TwoAccounts, make_manifest, two_accounts
from tritonstack.base.error_kinds import CopyError, DamagedArtifactError
from tritonstack.files.records.locks import entry_of
from tritonstack.files.records.manifests import ARCHIVE_NAME, Manifest
from tritonstack.operate.artifacts.transfers import PAUSES_S, copy_in_account, fetch_artifact
from tritonstack.operate.shared.artifacts import StoredArtifact, is_published
from tritonstack.operate.shared.aws import Cloud

TARGET = "tritonstack-pr-1-artifacts"


class Dev:
    """An artifact in the bucket of dev, and another bucket of its account."""

    def __init__(self, accounts: TwoAccounts, **changes: Any) -> None:
        self.cloud, self.s3 = accounts.dev, accounts.dev.client("s3")
        self.manifest: Manifest = accounts.build("minilm", b"archive", **changes)
        entry = accounts.lock("dev").models["minilm"]["cpu"]
        self.artifact = StoredArtifact(self.cloud, accounts.bucket("dev"), "minilm", "cpu", entry)

    def put(self, name: str, body: bytes, bucket: str = "") -> None:
        """Write an object of the artifact, with the note of the locked digest."""
        place = {"Bucket": bucket or self.artifact.bucket, "Key": f"{self.artifact.prefix}/{name}"}
        self.s3.put_object(**place, Body=body, Metadata={"sha256": self.manifest.digest})

    def copy(self) -> None:
        copy_in_account(self.artifact, cloud=self.cloud, bucket=TARGET)

    def copied(self) -> dict[str, bytes]:
        listing = self.s3.list_objects_v2(Bucket=TARGET).get("Contents", ())
        return {
            item["Key"].rpartition("/")[2]: self.s3.get_object(Bucket=TARGET, Key=item["Key"])["Body"].read()
            for item in listing
        }

    @property
    def is_published(self) -> bool:
        entry = self.artifact.entry
        return is_published(self.cloud, bucket=TARGET, model="minilm", artifact=entry)


@pytest.fixture
def accounts(project):
    with two_accounts(project) as both:
        location = {"LocationConstraint": "eu-west-1"}
        both.dev.client("s3").create_bucket(Bucket=TARGET, CreateBucketConfiguration=location)
        yield both


def test_a_copy_is_published_without_the_tags_of_its_source_and_made_once(accounts):
    """The source's recent locks no longer name it, but the target has just requested it."""
    dev, mark = Dev(accounts), {"TagSet": [{"Key": "superseded", "Value": "true"}]}
    keys = [f"{dev.artifact.prefix}/{name}" for name in ("manifest.json", "model.tar.gz")]
    for key in keys:
        dev.s3.put_object_tagging(Bucket=dev.artifact.bucket, Key=key, Tagging=mark)
    dev.put("model.tar.gz", b"half", TARGET)  # an earlier run was stopped
    dev.copy()
    assert (dev.is_published, list(dev.copied())) == (True, ["manifest.json", "model.tar.gz"])
    assert [dev.s3.get_object_tagging(Bucket=TARGET, Key=key)["TagSet"] for key in keys] == [[], []]
    dev.s3.delete_object(Bucket=dev.artifact.bucket, Key=keys[0])
    dev.copy()


@pytest.mark.parametrize("body", [None, b"another"])
def test_an_archive_other_than_the_locked_one_is_not_copied(accounts, body):
    dev = Dev(accounts)
    if body is None:
        dev.s3.delete_object(Bucket=dev.artifact.bucket, Key=dev.artifact.archive_key)
    else:
        dev.s3.put_object(Bucket=dev.artifact.bucket, Key=dev.artifact.archive_key, Body=body)
    with pytest.raises(DamagedArtifactError):
        dev.copy()
    assert dev.copied() == {}


def test_an_archive_that_is_replaced_after_the_check_is_not_copied(accounts, monkeypatch):
    """S3 copies what was checked, or nothing; the copy is not checked again."""
    dev = Dev(accounts)
    change_after(monkeypatch, "HeadObject", "model.tar.gz", lambda: dev.put("model.tar.gz", b"ARCHIVE"))
    with pytest.raises(ClientError, match=r"412|PreconditionFailed"):
        dev.copy()
    assert dev.copied() == {}


@pytest.mark.parametrize("replaced", ["manifest.json", "examples.json"])
def test_what_was_checked_beside_an_archive_is_what_the_target_gets(accounts, monkeypatch, replaced):
    examples = b'{"examples": "of this artifact"}'
    dev = Dev(accounts, examples_sha256=hashlib.sha256(examples).hexdigest())
    dev.put("examples.json", examples)
    change_after(monkeypatch, "GetObject", replaced, lambda: dev.put(replaced, b"{}"))
    dev.copy()
    manifest = dev.manifest.to_json().encode()
    assert dev.copied() == {"manifest.json": manifest, "examples.json": examples, "model.tar.gz": b"archive"}


@pytest.mark.parametrize("fetched", [0, 4])
def test_an_archive_that_is_replaced_after_the_check_is_not_downloaded(
    accounts, tmp_path, monkeypatch, fetched
):
    """Before the first byte, also of a resumed download: the final checksum comes after gigabytes."""
    dev, received = Dev(accounts), list[int]()
    partial = tmp_path / ".fetching" / "minilm" / dev.manifest.digest / "artifact" / ARCHIVE_NAME
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"archive"[:fetched])
    with monkeypatch.context() as patched:
        change_after(patched, "HeadObject", "model.tar.gz", lambda: dev.put("model.tar.gz", b"ARCHIVE"))
        with pytest.raises(DamagedArtifactError):
            fetch_artifact(dev.artifact, dev.manifest, store=tmp_path, on_bytes=received.append)
    assert sum(received) == fetched
    dev.put("model.tar.gz", b"archive")
    folder = fetch_artifact(dev.artifact, dev.manifest, store=tmp_path, on_bytes=received.append)
    assert (folder / ARCHIVE_NAME).read_bytes() == b"archive"


class Breaking:
    """A cloud whose S3 sends one byte per connection, and nothing in the connections of these numbers."""

    def __init__(self, content: bytes, silent: range | set[int]) -> None:
        self._content, self._silent, self._calls = content, silent, 0

    def client(self, _service: str) -> Breaking:
        return self

    def head_object(self, **_: Any) -> dict[str, Any]:
        return {"ContentLength": len(self._content), "ETag": "1"}

    def get_object(self, *, Range: str, **_: Any) -> dict[str, Any]:  # noqa: N803 - S3's own name
        first, self._calls = int(Range.removeprefix("bytes=").rstrip("-")), self._calls + 1
        if self._calls in self._silent:
            raise ReadTimeoutError(endpoint_url="s3")
        self._next = self._content[first : first + 1]
        return {"Body": self}

    def iter_chunks(self, _size: int) -> Iterator[bytes]:
        yield self._next


@pytest.mark.parametrize(
    ("silent", "slow"),
    [({1, 2, 3, 8, 9, 10, 11}, [*PAUSES_S[1:3], *PAUSES_S[1:5]]), (range(1, 100), PAUSES_S[1:])],
    ids=["progress renews the patience", "a source that never answers is reported"],
)
def test_a_broken_connection_is_tried_again(tmp_path, silent, slow):
    content, pauses = b"content of an archive", list[float]()
    manifest = make_manifest("minilm", content, spec_hash="ab" * 32)
    cloud = cast("Cloud", Breaking(content, silent))
    source = StoredArtifact(cloud, "bucket", "minilm", "cpu", entry_of(manifest))
    try:
        folder = fetch_artifact(
            source, manifest, store=tmp_path, on_bytes=lambda _: None, sleep=pauses.append
        )
        assert (folder / ARCHIVE_NAME).read_bytes() == content
    except CopyError:
        assert silent == range(1, 100)
    assert [pause for pause in pauses if pause > PAUSES_S[0]] == list(slow)


def test_other_examples_than_those_of_the_manifest_are_not_copied(accounts, tmp_path):
    dev = Dev(accounts, examples_sha256="ab" * 32)
    dev.put("examples.json", b"{}")
    with pytest.raises(DamagedArtifactError):
        dev.copy()
    with pytest.raises(DamagedArtifactError):
        fetch_artifact(dev.artifact, dev.manifest, store=tmp_path, on_bytes=lambda _: None)
    assert "manifest.json" not in dev.copied()
