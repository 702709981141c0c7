"""Artifacts into the artifact bucket: the archive first, the manifest last, and nothing twice."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from catalog.manifests import ARCHIVE_NAME, DIGEST_NOTE, MANIFEST_NAME, Manifest, parse_manifest
from catalog.naming import artifact_prefix
from model_build.artifacts import verify_artifact
from model_build.aws_errors import error_code, explain
from model_build.errors import PublishError

ABSENT_CODES = frozenset({"404", "NoSuchKey", "NotFound"})
ALREADY_THERE_CODES = frozenset({"412", "PreconditionFailed", "409", "ConditionalRequestConflict"})


@dataclass(frozen=True)
class Published:
    """An artifact in a bucket."""

    bucket: str
    prefix: str
    uploaded: bool
    """False if it lay there already."""

    @property
    def archive_url(self) -> str:
        """Where SageMaker finds the model."""
        return f"s3://{self.bucket}/{self.prefix}/{ARCHIVE_NAME}"


def publish(*, artifact_dir: Path, bucket: str, s3_client: Any, kms_key_id: str | None = None) -> Published:
    """Upload a verified artifact. Safe to repeat: what lies there with the same digest stays as it is.

    Without `kms_key_id` the bucket's own default encryption holds.
    """
    manifest = verify_artifact(artifact_dir)
    bay = _Bay(s3_client, bucket, artifact_prefix(manifest.model, manifest.digest), kms_key_id)
    try:
        if bay.has_manifest_of(manifest):
            bay.check_archive(manifest)
            return Published(bucket, bay.prefix, uploaded=False)
        bay.put_archive(artifact_dir / ARCHIVE_NAME, manifest)
        bay.check_archive(manifest)
        bay.put_manifest(manifest)
    except (BotoCoreError, ClientError) as error:
        raise explain(
            error,
            error_type=PublishError,
            doing=f"publishing {manifest.model} {manifest.digest[:12]}",
            bucket=bucket,
            missing_bucket_remedy="deploy the environment's foundation stack first; it makes the bucket",
        ) from error
    return Published(bucket, bay.prefix, uploaded=True)


@dataclass(frozen=True)
class _Bay:
    """One artifact's place in a bucket."""

    client: Any
    bucket: str
    prefix: str
    kms_key_id: str | None

    def has_manifest_of(self, manifest: Manifest) -> bool:
        """Whether the artifact is complete there."""
        key = f"{self.prefix}/{MANIFEST_NAME}"
        try:
            body = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        except ClientError as error:
            if error_code(error) in ABSENT_CODES:
                return False
            raise
        there = parse_manifest(body, origin=f"s3://{self.bucket}/{key}")
        if there.digest != manifest.digest:
            raise PublishError(f"s3://{self.bucket}/{key} is the manifest of {there.digest}")
        return True

    def put_archive(self, archive: Path, manifest: Manifest) -> None:
        """Upload the archive; large ones in parts, each with its checksum."""
        self.client.upload_file(
            str(archive),
            self.bucket,
            f"{self.prefix}/{ARCHIVE_NAME}",
            ExtraArgs={
                "ChecksumAlgorithm": "SHA256",
                "ContentType": "application/gzip",
                "Metadata": {DIGEST_NOTE: manifest.digest},
                **self._encryption(),
            },
        )

    def check_archive(self, manifest: Manifest) -> None:
        """Refuse to call an artifact published whose archive is not whole."""
        key = f"{self.prefix}/{ARCHIVE_NAME}"
        try:
            head = self.client.head_object(Bucket=self.bucket, Key=key, ChecksumMode="ENABLED")
        except ClientError as error:
            if error_code(error) in ABSENT_CODES:
                raise PublishError(
                    f"s3://{self.bucket}/{key} is missing, though its manifest is there"
                ) from error
            raise
        found = (head["ContentLength"], head.get("Metadata", {}).get(DIGEST_NOTE))
        if found != (manifest.archive_bytes, manifest.digest) or _contradicts(head, manifest):
            raise PublishError(
                f"s3://{self.bucket}/{key} is not the archive of its manifest "
                f"({found[0]} bytes, digest {found[1]})",
                remedy="delete this object and its manifest, and publish again",
            )

    def put_manifest(self, manifest: Manifest) -> None:
        """Write the manifest, unless another publisher was faster."""
        try:
            self.client.put_object(
                Bucket=self.bucket,
                Key=f"{self.prefix}/{MANIFEST_NAME}",
                Body=manifest.to_json().encode(),
                ContentType="application/json",
                ChecksumAlgorithm="SHA256",
                IfNoneMatch="*",
                **self._encryption(),
            )
        except ClientError as error:
            if error_code(error) not in ALREADY_THERE_CODES or not self.has_manifest_of(manifest):
                raise

    def _encryption(self) -> dict[str, str]:
        if self.kms_key_id is None:
            return {}
        return {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": self.kms_key_id}


def _contradicts(head: dict[str, Any], manifest: Manifest) -> bool:
    """Whether S3's own checksum says otherwise.

    That of an object uploaded in parts covers the parts' checksums; its ETag ends in their number.
    """
    checksum = head.get("ChecksumSHA256")
    if checksum is None or "-" in head["ETag"]:
        return False
    return bool(base64.b64decode(checksum).hex() != manifest.digest)
