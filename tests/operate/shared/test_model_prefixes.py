"""Copies of artifacts under the prefixes of multi-model endpoints, on moto's S3."""

from collections.abc import Iterable

import pytest
from botocore.exceptions import ClientError

from tests.operate.changing_s3 import change_after
from tests.projects import MODEL, edit, write_project
from tritonstack.base.error_kinds import DamagedArtifactError
from tritonstack.files.loading import load_workspace
from tritonstack.files.records.lock_writing import write_lock
from tritonstack.files.records.locks import Lock, LockedArtifact
from tritonstack.operate.shared.artifacts import (
    CopiedModel,
    ModelCopy,
    copy_missing_models,
    missing_copies,
    model_copies,
)
from tritonstack.operate.shared.aws import Cloud

BUCKET = "artifacts"
DIGEST = "ab" * 32


def copy_of(model: str, body: bytes = b"x", digest: str = DIGEST) -> ModelCopy:
    artifact = LockedArtifact(digest=digest, spec_hash=digest, archive_bytes=len(body), unpacked_bytes=1)
    return ModelCopy(
        endpoint="search",
        model=model,
        artifact=artifact,
        source=f"models/{model}/{digest}/model.tar.gz",
        key=f"endpoints/t-dev-search/{model}/{digest}/model.tar.gz",
    )


def put(cloud: Cloud, key: str, body: bytes = b"x", digest: str = DIGEST) -> None:
    cloud.client("s3").put_object(Bucket=BUCKET, Key=key, Body=body, Metadata={"sha256": digest})


def fill(cloud: Cloud, copies: Iterable[ModelCopy]) -> list[str]:
    reported: list[CopiedModel] = []
    done = copy_missing_models(cloud, bucket=BUCKET, copies=list(copies), on_done=reported.append)
    assert reported == done
    return [copied.outcome for copied in done]


@pytest.fixture
def bucket_with_artifact(cloud):
    """A bucket with one artifact."""
    cloud.client("s3").create_bucket(Bucket=BUCKET)
    put(cloud, copy_of("one").source)
    return cloud


def test_a_copy_equals_its_source(bucket_with_artifact):
    """Except for its tags."""
    mark = {"TagSet": [{"Key": "superseded", "Value": "true"}]}
    s3 = bucket_with_artifact.client("s3")
    s3.put_object_tagging(Bucket=BUCKET, Key=copy_of("one").source, Tagging=mark)
    assert fill(bucket_with_artifact, [copy_of("one")]) == ["copied"]
    assert s3.get_object_tagging(Bucket=BUCKET, Key=copy_of("one").key)["TagSet"] == []
    copies = [copy_of("one"), copy_of("two"), copy_of("one", digest="cd" * 32)]
    assert missing_copies(bucket_with_artifact, bucket=BUCKET, copies=copies) == copies[1:]
    object_copy = bucket_with_artifact.client("s3").get_object(Bucket=BUCKET, Key=copy_of("one").key)
    assert (object_copy["Body"].read(), object_copy["Metadata"]) == (b"x", {"sha256": DIGEST})
    assert object_copy["ContentType"] == "application/gzip"


@pytest.mark.parametrize(("body", "digest"), [(b"half", DIGEST), (b"y", "cd" * 32)], ids=["size", "digest"])
def test_a_wrong_copy_is_replaced(bucket_with_artifact, body, digest):
    put(bucket_with_artifact, copy_of("one").key, body, digest)
    assert fill(bucket_with_artifact, [copy_of("one")]) == ["replaced"]
    assert (
        bucket_with_artifact.client("s3").get_object(Bucket=BUCKET, Key=copy_of("one").key)["Body"].read()
        == b"x"
    )


@pytest.mark.parametrize("body", [None, b"another size"], ids=["missing", "damaged"])
def test_source_with_other_content_is_not_copied(bucket_with_artifact, body):
    if body is not None:
        put(bucket_with_artifact, copy_of("two").source, body)
    with pytest.raises(
        DamagedArtifactError, match=r"s3://artifacts/models/two/.* is (missing|not)"
    ) as caught:
        fill(bucket_with_artifact, [copy_of("two")])
    assert "tritonstack build" in str(caught.value.remedy)
    listed = bucket_with_artifact.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="endpoints/")
    assert listed["KeyCount"] == 0


def test_a_source_that_is_replaced_after_the_check_is_not_copied(bucket_with_artifact, monkeypatch):
    source = copy_of("one").source
    change_after(monkeypatch, "HeadObject", source, lambda: put(bucket_with_artifact, source, b"y"))
    with pytest.raises(ClientError, match=r"412|PreconditionFailed"):
        fill(bucket_with_artifact, [copy_of("one")])
    listed = bucket_with_artifact.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="endpoints/")
    assert listed["KeyCount"] == 0


def test_large_archives_are_uploaded_in_parts_and_keep_their_digest(bucket_with_artifact, monkeypatch):
    body = bytes(range(256)) * (21 * 4096)  # 21 MiB; S3's smallest part is 5
    large = copy_of("large", body)
    put(bucket_with_artifact, large.source, body)
    monkeypatch.setattr("tritonstack.operate.shared.artifacts.PART_BYTES", 5 * 1024**2)
    assert fill(bucket_with_artifact, [large]) == ["copied"]
    object_copy = bucket_with_artifact.client("s3").get_object(Bucket=BUCKET, Key=large.key)
    assert "-" in object_copy["ETag"]
    assert (object_copy["Body"].read() == body, object_copy["Metadata"]) == (True, {"sha256": DIGEST})
    assert fill(bucket_with_artifact, [large]) == ["there"]


def test_an_interrupted_copy_leaves_complete_objects_and_resumes(bucket_with_artifact):
    copies = [copy_of(f"model-{number:02}") for number in range(40)]
    for copy in copies:
        put(bucket_with_artifact, copy.source)

    def stop(copied: CopiedModel) -> None:
        if copied.copy == copies[3]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_missing_models(bucket_with_artifact, bucket=BUCKET, copies=copies, on_done=stop)
    outcomes = fill(bucket_with_artifact, copies)
    assert outcomes[:4] == ["there"] * 4
    assert set(outcomes) <= {"there", "copied"}
    assert missing_copies(bucket_with_artifact, bucket=BUCKET, copies=copies) == []


@pytest.fixture
def workspace(tmp_path):
    """A multi-model endpoint of three models, two of which are built."""
    project = write_project(tmp_path)
    for name in ("aaa", "zzz"):
        project.model_file(name).parent.mkdir()
        project.model_file(name).write_text(MODEL.replace("name: minilm", f"name: {name}"))
    edit(project.environment_file("dev"), "kind: ensemble", "kind: multi-model")
    edit(project.environment_file("dev"), "model: minilm", "models: [zzz, minilm, aaa]")
    artifact = LockedArtifact(digest=DIGEST, spec_hash=DIGEST, archive_bytes=1, unpacked_bytes=1)
    write_lock(project.lock_file("dev"), Lock(models={"zzz": {"cpu": artifact}, "aaa": {"cpu": artifact}}))
    return load_workspace(project, "dev")


def test_required_keys_of_the_model_prefix(workspace):
    copies = model_copies(workspace)
    assert [(copy.endpoint, copy.model, copy.source, copy.key) for copy in copies] == [
        (
            "search",
            model,
            f"models/{model}/{DIGEST}/model.tar.gz",
            f"endpoints/tritonstack-dev-search/{model}/{DIGEST}/model.tar.gz",
        )
        for model in ("aaa", "zzz")
    ]
    assert [copy.model for copy in model_copies(workspace, models={"zzz", "minilm"})] == ["zzz"]
