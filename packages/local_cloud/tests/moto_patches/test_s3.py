"""S3 under concurrent reads and writes, and multipart uploads."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.s3.models import S3Backend


@pytest.fixture
def slow_writes(monkeypatch):
    """Delay the write of an object's metadata."""
    put = S3Backend.put_object

    def put_slowly(*arguments: Any, **named: Any) -> Any:
        key = put(*arguments, **named)
        time.sleep(0.1)
        return key

    monkeypatch.setattr(S3Backend, "put_object", put_slowly)


@pytest.mark.usefixtures("slow_writes")
def test_an_object_appears_together_with_its_metadata(account):
    s3 = account.client("s3")
    s3.create_bucket(Bucket="at-once", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    place = {"Bucket": "at-once", "Key": "a"}
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(s3.put_object, **place, Body=b"1", Metadata={"of": "the writer"})
        seen = []
        while not written.done():
            with suppress(s3.exceptions.ClientError):
                seen.append(s3.head_object(**place)["Metadata"])
        written.result()
    assert seen
    assert all(metadata == {"of": "the writer"} for metadata in seen)


@pytest.mark.usefixtures("slow_writes")
def test_one_of_many_conditional_writes_succeeds(account):
    s3 = account.client("s3")
    s3.create_bucket(Bucket="claimed", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})

    def claim(number: int) -> str:
        try:
            s3.put_object(Bucket="claimed", Key="a", Body=b"%d" % number, IfNoneMatch="*")
        except ClientError as error:
            return error.response["Error"]["Code"]
        return "won"

    with ThreadPoolExecutor(4) as pool:
        outcomes = sorted(pool.map(claim, range(4)))
    assert outcomes == ["PreconditionFailed"] * 3 + ["won"]


def test_multipart_checksums_are_reported_as_composite(account):
    s3 = account.client("s3")
    s3.create_bucket(Bucket="in-parts", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    upload = s3.create_multipart_upload(Bucket="in-parts", Key="a", ChecksumAlgorithm="SHA256")["UploadId"]
    part = s3.upload_part(
        Bucket="in-parts", Key="a", UploadId=upload, PartNumber=1, Body=b"1", ChecksumAlgorithm="SHA256"
    )
    parts = [{"PartNumber": 1, "ETag": part["ETag"], "ChecksumSHA256": part["ChecksumSHA256"]}]
    s3.complete_multipart_upload(
        Bucket="in-parts", Key="a", UploadId=upload, MultipartUpload={"Parts": parts}
    )
    head = s3.head_object(Bucket="in-parts", Key="a", ChecksumMode="ENABLED")
    assert head["ChecksumType"] == "COMPOSITE"
    assert head["ChecksumSHA256"].endswith("-1")


def test_a_copy_of_a_multipart_object_has_a_full_checksum(account):
    s3 = account.client("s3")
    s3.create_bucket(Bucket="copied", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    place = {"Bucket": "copied", "Key": "a"}
    upload = s3.create_multipart_upload(**place, ChecksumAlgorithm="SHA256")["UploadId"]
    part = s3.upload_part(**place, UploadId=upload, PartNumber=1, Body=b"1", ChecksumAlgorithm="SHA256")
    parts = [{"PartNumber": 1, "ETag": part["ETag"], "ChecksumSHA256": part["ChecksumSHA256"]}]
    s3.complete_multipart_upload(**place, UploadId=upload, MultipartUpload={"Parts": parts})
    s3.copy_object(Bucket="copied", Key="b", CopySource=place)
    # boto3 checks what it reads against the reported checksum.
    found = s3.get_object(Bucket="copied", Key="b", ChecksumMode="ENABLED")
    assert found["Body"].read() == b"1"
    assert found["ChecksumSHA256"] == part["ChecksumSHA256"]


def test_a_completed_multipart_upload_is_removed(account):
    s3 = account.client("s3")
    s3.create_bucket(Bucket="completed", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    place = {"Bucket": "completed", "Key": "a"}
    place["UploadId"] = s3.create_multipart_upload(**place)["UploadId"]
    part = s3.upload_part(**place, PartNumber=1, Body=b"1")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(**place, MultipartUpload=parts)
    with pytest.raises(ClientError, match="does not exist") as caught:
        s3.upload_part(**place, PartNumber=2, Body=b"2")
    assert caught.value.response["Error"]["Code"] == "NoSuchUpload"
    # Completing it again succeeds.
    s3.complete_multipart_upload(**place, MultipartUpload=parts)


KEYS = (
    "a\nb",
    "\n",
    "a\n",
    "a\r\nb",
    "\x01",
    "\x85b",
    "\u2028",
    " a ",
    "a%0Ab",
    "a%250Ab",
    "%",
    "a+b",
    "é",
    "a//b",
    "a?#&=",
)


def test_keys_of_any_characters_are_stored_and_found(account):
    s3 = account.client("s3")
    bucket = f"keys-{account.account_id}"
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    for key in KEYS:
        at = {"Bucket": bucket, "Key": key}
        s3.put_object(**at, Body=key.encode())
        assert s3.head_object(**at)["ContentLength"] == len(key.encode())
        s3.copy_object(Bucket=bucket, Key=f"copy {key}", CopySource=at)
        assert s3.get_object(Bucket=bucket, Key=f"copy {key}")["Body"].read() == key.encode()
    listed = {item["Key"] for item in s3.list_objects_v2(Bucket=bucket)["Contents"]}
    assert listed == {name for key in KEYS for name in (key, f"copy {key}")}
    for key in KEYS:
        s3.delete_object(Bucket=bucket, Key=key)
    assert {item["Key"] for item in s3.list_objects_v2(Bucket=bucket)["Contents"]} == {
        f"copy {key}" for key in KEYS
    }
