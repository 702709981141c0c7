"""What going back means for an endpoint: which earlier lock, which of its entries, and who else is concerned.

Nothing here calls anybody or writes anything. An entry that was gone back to says so, and what was given up
for it: so one command can tell a rollback that may not be finished from what is to be undone, and never
goes back to what was given up before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from catalog.build_images import endpoint_image
from catalog.errors import InvalidFilesError, TritonstackError
from catalog.locks import (
    ImageKind,
    Lock,
    LockedArtifact,
    LockedEntry,
    LockedImage,
    Replacement,
    RolledBack,
    locked_environment,
    parse_lock,
)
from catalog.targets import acceptable_targets
from catalog.workspace import Workspace
from operations.checkout import CheckoutError
from operations.locks.versions import LockHistory, LockVersion


class RollbackError(TritonstackError):
    """There is nothing to go back to, or no way there."""


@dataclass(frozen=True)
class Slot:
    """What an endpoint looks for in a lock."""

    name: str
    """A model, or a folder of containers/."""
    keys: tuple[str, ...]
    """The targets that will do, the first best; of images their kind of machine alone."""
    image: bool = False

    def find(self, lock: Lock) -> Found | None:
        """What a lock has for it."""
        kinds = lock.images.get(self.name, {}) if self.image else {}
        entries: dict[str, LockedEntry] = dict(kinds.items())
        entries |= {} if self.image else lock.models.get(self.name, {})
        return next((Found(key, entries[key]) for key in self.keys if key in entries), None)


@dataclass(frozen=True)
class Found:
    """What a lock has for a slot."""

    key: str
    entry: LockedEntry


@dataclass(frozen=True)
class Step:
    """An entry that goes back."""

    slot: Slot
    now: Found
    then: Found

    @property
    def words(self) -> str:
        """What goes back to what."""
        made = self.then.entry.built
        origin = f", built by {made.by} at {made.at}" if made else ""
        return (
            f"{self.slot.name} for {self.then.key}: {shown(self.now.entry.digest)} -> "
            f"{shown(self.then.entry.digest)}{origin}"
        )


@dataclass(frozen=True)
class RollbackPlan:
    """What a rollback does."""

    endpoint: str
    origin: str
    """Where in git the entries come from."""
    steps: tuple[Step, ...]
    concerned: tuple[str, ...]
    """All endpoints that serve something else by it, this one among them."""
    written: RolledBack | None = None
    """What the lock says of it, if it has been written already: it may not be finished."""

    @property
    def others(self) -> tuple[str, ...]:
        """The endpoints that go back with it."""
        return tuple(name for name in self.concerned if name != self.endpoint)


def plan_rollback(
    workspace: Workspace, endpoint: str, history: LockHistory, *, to: str | None = None
) -> RollbackPlan:
    """What going back means: to what `to` names, a commit or a digest, or to what the endpoint served before.

    Where the latest that happened to it was a rollback already, the plan is that one.
    """
    now = _state(workspace.lock.record, workspace, endpoint)
    if to is not None:
        origin, steps = _named(endpoint, history, now, to)
        if steps:
            return _plan(workspace, endpoint, origin, steps)
    written = _written(history, now)
    if written is not None:
        steps, back = written
        return _plan(workspace, endpoint, "the lock as it is written already", steps, written=back)
    if to is not None:
        raise RollbackError(f"what the endpoint {endpoint!r} serves by its lock is that of {to} already")
    version, steps = _before(endpoint, history, now)
    return _plan(workspace, endpoint, version.words, steps)


def further_back(workspace: Workspace, endpoint: str, history: LockHistory) -> str | None:
    """The commit of what the endpoint served before all that was given up, if there is one."""
    now = _state(workspace.lock.record, workspace, endpoint)
    try:
        version, _ = _before(endpoint, history, now)
    except RollbackError:
        return None
    return version.commit.id[:12] if version.commit else None


def entries_to_write(
    workspace: Workspace, plan: RollbackPlan, who: RolledBack
) -> tuple[list[Replacement[LockedArtifact]], list[Replacement[LockedImage]]]:
    """The entries that a plan writes, each with what stands there now; `who` says who goes back, and when."""
    artifacts, images = [], []
    for step in plan.steps:
        back = who.model_copy(
            update={"instead_of": step.now.entry.digest, "as_of": _as_of(workspace, step.slot, step.then.key)}
        )
        entry = step.then.entry.model_copy(update={"rolled_back": back})
        seen = Slot(step.slot.name, (step.then.key,), step.slot.image).find(workspace.lock.record)
        if isinstance(entry, LockedArtifact):
            before = seen.entry if seen and isinstance(seen.entry, LockedArtifact) else None
            rivals = workspace.lock.record.rivals(step.slot.name, step.then.key)
            artifacts.append(Replacement(step.slot.name, step.then.key, entry, before, rivals))
        elif isinstance(entry, LockedImage):
            held = seen.entry if seen and isinstance(seen.entry, LockedImage) else None
            images.append(Replacement(step.slot.name, step.then.key, entry, held))
    return artifacts, images


def as_planned(workspace: Workspace, plan: RollbackPlan, who: RolledBack) -> Workspace:
    """The workspace as it will be, for checks before anything is written."""
    lock = workspace.lock.record
    artifacts, images = entries_to_write(workspace, plan, who)
    environment = locked_environment(workspace.lock.file)
    for artifact in artifacts:
        entry = artifact.entry.sealed((environment, artifact.name, artifact.key))
        lock = lock.with_entry(artifact.name, artifact.key, entry)
    for image in images:
        held = image.entry.sealed((environment, image.name, image.key))
        lock = lock.with_image(image.name, _kind(image.key), held)
    return replace(workspace, lock=replace(workspace.lock, record=lock))


def shown(digest: str) -> str:
    """A digest as people compare it."""
    return digest.removeprefix("sha256:")[:12]


_State = Mapping[Slot, Found | None]
"""What an endpoint serves by a lock."""


def _state(lock: Lock, workspace: Workspace, endpoint: str) -> _State:
    return {slot: slot.find(lock) for slot in _slots(workspace, endpoint)}


def _slots(workspace: Workspace, endpoint: str) -> Iterator[Slot]:
    """By the environment's file as it is now."""
    spec = workspace.spec.endpoints[endpoint]
    for served in workspace.serves(endpoint):
        yield Slot(served.model, tuple(acceptable_targets(served.instance, workspace.spec.release)))
    if spec.image is not None:
        for variant in spec.variants:
            yield Slot(spec.image, ("gpu" if variant.instance.gpus else "cpu",), image=True)


def _plan(
    workspace: Workspace,
    endpoint: str,
    origin: str,
    steps: Iterable[Step],
    *,
    written: RolledBack | None = None,
) -> RollbackPlan:
    plan = RollbackPlan(endpoint, origin, tuple(steps), (endpoint,), written)
    _require_untouched(workspace, plan)
    places = {(step.slot.name, step.slot.image, step.then.key) for step in plan.steps}
    nobody = RolledBack(instead_of="", as_of="", by="", at="2000-01-01T00:00:00Z")
    after = workspace if written else as_planned(workspace, plan, nobody)
    concerned = [
        name
        for name in workspace.spec.endpoints
        for slot, found in _state(after.lock.record, after, name).items()
        if found and (slot.name, slot.image, found.key) in places
    ]
    return replace(plan, concerned=tuple(dict.fromkeys(concerned)))


def _require_untouched(workspace: Workspace, plan: RollbackPlan) -> None:
    """What somebody wrote by hand must not get a seal by being gone back to; the first locks had none."""
    environment = locked_environment(workspace.lock.file)
    for step in plan.steps:
        entry, name, key = step.then.entry, step.slot.name, step.then.key
        if entry.seal is not None and not entry.is_sealed((environment, name, key)):
            raise RollbackError(
                f"the entry of {name} for {key} ({shown(entry.digest)}) in {plan.origin} was edited by hand",
                remedy="name another commit or digest with --to",
            )


def _changes(now: _State, then: _State) -> list[Step]:
    """What differs; a model that was not there yet stays as it is."""
    return [
        Step(slot, found, before)
        for slot, found in now.items()
        if found and (before := then.get(slot)) and before.entry.digest != found.entry.digest
    ]


def _before(endpoint: str, history: LockHistory, now: _State) -> tuple[LockVersion, list[Step]]:
    """The latest version in which the endpoint served something else that nobody has given up since."""
    gone = _given_up(now)
    for version, then in _states(history, now):
        steps = _changes(now, then)
        if steps and not gone & {step.then.entry.digest for step in steps}:
            return version, steps
        gone |= _given_up(then)
    gap = history.gap
    raise RollbackError(
        f"git knows nothing else that the endpoint {endpoint!r} served" + (f": {gap}" if gap else ""),
        remedy="where the environment's file has changed instead of its lock, `git revert` that and deploy",
    )


def _written(history: LockHistory, now: _State) -> tuple[list[Step], RolledBack] | None:
    """The rollback that the lock tells of, if nothing has changed for the endpoint since."""
    for _, then in _states(history, now):
        steps = [Step(step.slot, step.then, step.now) for step in _changes(now, then)]
        if not steps:
            continue
        backs = [step.then.entry.rolled_back for step in steps]
        told = [
            back
            for step, back in zip(steps, backs, strict=True)
            if back and back.instead_of == step.now.entry.digest
        ]
        return (steps, max(told, key=lambda back: back.at)) if len(told) == len(steps) else None
    return None


def _states(history: LockHistory, now: _State) -> Iterator[tuple[LockVersion, _State]]:
    for version in history.versions:
        if version.lock is None:
            raise RollbackError(
                f"{history.file.name} of {version.words} cannot be read by this version",
                remedy="name what to go back to with --to",
            )
        yield version, {slot: slot.find(version.lock) for slot in now}


def _given_up(state: _State) -> set[str]:
    return {
        found.entry.rolled_back.instead_of for found in state.values() if found and found.entry.rolled_back
    }


def _named(endpoint: str, history: LockHistory, now: _State, to: str) -> tuple[str, list[Step]]:
    """What a commit or a digest means for the endpoint."""
    digests = _matching(history, now, to)
    try:
        commit = history.checkout.resolve(to)
    except CheckoutError:
        commit = None
    if len(digests) + (commit is not None) > 1:
        meant = [
            *(f"digest {shown(digest)}" for digest in digests),
            *([f"commit {commit[:12]}"] if commit else []),
        ]
        raise RollbackError(f"{to!r} may mean {', or '.join(meant)}", remedy="write more of it")
    if commit is not None:
        return f"commit {commit[:12]}", _changes(now, _state_at(history, now, commit))
    for digest, (version, slot, found) in digests.items():
        held = now[slot]
        steps = [Step(slot, held, found)] if held and held.entry.digest != digest else []
        return version.words, steps
    raise RollbackError(
        f"{to!r} is neither a commit nor the digest of anything that the endpoint {endpoint!r} ever served",
        remedy=f"`git log -- environments/{history.file.name}` lists the commits",
    )


def _matching(history: LockHistory, now: _State, to: str) -> dict[str, tuple[LockVersion, Slot, Found]]:
    """What the endpoint served whose digest begins so, with the latest version that names it."""
    matching: dict[str, tuple[LockVersion, Slot, Found]] = {}
    beginning = to.removeprefix("sha256:")
    for version in history.versions:
        for slot in now if version.lock else ():
            found = slot.find(version.lock or Lock())
            if found and found.entry.digest.removeprefix("sha256:").startswith(beginning):
                matching.setdefault(found.entry.digest, (version, slot, found))
    return matching


def _state_at(history: LockHistory, now: _State, commit: str) -> _State:
    text = history.checkout.file_at(commit, history.file)
    if text is None:
        raise RollbackError(f"commit {commit[:12]} has no {history.file.name}")
    try:
        lock = parse_lock(text, history.file).record
    except InvalidFilesError:
        raise RollbackError(
            f"{history.file.name} of commit {commit[:12]} cannot be read by this version"
        ) from None
    return {slot: slot.find(lock) for slot in now}


def _as_of(workspace: Workspace, slot: Slot, key: str) -> str:
    """What files would be built to now."""
    if not slot.image:
        return workspace.hashes[slot.name]
    return endpoint_image(workspace.project, workspace.spec, slot.name, gpu=key == "gpu").tag


def _kind(key: str) -> ImageKind:
    return "gpu" if key == "gpu" else "cpu"
