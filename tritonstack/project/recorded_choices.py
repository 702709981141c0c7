"""Choices of `precision: auto` in earlier builds of the same files, recorded in the project's locks.

Locks are in git, so builds on other machines or for other environments reuse the choice and make the same
artifact, instead of measuring again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tritonstack.base.errors import TritonstackError
from tritonstack.base.paths import LOCK_SUFFIX
from tritonstack.project.workspace import Workspace
from tritonstack.records.locks import Lock, LockedArtifact, load_lock


def recorded_choices(workspace: Workspace, model: str, targets: Sequence[str]) -> dict[str, str]:
    """Return the recorded choices of a model and its members, by model.

    The environment's own lock precedes other locks, and a model's own entry precedes other entries.
    """
    parts = set(workspace.made_of(model))
    names = [model, *sorted(workspace.hashes.keys() - {model})]
    choices: dict[str, str] = {}
    for lock in _locks(workspace):
        for entry in _entries(lock, names, workspace, targets):
            for name, choice in (entry.choices or {}).items():
                if name in parts:
                    choices.setdefault(name, choice)
    return choices


def _locks(workspace: Workspace) -> Iterator[Lock]:
    yield workspace.lock.record
    folder = workspace.project.environments_dir
    for file in sorted(folder.glob(f"*{LOCK_SUFFIX}")):
        if file.name != workspace.lock.file.name:
            try:
                yield load_lock(file).record
            except TritonstackError:
                continue  # `validate` reports it; another environment's damaged lock must not stop a build


def _entries(
    lock: Lock, names: Sequence[str], workspace: Workspace, targets: Sequence[str]
) -> Iterator[LockedArtifact]:
    """Yield the entries built from the current files."""
    for name in names:
        entry = lock.find(name, targets)
        if entry is not None and entry.spec_hash == workspace.hashes[name]:
            yield entry
