"""ECR image layers: upload, check, and download. moto implements the rest of ECR.

The layers are in S3, as on AWS: in a bucket of a reserved account, read through presigned URLs.
"""

from __future__ import annotations

import base64
import hashlib
import re
import tempfile
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
from tritonstack_local.moto_patches import correct
from tritonstack_local.scope import AWS_OWN_ACCOUNT, Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.errors import ServiceError
from tritonstack_local.service.wire import ControlPlane, Fields

SERVICE = "ecr"
LEAST_PART_SIZE = 5 * 2**20
"""Minimum part size, except for the last part."""
_PART_SIZE = 10 * 2**20
"""The part size that ECR requests; others are accepted."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


@dataclass(frozen=True)
class _Repository:
    """A repository; `made` distinguishes repositories re-created under the same name."""

    scope: Scope
    name: str
    made: str

    @classmethod
    def made_at(cls, scope: Scope, name: str, moment: datetime) -> _Repository:
        """Round the time to milliseconds, as in the API."""
        utc = moment.astimezone(UTC) if moment.tzinfo else moment
        return cls(scope, name, utc.replace(tzinfo=None).isoformat(timespec="milliseconds"))

    @property
    def bucket(self) -> str:
        return f"prod-{self.scope.region}-starport-layer-bucket"

    @property
    def prefix(self) -> str:
        """The beginning of its layers' keys, and of those of earlier repositories with its name.

        No name contains two slashes in a row.
        """
        return f"{self.scope.account}/{self.name}//"

    def layer(self, digest: str) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": f"{self.prefix}{self.made}/{digest}"}

    def missing(self, digests: list[str]) -> ServiceError:
        return ServiceError(
            "LayersNotFoundException",
            f"Layers with digests '[{', '.join(digests)}]' required for pushing image into repository with "
            f"name '{self.name}' in the registry with id '{self.scope.account}' do not exist",
        )


@dataclass
class _Upload:
    """A layer being uploaded, in an unnamed file, which never outlives the process."""

    repository: _Repository
    file: BufferedRandom
    parts: list[int] = field(default_factory=list)
    """The sizes of received parts."""

    @property
    def last_byte(self) -> int:
        return sum(self.parts) - 1

    def read(self, size: int = -1) -> bytes:
        """Read bytes for S3, which closes what it reads from."""
        return self.file.read(size)


class _Layers:
    """All layers of this cloud. Uploads are lost on restart; on AWS they expire."""

    def __init__(self, *, clients: Clients, folder: Path) -> None:
        """`folder` holds unfinished uploads."""
        self._clients = clients
        self._folder = folder
        self._uploads: dict[str, _Upload] = {}

    def size(self, repository: _Repository, digest: str) -> int | None:
        """Return the size of a layer of a repository; None if it has none."""
        try:
            return int(self._s3(repository).head_object(**repository.layer(digest))["ContentLength"])
        except ClientError:
            return None

    def check(self, scope: Scope, request: Fields) -> Fields:
        repository = self._repository(scope, request)
        layers: list[dict[str, Any]] = []
        failures = []
        for digest in request["layerDigests"]:
            if _DIGEST.fullmatch(digest) is None:
                reason = {"failureCode": "InvalidLayerDigest", "failureReason": "Invalid layer digest"}
                failures.append({"layerDigest": digest, **reason})
            elif (size := self.size(repository, digest)) is None:
                layers.append({"layerDigest": digest, "layerAvailability": "UNAVAILABLE"})
            else:
                details = {"layerAvailability": "AVAILABLE", "layerSize": size, "mediaType": _LAYER}
                layers.append({"layerDigest": digest, **details})
        return {"layers": layers, "failures": failures}

    def link(self, scope: Scope, request: Fields) -> Fields:
        """Return a download URL of a layer, valid for an hour."""
        repository, digest = self._repository(scope, request), request["layerDigest"]
        if self.size(repository, digest) is None:
            raise repository.missing([digest])
        url = self._s3(repository).generate_presigned_url(
            "get_object", Params=repository.layer(digest), ExpiresIn=3600
        )
        return {"downloadUrl": url, "layerDigest": digest}

    def initiate(self, scope: Scope, request: Fields) -> Fields:
        """Start an upload, and remove layers of deleted repositories with the same name."""
        repository = self._repository(scope, request)
        s3, bucket, own = self._s3(repository), repository.bucket, repository.layer("")["Key"]
        try:
            s3.head_bucket(Bucket=bucket)
        except ClientError:
            where = {"CreateBucketConfiguration": {"LocationConstraint": scope.region}}
            s3.create_bucket(Bucket=bucket, **(where if scope.region != "us-east-1" else {}))
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=repository.prefix)
        for key in [item["Key"] for page in pages for item in page.get("Contents", [])]:
            if not key.startswith(own):
                s3.delete_object(Bucket=bucket, Key=key)
        self._folder.mkdir(parents=True, exist_ok=True)
        upload_id = str(uuid.uuid4())
        file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - open until the upload ends
        self._uploads[upload_id] = _Upload(repository, file)
        return {"uploadId": upload_id, "partSize": _PART_SIZE}

    def upload(self, scope: Scope, request: Fields) -> Fields:
        upload = self._upload(scope, request)
        blob = base64.b64decode(request["layerPartBlob"])
        first, last = request["partFirstByte"], request["partLastByte"]
        if first != upload.last_byte + 1 or last - first + 1 != len(blob):
            raise ServiceError(
                "InvalidLayerPartException",
                f"The layer part from byte {first} to byte {last} does not follow byte {upload.last_byte}",
                fields={"lastValidByteReceived": upload.last_byte},
            )
        upload.file.write(blob)
        upload.parts.append(len(blob))
        return {"uploadId": request["uploadId"], "lastByteReceived": upload.last_byte}

    def complete(self, scope: Scope, request: Fields) -> Fields:
        """Complete an upload after checking its digest."""
        upload = self._upload(scope, request)
        repository = upload.repository
        if not upload.parts:
            message = "The specified layer upload does not contain any parts"
            raise ServiceError("EmptyUploadException", message)
        if any(size < LEAST_PART_SIZE for size in upload.parts[:-1]):
            message = f"Layer parts must be at least {LEAST_PART_SIZE} bytes in size"
            raise ServiceError("LayerPartTooSmallException", message)
        upload.file.seek(0)
        digest = f"sha256:{hashlib.file_digest(upload.file, 'sha256').hexdigest()}"
        if digest not in request["layerDigests"]:
            message = f"The layer digest {request['layerDigests'][0]} is not that of its content, {digest}"
            raise ServiceError("InvalidLayerException", message)
        if self.size(repository, digest) is not None:
            message = f"The image layer '{digest}' already exists in the repository '{repository.name}'"
            raise ServiceError("LayerAlreadyExistsException", message)
        upload.file.seek(0)
        self._s3(repository).upload_fileobj(upload, *repository.layer(digest).values())
        del self._uploads[request["uploadId"]]
        upload.file.close()
        return {"uploadId": request["uploadId"], "layerDigest": digest}

    def _upload(self, scope: Scope, request: Fields) -> _Upload:
        repository, upload_id = self._repository(scope, request), request["uploadId"]
        upload = self._uploads.get(upload_id)
        if upload is None or upload.repository != repository:
            message = f"The upload '{upload_id}' could not be found in the repository '{repository.name}'"
            raise ServiceError("UploadNotFoundException", message)
        return upload

    def _repository(self, scope: Scope, request: Fields) -> _Repository:
        name, registry = request["repositoryName"], request.get("registryId", scope.account)
        if registry != scope.account:
            raise ServiceError(
                "AccessDeniedException",
                f"Account {scope.account} is not authorized to access resources of account {registry}: the "
                "local cloud evaluates no repository policies",
            )
        ecr = self._clients.client(SERVICE, scope)
        try:
            (repository,) = ecr.describe_repositories(repositoryNames=[name])["repositories"]
        except ClientError as error:
            raise ServiceError(aws_error_code(error), aws_error_message(error)) from error
        return _Repository.made_at(scope, name, repository["createdAt"])

    def _s3(self, repository: _Repository) -> Any:
        return self._clients.client("s3", Scope(AWS_OWN_ACCOUNT, repository.scope.region))


_ACTIONS: Mapping[str, Callable[[_Layers, Scope, Fields], Fields]] = {
    "BatchCheckLayerAvailability": _Layers.check,
    "GetDownloadUrlForLayer": _Layers.link,
    "InitiateLayerUpload": _Layers.initiate,
    "UploadLayerPart": _Layers.upload,
    "CompleteLayerUpload": _Layers.complete,
}
OFFERED = frozenset(_ACTIONS)
_put_image = ECRBackend.put_image


def create_app(*, clients: Clients, folder: Path) -> ControlPlane:
    """Create the application, and let moto's images require their layers."""
    layers = _Layers(clients=clients, folder=folder)

    def put_image(
        backend: Any,
        repository_name: str,
        image_manifest: str,
        image_tag: str,
        image_manifest_mediatype: str | None = None,
        digest: str | None = None,
    ) -> Any:
        """Identify an image by its manifest's digest."""
        actual = f"sha256:{hashlib.sha256(image_manifest.encode()).hexdigest()}"
        if digest not in {None, actual}:
            message = f"The given digest {digest} is not that of the manifest, {actual}"
            raise _error("ImageDigestDoesNotMatchException", message)
        _check_layers(layers, backend, repository_name, image_manifest)
        return _put_image(
            backend, repository_name, image_manifest, image_tag, image_manifest_mediatype, actual
        )

    correct((ECRBackend, "put_image", put_image))
    actions = {name: partial(action, layers) for name, action in _ACTIONS.items()}
    return ControlPlane(service=SERVICE, actions=actions)


def _check_layers(layers: _Layers, backend: Any, name: str, manifest: str) -> None:
    held = backend.repositories.get(name)
    if held is None:
        return  # moto says so
    scope = Scope(backend.account_id, backend.region_name)
    repository = _Repository.made_at(scope, name, held.created_at)
    try:
        digests = [layer["digest"] for layer in parse_json(manifest).get("layers", ())]
    except (ValueError, AttributeError, TypeError, KeyError):
        raise _error(
            "InvalidParameterException",
            "Invalid parameter at 'ImageManifest' failed to satisfy constraint: 'Invalid JSON syntax'",
        ) from None
    if missing := [digest for digest in digests if layers.size(repository, digest) is None]:
        failure = repository.missing(missing)
        raise _error(failure.code, failure.message)


def _error(code: str, message: str) -> ValidationException:
    """Return an error that moto serializes by the model of its class's service."""
    error = ValidationException(message)
    error.code = code
    return error
