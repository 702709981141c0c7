"""Find what an endpoint served in earlier locks and its rollback target, from git only.

Read-only. rollback.py next to this file decides the effects on other endpoints and on the lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tritonstack.base.errors import InvalidFilesError, TritonstackError, shown_path
from tritonstack.base.files import short_digest
from tritonstack.base.revisions import short_commit
from tritonstack.files.project.custom_images import endpoint_image
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.lock_writing import LockChange
from tritonstack.files.records.locks import Entry, Lock, RolledBack, parse_lock
from tritonstack.operate.locks.versions import LockHistory, LockVersion
from tritonstack.operate.shared.checkout import CheckoutError


class RollbackError(TritonstackError):
    """There is nothing to roll back to: the name is unknown or ambiguous, the endpoint already serves it, or
    its lock or artifact is gone; choose another commit or digest with `--to`. Or `verify` found that the
    endpoint does not run what the lock requests; fix the listed errors, and rerun.
    """

    code = "TS421"
    title = "Rollback failed"


@dataclass(frozen=True)
class Slot:
    """One model or image of an endpoint."""

    name: str
    """A model, or a folder of containers/."""
    keys: tuple[str, ...]
    """Acceptable targets, best first; for images, the machine type."""
    image: bool = False

    def find(self, lock: Lock) -> SlotEntry | None:
        """Return the lock's entry for the slot."""
        entries = ((key, lock.entry(self.name, key, image=self.image)) for key in self.keys)
        return next((SlotEntry(key, entry) for key, entry in entries if entry), None)


@dataclass(frozen=True)
class SlotEntry:
    """The entry of a slot."""

    key: str
    entry: Entry


@dataclass(frozen=True)
class RollbackStep:
    """An entry to roll back, from `now` to `then`."""

    slot: Slot
    now: SlotEntry
    then: SlotEntry

    @property
    def description(self) -> str:
        """The current and the target entry."""
        built = self.then.entry.built
        origin = f", built by {built.by} at {built.at}" if built else ""
        return (
            f"{self.slot.name} for {self.then.key}: {short_digest(self.now.entry.digest)} -> "
            f"{short_digest(self.then.entry.digest)}{origin}"
        )


State = Mapping[Slot, SlotEntry | None]
"""What an endpoint serves according to a lock."""


def state_by(lock: Lock, workspace: Workspace, endpoint: str) -> State:
    """Return what an endpoint serves according to a lock and the current environment file."""
    return {slot: slot.find(lock) for slot in _slots(workspace, endpoint)}


def _slots(workspace: Workspace, endpoint: str) -> Iterator[Slot]:
    spec = workspace.spec.endpoints[endpoint]
    for served in workspace.serves(endpoint):
        yield Slot(served.model, tuple(workspace.spec.acceptable_targets(served.instance)))
    if spec.image is not None:
        for variant in spec.variants:
            yield Slot(spec.image, ("gpu" if variant.instance.gpus else "cpu",), image=True)


def _changes(now: State, then: State) -> list[RollbackStep]:
    """Return the steps from `now` back to `then`; models that did not exist yet stay."""
    return [
        RollbackStep(slot, current, earlier)
        for slot, current in now.items()
        if current and (earlier := then.get(slot)) and earlier.entry.digest != current.entry.digest
    ]


def previous_target(
    endpoint: str, history: LockHistory, now: State
) -> tuple[LockVersion, list[RollbackStep]]:
    """Return the latest version in which the endpoint served something else that was not rolled back."""
    rolled_back = _rolled_back_digests(now)
    for version, then in _states(history, now):
        steps = _changes(now, then)
        if steps and not rolled_back & {step.then.entry.digest for step in steps}:
            return version, steps
        rolled_back |= _rolled_back_digests(then)
    raise RollbackError(
        f"no earlier artifacts of endpoint {endpoint!r} in git" + (f": {history.gap}" if history.gap else ""),
        remedy="if the environment's file changed rather than its lock, `git revert` that commit and deploy",
    )


def unfinished_rollback(history: LockHistory, now: State) -> tuple[list[RollbackStep], RolledBack] | None:
    """Return the rollback in the lock, if it is the endpoint's last change.

    The lock has the restored entries already, so its steps end at the argument `now`.
    """
    for _, before in _states(history, now):
        steps = [RollbackStep(step.slot, now=step.then, then=step.now) for step in _changes(now, before)]
        records = [
            record
            for step in steps
            if (record := step.then.entry.rolled_back) and record.instead_of == step.now.entry.digest
        ]
        if steps:
            return (steps, max(records, key=lambda record: record.at)) if len(records) == len(steps) else None
    return None


def _states(history: LockHistory, now: State) -> Iterator[tuple[LockVersion, State]]:
    for version in history.versions:
        if version.lock is None:
            raise RollbackError(
                f"this version cannot read {history.file.name} of {version.description}",
                remedy="specify the rollback target with --to",
            )
        yield version, {slot: slot.find(version.lock) for slot in now}


def _rolled_back_digests(state: State) -> set[str]:
    return {
        current.entry.rolled_back.instead_of
        for current in state.values()
        if current and current.entry.rolled_back
    }


def named_target(endpoint: str, history: LockHistory, now: State, to: str) -> tuple[str, list[RollbackStep]]:
    """Resolve a commit or digest for the endpoint."""
    digests = _matching(history, now, to)
    try:
        commit = history.checkout.resolve(to)
    except CheckoutError:
        commit = None
    if len(digests) + (commit is not None) > 1:
        matching = [
            *(f"digest {short_digest(digest)}" for digest in digests),
            *([f"commit {short_commit(commit)}"] if commit else []),
        ]
        raise RollbackError(f"{to!r} is ambiguous: {', or '.join(matching)}", remedy="use a longer prefix")
    if commit is not None:
        return f"commit {short_commit(commit)}", _changes(now, _state_at(history, now, commit))
    for digest, (version, slot, earlier) in digests.items():  # at most one, or it is ambiguous
        current = now[slot]
        if current is None or current.entry.digest == digest:
            return version.description, []
        return version.description, [RollbackStep(slot, current, earlier)]
    raise RollbackError(
        f"{to!r} is neither a commit nor an artifact digest that endpoint {endpoint!r} has served",
        remedy=f"`git log -- environments/{history.file.name}` lists the commits",
    )


def _matching(history: LockHistory, now: State, to: str) -> dict[str, tuple[LockVersion, Slot, SlotEntry]]:
    """Return the served artifacts with a digest prefix, each with the latest version that names it."""
    matching: dict[str, tuple[LockVersion, Slot, SlotEntry]] = {}
    prefix = to.removeprefix("sha256:")
    for version in history.versions:
        state = {slot: slot.find(version.lock) for slot in now} if version.lock else {}
        for slot, earlier in state.items():
            if earlier and earlier.entry.digest.removeprefix("sha256:").startswith(prefix):
                matching.setdefault(earlier.entry.digest, (version, slot, earlier))
    return matching


def _state_at(history: LockHistory, now: State, commit: str) -> State:
    text = history.checkout.file_at(commit, history.file)
    if text is None:
        raise RollbackError(
            f"commit {short_commit(commit)} has no {history.file.name}",
            remedy="choose a commit that has it: `git log --oneline -- "
            f"{shown_path(history.file)}` lists them",
        )
    try:
        lock = parse_lock(text, history.file).record
    except InvalidFilesError:
        raise RollbackError(
            f"this version cannot read {history.file.name} of commit {short_commit(commit)}",
            remedy="choose a later commit, or roll back with the tritonstack version of that commit",
        ) from None
    return {slot: slot.find(lock) for slot in now}


# Pure. A restored entry records that it was restored and what it replaced. So a rerun can recognize an
# unfinished rollback, and no rollback restores an artifact that was rolled back before.


@dataclass(frozen=True)
class RollbackPlan:
    """The plan of a rollback."""

    endpoint: str
    origin: str
    """The git version of the entries."""
    steps: tuple[RollbackStep, ...]
    concerned: tuple[str, ...]
    """All endpoints that this rollback changes."""
    written: RolledBack | None = None
    """The rollback in the lock, if it is already written and may be incomplete."""

    @property
    def others(self) -> tuple[str, ...]:
        """Return the other endpoints that are rolled back too."""
        return tuple(name for name in self.concerned if name != self.endpoint)


def plan_rollback(
    workspace: Workspace, endpoint: str, history: LockHistory, *, to: str | None = None
) -> RollbackPlan:
    """Plan a rollback to `to`, a commit or digest, or to what the endpoint served before.

    If the last change was an unfinished rollback, return that plan.
    """
    now = state_by(workspace.lock.record, workspace, endpoint)
    if to is not None:
        origin, steps = named_target(endpoint, history, now, to)
        if steps:
            return _plan(workspace, endpoint, origin, steps)
    written = unfinished_rollback(history, now)
    if written is not None:
        steps, back = written
        return _plan(workspace, endpoint, "the lock as already written", steps, written=back)
    if to is not None:
        raise RollbackError(
            f"endpoint {endpoint!r} already serves the artifacts of {to}",
            remedy="choose another commit or digest: `tritonstack history` lists them",
        )
    version, steps = previous_target(endpoint, history, now)
    return _plan(workspace, endpoint, version.description, steps)


def earlier_target(workspace: Workspace, endpoint: str, history: LockHistory) -> str | None:
    """Return the commit of the last version that was not rolled back, if any."""
    now = state_by(workspace.lock.record, workspace, endpoint)
    try:
        version, _ = previous_target(endpoint, history, now)
    except RollbackError:
        return None
    return short_commit(version.commit.id) if version.commit else None


def entries_to_write(workspace: Workspace, plan: RollbackPlan, rolled_back: RolledBack) -> list[LockChange]:
    """Return the changes of the lock; `rolled_back` is the user and time."""
    changes = []
    for step in plan.steps:
        name, key = step.slot.name, step.then.key
        update = {"instead_of": step.now.entry.digest, "as_of": _as_of(workspace, step.slot, key)}
        entry = step.then.entry.model_copy(update={"rolled_back": rolled_back.model_copy(update=update)})
        changes.append(LockChange.of(workspace.lock.record, name, key, entry))
    return changes


def as_planned(workspace: Workspace, plan: RollbackPlan, rolled_back: RolledBack) -> Workspace:
    """Return the workspace after the rollback, for checks."""
    lock = workspace.lock.record
    for change in entries_to_write(workspace, plan, rolled_back):
        lock = lock.with_entry(change.name, change.key, change.entry)
    return replace(workspace, lock=replace(workspace.lock, record=lock))


def _plan(
    workspace: Workspace,
    endpoint: str,
    origin: str,
    steps: Iterable[RollbackStep],
    *,
    written: RolledBack | None = None,
) -> RollbackPlan:
    plan = RollbackPlan(endpoint, origin, tuple(steps), (endpoint,), written)
    places = {(step.slot.name, step.slot.image, step.then.key) for step in plan.steps}
    placeholder = RolledBack(instead_of="", as_of="", by="", at="2000-01-01T00:00:00Z")
    after = workspace if written else as_planned(workspace, plan, placeholder)
    concerned = [
        name
        for name in workspace.spec.endpoints
        for slot, served in state_by(after.lock.record, after, name).items()
        if served and (slot.name, slot.image, served.key) in places
    ]
    return replace(plan, concerned=tuple(dict.fromkeys(concerned)))


def _as_of(workspace: Workspace, slot: Slot, key: str) -> str:
    """Return the digests of the current files' builds."""
    if not slot.image:
        return workspace.hashes[slot.name]
    return endpoint_image(workspace.project, workspace.spec, slot.name, gpu=key == "gpu").tag
