"""Copy artifacts between buckets of one account: complete, once, and only what the lock names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.operations.two_accounts import TwoAccounts, two_accounts
from tritonstack.base.paths import Project
from tritonstack.operations.artifacts import DamagedArtifactError, is_published
from tritonstack.operations.promotion.bucket_copying import copy_in_account
from tritonstack.operations.promotion.fetching import SourceArtifact

TARGET = "tritonstack-pr-1-artifacts"


@pytest.fixture
def accounts(project: Project) -> Iterator[TwoAccounts]:
    with two_accounts(project) as both:
        both.dev.client("s3").create_bucket(
            Bucket=TARGET, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
        )
        yield both


def source(accounts: TwoAccounts) -> SourceArtifact:
    accounts.build("minilm", b"archive")
    entry = accounts.lock("dev").models["minilm"]["cpu"]
    return SourceArtifact(accounts.dev, accounts.bucket("dev"), "minilm", "cpu", entry)


def keys(accounts: TwoAccounts) -> list[str]:
    found = accounts.dev.client("s3").list_objects_v2(Bucket=TARGET)
    return [item["Key"].rpartition("/")[2] for item in found.get("Contents", ())]


def test_a_copied_artifact_is_published_in_the_target(accounts: TwoAccounts) -> None:
    artifact = source(accounts)
    copy_in_account(artifact, cloud=accounts.dev, bucket=TARGET)
    assert is_published(accounts.dev, bucket=TARGET, model="minilm", artifact=artifact.entry)
    assert keys(accounts) == ["manifest.json", "model.tar.gz"]


def test_tag_of_the_source_is_kept_in_the_source(accounts: TwoAccounts) -> None:
    """The source's recent locks no longer name it, but the target has just requested it."""
    artifact = source(accounts)
    s3, mark = accounts.dev.client("s3"), {"TagSet": [{"Key": "superseded", "Value": "true"}]}
    for name in ("manifest.json", "model.tar.gz"):
        s3.put_object_tagging(Bucket=artifact.bucket, Key=f"{artifact.prefix}/{name}", Tagging=mark)
    copy_in_account(artifact, cloud=accounts.dev, bucket=TARGET)
    for name in ("manifest.json", "model.tar.gz"):
        assert s3.get_object_tagging(Bucket=TARGET, Key=f"{artifact.prefix}/{name}")["TagSet"] == []


def test_existing_artifacts_are_not_copied_again(accounts: TwoAccounts) -> None:
    artifact = source(accounts)
    copy_in_account(artifact, cloud=accounts.dev, bucket=TARGET)
    accounts.dev.client("s3").delete_object(Bucket=artifact.bucket, Key=f"{artifact.prefix}/manifest.json")
    copy_in_account(artifact, cloud=accounts.dev, bucket=TARGET)


def test_a_copy_that_was_stopped_before_its_manifest_is_resumed(accounts: TwoAccounts) -> None:
    artifact = source(accounts)
    accounts.dev.client("s3").put_object(Bucket=TARGET, Key=f"{artifact.prefix}/model.tar.gz", Body=b"half")
    copy_in_account(artifact, cloud=accounts.dev, bucket=TARGET)
    assert is_published(accounts.dev, bucket=TARGET, model="minilm", artifact=artifact.entry)


@pytest.mark.parametrize("body", [None, b"another"])
def test_an_archive_other_than_the_locked_one_is_not_copied(
    accounts: TwoAccounts, body: bytes | None
) -> None:
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
