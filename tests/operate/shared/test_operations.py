"""Operations with moto's S3 and STS and a stand-in for the CDK CLI."""

import json
from pathlib import Path
from typing import Any

import pytest

from tritonstack.base.error_kinds import DamagedArtifactError
from tritonstack.files.records.locks import LockedArtifact
from tritonstack.operate.destroy.deletion import BucketNotEmptyError, empty_bucket
from tritonstack.operate.shared.artifacts import is_published
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.stacks import environment_stacks
from tritonstack.operate.synth.cdk import CdkFailedError, find_cdk, pinned_cdk_version

DIGEST = "ab" * 32
TEMPLATE = '{"Description": "tritonstack: x", "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}'


def test_artifact_counts_as_published_once_its_manifest_exists(cloud):
    assert not published(cloud)
    cloud.client("s3").create_bucket(Bucket="artifacts")
    put(cloud, "model.tar.gz", b"x", {"sha256": DIGEST})
    assert not published(cloud)
    put(cloud, "manifest.json", b"{}")
    assert published(cloud)


@pytest.mark.parametrize(
    ("body", "metadata"), [(b"xx", {"sha256": DIGEST}), (b"x", {}), (b"x", {"sha256": "cd" * 32}), (None, {})]
)
def test_manifest_with_another_archive_is_an_error(cloud, body, metadata):
    cloud.client("s3").create_bucket(Bucket="artifacts")
    put(cloud, "manifest.json", b"{}")
    if body is not None:
        put(cloud, "model.tar.gz", body, metadata)
    with pytest.raises(
        DamagedArtifactError, match=rf"s3://artifacts/models/minilm/{DIGEST}/model\.tar\.gz (does not|is)"
    ):
        published(cloud)


def put(cloud: Cloud, name: str, body: bytes, metadata: dict[str, str] | None = None) -> None:
    cloud.client("s3").put_object(
        Bucket="artifacts", Key=f"models/minilm/{DIGEST}/{name}", Body=body, Metadata=metadata or {}
    )


def published(cloud: Cloud) -> bool:
    artifact = LockedArtifact(digest=DIGEST, spec_hash=DIGEST, archive_bytes=1, unpacked_bytes=1)
    return is_published(cloud, bucket="artifacts", model="minilm", artifact=artifact)


def test_only_stacks_of_the_environment_belong_to_it(cloud):
    names = {"t-dev-foundation", "t-dev-network", "t-dev-monitoring", "t-dev-endpoint-search"}
    for name in [*names, "t-dev-eu-foundation", "t-dev-eu-endpoint-search", "t-devel-foundation", "t-dev-x"]:
        cloud.client("cloudformation").create_stack(StackName=name, TemplateBody=TEMPLATE)
    assert {stack.name for stack in environment_stacks(cloud, "t-dev")} == names


def test_an_object_that_cannot_be_deleted_is_reported(bucket):
    bucket.put("key", "other")
    bucket.rejections = [{"key": "AccessDenied", "other": "InternalError"}]
    with pytest.raises(BucketNotEmptyError, match="cannot delete 1 objects"):
        bucket.empty()
    assert bucket.slept == []


def test_objects_that_s3_failed_to_delete_are_retried(bucket):
    """S3 reports single objects in a 200 response, which no SDK retries."""
    bucket.put("a", "b", "c")
    bucket.rejections = [{"a": "InternalError", "c": "SlowDown"}, {"c": "ServiceUnavailable"}]
    assert bucket.empty() == 3
    assert bucket.asked == [["a", "b", "c"], ["a", "c"], ["c"]]
    assert bucket.slept == sorted(bucket.slept)
    bucket.s3.delete_bucket(Bucket="artifacts")


class RejectingBucket:
    """A moto bucket whose deletions first fail for some objects."""

    def __init__(self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cloud, self.s3 = cloud, cloud.client("s3")
        self.s3.create_bucket(Bucket="artifacts")
        self.rejections: list[dict[str, str]] = []
        self.asked: list[list[str]] = []
        self.slept: list[float] = []
        self._delete = self.s3.delete_objects
        monkeypatch.setattr(self.s3, "delete_objects", self._reject_some)

    def put(self, *keys: str) -> None:
        for key in keys:
            self.s3.put_object(Bucket="artifacts", Key=key, Body=b"x")

    def empty(self) -> int:
        return empty_bucket(self.cloud, "artifacts", sleep=self.slept.append)

    def _reject_some(self, *, Bucket: str, Delete: dict[str, Any]) -> dict[str, Any]:  # noqa: N803
        self.asked.append([item["Key"] for item in Delete["Objects"]])
        rejections = self.rejections.pop(0) if self.rejections else {}
        taken = [item for item in Delete["Objects"] if item["Key"] not in rejections]
        answer: dict[str, Any] = self._delete(Bucket=Bucket, Delete={"Objects": taken}) if taken else {}
        errors = [
            {**item, "Code": rejections[item["Key"]], "Message": "As said"}
            for item in Delete["Objects"]
            if item["Key"] in rejections
        ]
        return answer | ({"Errors": errors} if errors else {})


@pytest.fixture
def bucket(cloud, monkeypatch):
    return RejectingBucket(cloud, monkeypatch)


def test_emptying_a_bucket_takes_versions_and_delete_markers(cloud):
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="artifacts")
    s3.put_bucket_versioning(Bucket="artifacts", VersioningConfiguration={"Status": "Enabled"})
    for body in (b"one", b"two"):
        s3.put_object(Bucket="artifacts", Key="key", Body=body)
    s3.delete_object(Bucket="artifacts", Key="key")
    assert empty_bucket(cloud, "artifacts") == 3
    s3.delete_bucket(Bucket="artifacts")


def stand_in_cdk(root: Path, script: str) -> None:
    executable = root / "node_modules" / ".bin" / "cdk"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\n{script}\n")
    executable.chmod(0o755)
    package = {"name": "aws-cdk", "version": pinned_cdk_version()}
    (root / "node_modules" / "package.json").write_text(json.dumps(package))


def test_a_failing_cdk_is_quoted(tmp_path):
    stand_in_cdk(tmp_path, "echo '$' $*; echo the reason >&2; exit 3")
    heard: list[str] = []
    cdk = find_cdk(tmp_path, environment_name="dev", variables={})
    with pytest.raises(CdkFailedError) as caught:
        cdk.run("deploy", "--all", on_line=heard.append)
    assert [line.split()[-1] for line in heard] == ["env=dev", "reason"]
    assert "exit code 3" in caught.value.message
    assert "the reason" in caught.value.message
    assert "--all -c env=dev" in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (
            "ChangeSetNotFoundException: ChangeSet [cdk-deploy-change-set] does not exist",
            "another deployment",
        ),
        ("InvalidChangeSetStatusException: ChangeSet [x] cannot be executed", "another deployment"),
        ("Stack [x] is in UPDATE_IN_PROGRESS state and can not be updated", "another deployment"),
        ("User: x is not authorized to perform: iam:CreatePolicy on resource: y", "AdministratorAccess"),
        ("User: x is not authorized to perform: iam:CreatePolicyVersion on resource: y", "Administrator"),
    ],
)
def test_known_failures_of_the_cdk_have_a_remedy(tmp_path, words, remedy):
    stand_in_cdk(tmp_path, f"echo '{words}'; exit 1")
    cdk = find_cdk(tmp_path, environment_name="dev", variables={})
    with pytest.raises(CdkFailedError) as caught:
        cdk.run("deploy", "--all", on_line=lambda _: None)
    assert remedy in str(caught.value.remedy)


def test_objects_that_s3_never_deletes_are_reported(bucket):
    bucket.put("key")
    bucket.rejections = [{"key": "SlowDown"}] * 100
    with pytest.raises(BucketNotEmptyError, match="key: SlowDown") as caught:
        bucket.empty()
    assert "rerun later" in str(caught.value.remedy)
    assert len(bucket.asked) == len(bucket.slept) + 1 == 5
