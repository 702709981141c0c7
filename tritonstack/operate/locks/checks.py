"""Check all locks of a project against the catalog, manifests, other locks, and git."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.base.error_kinds import ArtifactNotFoundError, DamagedArtifactError, LockEntryError
from tritonstack.base.errors import FileViolation, InvalidFilesError, TritonstackError, shown_path
from tritonstack.base.naming import artifact_prefix
from tritonstack.base.paths import LOCK_SUFFIX, Project
from tritonstack.base.yaml import Document
from tritonstack.files.checks.locks import (
    Findings,
    LockDigests,
    check_catalog,
    check_locks,
    check_manifests,
    check_promotions,
    compare_manifest,
)
from tritonstack.files.loading import ProjectFiles
from tritonstack.files.project.custom_images import locked_uri
from tritonstack.files.project.names import environment_names
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.locks import (
    Lock,
    LockedArtifact,
    LockedImage,
    PlacedEntry,
    entries_of,
    locked_environment,
)
from tritonstack.files.records.manifests import ARCHIVE_NAME, MANIFEST_NAME
from tritonstack.operate.locks.versions import lock_history
from tritonstack.operate.shared.artifacts import (
    find_image,
    find_object,
    has_bucket,
    is_archive_of,
    published_manifest,
)
from tritonstack.operate.shared.aws import Cloud, in_parallel


def check_offline(files: ProjectFiles, names: Collection[str]) -> Findings:
    """Return violations in the locks of some environments. Unreadable files are reported elsewhere, except
    orphaned locks."""
    project, environments = files.project, files.environment_names
    locks = readable_locks(files)

    @cache
    def digests_of(environment: str) -> LockDigests:
        return lock_history(project, environment).known_digests()

    findings = Findings()
    for name in names:
        if name not in environments:
            _check_left(files, name, findings)
    for name, lock in locks.items():
        if name not in names:
            continue
        workspace = _workspace(files, name)
        findings.violations += check_manifests(project, lock)
        catalog = check_catalog(workspace, files.model_names) if workspace else Findings()
        for part in (catalog, check_promotions(lock, environments, digests_of)):
            findings.violations += part.violations
            findings.notes += part.notes
    checked = {lock.file for name, lock in locks.items() if name in names}
    findings.violations += [
        file_violation for file_violation in _disagreements(locks) if file_violation.file in checked
    ]
    return findings


def lock_names(project: Project) -> list[str]:
    """Return the environments that have or may have locks, sorted."""
    files = project.environments_dir.glob(f"*{LOCK_SUFFIX}")
    return sorted({*environment_names(project), *map(locked_environment, files)})


def readable_locks(files: ProjectFiles) -> dict[str, Document[Lock]]:
    """Return the readable locks of a project, by environment."""
    locks = {}
    for name in lock_names(files.project):
        try:
            locks[name] = files.lock(name)
        except InvalidFilesError:
            continue  # the caller that checks them reports their errors
    return locks


def _check_left(files: ProjectFiles, name: str, findings: Findings) -> None:
    try:
        lock = files.lock(name)
    except InvalidFilesError as error:
        findings.violations += error.violations
        return
    findings.notes.append(
        lock.violation(
            LockEntryError,
            (),
            f"the lock's environment {name!r} does not exist",
            f"run `git rm {shown_path(lock.file)}` if the environment was removed",
        )
    )


def _disagreements(locks: dict[str, Document[Lock]]) -> list[FileViolation]:
    """Report both locks: which of the two is wrong is unknown."""
    backwards = dict(reversed(locks.items()))
    return [*check_locks(locks), *check_locks(backwards)]


def _workspace(files: ProjectFiles, name: str) -> Workspace | None:
    """Load the environment of a lock; None if it does not exist or is invalid."""
    if name not in files.environment_names:
        return None
    try:
        return files.workspace(name)
    except InvalidFilesError:
        return None  # as above


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
