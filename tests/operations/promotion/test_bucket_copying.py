"""Copy artifacts between buckets of one account: complete, once, and only what the lock names."""

import hashlib

import pytest
from botocore.exceptions import ClientError

from tests.operations.changing_s3 import change_after
from tests.operations.two_accounts import TwoAccounts, two_accounts
from tritonstack.base.error_kinds import DamagedArtifactError
from tritonstack.operations.artifacts import StoredArtifact, is_published
from tritonstack.operations.promotion.bucket_copying import copy_in_account

TARGET = "tritonstack-pr-1-artifacts"


@pytest.fixture
def accounts(project):
    with two_accounts(project) as both:
        both.dev.client("s3").create_bucket(
            Bucket=TARGET, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
        )
        yield both


def source(accounts: TwoAccounts) -> StoredArtifact:
    accounts.build("minilm", b"archive")
    entry = accounts.lock("dev").models["minilm"]["cpu"]
    return StoredArtifact(accounts.dev, accounts.bucket("dev"), "minilm", "cpu", entry)


def keys(accounts: TwoAccounts) -> list[str]:
    listing = accounts.dev.client("s3").list_objects_v2(Bucket=TARGET)
    return [item["Key"].rpartition("/")[2] for item in listing.get("Contents", ())]


def test_a_copied_artifact_is_published_in_the_target(accounts):
    artifact = source(accounts)
    copy_in_account(artifact, cloud=accounts.dev, bucket=TARGET)
    assert is_published(accounts.dev, bucket=TARGET, model="minilm", artifact=artifact.entry)
    assert keys(accounts) == ["manifest.json", "model.tar.gz"]


def test_tag_of_the_source_is_kept_in_the_source(accounts):
    """The source's recent locks no longer name it, but the target has just requested it."""
    artifact = source(accounts)
    s3, mark = accounts.dev.client("s3"), {"TagSet": [{"Key": "superseded", "Value": "true"}]}
    for name in ("manifest.json", "model.tar.gz"):
        s3.put_object_tagging(Bucket=artifact.bucket, Key=f"{artifact.prefix}/{name}", Tagging=mark)
    copy_in_account(artifact, cloud=accounts.dev, bucket=TARGET)
    for name in ("manifest.json", "model.tar.gz"):
        assert s3.get_object_tagging(Bucket=TARGET, Key=f"{artifact.prefix}/{name}")["TagSet"] == []


def test_existing_artifacts_are_not_copied_again(accounts):
    artifact = source(accounts)
    copy_in_account(artifact, cloud=accounts.dev, bucket=TARGET)
    accounts.dev.client("s3").delete_object(Bucket=artifact.bucket, Key=f"{artifact.prefix}/manifest.json")
    copy_in_account(artifact, cloud=accounts.dev, bucket=TARGET)


def test_a_copy_that_was_stopped_before_its_manifest_is_resumed(accounts):
    artifact = source(accounts)
    accounts.dev.client("s3").put_object(Bucket=TARGET, Key=f"{artifact.prefix}/model.tar.gz", Body=b"half")
    copy_in_account(artifact, cloud=accounts.dev, bucket=TARGET)
    assert is_published(accounts.dev, bucket=TARGET, model="minilm", artifact=artifact.entry)


@pytest.mark.parametrize("body", [None, b"another"])
def test_an_archive_other_than_the_locked_one_is_not_copied(accounts, body):
    artifact = source(accounts)
    s3, place = (
        accounts.dev.client("s3"),
        {"Bucket": artifact.bucket, "Key": f"{artifact.prefix}/model.tar.gz"},
    )
    if body is None:
        s3.delete_object(**place)
    else:
        s3.put_object(**place, Body=body)
    with pytest.raises(DamagedArtifactError):
        copy_in_account(artifact, cloud=accounts.dev, bucket=TARGET)
    assert keys(accounts) == []


def test_an_archive_that_is_replaced_after_the_check_is_not_copied(accounts, monkeypatch):
    """S3 copies what was checked, or nothing: nobody checks the copy."""
    artifact = source(accounts)
    s3, place = (
        accounts.dev.client("s3"),
        {"Bucket": artifact.bucket, "Key": f"{artifact.prefix}/model.tar.gz"},
    )
    note = {"sha256": artifact.entry.digest}
    change_after(
        monkeypatch,
        "HeadObject",
        f"{artifact.entry.digest}/model.tar.gz",
        lambda: s3.put_object(**place, Body=b"ARCHIVE", Metadata=note),
    )
    with pytest.raises(ClientError, match=r"412|PreconditionFailed"):
        copy_in_account(artifact, cloud=accounts.dev, bucket=TARGET)
    assert keys(accounts) == []


def test_what_was_checked_beside_an_archive_is_what_the_target_gets(accounts, monkeypatch):
    examples = b'{"examples": "of this artifact"}'
    sha256 = hashlib.sha256(examples).hexdigest()
    manifest = accounts.build("minilm", b"archive", examples_sha256=sha256)
    entry = accounts.lock("dev").models["minilm"]["cpu"]
    artifact = StoredArtifact(accounts.dev, accounts.bucket("dev"), "minilm", "cpu", entry)
    s3 = accounts.dev.client("s3")

    def put(name: str, body: bytes) -> None:
        s3.put_object(Bucket=artifact.bucket, Key=f"{artifact.prefix}/{name}", Body=body)

    put("examples.json", examples)
    for name in ("manifest.json", "examples.json"):
        with monkeypatch.context() as patched:
            change_after(patched, "GetObject", name, lambda name=name: put(name, b"{}"))
            if name == "examples.json":
                put("manifest.json", manifest.to_json().encode())
            copy_in_account(artifact, cloud=accounts.dev, bucket=TARGET)
        for copied, body in (("manifest.json", manifest.to_json().encode()), ("examples.json", examples)):
            place = {"Bucket": TARGET, "Key": f"{artifact.prefix}/{copied}"}
            assert s3.get_object(**place)["Body"].read() == body
            s3.delete_object(**place)
