"""Store the layers of repositories, and uploads in progress.

The content is in S3, as on AWS: in a bucket of a reserved account, read through presigned URLs.
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
from tritonstack_local.service.tables import Table


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


@dataclass(frozen=True)
class StoredLayer:
    """A layer in a repository."""

    name: str
    """Repository and digest."""
    repository: LayerRepository
    digest: str
    size: int


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
        self.table: Table[StoredLayer] = Table()
        self._clients = clients
        self._folder = folder
        self._uploads: dict[str, Upload] = {}
        self._lock = threading.Lock()

    def find(self, repository: LayerRepository, digest: str) -> StoredLayer | None:
        """Find a layer of a repository."""
        layer = self.table.get(repository.scope, _name(repository, digest))
        return layer if layer is not None and layer.repository == repository else None

    def begin(self, repository: LayerRepository) -> str:
        """Start an upload."""
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
        found = self._uploads.get(upload_id)
        if found is None or found.repository != repository:
            raise ServiceError(
                "UploadNotFoundException",
                f"The upload with id '{upload_id}' could not be found in the repository with name "
                f"'{repository.name}' in registry with id '{repository.scope.account}'",
            )
        return found

    def keep(self, upload_id: str, upload: Upload, digest: str) -> StoredLayer:
        """Store an upload as the layer with this digest."""
        repository = upload.repository
        layer = StoredLayer(_name(repository, digest), repository, digest, upload.last_byte + 1)
        upload.file.seek(0)
        self._s3(repository.scope).upload_fileobj(_Unclosed(upload.file), *self._object(repository, digest))
        self.table.remove(repository.scope, layer.name)  # of an earlier repository with this name
        self.table.add(repository.scope, layer)
        with self._lock:
            del self._uploads[upload_id]
        upload.file.close()
        return layer

    def link(self, layer: StoredLayer) -> str:
        """Return a presigned URL of a layer, valid for an hour."""
        bucket, key = self._object(layer.repository, layer.digest)
        url: str = self._s3(layer.repository.scope).generate_presigned_url(
            "get_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=3600
        )
        return url

    def _forget_deleted_repositories(self, repository: LayerRepository) -> None:
        """Remove layers of a deleted repository with the same name."""
        scope = repository.scope
        for layer in self.table.within(scope):
            if layer.repository.name == repository.name and layer.repository != repository:
                bucket, key = self._object(layer.repository, layer.digest)
                self._s3(scope).delete_object(Bucket=bucket, Key=key)
                self.table.remove(scope, layer.name)

    def _object(self, repository: LayerRepository, digest: str) -> tuple[str, str]:
        scope = repository.scope
        bucket = f"prod-{scope.region}-starport-layer-bucket"
        self._make_bucket(scope, bucket)
        return bucket, f"{scope.account}/{repository.name}/{repository.made}/{digest}"

    def _make_bucket(self, scope: Scope, bucket: str) -> None:
        s3 = self._s3(scope)
        try:
            s3.head_bucket(Bucket=bucket)
        except ClientError:
            elsewhere = scope.region != "us-east-1"
            where: dict[str, Any] = (
                {"CreateBucketConfiguration": {"LocationConstraint": scope.region}} if elsewhere else {}
            )
            s3.create_bucket(Bucket=bucket, **where)

    def _s3(self, scope: Scope) -> Any:
        return self._clients.client("s3", Scope(AWS_OWN_ACCOUNT, scope.region))


class _Unclosed:
    """A file that stays open when its reader closes it."""

    def __init__(self, file: BufferedRandom) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        """Read bytes."""
        return self._file.read(size)


def _name(repository: LayerRepository, digest: str) -> str:
    return f"{repository.name}/{digest}"
