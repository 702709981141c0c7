"""Cache files between builds: in a local folder, and under an S3 prefix for other machines.

Holds timing caches and engines; one artifact may need engines built on other GPUs. A lost cache costs time
only, so an unreachable bucket does not fail a build.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.base.error_kinds import CommandLineError
from tritonstack.base.errors import aws_error_code

ERRORS = (BotoCoreError, ClientError)


@dataclass(frozen=True)
class SharedFiles:
    """Files by name. `notify` gets a message if a file cannot be fetched or shared."""

    folder: Path
    url: str | None
    notify: Callable[[str], None]

    def fetch(self, name: str) -> Path:
        """Return the local path of a file; download the shared copy if there is one."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if self.url:
            try:
                self._download(name, file)
            except ERRORS as error:
                self.notify(f"{self.url}/{name} skipped: {error}")
        return file

    def share(self, name: str) -> None:
        """Upload a local file for other machines."""
        if not self.url:
            return
        bucket, prefix = self._place()
        body = (self.folder / name).read_bytes()
        try:
            boto3.client("s3").put_object(
                Bucket=bucket, Key=f"{prefix}{name}", Body=body, Metadata={"sha256": _digest(body)}
            )
        except ERRORS as error:
            self.notify(f"{self.url}/{name} not uploaded: {error}")

    def _download(self, name: str, file: Path) -> None:
        bucket, prefix = self._place()
        try:
            reply = boto3.client("s3").get_object(Bucket=bucket, Key=f"{prefix}{name}")
        except ClientError as error:
            if aws_error_code(error) in ("NoSuchKey", "404"):
                return
            raise
        body = reply["Body"].read()
        if reply["Metadata"].get("sha256") != _digest(body):
            self.notify(f"{self.url}/{name} skipped: checksum mismatch")
            return
        part = file.with_suffix(".part")
        part.write_bytes(body)
        part.replace(file)

    def _place(self) -> tuple[str, str]:
        scheme, _, rest = (self.url or "").partition("://")
        bucket, _, prefix = rest.partition("/")
        if scheme != "s3" or not bucket:
            raise CommandLineError(
                f"{self.url!r} is not a valid cache URL", remedy="write s3://<bucket>/<prefix>"
            )
        return bucket, f"{prefix.rstrip('/')}/" if prefix else ""


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
