"""Publish artifacts to the bucket: archive first, manifest last, nothing twice.

Archives never change, and neither do manifests, with one exception: publishing again adds examples to a
manifest of an earlier version. If two builds made the same artifact, the first examples stay.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from model_build.errors import ModelBuildError, PublishError
from model_build.store.artifacts import verify_artifact
from tritonstack.base.errors import TritonstackError, aws_error_code
from tritonstack.base.files import short_digest
from tritonstack.base.naming import artifact_prefix
from tritonstack.facts.conditional_writes import AGAIN_CODES, CONFLICT_CODES
from tritonstack.files.records.examples import EXAMPLES_NAME, parse_examples
from tritonstack.files.records.manifests import (
    ARCHIVE_NAME,
    DIGEST_NOTE,
    MANIFEST_NAME,
    Manifest,
    parse_manifest,
)

MISSING_BUCKET_CODES = frozenset({"NoSuchBucket", "404", "NotFound"})
DENIED_CODES = frozenset({"AccessDenied", "403", "Forbidden", "AllAccessDisabled"})
CREDENTIAL_CODES = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"})
LOG_IN = "log in (for example, `aws sso login`), or set AWS_PROFILE"


def explain(
    error: BotoCoreError | ClientError,
    *,
    error_type: type[ModelBuildError],
    doing: str,
    bucket: str,
    missing_bucket_remedy: str,
) -> ModelBuildError:
    """Return the error for a failed S3 operation on `bucket`."""
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return error_type(f"{doing}: no AWS credentials", remedy=LOG_IN)
    code = aws_error_code(error)
    if code in CREDENTIAL_CODES:
        return error_type(f"{doing}: AWS rejected the credentials ({code})", remedy=LOG_IN)
    if code in MISSING_BUCKET_CODES:
        return error_type(f"{doing}: bucket {bucket!r} does not exist", remedy=missing_bucket_remedy)
    if code in DENIED_CODES:
        return error_type(
            f"{doing}: access to bucket {bucket!r} denied",
            remedy="check the account and the permissions on the bucket and its KMS key",
        )
    return error_type(
        f"{doing}: {error}", remedy="retry; if it fails again, check the network and the service's status"
    )


ABSENT_CODES = frozenset({"404", "NoSuchKey", "NotFound"})
CHANGED_CODES = CONFLICT_CODES | AGAIN_CODES
"""Another publisher wrote, is writing, or deleted the object since it was read."""
ATTEMPTS = 4
"""Retries when other publishers win; each conflict is resolved for good."""


@dataclass(frozen=True)
class Published:
    """An artifact in a bucket."""

    bucket: str
    prefix: str
    uploaded: bool
    """False if everything was already there."""
    manifest: Manifest
    """The manifest in the bucket, for locks: another build may have published it first."""

    @property
    def archive_url(self) -> str:
        """Location of the model data for SageMaker."""
        return f"s3://{self.bucket}/{self.prefix}/{ARCHIVE_NAME}"


def leave_record(client: Any, bucket: str, key: str, facts: Mapping[str, Any]) -> None:
    """Write the record of a build; callers that ask for the same build find it."""
    try:
        client.put_object(
            Bucket=bucket, Key=key, Body=json.dumps(facts).encode(), ContentType="application/json"
        )
    except (BotoCoreError, ClientError) as error:
        raise _explained(error, f"recording the build of {facts['model']}", bucket) from error


def _explained(error: BotoCoreError | ClientError, doing: str, bucket: str) -> ModelBuildError:
    remedy = "deploy the environment's foundation stack first; it creates the bucket"
    return explain(error, error_type=PublishError, doing=doing, bucket=bucket, missing_bucket_remedy=remedy)


def publish(*, artifact_dir: Path, bucket: str, s3_client: Any, kms_key_id: str | None = None) -> Published:
    """Upload a verified artifact. Idempotent: existing objects with the same digest stay.

    Without `kms_key_id`, the bucket's default encryption applies.
    """
    manifest = verify_artifact(artifact_dir)
    objects = _ArtifactObjects(
        s3_client, bucket, artifact_prefix(manifest.model, manifest.digest), kms_key_id
    )
    try:
        for _ in range(ATTEMPTS):
            published = _upload_files(objects, artifact_dir, manifest)
            if published is not None:
                return Published(bucket, objects.prefix, uploaded=objects.written, manifest=published)
    except (BotoCoreError, ClientError) as error:
        doing = f"publishing {manifest.model} {short_digest(manifest.digest)}"
        raise _explained(error, doing, bucket) from error
    raise PublishError(
        f"other publishers keep writing to s3://{bucket}/{objects.prefix}/", remedy="wait and publish again"
    )


def _upload_files(objects: _ArtifactObjects, folder: Path, manifest: Manifest) -> Manifest | None:
    """Upload what is missing; return the manifest, or None if another publisher wrote a part first."""
    published = objects.find_manifest(manifest)
    if published is None and not objects.has_archive_of(manifest):
        objects.put_archive(folder / ARCHIVE_NAME, manifest)
    objects.check_archive(manifest)
    if published is not None and published.manifest.examples_sha256 is not None:
        objects.check_examples(published.manifest)
        return published.manifest
    complete = published.manifest if published else manifest
    if manifest.examples_sha256 is not None:
        sha256 = objects.settle_examples((folder / EXAMPLES_NAME).read_bytes(), manifest)
        if sha256 is None:
            return None
        complete = complete.model_copy(update={"examples_sha256": sha256})
    elif published is not None:
        return complete
    return complete if objects.put_manifest(complete, replacing=published) else None


@dataclass(frozen=True)
class _Found:
    """A manifest in the bucket, with its entity tag."""

    manifest: Manifest
    etag: str


@dataclass
class _ArtifactObjects:
    """The objects of one artifact in a bucket."""

    client: Any
    bucket: str
    prefix: str
    kms_key_id: str | None
    written: bool = False
    """Whether anything was uploaded."""

    def find_manifest(self, manifest: Manifest) -> _Found | None:
        """Read the manifest, which marks the artifact as complete."""
        stored = self._get(MANIFEST_NAME)
        if stored is None:
            return None
        body, etag = stored
        published = parse_manifest(body, origin=self._url(MANIFEST_NAME))
        if published.digest != manifest.digest:
            raise PublishError(
                f"{self._url(MANIFEST_NAME)} belongs to digest {published.digest}",
                remedy=f"delete {self._url('')}, which holds another artifact, and build again",
            )
        return _Found(published, etag)

    def has_archive_of(self, manifest: Manifest) -> bool:
        """Return whether the archive is already there."""
        try:
            self.check_archive(manifest)
        except PublishError:
            return False
        return True

    def put_archive(self, archive: Path, manifest: Manifest) -> None:
        """Upload the archive; large ones in parts, each with a checksum."""
        settings = {
            "ChecksumAlgorithm": "SHA256",
            "ContentType": "application/gzip",
            "Metadata": {DIGEST_NOTE: manifest.digest},
            **self._encryption(),
        }
        key = f"{self.prefix}/{ARCHIVE_NAME}"
        # boto3 takes time to import, and commands that upload nothing do not need it.
        from boto3.exceptions import S3UploadFailedError  # noqa: PLC0415

        try:
            self.client.upload_file(str(archive), self.bucket, key, ExtraArgs=settings)
        except S3UploadFailedError as error:
            cause = error.__context__  # the S3 error itself; this error has only its text
            raise (
                cause
                if isinstance(cause, ClientError)
                else PublishError(
                    str(error),
                    remedy="check the connection, and run the build again; it uploads only what is missing",
                )
            ) from error
        self.written = True

    def check_archive(self, manifest: Manifest) -> None:
        """Verify the archive in the bucket before reporting the artifact as published."""
        try:
            head = self.client.head_object(
                Bucket=self.bucket, Key=f"{self.prefix}/{ARCHIVE_NAME}", ChecksumMode="ENABLED"
            )
        except ClientError as error:
            if aws_error_code(error) in ABSENT_CODES:
                raise PublishError(
                    f"{self._url(ARCHIVE_NAME)} is missing, but its manifest exists",
                    remedy=f"delete {self._url(MANIFEST_NAME)}, and publish the artifact again",
                ) from error
            raise
        actual = (head["ContentLength"], head.get("Metadata", {}).get(DIGEST_NOTE))
        if actual != (manifest.archive_bytes, manifest.digest) or _contradicts(head, manifest):
            raise PublishError(
                f"{self._url(ARCHIVE_NAME)} does not match its manifest "
                f"({actual[0]} bytes, digest {actual[1]})",
                remedy="delete this object and its manifest, then publish again",
            )

    def check_examples(self, manifest: Manifest) -> None:
        """Verify the examples in the bucket before reporting the artifact as published."""
        stored = self._get(EXAMPLES_NAME)
        if stored is None or hashlib.sha256(stored[0]).hexdigest() != manifest.examples_sha256:
            failure = "is missing, but its manifest names it" if stored is None else "has changed"
            raise PublishError(
                f"{self._url(EXAMPLES_NAME)} {failure}",
                remedy=f"delete {MANIFEST_NAME} and {EXAMPLES_NAME} there, then publish again",
            )

    def settle_examples(self, body: bytes, manifest: Manifest) -> str | None:
        """Upload the examples unless others came first; return the hash of those in the bucket.

        None if another publisher was faster.
        """
        stored = self._get(EXAMPLES_NAME)
        if stored is not None and _are_of(stored[0], manifest):
            return hashlib.sha256(stored[0]).hexdigest()
        # Unreadable examples without a manifest are replaced.
        condition = {"IfMatch": stored[1]} if stored else {"IfNoneMatch": "*"}
        return hashlib.sha256(body).hexdigest() if self._put(EXAMPLES_NAME, body, condition) else None

    def put_manifest(self, manifest: Manifest, *, replacing: _Found | None) -> bool:
        """Write the manifest; return False if another publisher was faster."""
        condition = {"IfMatch": replacing.etag} if replacing else {"IfNoneMatch": "*"}
        return self._put(MANIFEST_NAME, manifest.to_json().encode(), condition)

    def _get(self, name: str) -> tuple[bytes, str] | None:
        try:
            response = self.client.get_object(Bucket=self.bucket, Key=f"{self.prefix}/{name}")
        except ClientError as error:
            if aws_error_code(error) in ABSENT_CODES:
                return None
            raise
        return response["Body"].read(), response["ETag"]

    def _put(self, name: str, body: bytes, condition: dict[str, str]) -> bool:
        try:
            self.client.put_object(
                Bucket=self.bucket,
                Key=f"{self.prefix}/{name}",
                Body=body,
                ContentType="application/json",
                ChecksumAlgorithm="SHA256",
                **condition,
                **self._encryption(),
            )
        except ClientError as error:
            if aws_error_code(error) in CHANGED_CODES:
                return False
            raise
        self.written = True
        return True

    def _url(self, name: str) -> str:
        return f"s3://{self.bucket}/{self.prefix}/{name}"

    def _encryption(self) -> dict[str, str]:
        if self.kms_key_id is None:
            return {}
        return {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": self.kms_key_id}


def _are_of(body: bytes, manifest: Manifest) -> bool:
    """Return whether this is a complete examples file of the artifact."""
    try:
        return parse_examples(body, origin="").digest == manifest.digest
    except TritonstackError:
        return False


def _contradicts(head: dict[str, Any], manifest: Manifest) -> bool:
    """Return whether S3's own checksum differs.

    For multipart uploads, it covers the parts' checksums; the ETag ends in their number.
    """
    checksum = head.get("ChecksumSHA256")
    if checksum is None or "-" in head["ETag"]:
        return False
    return bool(base64.b64decode(checksum).hex() != manifest.digest)
