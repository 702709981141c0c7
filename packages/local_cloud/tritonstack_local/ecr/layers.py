"""Store the layers of repositories, and uploads in progress.

The layers are in S3, as on AWS: in a bucket of a reserved account, read through presigned URLs.
"""

from __future__ import annotations

import hashlib
import tempfile
import threading
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BufferedRandom
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from tritonstack_local.scope import AWS_OWN_ACCOUNT, Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.errors import ServiceError


@dataclass(frozen=True)
class LayerRepository:
    """A repository; `made` distinguishes repositories re-created under the same name."""

    scope: Scope
    name: str
    made: str

    @classmethod
    def made_at(cls, scope: Scope, name: str, moment: datetime) -> LayerRepository:
        """Round the time to milliseconds, as in the API."""
        utc = moment.astimezone(UTC) if moment.tzinfo else moment
        return cls(scope, name, utc.replace(tzinfo=None).isoformat(timespec="milliseconds"))

    @property
    def prefix(self) -> str:
        """The beginning of its layers' keys, and of those of earlier repositories with its name.

        No name contains two slashes in a row.
        """
        return f"{self.scope.account}/{self.name}//"

    def layer(self, digest: str) -> dict[str, str]:
        """Return bucket and key of a layer."""
        return {"Bucket": self.bucket, "Key": f"{self.prefix}{self.made}/{digest}"}

    @property
    def bucket(self) -> str:
        """The bucket of its region."""
        return f"prod-{self.scope.region}-starport-layer-bucket"


@dataclass
class Upload:
    """A layer being uploaded."""

    repository: LayerRepository
    file: BufferedRandom
    parts: list[int] = field(default_factory=list)
    """The sizes of received parts."""

    @property
    def last_byte(self) -> int:
        """The index of the last received byte; -1 before the first."""
        return sum(self.parts) - 1

    def digest(self) -> str:
        """Return the digest of the received content."""
        self.file.seek(0)
        return f"sha256:{hashlib.file_digest(self.file, 'sha256').hexdigest()}"


class Layers:
    """All layers of this cloud. Uploads are lost on restart; on AWS they expire."""

    def __init__(self, *, clients: Clients, folder: Path) -> None:
        """`folder` holds unfinished uploads."""
        self._clients = clients
        self._folder = folder
        self._uploads: dict[str, Upload] = {}
        self._lock = threading.Lock()

    def size(self, repository: LayerRepository, digest: str) -> int | None:
        """Return the size of a layer of a repository; None if it has none."""
        try:
            return int(self._s3(repository).head_object(**repository.layer(digest))["ContentLength"])
        except ClientError:
            return None

    def begin(self, repository: LayerRepository) -> str:
        """Start an upload."""
        self._make_bucket(repository)
        self._forget_deleted_repositories(repository)
        self._folder.mkdir(parents=True, exist_ok=True)
        upload_id = str(uuid.uuid4())
        # An unnamed file, which never outlives the process.
        file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - open until the upload ends
        with self._lock:
            self._uploads[upload_id] = Upload(repository, file)
        return upload_id

    def upload(self, repository: LayerRepository, upload_id: str) -> Upload:
        """Find an upload."""
        upload = self._uploads.get(upload_id)
        if upload is None or upload.repository != repository:
            raise ServiceError(
                "UploadNotFoundException",
                f"The upload with id '{upload_id}' could not be found in the repository with name "
                f"'{repository.name}' in registry with id '{repository.scope.account}'",
            )
        return upload

    def keep(self, upload_id: str, upload: Upload, digest: str) -> None:
        """Store an upload as the layer with this digest."""
        upload.file.seek(0)
        self._s3(upload.repository).upload_fileobj(
            _Unclosed(upload.file), *upload.repository.layer(digest).values()
        )
        with self._lock:
            del self._uploads[upload_id]
        upload.file.close()

    def link(self, repository: LayerRepository, digest: str) -> str:
        """Return a presigned URL of a layer, valid for an hour."""
        url: str = self._s3(repository).generate_presigned_url(
            "get_object", Params=repository.layer(digest), ExpiresIn=3600
        )
        return url

    def _forget_deleted_repositories(self, repository: LayerRepository) -> None:
        """Remove layers of deleted repositories with the same name."""
        s3, own = self._s3(repository), repository.layer("")["Key"]
        pages = s3.get_paginator("list_objects_v2").paginate(
            Bucket=repository.bucket, Prefix=repository.prefix
        )
        for key in [item["Key"] for page in pages for item in page.get("Contents", [])]:
            if not key.startswith(own):
                s3.delete_object(Bucket=repository.bucket, Key=key)

    def _make_bucket(self, repository: LayerRepository) -> None:
        s3, region = self._s3(repository), repository.scope.region
        try:
            s3.head_bucket(Bucket=repository.bucket)
        except ClientError:
            where = {"CreateBucketConfiguration": {"LocationConstraint": region}}
            s3.create_bucket(Bucket=repository.bucket, **(where if region != "us-east-1" else {}))

    def _s3(self, repository: LayerRepository) -> Any:
        return self._clients.client("s3", Scope(AWS_OWN_ACCOUNT, repository.scope.region))


class _Unclosed:
    """A file that stays open when its reader closes it."""

    def __init__(self, file: BufferedRandom) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        """Read bytes."""
        return self._file.read(size)
