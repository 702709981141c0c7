"""Determine the commit of an environment's files and the uncommitted files.

`files_of_environment` defines which files an environment depends on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tritonstack.base.paths import MARKER, Project
from tritonstack.base.results import Internal, public
from tritonstack.base.revisions import (
    BUILD_CODE,
    BUILD_PINS,
    PINS,
    UNCOMMITTED,
    UncommittedFiles,
    list_files,
    recorded_files,
    short_commit,
)
from tritonstack.files.project.custom_images import BUILDER
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.sources.model_files import model_files
from tritonstack.operate.shared.checkout import Checkout, CheckoutError

SYNTH_CODE = (
    "app.py",
    "stacks",
    *(f"tritonstack/{name}" for name in ("base", "facts", "files", "constructs")),
)
"""Files that synthesis reads."""


@dataclass(frozen=True)
class Revision:
    """The commit that files were read from, and the files that differ from it."""

    commit: str | None
    """None without git or without a commit."""
    files: tuple[str, ...] = ()
    """Uncommitted relevant files, relative to the project."""

    @property
    def text(self) -> str | None:
        """Return the revision for records."""
        return f"{self.commit}{UNCOMMITTED}" if self.commit and self.files else self.commit

    @property
    def recorded(self) -> UncommittedFiles:
        """Return the uncommitted files for records."""
        return recorded_files(self.files)

    @property
    def description(self) -> str:
        """Return the revision for messages."""
        return f"commit {short_commit(self.text)}" if self.text else "this folder"

    @property
    def note(self) -> str | None:
        """Return the uncommitted files in one line; None if there are none."""
        if self.commit is None:
            return "uncommitted: all files (the folder has no git commit)"
        return f"uncommitted: {list_files(self.files, most=10)}" if self.files else None


class ComparedRevision:
    """The keys of a result that was compared with checked-out files."""

    revision: Internal[Revision]

    @public
    def commit(self) -> str | None:
        """The commit that it was compared with."""
        return self.revision.text

    @public
    def uncommitted(self) -> tuple[str, ...]:
        """Files that differ from the commit."""
        return self.revision.files


@dataclass(frozen=True)
class RelevantFiles:
    """The files that an environment or a build depends on."""

    files: frozenset[Path]
    """Files that are read. Each must be in git, even if its name is ignored."""
    folders: frozenset[Path]
    """Code folders. Files that git ignores, such as caches, do not count."""

    @property
    def paths(self) -> frozenset[Path]:
        """Return all of them."""
        return self.files | self.folders


def files_of_environment(workspace: Workspace) -> RelevantFiles:
    """Return the files that define an environment: its files, its models, and the synthesis code."""
    project = workspace.project
    files = {workspace.environment.file, workspace.lock.file, project.root / MARKER, project.delivery_file}
    built = _built_from(workspace, SYNTH_CODE, PINS)
    return RelevantFiles(built.files | files, built.folders)


def _built_from(workspace: Workspace, code: Iterable[str], pins: Iterable[str]) -> RelevantFiles:
    """Return models, images, code, and the files that pin the version of installed code."""
    project, spec = workspace.project, workspace.spec
    images = {endpoint.image for endpoint in spec.endpoints.values() if endpoint.image}
    if spec.builds_in_account:
        images.add(BUILDER)
    containers = {project.containers_dir / image for image in images}
    files = {file for folder in containers for file in folder.rglob("*") if file.is_file()}
    files |= {project.root / name for name in pins}
    for document in workspace.models.values():
        read = model_files(document)
        listed = (read.own, read.helpers, read.source)
        files |= {document.file, *(file.path for files_of in listed for file in files_of.values())}
    models = {document.file.parent for document in workspace.models.values()}
    return RelevantFiles(
        frozenset(files), frozenset({project.root / name for name in code} | models | containers)
    )


def revision_of(workspace: Workspace) -> Revision:
    """Return the revision of all files that an environment depends on."""
    return _revision(workspace.project, files_of_environment(workspace))


def build_revision_of(workspace: Workspace) -> Revision:
    """Return the revision of all files that a build for an environment depends on."""
    return _revision(workspace.project, _built_from(workspace, BUILD_CODE, BUILD_PINS))


def change_revision_of(*workspaces: Workspace) -> Revision:
    """Return the revision for a promotion or rollback: all files except the locks that it writes."""
    inputs = [files_of_environment(workspace) for workspace in workspaces]
    locks = {workspace.lock.file for workspace in workspaces}
    files = {file for input_files in inputs for file in input_files.files} - locks
    folders = {folder for input_files in inputs for folder in input_files.folders}
    return _revision(workspaces[0].project, RelevantFiles(frozenset(files), frozenset(folders)))


def require_unchanged(workspace: Workspace, before: Revision) -> None:
    """Raise an error if files changed while they were read, because the state would be inconsistent."""
    after = revision_of(workspace)
    if after != before:
        changed = sorted(set(before.files) ^ set(after.files))
        changes = list_files(changed) or f"the commit, from {before.text} to {after.text}"
        raise CheckoutError(f"files changed during synthesis: {changes}", remedy="rerun the command")


def _revision(project: Project, matters: RelevantFiles) -> Revision:
    checkout = Checkout(project.root)
    commit = checkout.head()
    if commit is None:
        return Revision(None)
    return Revision(commit, tuple(checkout.uncommitted(matters.files, matters.folders)))
