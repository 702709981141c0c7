"""Compare an environment's lock with its bucket and registry, read-only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.base.error_kinds import ArtifactNotFoundError, DamagedArtifactError, LockEntryError
from tritonstack.base.errors import FileViolation, TritonstackError
from tritonstack.base.naming import artifact_prefix
from tritonstack.operations.artifacts import (
    find_image,
    find_object,
    has_bucket,
    is_archive_of,
    published_manifest,
)
from tritonstack.operations.aws import Cloud, in_parallel
from tritonstack.project.checks.locks import Findings, compare_manifest
from tritonstack.project.custom_images import locked_uri
from tritonstack.project.workspace import Workspace
from tritonstack.records.locks import LockedArtifact, LockedImage, PlacedEntry, entries_of
from tritonstack.records.manifests import ARCHIVE_NAME, MANIFEST_NAME


class UntrueLockError(TritonstackError):
    """Buckets or registries do not match the locks."""

    code = LockEntryError.code

    def __init__(self, violations: list[FileViolation]) -> None:
        super().__init__("\n".join(str(violation) for violation in violations), remedy=None)
        self.violations = tuple(violations)


@dataclass(frozen=True)
class Unchecked:
    """An environment that could not be checked, and the reason."""

    environment: str
    reason: str

    def __str__(self) -> str:
        return f"{self.environment} was not checked online: {self.reason}"


def check_online(workspace: Workspace, cloud: Cloud, *, has_registry: bool) -> Findings | Unchecked:
    """Return the differences between a lock and its account.

    Without a registry, images are in the local Docker engine and are not checked.
    """
    name, bucket = workspace.spec.name, workspace.spec.artifact_bucket
    try:
        if not has_bucket(cloud, bucket):
            return Unchecked(name, f"bucket {bucket} does not exist; the foundation is not deployed")
        return _check(cloud, workspace, has_registry=has_registry)
    except (BotoCoreError, ClientError) as error:
        return Unchecked(name, f"AWS error: {error}")
    except TritonstackError as error:
        return Unchecked(name, error.message)


def _check(cloud: Cloud, workspace: Workspace, *, has_registry: bool) -> Findings:
    s3, ecr, findings = cloud.client("s3"), cloud.client("ecr"), Findings()

    def check(placed: PlacedEntry) -> Findings:
        if isinstance(placed.entry, LockedArtifact):
            return _check_artifact(s3, workspace.spec.artifact_bucket, placed, placed.entry)
        if isinstance(placed.entry, LockedImage):
            return _check_image(ecr, workspace, placed, placed.entry) if has_registry else _unchecked(placed)
        return Findings()

    for part in in_parallel(check, entries_of(workspace.lock)):
        findings.violations += part.violations
        findings.notes += part.notes
    return findings


def _check_artifact(s3: Any, bucket: str, placed: PlacedEntry, entry: LockedArtifact) -> Findings:
    _, model, target = (str(part) for part in placed.path)
    findings, prefix = Findings(), artifact_prefix(model, entry.digest)
    origin = f"s3://{bucket}/{prefix}/{MANIFEST_NAME}"
    try:
        manifest = published_manifest(s3, bucket=bucket, model=model, digest=entry.digest)
    except TritonstackError as error:
        findings.violations.append(placed.violation(error, error.message, at="digest", remedy=error.remedy))
        return findings
    if manifest is None:
        findings.violations.append(
            placed.violation(
                ArtifactNotFoundError,
                f"artifact not found in s3://{bucket}",
                at="digest",
                remedy=f"run `tritonstack build {placed.environment}` to publish it, or "
                "`tritonstack promote` if it was promoted",
            )
        )
        return findings
    archive = find_object(s3, bucket, f"{prefix}/{ARCHIVE_NAME}")
    if archive is None or not is_archive_of(entry, archive):
        failure = "is missing" if archive is None else "has another size or digest"
        findings.violations.append(
            placed.violation(
                DamagedArtifactError,
                f"s3://{bucket}/{prefix}/{ARCHIVE_NAME} {failure}",
                at="digest",
                remedy=f"delete s3://{bucket}/{prefix}/{MANIFEST_NAME}, and run `tritonstack build "
                f"{placed.environment}` to publish the artifact again, or `tritonstack promote` if it was "
                "promoted",
            )
        )
    compare_manifest(findings, placed, manifest, target, origin=origin)
    return findings


def _check_image(ecr: Any, workspace: Workspace, placed: PlacedEntry, image: LockedImage) -> Findings:
    findings = Findings()
    uri = locked_uri(workspace.spec, image)
    repository = uri.partition("/")[2].partition("@")[0]
    found = find_image(ecr, {"imageDigest": image.digest}, repositoryName=repository)
    tags = found.get("imageTags", []) if found else []
    if found is None:
        remedy = f"run `tritonstack build {placed.environment}` to rebuild it"
        findings.violations.append(
            placed.violation(ArtifactNotFoundError, f"image not found: {uri}", at="digest", remedy=remedy)
        )
    elif image.tag not in tags:
        findings.violations.append(
            placed.violation(
                ArtifactNotFoundError,
                f"tag {image.tag} does not point to {uri}; its tags: {', '.join(tags) or 'none'}",
                at="tag",
                remedy="the tag was moved: rebuild the image",
            )
        )
    return findings


def _unchecked(image: PlacedEntry) -> Findings:
    findings = Findings()
    note = "stored in the local Docker engine; the local cloud has no registry to check"
    findings.notes.append(image.violation(ArtifactNotFoundError, note, remedy="no action is needed"))
    return findings
