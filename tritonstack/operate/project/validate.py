"""Check all files of a project, or of one environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tritonstack.base.error_kinds import CommandLineError, LockEntryError
from tritonstack.base.errors import FileViolation, InvalidFilesError, TritonstackError
from tritonstack.base.results import Internal, public
from tritonstack.base.yaml import Document
from tritonstack.files.checks.compatibility import unbuilt
from tritonstack.files.checks.notes import (
    environment_warnings,
    placeholder_note,
    source_warnings,
    unpriced_note,
    unpromoted_note,
)
from tritonstack.files.checks.regions import region_warnings
from tritonstack.files.environment.delivery import DeliverySpec, load_delivery
from tritonstack.files.environment.environment import shared_bootstraps
from tritonstack.files.loading import ProjectFiles
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.sources.contents import source_violations
from tritonstack.files.validation import validate_project
from tritonstack.operate.deploy.preflight import Preflight, PreflightError, check_account
from tritonstack.operate.locks.checks import (
    Unchecked,
    UntrueLockError,
    check_offline,
    check_online,
    lock_names,
)
from tritonstack.operate.shared.local_cloud import has_registry
from tritonstack.operate.shared.session import Session


@dataclass(frozen=True)
class Validation:
    """Valid files, and what to know about them."""

    environments: tuple[str, ...]
    templates: tuple[str, ...]
    models: tuple[str, ...]
    warnings: tuple[str, ...]
    """Services and instance types that a region may lack, and sources that can change."""
    unbuilt: tuple[str, ...]
    """Models that have no artifact in the lock."""
    not_deployable: tuple[str, ...]
    """Environments that need a build before a deploy."""
    notes: tuple[str, ...]
    checked_online: tuple[str, ...] = ()
    """Environments whose locks match their buckets and registries."""
    next_commands: Internal[tuple[str, ...]] = ()
    """Commands that add the missing artifacts."""
    preflights: tuple[Preflight, ...] = ()
    """What the accounts and regions of the environments have."""

    @public
    def valid(self) -> Literal[True]:
        """Always true: invalid files are an error."""
        return True


def validate(
    session: Session, environment: str | None = None, *, instance: str | None = None, online: bool = False
) -> Validation:
    """Check all files, those of an environment, or those of an instance of a template.

    With `online`, also compare the locks with buckets and registries, and the environments with the images,
    quotas, and zones of their accounts. Raises InvalidFilesError if a file is invalid, UntrueLockError if a
    lock does not match its bucket or registry, and PreflightError if a deployment would fail.
    """
    files, everything = ProjectFiles(session.project), environment is None
    workspaces = _workspaces(session, files, environment, instance)
    owners = {workspace.lock_owner for workspace in workspaces}
    locks = check_offline(files, lock_names(session.project) if everything else owners)
    if locks.violations:
        raise InvalidFilesError(locks.violations)
    served = sorted({name for workspace in workspaces for name in workspace.models})
    models = [files.model(name) for name in (files.model_names if everything else served)]
    warnings = _warnings(workspaces, models, load_delivery(session.project) if everything else None)
    missing = [(workspace, unbuilt(workspace)) for workspace in workspaces]
    shared = shared_bootstraps(workspace.spec for workspace in workspaces)
    notes = (
        *(note.coded() for note in locks.notes),
        *shared,
        *_notes(workspaces),
        *filter(None, map(placeholder_note, models)),
    )
    _report(session, "warning", warnings)
    _report(session, "note", notes)
    checked, preflights = _check_online(session, workspaces) if online else ((), ())
    return Validation(
        tuple(workspace.cli_arguments for workspace in workspaces),
        tuple(files.template_names) if everything else (),
        tuple(files.model_names),
        warnings,
        tuple(file_violation.coded() for _, violations in missing for file_violation in violations),
        tuple(workspace.cli_arguments for workspace, violations in missing if violations),
        notes,
        checked,
        _lock_commands([workspace for workspace, violations in missing if violations]),
        preflights,
    )


def _lock_commands(workspaces: Sequence[Workspace]) -> tuple[str, ...]:
    """Return the commands that complete the locks, those of promotion sources first."""
    sources = {workspace.lock_owner: workspace.promotion_source for workspace in workspaces}

    def depth(workspace: Workspace) -> int:
        passed, name = [workspace.lock_owner], workspace.promotion_source
        while name is not None and name not in passed:
            passed.append(name)
            name = sources.get(name)
        return len(passed)

    return tuple(dict.fromkeys(incomplete.lock_command for incomplete in sorted(workspaces, key=depth)))


def _notes(workspaces: Sequence[Workspace]) -> Iterator[str]:
    for workspace in workspaces:
        unpromoted = None if workspace.instance else unpromoted_note(workspace.lock, workspace.spec)
        yield from filter(None, (unpromoted, unpriced_note(workspace.environment)))


def _workspaces(
    session: Session, files: ProjectFiles, environment: str | None, instance: str | None
) -> list[Workspace]:
    """Load what to check; problems of locks are reported together with those of other files."""
    if instance is not None:
        if environment is None:
            raise CommandLineError(
                "--name needs a template", remedy="for example: validate preview --name pr-1"
            )
        return [session.workspace(environment, instance, files=files)]
    names = files.environment_names if environment is None else [environment]
    owners = lock_names(session.project) if environment is None else names
    violations = validate_project(files) if environment is None else _violations(files, environment)
    if violations:
        raise InvalidFilesError({*violations, *check_offline(files, owners).violations})
    return [files.workspace(name) for name in names]


def _warnings(
    workspaces: Sequence[Workspace],
    models: Sequence[Document[ModelSpec]],
    delivery: Document[DeliverySpec] | None,
) -> tuple[str, ...]:
    """Return what regions and the pipeline may lack, and sources that can change."""
    warnings = [
        warning for workspace in workspaces for warning in environment_warnings(workspace.environment)
    ]
    warnings += [warning for model in models for warning in source_warnings(model)]
    return tuple(warning.coded() for warning in (*warnings, *(region_warnings(delivery) if delivery else ())))


def _violations(files: ProjectFiles, environment: str) -> list[FileViolation]:
    try:
        workspace = files.workspace(environment)
    except InvalidFilesError as error:
        return list(error.violations)
    return [violation for name in workspace.models for violation in source_violations(files.checked(name))]


def _check_online(
    session: Session, workspaces: Sequence[Workspace]
) -> tuple[tuple[str, ...], tuple[Preflight, ...]]:
    """Return the environments whose locks match their account, and what the accounts have.

    Report those that are unreachable.
    """
    checked: list[str] = []
    violations: list[FileViolation] = []
    missed: list[Unchecked] = []
    preflights: list[Preflight] = []
    for workspace in workspaces:
        name = workspace.cli_arguments
        try:
            cloud = session.cloud(workspace.spec)
        except TritonstackError as error:
            missed.append(Unchecked(workspace.spec.name, error.message))
            continue
        preflights.append(check_account(session, workspace, cloud))
        with session.reporter.step(f"checking {name} online"):
            result = check_online(workspace, cloud, has_registry=has_registry(workspace.spec))
        if isinstance(result, Unchecked):
            missed.append(result)
            continue
        checked.append(name)
        violations += result.violations
        _report(session, "note", result.notes)
    for item in missed:
        session.reporter.note(str(item))
    if violations:
        raise UntrueLockError(violations)
    if any(result.failed for result in preflights):
        raise PreflightError(preflights)
    if not checked:
        raise LockEntryError(
            "\n".join(map(str, missed)) or "the project has no environment to check online",
            remedy="log in to its account, or deploy it first; without --online, no AWS call is made",
        )
    return tuple(checked), tuple(preflights)


def _report(session: Session, kind: str, items: Sequence[object]) -> None:
    for item in items:
        session.reporter.note(f"{kind}: {item}")
