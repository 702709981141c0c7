"""Plan builds: which artifacts an environment's lock lacks, why, and where to build them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tritonstack.base.error_kinds import UnknownNameError
from tritonstack.base.errors import TritonstackError
from tritonstack.base.paths import LOCK_SUFFIX
from tritonstack.base.yaml import suggest
from tritonstack.facts.hardware import InstanceType
from tritonstack.files.model.build_permissions import BuildPermissions, permissions_of
from tritonstack.files.project.build_machines import BuildMachine, ManualBuild, build_machine_for
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.locks import Lock, LockedArtifact, load_lock

# Choices of `precision: auto` in earlier builds of the same files, recorded in the project's locks.
#
# Locks are in git, so builds on other machines or for other environments reuse the choice and make the same
# artifact, instead of measuring again.


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


_PARTS = {
    "spec": "model.yaml has changed",
    "files": "files beside model.yaml have changed",
    "members": "a member model has changed",
    "builder": "the build tooling has changed",
}


@dataclass(frozen=True)
class NeededArtifact:
    """A model for one machine type that an endpoint uses."""

    model: str
    targets: tuple[str, ...]
    """Acceptable targets, the most specific first."""
    instance: InstanceType
    build_machine: BuildMachine
    spec_hash: str
    locked: LockedArtifact | None
    reason: str
    """Why it must be built; empty if the lock is up to date."""
    reach: BuildPermissions
    """Access that its build needs."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """Recorded choices of `precision: auto`, by model."""

    @property
    def target(self) -> str:
        """The target in short form."""
        return self.targets[-1]

    @property
    def is_kept(self) -> bool:
        """Whether the lock's artifact is kept although the files have changed."""
        locked = self.locked
        return locked is not None and (locked.promoted is not None or locked.is_held(self.spec_hash))

    @property
    def is_rolled_back(self) -> bool:
        """Whether a rollback keeps the lock's artifact, although the files would build another."""
        locked = self.locked
        if locked is None or self.reason:
            return False
        if locked.promoted:
            return locked.rolled_back is not None
        return locked.is_held(self.spec_hash) and locked.spec_hash != self.spec_hash


def needed_artifacts(workspace: Workspace, names: Collection[str] = ()) -> list[NeededArtifact]:
    """Return all artifacts of an environment's endpoints, or those of the named models."""
    _require_served(workspace, names)
    artifacts: dict[tuple[str, tuple[str, ...]], NeededArtifact] = {}
    for endpoint in workspace.spec.endpoints:
        for served in workspace.serves(endpoint):
            targets = workspace.spec.acceptable_targets(served.instance)
            if (names and served.model not in names) or (served.model, targets) in artifacts:
                continue
            needed = _needed(workspace, served.model, targets, served.instance)
            # Naming a model updates it; otherwise promoted and rolled-back artifacts stay.
            stays = not names and needed.is_kept
            artifacts[served.model, targets] = replace(needed, reason="") if stays else needed
    return [artifacts[key] for key in sorted(artifacts)]


def _needed(
    workspace: Workspace, model: str, targets: tuple[str, ...], instance: InstanceType
) -> NeededArtifact:
    locked = workspace.lock.record.find(model, targets)
    return NeededArtifact(
        model=model,
        targets=targets,
        instance=instance,
        # Validation has rejected models without a build machine.
        build_machine=build_machine_for(workspace.spec, instance) or ManualBuild(instance.family.hardware),
        spec_hash=workspace.hashes[model],
        locked=locked,
        reason=_reason(workspace, model, targets, locked),
        reach=permissions_of(model, workspace.models),
        choices=recorded_choices(workspace, model, targets),
    )


def _reason(workspace: Workspace, model: str, targets: tuple[str, ...], locked: LockedArtifact | None) -> str:
    if locked is None:
        return f"never built for {targets[-1]}"
    if locked.spec_hash == workspace.hashes[model]:
        return ""
    changes = list(changed_parts(locked.built_from or {}, workspace.model_hashes[model].parts))
    # Locks of earlier versions do not record the parts.
    return "; ".join(changes) or "model.yaml or its files have changed"


def changed_parts(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """Describe what differs between the recorded parts of two model hashes; nothing if none are recorded."""
    if before:
        yield from (description for part, description in _PARTS.items() if before.get(part) != now.get(part))


def _require_served(workspace: Workspace, names: Collection[str]) -> None:
    served = sorted({item for endpoint in workspace.spec.endpoints.values() for item in endpoint.models})
    for name in names:
        if name not in served:
            raise UnknownNameError(
                f"environment {workspace.spec.name!r} does not serve model {name!r}",
                remedy=suggest(name, served, f"it serves: {', '.join(served)}"),
            )
