"""What an environment's lock lacks: each artifact that is needed, why it has to be built, and where."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tritonstack.base.documents import closest
from tritonstack.base.errors import UsageError
from tritonstack.project.build_machines import ByHand, Venue, venue_of
from tritonstack.project.files.model_hashes import hash_parts
from tritonstack.project.recorded_choices import recorded_choices
from tritonstack.project.workspace import Workspace
from tritonstack.records.locks import LockedArtifact
from tritonstack.reference.hardware import InstanceType
from tritonstack.spec.models.build_permissions import BuildReach, reach_of

_PARTS = {
    "spec": "model.yaml has changed since",
    "files": "files beside model.yaml have changed since",
    "members": "a model that it is made of has changed since",
    "builder": "the builder makes other artifacts since",
}


@dataclass(frozen=True)
class NeededArtifact:
    """A model for a kind of machine that an endpoint serves it on."""

    model: str
    targets: tuple[str, ...]
    """What an artifact may be built for, the most specific first."""
    instance: InstanceType
    venue: Venue
    spec_hash: str
    locked: LockedArtifact | None
    reason: str
    """Why it has to be built; empty where the lock is up to date."""
    reach: BuildReach
    """What its build reaches for."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """What `precision: auto` chose in earlier builds of the same files, by model."""

    @property
    def target(self) -> str:
        """The kind of machine in one word."""
        return self.targets[-1]

    @property
    def is_kept(self) -> bool:
        """Whether the lock's artifact stays whatever files are now: no build of these makes it again."""
        locked = self.locked
        return locked is not None and (locked.promoted is not None or locked.is_held(self.spec_hash))


def needed_artifacts(workspace: Workspace, names: Collection[str] = ()) -> list[NeededArtifact]:
    """Everything that an environment's endpoints serve, or the models among it that are named."""
    _require_served(workspace, names)
    found: dict[tuple[str, tuple[str, ...]], NeededArtifact] = {}
    for endpoint in workspace.spec.endpoints:
        for served in workspace.serves(endpoint):
            targets = workspace.spec.acceptable_targets(served.instance)
            if (names and served.model not in names) or (served.model, targets) in found:
                continue
            needed = _needed(workspace, served.model, targets, served.instance)
            # Who names a model goes forward with it; otherwise what was promoted or gone back to stays.
            stays = not names and needed.is_kept
            found[served.model, targets] = replace(needed, reason="") if stays else needed
    return [found[key] for key in sorted(found)]


def _needed(
    workspace: Workspace, model: str, targets: tuple[str, ...], instance: InstanceType
) -> NeededArtifact:
    locked = workspace.lock.record.find(model, targets)
    return NeededArtifact(
        model=model,
        targets=targets,
        instance=instance,
        # Validation has refused what nothing builds for.
        venue=venue_of(workspace.spec, instance) or ByHand(instance.family.hardware),
        spec_hash=workspace.hashes[model],
        locked=locked,
        reason=_reason(workspace, model, targets, locked),
        reach=reach_of(model, workspace.models),
        choices=recorded_choices(workspace, model, targets),
    )


def _reason(workspace: Workspace, model: str, targets: tuple[str, ...], locked: LockedArtifact | None) -> str:
    if locked is None:
        return f"never built for {targets[-1]}"
    if locked.spec_hash == workspace.hashes[model]:
        return ""
    changes = list(_changes(locked.built_from or {}, hash_parts(model, workspace.models)))
    # Locks of earlier versions do not say what they were built from.
    return "; ".join(changes) or "model.yaml, or what it names, has changed since"


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    if before:
        yield from (words for part, words in _PARTS.items() if before.get(part) != now.get(part))


def _require_served(workspace: Workspace, names: Collection[str]) -> None:
    served = sorted({item for endpoint in workspace.spec.endpoints.values() for item in endpoint.models})
    for name in names:
        if name not in served:
            suggestion = closest(name, served)
            raise UsageError(
                f"environment {workspace.spec.name!r} serves no model {name!r}",
                remedy=f"did you mean '{suggestion}'?" if suggestion else f"it serves: {', '.join(served)}",
            )
