"""Check all locks of a project against the catalog, manifests, other locks, and git."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from tritonstack.base.error_kinds import LockEntryError
from tritonstack.base.errors import FileViolation, InvalidFilesError, shown_path
from tritonstack.base.paths import LOCK_SUFFIX, Project
from tritonstack.base.yaml import Document
from tritonstack.operations.locks.versions import lock_history
from tritonstack.project.checks.locks import (
    Findings,
    LockDigests,
    check_catalog,
    check_locks,
    check_manifests,
    check_promotions,
)
from tritonstack.project.loading import ProjectFiles
from tritonstack.project.names import environment_names
from tritonstack.project.workspace import Workspace
from tritonstack.records.locks import Lock, locked_environment


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
    """Report a lock without an environment; its entries are checked like others."""
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
