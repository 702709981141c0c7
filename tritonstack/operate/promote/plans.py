"""Decide from files what a promotion copies from one environment's lock to another's.

An entry of the source qualifies if the target's machines can run it and the target's next deployment accepts
it. An artifact may be older than the model's files in the working tree: what the source has run and verified
is promoted, and `deploy` uses it regardless of later edits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tritonstack.base.error_kinds import PromotionRejectedError
from tritonstack.base.errors import UsageError, shown_path
from tritonstack.files.checks.compatibility import (
    described_gpu,
    described_target,
    environment_violations,
    unbuilt,
)
from tritonstack.files.environment.promotion import PromotionSpec
from tritonstack.files.project.custom_images import OwnImage, endpoint_image, endpoint_images
from tritonstack.files.project.names import require_known
from tritonstack.files.project.workspace import ServedModel, Workspace
from tritonstack.files.records.events import Event, EventKind
from tritonstack.files.records.lock_writing import LockChange
from tritonstack.files.records.locks import Entry, Lock, LockedImage, Promoted
from tritonstack.operate.shared.events import lock_event


@dataclass(frozen=True)
class Obstacle:
    """Why a model or image cannot be promoted, and the remedy."""

    subject: str
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.message}\n  help: {self.remedy}"


@dataclass(frozen=True)
class Decision:
    """The entries to change in the target's lock, and those that stay or cannot be promoted."""

    entries: Sequence[LockChange] = ()
    """Entries to change: artifacts, then images."""
    same: Sequence[LockChange] = ()
    """Entries that the target's lock already has."""
    built_in_target: Sequence[str] = ()
    """Entries that the target built itself because the source has none for its machines."""
    rolled_back: Sequence[LockChange] = ()
    """Entries that were rolled back in the target; naming the model promotes them again."""
    obstacles: Sequence[Obstacle] = ()

    def require_possible(self) -> None:
        """Raise PromotionRejectedError with all obstacles."""
        if self.obstacles:
            *others, last = self.obstacles
            messages = [*map(str, others), f"{last.subject}: {last.message}"]
            raise PromotionRejectedError("\n".join(messages), remedy=f"{last.remedy}; nothing was changed")


def require_source(source: Workspace, target: Workspace) -> PromotionSpec:
    """Reject a source other than the one in the target's file."""
    spec, file = target.spec, shown_path(target.environment.file)
    if spec.name == source.spec.name:
        raise UsageError(
            f"cannot promote {spec.name!r} to itself",
            remedy="name the source environment, then the target",
            code=PromotionRejectedError.code,
        )
    if spec.promotion is None:
        raise UsageError(
            f"{file} has no promotion source for {spec.name!r}",
            remedy=f"add `promotion: {{source: {source.spec.name}}}` and the gates to apply",
            code=PromotionRejectedError.code,
        )
    if spec.promotion.source != source.spec.name:
        raise UsageError(
            f"the promotion source of {spec.name!r} is {spec.promotion.source!r}, not {source.spec.name!r}",
            remedy=f"run `tritonstack promote {spec.promotion.source} {spec.name}`, or change "
            f"`promotion.source` in {file}",
            code=PromotionRejectedError.code,
        )
    return spec.promotion


def decide(source: Workspace, target: Workspace, models: Collection[str] = ()) -> Decision:
    """Decide what to promote: the given models, or all that the target serves."""
    _require_served(target, models)
    items = [*_artifacts(source, target, models), *_images(source, target, models)]
    candidates = sorted((item for item in items if isinstance(item, LockChange)), key=_place)
    rolled_back = [item for item in candidates if not models and _is_rolled_back(item)]
    candidates = [item for item in candidates if item not in rolled_back]
    decision = Decision(
        entries=[item for item in candidates if not _is_same(item)],
        same=[item for item in candidates if _is_same(item)],
        built_in_target=sorted({item for item in items if isinstance(item, str)}),
        rolled_back=rolled_back,
        obstacles=sorted(
            (item for item in items if isinstance(item, Obstacle)), key=lambda item: item.subject
        ),
    )
    if decision.obstacles:
        return decision
    return replace(decision, obstacles=list(_rejected_by_deploy(source, target, decision)))


def as_promoted(item: LockChange, promoted: Promoted) -> Entry:
    """Return the entry for the target's lock; rollbacks in the source are irrelevant there."""
    return item.entry.model_copy(update={"promoted": promoted, "rolled_back": None})


def lock_after(target: Workspace, items: Iterable[LockChange], promoted: Promoted) -> Lock:
    """Return the target's lock with the promoted entries."""
    lock = target.lock.record
    for item in items:
        lock = lock.with_entry(item.name, item.key, as_promoted(item, promoted))
    return lock


def _require_served(target: Workspace, models: Collection[str]) -> None:
    served = sorted({model for endpoint in target.spec.endpoints.values() for model in endpoint.models})
    for model in models:
        require_known(model, served, f"{target.spec.name!r} does not serve model", heading="it serves")


def _artifacts(
    source: Workspace, target: Workspace, models: Collection[str]
) -> Iterator[LockChange | Obstacle | str]:
    bindings = {
        (served.model, served.instance.name): served
        for name in target.spec.endpoints
        for served in target.serves(name)
        if not models or served.model in models
    }
    pairs = set[object]()
    for served in bindings.values():
        decided = _artifact(source, target, served, named=served.model in models)
        mark = (decided.name, decided.key) if isinstance(decided, LockChange) else decided
        if mark not in pairs:
            pairs.add(mark)
            yield decided


def _artifact(
    source: Workspace, target: Workspace, served: ServedModel, *, named: bool
) -> LockChange | Obstacle | str:
    targets = target.spec.acceptable_targets(served.instance)
    key = source.lock.record.find_target(served.model, targets)
    if key is None:
        current = target.artifact_for(served.model, served.instance)
        if (
            current
            and not current.promoted
            and current.spec_hash == target.hashes[served.model]
            and not named
        ):
            return served.model
        return _unfit(source, target, served, targets)
    entry = source.lock.record.models[served.model][key]
    return LockChange.of(target.lock.record, served.model, key, entry)


def _unfit(source: Workspace, target: Workspace, served: ServedModel, targets: Sequence[str]) -> Obstacle:
    """Explain which capability of the target's machine no artifact of the source supports."""
    built = sorted(source.lock.record.models.get(served.model, {}))
    available = "; ".join(f"{key}, which is for {described_target(key)}" for key in built) or "none"
    return Obstacle(
        served.model,
        f"{target.spec.name} runs it on {served.instance.name} ({described_gpu(served.instance)}) under "
        f"Triton {target.spec.triton_release}, which requires {' or '.join(reversed(targets))}; "
        f"{source.lock.file.name} has {available}",
        f"build it for {target.spec.name}: `tritonstack build {target.spec.name} {served.model}`",
    )


def _images(
    source: Workspace, target: Workspace, models: Collection[str]
) -> Iterator[LockChange | Obstacle | str]:
    folders = {
        endpoint.image
        for endpoint in target.spec.endpoints.values()
        if not models or set(models) & set(endpoint.models)
    }
    for image in endpoint_images(target.project, target.spec):
        if image.folder in folders:
            yield _image(source, target, image)


def _image(source: Workspace, target: Workspace, image: OwnImage) -> LockChange | Obstacle | str:
    """Decide about one image; it keeps its tag in the target."""
    release = source.spec.triton_release
    locked = source.lock.record.images.get(image.folder, {}).get(image.kind)
    before = target.lock.record.images.get(image.folder, {}).get(image.kind)
    subject = f"image {image.folder} for {image.kind}"
    if locked is None or release != target.spec.triton_release:
        if before and not before.promoted and before.tag == image.tag:
            return subject
        available = "none" if locked is None else f"one based on Triton {release}"
        return Obstacle(
            subject,
            f"{target.spec.name} requires one based on Triton {target.spec.triton_release}; "
            f"{source.lock.file.name} has {available}",
            f"build it for {target.spec.name}: `tritonstack build {target.spec.name}`",
        )
    target_image = endpoint_image(source.project, source.spec, image.folder, gpu=image.kind == "gpu")
    # The tag depends on the region. An image that was built from older files keeps its tag.
    tag = image.tag if locked.tag == target_image.tag else locked.tag
    return LockChange.of(target.lock.record, image.folder, image.kind, locked.model_copy(update={"tag": tag}))


def _rejected_by_deploy(source: Workspace, target: Workspace, decision: Decision) -> Iterator[Obstacle]:
    """Yield what a deployment of the target would reject after the promotion."""
    if not decision.entries:
        return
    promoted = Promoted(source=source.spec.name, by="", at="2000-01-01T00:00:00Z")
    changed = lock_after(target, decision.entries, promoted)
    after = replace(target, lock=replace(target.lock, record=changed))
    before = set(unbuilt(target))
    violations = [
        *(
            violation
            for name in target.spec.endpoints
            for violation in environment_violations(after, name, after.model_hashes)
        ),
        *(violation for violation in unbuilt(after) if violation not in before),
    ]
    for violation in dict.fromkeys(violations):
        yield Obstacle(
            f"{target.spec.name} with the artifacts of {source.spec.name}",
            violation.message,
            violation.remedy or f"build it for {target.spec.name}",
        )


def _is_same(item: LockChange) -> bool:
    """Return whether the target has it already, promoted or from a build of its own."""
    if item.seen is None or item.seen.digest != item.entry.digest or item.conflicting:
        return False
    if item.seen.promoted is None and item.seen.built == item.entry.built:
        return False  # the source's entry, copied by hand: it has passed no gate
    return not isinstance(item.entry, LockedImage) or getattr(item.seen, "tag", None) == item.entry.tag


def _is_rolled_back(item: LockChange) -> bool:
    back = item.seen.rolled_back if item.seen else None
    return back is not None and back.instead_of == item.entry.digest


def _place(item: LockChange) -> tuple[bool, str, str]:
    return isinstance(item.entry, LockedImage), item.name, item.key


# The event is derived from the lock's entry alone. So a run after a killed promotion writes the same event
# under the same key.


CHANGES: tuple[EventKind, ...] = ("built", "promoted", "rolled-back")
"""Events that change a lock."""


def promoted_event(target: Workspace, item: LockChange, promoted: Promoted) -> Event:
    """Return the event of one entry's promotion."""
    return lock_event(
        "promoted",
        target,
        promoted,
        endpoints=_endpoints(target, item),
        entries=[(item.name, item.key, item.entry)],
        note="; ".join(filter(None, (f"from {promoted.source}", promoted.note))),
    )


def unrecorded(target: Workspace, items: Iterable[LockChange], history: Sequence[Event]) -> Iterator[Event]:
    """Yield the events of promotions that the lock has but the bucket does not."""
    for item in items:
        promoted = item.seen.promoted if item.seen else None
        if promoted is None:
            continue
        event = promoted_event(target, item, promoted)
        if not any(_records_promotion(past, event) for past in history) and not _is_outdated(history, event):
            yield event


def _records_promotion(past: Event, event: Event) -> bool:
    """Return whether an event records that promotion; its endpoints may have differed then."""
    same = past.artifacts == event.artifacts and past.images == event.images
    return past.kind == "promoted" and past.at == event.at and same


def _is_outdated(history: Sequence[Event], event: Event) -> bool:
    """Return whether the entry has changed since; then the lock is outdated."""
    entries = _entries(event)
    return any(past.kind in CHANGES and past.at > event.at and entries & _entries(past) for past in history)


def _entries(event: Event) -> set[tuple[str, str]]:
    """Return the positions of an event's lock entries."""
    images = {(f"images-{image.folder}", image.kind) for image in event.images}
    return {(artifact.model, artifact.target) for artifact in event.artifacts} | images


def _endpoints(target: Workspace, item: LockChange) -> Iterator[str]:
    for name, endpoint in sorted(target.spec.endpoints.items()):
        if name in endpoints_running(target, item) if item.is_image else item.name in endpoint.models:
            yield name


def endpoints_running(workspace: Workspace, image: LockChange) -> frozenset[str]:
    """Return the endpoints that run a custom image."""
    return frozenset(
        name
        for name, endpoint in workspace.spec.endpoints.items()
        for variant in endpoint.variants
        if endpoint.image == image.name and ("gpu" if variant.instance.gpus else "cpu") == image.key
    )
