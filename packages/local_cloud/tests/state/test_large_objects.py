"""Memory use does not grow with the size of S3 objects."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

from tritonstack_local.cloud_folder import CloudAddress, state_folder
from tritonstack_local.process import start_detached, stop
from tritonstack_local.settings import CloudSettings

pytestmark = pytest.mark.soak

SIZE = 192 << 20
GROWTH = 160 << 20
"""Less than one copy of the object: the buffers of boto3's 8 MiB parts."""
IN_ONE_PIECE = 200 << 20
GROWTH_OF_ONE_PIECE = 40 << 20


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[CloudAddress]:
    settings = CloudSettings(
        state_dir=tmp_path / "cloud", server_home=tmp_path, account_id="000000000000", region="us-east-1"
    )
    yield start_detached(settings)
    stop(state_dir=settings.state_dir)


class Peak:
    """Return the peak private memory of a process, without mapped files."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        self._ended = threading.Event()
        self.most = self._now()
        self.first = self.most
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> int:
        """Stop measuring; return the growth."""
        self._ended.set()
        self._thread.join()
        return self.most - self.first

    def _run(self) -> None:
        while not self._ended.wait(0.01):
            self.most = max(self.most, self._now())

    def _now(self) -> int:
        lines = dict(line.split(":", 1) for line in self._status.read_text().splitlines())
        return int(lines["RssAnon"].split()[0]) * 1024


def client(cloud: CloudAddress) -> Any:
    given = cloud.environment()
    return boto3.client(
        "s3",
        endpoint_url=cloud.endpoint_url,
        region_name=given["AWS_REGION"],
        aws_access_key_id=given["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=given["AWS_SECRET_ACCESS_KEY"],
        config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
    )


@contextmanager
def constant_memory(cloud: CloudAddress) -> Iterator[None]:
    peak = Peak(cloud.pid)
    try:
        yield
    finally:
        growth = peak.end()
    assert growth < GROWTH_OF_ONE_PIECE


def stored(folder: Path) -> set[str]:
    """The files of bodies and drafts, by name."""
    return {path.name for path in (state_folder(folder / "cloud") / "objects").iterdir()}


def digest_of(s3: Any, key: str, **asked: Any) -> str:
    hashed = hashlib.sha256()
    for chunk in s3.get_object(Bucket="models", Key=key, **asked)["Body"].iter_chunks(1 << 20):
        hashed.update(chunk)
    return hashed.hexdigest()


def test_memory_use_is_constant(cloud: CloudAddress, tmp_path: Path) -> None:
    file, s3 = tmp_path / "model.tar.gz", client(cloud)
    block = os.urandom(1 << 20)
    with file.open("wb") as out:
        for _ in range(SIZE >> 20):
            out.write(block)
    with file.open("rb") as source:
        digest = hashlib.file_digest(source, "sha256").hexdigest()
    s3.create_bucket(Bucket="models")
    s3.put_object(Bucket="models", Key="small", Body=b"x")
    peak = Peak(cloud.pid)
    s3.upload_file(str(file), "models", "a", Config=TransferConfig(max_concurrency=2))
    s3.copy_object(Bucket="models", Key="b", CopySource={"Bucket": "models", "Key": "a"})
    for key in ("a", "b"):
        hashed = hashlib.sha256()
        for chunk in s3.get_object(Bucket="models", Key=key)["Body"].iter_chunks(1 << 20):
            hashed.update(chunk)
        assert hashed.hexdigest() == digest
    assert peak.end() < GROWTH
    part = s3.get_object(Bucket="models", Key="b", Range="bytes=1048570-1048585")["Body"].read()
    assert part == block[-6:] + block[:10]
    s3.delete_object(Bucket="models", Key="a")
    assert s3.head_object(Bucket="models", Key="b")["ContentLength"] == SIZE
    assert s3.get_object(Bucket="models", Key="b", Range="bytes=-1")["Body"].read() == block[-1:]


def test_memory_use_is_constant_for_single_part_objects(cloud: CloudAddress, tmp_path: Path) -> None:
    s3, block = client(cloud), os.urandom(1 << 20)
    content = block * (IN_ONE_PIECE >> 20)
    digest = hashlib.sha256(content).hexdigest()
    s3.create_bucket(Bucket="models")
    s3.put_object(Bucket="models", Key="small", Body=b"x")
    with constant_memory(cloud):
        etag = s3.put_object(Bucket="models", Key="plain", Body=content)["ETag"]
    assert etag == f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'
    upload = {"Bucket": "models", "Key": "parts"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    with constant_memory(cloud):
        part = s3.upload_part(**upload, PartNumber=1, Body=content)
        copied = s3.upload_part_copy(
            **upload,
            PartNumber=2,
            CopySource={"Bucket": "models", "Key": "plain"},
            CopySourceRange=f"bytes=1-{len(content) - 1}",
        )["CopyPartResult"]
    parts = [{"PartNumber": number, "ETag": it["ETag"]} for number, it in ((1, part), (2, copied))]
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    with constant_memory(cloud):
        assert digest_of(s3, "plain") == digest
    with constant_memory(cloud):
        assert digest_of(s3, "parts", Range=f"bytes=0-{len(content) - 1}") == digest
        assert (
            digest_of(s3, "parts", Range=f"bytes={len(content)}-")
            == hashlib.sha256(memoryview(content)[1:]).hexdigest()
        )
    assert not [name for name in stored(tmp_path) if name.endswith("-draft")]


def test_a_large_body_with_a_wrong_signature_is_not_stored(cloud: CloudAddress, tmp_path: Path) -> None:
    s3, size = client(cloud), 4 << 20
    s3.create_bucket(Bucket="models")
    s3.put_object(Bucket="models", Key="small", Body=b"x")
    before = stored(tmp_path)
    with pytest.raises(ClientError, match="XAmzContentSHA256Mismatch"):
        _with_another_body(client(cloud)).put_object(Bucket="models", Key="forged", Body=bytes(size))
    with pytest.raises(ClientError, match="NoSuchBucket"):
        s3.put_object(Bucket="no-such-bucket", Key="k", Body=bytes(size))
    assert stored(tmp_path) == before
    assert s3.list_objects_v2(Bucket="models")["KeyCount"] == 1


def _with_another_body(s3: Any) -> Any:
    """Make a client send a different body than it signs."""

    def forge(request: Any, **_: Any) -> None:
        request.body = b"\1" + bytes(int(request.headers["Content-Length"]) - 1)

    s3.meta.events.register("before-send.s3.PutObject", forge)
    return s3
