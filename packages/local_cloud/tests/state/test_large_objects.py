"""Memory use does not grow with the size of S3 objects."""

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

from tritonstack_local.cloud_folder import CloudAddress
from tritonstack_local.process import start_detached, stop
from tritonstack_local.settings import CloudSettings

pytestmark = pytest.mark.soak

SIZE = 192 << 20
GROWTH = 160 << 20
"""Less than one copy of the object: the buffers of boto3's 8 MiB parts."""


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


def test_memory_use_is_constant(cloud, tmp_path):
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
