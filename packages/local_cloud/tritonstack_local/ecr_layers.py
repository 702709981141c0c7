"""ECR image layers: upload, check, and download. moto implements the rest of ECR.

The layers are in S3, as on AWS: in a bucket of a reserved account, read through presigned URLs.
"""

from __future__ import annotations

import base64
import hashlib
import re
import tempfile
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from io import BufferedRandom
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError
from moto.ecr.exceptions import ValidationException
from moto.ecr.models import ECRBackend

from tritonstack.base.errors import aws_error_code, aws_error_message
from tritonstack.base.files import parse_json
from tritonstack_local.moto_patches.patching import correct
from tritonstack_local.scope import AWS_OWN_ACCOUNT, Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.errors import ServiceError
from tritonstack_local.service.wire import ControlPlane, Fields


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


SERVICE = "ecr"
PART_SIZE = 10 * 2**20
"""The part size that ECR requests; others are accepted."""
LEAST_PART_SIZE = 5 * 2**20
"""Minimum part size, except for the last part."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


class LayerActions:
    """The layer actions."""

    def __init__(self, *, layers: Layers, clients: Clients) -> None:
        self._layers = layers
        self._clients = clients

    def check(self, scope: Scope, request: Fields) -> Fields:
        """Check which layers exist in a repository."""
        repository = self._repository(scope, request)
        layers: list[dict[str, Any]] = []
        failures = []
        for digest in request["layerDigests"]:
            if _DIGEST.fullmatch(digest) is None:
                reason = {"failureCode": "InvalidLayerDigest", "failureReason": "Invalid layer digest"}
                failures.append({"layerDigest": digest, **reason})
                continue
            size = self._layers.size(repository, digest)
            details: dict[str, Any] = {"layerAvailability": "UNAVAILABLE"}
            if size is not None:
                details = {"layerAvailability": "AVAILABLE", "layerSize": size, "mediaType": _LAYER}
            layers.append({"layerDigest": digest, **details})
        return {"layers": layers, "failures": failures}

    def link(self, scope: Scope, request: Fields) -> Fields:
        """Return the download URL of a layer."""
        repository, digest = self._repository(scope, request), request["layerDigest"]
        if self._layers.size(repository, digest) is None:
            raise layers_not_found([digest], repository.name, repository.scope.account)
        return {"downloadUrl": self._layers.link(repository, digest), "layerDigest": digest}

    def initiate(self, scope: Scope, request: Fields) -> Fields:
        """Start an upload."""
        return {
            "uploadId": self._layers.begin(self._repository(scope, request)),
            "partSize": PART_SIZE,
        }

    def upload(self, scope: Scope, request: Fields) -> Fields:
        """Store the next part."""
        repository, upload_id = self._repository(scope, request), request["uploadId"]
        upload = self._layers.upload(repository, upload_id)
        blob = base64.b64decode(request["layerPartBlob"])
        first, last = request["partFirstByte"], request["partLastByte"]
        if first != upload.last_byte + 1 or last - first + 1 != len(blob):
            raise ServiceError(
                "InvalidLayerPartException",
                f"The layer part from byte {first} to byte {last} does not follow byte {upload.last_byte}",
                fields={
                    "registryId": repository.scope.account,
                    "repositoryName": repository.name,
                    "uploadId": upload_id,
                    "lastValidByteReceived": upload.last_byte,
                },
            )
        upload.file.write(blob)
        upload.parts.append(len(blob))
        return self._told(repository, uploadId=upload_id, lastByteReceived=upload.last_byte)

    def complete(self, scope: Scope, request: Fields) -> Fields:
        """Complete an upload after checking its digest."""
        repository, upload_id = self._repository(scope, request), request["uploadId"]
        upload = self._layers.upload(repository, upload_id)
        if not upload.parts:
            raise ServiceError(
                "EmptyUploadException", "The specified layer upload does not contain any parts"
            )
        if any(size < LEAST_PART_SIZE for size in upload.parts[:-1]):
            raise ServiceError(
                "LayerPartTooSmallException", f"Layer parts must be at least {LEAST_PART_SIZE} bytes in size"
            )
        digest, asked = upload.digest(), request["layerDigests"]
        if digest not in asked:
            raise ServiceError(
                "InvalidLayerException", f"The layer digest {asked[0]} is not that of its content, {digest}"
            )
        if self._layers.size(repository, digest) is not None:
            raise ServiceError(
                "LayerAlreadyExistsException",
                f"The image layer '{digest}' already exists in the repository with name '{repository.name}' "
                f"in registry with id '{repository.scope.account}'",
            )
        self._layers.keep(upload_id, upload, digest)
        return self._told(repository, uploadId=upload_id, layerDigest=digest)

    def _told(self, repository: LayerRepository, **more: Any) -> Fields:
        return {"registryId": repository.scope.account, "repositoryName": repository.name, **more}

    def _repository(self, scope: Scope, request: Fields) -> LayerRepository:
        name, registry = (
            request["repositoryName"],
            Scope(request.get("registryId", scope.account), scope.region),
        )
        if registry.account != scope.account:
            raise ServiceError(
                "AccessDeniedException",
                f"Account {scope.account} is not authorized to access resources of account "
                f"{registry.account}: the local cloud evaluates no repository policies",
            )
        ecr = self._clients.client(SERVICE, registry)
        try:
            found = ecr.describe_repositories(repositoryNames=[name])["repositories"][0]
        except ClientError as error:
            raise ServiceError(aws_error_code(error), aws_error_message(error)) from error
        return LayerRepository.made_at(registry, name, found["createdAt"])


def layers_not_found(digests: list[str], repository: str, registry: str) -> ServiceError:
    """Return the error for missing layers."""
    return ServiceError(
        "LayersNotFoundException",
        f"Layers with digests '[{', '.join(digests)}]' required for pushing image into repository with name "
        f"'{repository}' in the registry with id '{registry}' do not exist",
    )


_ACTIONS: Mapping[str, Callable[[LayerActions, Scope, Fields], Fields]] = {
    "BatchCheckLayerAvailability": LayerActions.check,
    "GetDownloadUrlForLayer": LayerActions.link,
    "InitiateLayerUpload": LayerActions.initiate,
    "UploadLayerPart": LayerActions.upload,
    "CompleteLayerUpload": LayerActions.complete,
}
OFFERED = frozenset(_ACTIONS)


def create_app(*, layers: Layers, clients: Clients) -> ControlPlane:
    """Create the application."""
    actions = LayerActions(layers=layers, clients=clients)
    bound = {name: partial(action, actions) for name, action in _ACTIONS.items()}
    return ControlPlane(service=SERVICE, actions=bound)


_put_image = ECRBackend.put_image


def correct_images(layers: Layers) -> None:
    """Correct moto's images: identify them by manifest digest, and require their layers."""

    def put_image(
        backend: Any,
        repository_name: str,
        image_manifest: str,
        image_tag: str,
        image_manifest_mediatype: str | None = None,
        digest: str | None = None,
    ) -> Any:
        found = f"sha256:{hashlib.sha256(image_manifest.encode()).hexdigest()}"
        if digest not in {None, found}:
            message = f"The given digest {digest} is not that of the manifest, {found}"
            raise _error("ImageDigestDoesNotMatchException", message)
        _check_layers(layers, backend, repository_name, image_manifest)
        return _put_image(
            backend, repository_name, image_manifest, image_tag, image_manifest_mediatype, found
        )

    correct((ECRBackend, "put_image", put_image))


def _check_layers(layers: Layers, backend: Any, name: str, manifest: str) -> None:
    held = backend.repositories.get(name)
    if held is None:
        return  # moto says so
    scope = Scope(backend.account_id, backend.region_name)
    repository = LayerRepository.made_at(scope, name, held.created_at)
    try:
        wanted = [layer["digest"] for layer in parse_json(manifest).get("layers", ())]
    except (ValueError, AttributeError, TypeError, KeyError):
        raise _error(
            "InvalidParameterException",
            "Invalid parameter at 'ImageManifest' failed to satisfy constraint: 'Invalid JSON syntax'",
        ) from None
    missing = [digest for digest in wanted if layers.size(repository, digest) is None]
    if missing:
        failure = layers_not_found(missing, name, scope.account)
        raise _error(failure.code, failure.message)


def _error(code: str, message: str) -> ValidationException:
    """Return an error that moto serializes by the model of its class's service."""
    error = ValidationException(message)
    error.code = code
    return error
