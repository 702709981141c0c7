"""Artifacts into the artifact bucket: the archive first, the manifest last, and nothing twice.

An archive is never changed, and neither is what a manifest says; but a manifest that an earlier version wrote
gains the name of the examples, once, when the artifact is published again from a store that has them.
Examples are a fact of one build: where two have made the same artifact, those that came first stay.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import BotoCoreError, ClientError

from model_build.errors import PublishError
from model_build.store.artifacts import verify_artifact
from model_build.store.aws_errors import error_code, explain
from tritonstack.base.errors import TritonstackError
from tritonstack.base.naming import artifact_prefix
from tritonstack.records.examples import EXAMPLES_NAME, parse_examples
from tritonstack.records.manifests import ARCHIVE_NAME, DIGEST_NOTE, MANIFEST_NAME, Manifest, parse_manifest
from tritonstack.reference.conditional_writes import AGAIN_CODES, HELD_CODES

ABSENT_CODES = frozenset({"404", "NoSuchKey", "NotFound"})
CHANGED_CODES = HELD_CODES | AGAIN_CODES
"""Since it was looked at, somebody has written it, is writing it, or has deleted it."""
ATTEMPTS = 4
"""How often another publisher may be faster: each wins for good."""


@dataclass(frozen=True)
class Published:
    """An artifact in a bucket."""

    bucket: str
    prefix: str
    uploaded: bool
    """False if all of it lay there already."""
    manifest: Manifest
    """As it lies there, which is what locks are to tell of: another build of the same may have been first."""

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
        for _ in range(ATTEMPTS):
            there = _bring(bay, artifact_dir, manifest)
            if there is not None:
                return Published(bucket, bay.prefix, uploaded=bay.written, manifest=there)
    except (BotoCoreError, ClientError) as error:
        raise explain(
            error,
            error_type=PublishError,
            doing=f"publishing {manifest.model} {manifest.digest[:12]}",
            bucket=bucket,
            missing_bucket_remedy="deploy the environment's foundation stack first; it makes the bucket",
        ) from error
    raise PublishError(
        f"others keep writing s3://{bucket}/{bay.prefix}/", remedy="wait for them, and publish again"
    )


def _bring(bay: _Bay, folder: Path, manifest: Manifest) -> Manifest | None:
    """Bring what is missing; the manifest there, or None where another publisher was faster with a part."""
    there = bay.find_manifest(manifest)
    if there is None and not bay.has_archive_of(manifest):
        bay.put_archive(folder / ARCHIVE_NAME, manifest)
    bay.check_archive(manifest)
    if there is not None and there.manifest.examples_sha256 is not None:
        bay.check_examples(there.manifest)
        return there.manifest
    named = there.manifest if there else manifest
    if manifest.examples_sha256 is not None:
        sha256 = bay.settle_examples((folder / EXAMPLES_NAME).read_bytes(), manifest)
        if sha256 is None:
            return None
        named = named.model_copy(update={"examples_sha256": sha256})
    elif there is not None:
        return named
    return named if bay.put_manifest(named, replacing=there) else None


@dataclass(frozen=True)
class _Found:
    """A manifest in the bucket, and what S3 tells it from its earlier versions by."""

    manifest: Manifest
    etag: str


@dataclass
class _Bay:
    """One artifact's place in a bucket."""

    client: Any
    bucket: str
    prefix: str
    kms_key_id: str | None
    written: bool = False
    """Whether anything was brought."""

    def find_manifest(self, manifest: Manifest) -> _Found | None:
        """The manifest that lies there, which makes the artifact complete."""
        found = self._get(MANIFEST_NAME)
        if found is None:
            return None
        body, etag = found
        there = parse_manifest(body, origin=self._url(MANIFEST_NAME))
        if there.digest != manifest.digest:
            raise PublishError(f"{self._url(MANIFEST_NAME)} is the manifest of {there.digest}")
        return _Found(there, etag)

    def has_archive_of(self, manifest: Manifest) -> bool:
        """Whether whoever was here before got as far as the archive."""
        try:
            self.check_archive(manifest)
        except PublishError:
            return False
        return True

    def put_archive(self, archive: Path, manifest: Manifest) -> None:
        """Upload the archive; large ones in parts, each with its checksum."""
        settings = {
            "ChecksumAlgorithm": "SHA256",
            "ContentType": "application/gzip",
            "Metadata": {DIGEST_NOTE: manifest.digest},
            **self._encryption(),
        }
        key = f"{self.prefix}/{ARCHIVE_NAME}"
        try:
            self.client.upload_file(str(archive), self.bucket, key, ExtraArgs=settings)
        except S3UploadFailedError as error:
            said = error.__context__  # what S3 said, which this error has in its text alone
            raise said if isinstance(said, ClientError) else PublishError(str(error)) from error
        self.written = True

    def check_archive(self, manifest: Manifest) -> None:
        """Refuse to call an artifact published whose archive is not whole."""
        try:
            head = self.client.head_object(
                Bucket=self.bucket, Key=f"{self.prefix}/{ARCHIVE_NAME}", ChecksumMode="ENABLED"
            )
        except ClientError as error:
            if error_code(error) in ABSENT_CODES:
                raise PublishError(
                    f"{self._url(ARCHIVE_NAME)} is missing, though its manifest is there"
                ) from error
            raise
        found = (head["ContentLength"], head.get("Metadata", {}).get(DIGEST_NOTE))
        if found != (manifest.archive_bytes, manifest.digest) or _contradicts(head, manifest):
            raise PublishError(
                f"{self._url(ARCHIVE_NAME)} is not the archive of its manifest "
                f"({found[0]} bytes, digest {found[1]})",
                remedy="delete this object and its manifest, and publish again",
            )

    def check_examples(self, there: Manifest) -> None:
        """Refuse to call an artifact published whose examples are not those that its manifest names."""
        found = self._get(EXAMPLES_NAME)
        if found is None or hashlib.sha256(found[0]).hexdigest() != there.examples_sha256:
            what = "is missing, though its manifest names it" if found is None else "is not what it was"
            raise PublishError(
                f"{self._url(EXAMPLES_NAME)} {what}",
                remedy=f"delete {MANIFEST_NAME} and {EXAMPLES_NAME} there, and publish again",
            )

    def settle_examples(self, body: bytes, manifest: Manifest) -> str | None:
        """The hash of the artifact's examples in the bucket: those given, or some that came first.

        None where another publisher was faster by a moment.
        """
        found = self._get(EXAMPLES_NAME)
        if found is not None and _are_of(found[0], manifest):
            return hashlib.sha256(found[0]).hexdigest()
        # What no manifest names and what cannot be read belongs to nobody.
        condition = {"IfMatch": found[1]} if found else {"IfNoneMatch": "*"}
        return hashlib.sha256(body).hexdigest() if self._put(EXAMPLES_NAME, body, condition) else None

    def put_manifest(self, manifest: Manifest, *, replacing: _Found | None) -> bool:
        """Write the manifest; False where another publisher was faster."""
        condition = {"IfMatch": replacing.etag} if replacing else {"IfNoneMatch": "*"}
        return self._put(MANIFEST_NAME, manifest.to_json().encode(), condition)

    def _get(self, name: str) -> tuple[bytes, str] | None:
        try:
            found = self.client.get_object(Bucket=self.bucket, Key=f"{self.prefix}/{name}")
        except ClientError as error:
            if error_code(error) in ABSENT_CODES:
                return None
            raise
        return found["Body"].read(), found["ETag"]

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
            if error_code(error) in CHANGED_CODES:
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
    """Whether this is the whole text of examples of the artifact."""
    try:
        return parse_examples(body, origin="").digest == manifest.digest
    except TritonstackError:
        return False


def _contradicts(head: dict[str, Any], manifest: Manifest) -> bool:
    """Whether S3's own checksum says otherwise.

    That of an object uploaded in parts covers the parts' checksums; its ETag ends in their number.
    """
    checksum = head.get("ChecksumSHA256")
    if checksum is None or "-" in head["ETag"]:
        return False
    return bool(base64.b64decode(checksum).hex() != manifest.digest)
