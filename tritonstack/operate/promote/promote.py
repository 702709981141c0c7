"""Promote artifacts and images from one environment to the next, by digest."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tritonstack.base import naming
from tritonstack.base.error_kinds import CommandLineError, PromotionRejectedError, UnknownNameError
from tritonstack.base.errors import InvalidFilesError, TritonstackError, UsageError, shown_path
from tritonstack.files.environment.promotion import PromotionSpec
from tritonstack.files.loading import ProjectFiles
from tritonstack.files.project.names import environment_names, template_names
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.lock_writing import LockChange, LockChangedError, lock_text, replace_entries
from tritonstack.files.records.locks import Lock, Promoted, load_lock
from tritonstack.operate.artifacts.copying import (
    EnvironmentAccess,
    bytes_to_copy,
    copy_all,
    has_bucket,
    lacking,
)
from tritonstack.operate.deploy.bootstrap import bootstrap_account, lacks_bootstrap
from tritonstack.operate.deploy.changes import DEPLOY_OPTIONS
from tritonstack.operate.locks.retention import unmark_superseded
from tritonstack.operate.promote.candidates import gate_results
from tritonstack.operate.promote.gates import GATES, Gate, GateResult, override, override_note
from tritonstack.operate.promote.plans import (
    CHANGES,
    Decision,
    as_promoted,
    decide,
    lock_after,
    promoted_event,
    require_source,
    unrecorded,
)
from tritonstack.operate.promote.results import Promotion, PromotionFacts, PromotionPlan
from tritonstack.operate.shared.checkout import Checkout
from tritonstack.operate.shared.events import now, read_events, record_event
from tritonstack.operate.shared.revisions import change_revision_of
from tritonstack.operate.shared.session import Session
from tritonstack.operate.synth.synthesis import cdk_of, synthesized

# The order makes a promotion resumable: the lock names only what is in the bucket, events only what is
# locked.


def deploy_foundation(session: Session, target: EnvironmentAccess, *, bootstrap: bool) -> None:
    """Deploy the foundation of the target, which holds its bucket, if it is missing."""
    spec = target.workspace.spec
    with session.reporter.step(f"looking for the bucket of {spec.name}"):
        if has_bucket(target):
            return
        unprepared = lacks_bootstrap(target.cloud, spec.bootstrap, allowed=bootstrap)
    stack = naming.foundation_stack_name(spec.base)
    cdk = cdk_of(target.workspace, target.cloud)
    with synthesized(session, target.workspace, cdk, stack) as assembly:
        if unprepared:
            bootstrap_account(session, cdk, spec.bootstrap, assembly)
        with session.reporter.step(f"deploying {stack}, which creates the bucket of {spec.name}") as step:
            cdk.run("deploy", stack, *DEPLOY_OPTIONS, assembly=assembly.folder, on_line=step.update)


def lock_all(target: EnvironmentAccess, items: Sequence[LockChange], promoted: Promoted) -> None:
    """Write entries to the lock of the target, then record their events.

    If another process of this checkout has just promoted the same artifacts, its entries and events stay.
    """
    artifacts = [(item.name, item.entry.digest) for item in items if not item.is_image]
    unmark_superseded(target.cloud, target.bucket, artifacts)
    lock = _write_lock(target.workspace, items, promoted)
    for item in items:
        entry = lock.entry(item.name, item.key, image=item.is_image)
        if entry and entry.promoted:
            event = promoted_event(target.workspace, item, entry.promoted)
            record_event(target.cloud, target.bucket, event)


def _write_lock(target: Workspace, items: Sequence[LockChange], promoted: Promoted) -> Lock:
    """Write the entries, unless another process has just promoted the same; return the lock."""
    try:
        replace_entries(
            target.lock.file, [replace(item, entry=as_promoted(item, promoted)) for item in items]
        )
    except LockChangedError:
        lock = load_lock(target.lock.file).record
        if not all(_is_promoted(lock, item, promoted.source) for item in items):
            raise
        return lock
    return lock_after(target, items, promoted)


def _is_promoted(lock: Lock, item: LockChange, source: str) -> bool:
    """Return whether a lock has an entry as this promotion writes it, whoever promoted it and when."""
    entry = lock.entry(item.name, item.key, image=item.is_image)
    if entry is None or entry.promoted is None or entry.promoted.source != source:
        return False
    return entry == as_promoted(item, entry.promoted)


class GatesFailedError(TritonstackError):
    """A gate of the target environment does not allow the promotion yet. The message lists each failed gate
    and how to pass it. Nothing was changed.
    """

    code = "TS417"
    title = "Promotion gate failed"


@dataclass(frozen=True)
class PromotionRequest:
    """What to promote, and from where to where."""

    source: str
    target: str
    models: Sequence[str] = ()
    """All that the target serves by default."""
    overrides: Mapping[Gate, str] = field(default_factory=dict)
    """Gates to pass even if they fail, with the reason, which is kept with the promotion."""
    source_profile: str | None = None
    """AWS profile for the account of the source."""
    target_profile: str | None = None
    """AWS profile for the account of the target."""


def parse_overrides(options: Sequence[str]) -> dict[Gate, str]:
    """Parse `<gate>=<reason>`."""
    overrides: dict[Gate, str] = {}
    for text in options:
        name, _, reason = text.partition("=")
        gate = next((gate for gate in GATES if gate == name.strip()), None)
        if gate is None:
            raise UnknownNameError(
                f"unknown gate {name.strip()!r}", remedy=f"available gates: {', '.join(GATES)}"
            )
        if not reason.strip():
            raise CommandLineError(
                f"no reason given for overriding gate {gate}",
                remedy=f'pass --override-gate {gate}="<reason>"; the reason is recorded with the promotion',
            )
        overrides[gate] = " ".join(reason.split())
    return overrides


def plan_promotion(session: Session, request: PromotionRequest) -> PromotionPlan:
    """Return what a promotion would copy and change, and which gates fail. Changes nothing."""
    return _open(session, request).plan()


def promote(session: Session, request: PromotionRequest, *, bootstrap: bool = False) -> Promotion:
    """Copy artifacts and images to the target and write its lock; nothing is deployed.

    Raises GatesFailedError if a gate fails. An interrupted promotion resumes when it is called again.
    """
    return _open(session, request).apply(bootstrap=bootstrap)


def promotion_targets(session: Session, source: str) -> list[str]:
    """Return the environments that artifacts of an environment are promoted to; skip those with errors."""
    files, targets = ProjectFiles(session.project), []
    for name in files.environment_names:
        with contextlib.suppress(InvalidFilesError):
            promotion = files.workspace(name).spec.promotion
            targets += [name] if promotion is not None and promotion.source == source else []
    return targets


def _open(session: Session, request: PromotionRequest) -> _Promoter:
    _require_environments(session, request.source, request.target)
    files = ProjectFiles(session.project)
    source_workspace, target_workspace = files.workspace(request.source), files.workspace(request.target)
    gates = require_source(source_workspace, target_workspace)
    decision = decide(source_workspace, target_workspace, request.models)
    decision.require_possible()
    target = EnvironmentAccess(
        target_workspace, session.cloud(target_workspace.spec, profile=request.target_profile)
    )
    with session.reporter.step(f"reading the artifacts of {request.target}"):
        missing = tuple(lacking(target, [*decision.entries, *decision.same]))
    source = None
    if decision.entries or missing:
        cloud = session.cloud_to_read(
            source_workspace.spec,
            beside=target_workspace.spec,
            cloud=target.cloud,
            profile=request.source_profile,
        )
        source = EnvironmentAccess(source_workspace, cloud)
    return _Promoter(session, gates, decision, request.overrides, target, missing, source, request.models)


@dataclass(frozen=True)
class _Promoter:
    session: Session
    gates: PromotionSpec
    decision: Decision
    overrides: Mapping[Gate, str]
    target: EnvironmentAccess
    missing: tuple[LockChange, ...]
    source: EnvironmentAccess | None
    """None if nothing has to be read from the source."""
    models: Sequence[str]

    def plan(self) -> PromotionPlan:
        """Plan the promotion."""
        gates = self._evaluate_gates()
        with self.session.reporter.step("measuring what would be copied"):
            sizes = [
                (item, bytes_to_copy(self.source, self.target, item)) for item in self.missing if self.source
            ]
            needs_foundation = not has_bucket(self.target)
        return PromotionPlan(
            **vars(self._facts(gates)),
            sizes=tuple(sizes),
            needs_foundation=needs_foundation,
            lock_diff="\n".join(self._lock_diff(self._promoted(gates))),
            command=" ".join((self.target.workspace.lock_command, *self.models)),
        )

    def apply(self, *, bootstrap: bool) -> Promotion:
        """Copy, lock, and record the promotion."""
        self._require_open(self._evaluate_gates())
        if self.missing or self.decision.entries:
            deploy_foundation(self.session, self.target, bootstrap=bootstrap)
        copied = copy_all(self.session, self.source, self.target, self.missing) if self.source else []
        # Copying can take hours; gates may have closed meanwhile.
        gates = self._evaluate_gates()
        self._require_open(gates)
        with self.session.reporter.step("recording the promotion"):
            if self.decision.entries:
                lock_all(self.target, self.decision.entries, self._promoted(gates))
            self._finish_others()
        return Promotion(**vars(self._facts(gates)), copies=tuple(copied))

    def _facts(self, gates: tuple[GateResult, ...]) -> PromotionFacts:
        target = self.target.workspace
        return PromotionFacts(
            source=self.gates.source,
            target=target.spec.name,
            lock=target.lock.file,
            gates=gates,
            decision=self.decision,
            missing=self.missing,
        )

    def _evaluate_gates(self) -> tuple[GateResult, ...]:
        with self.session.reporter.step(f"checking the promotion gates of {self.target.workspace.spec.name}"):
            results = gate_results(self.gates, self.decision, self.source, self.target.workspace)
            return override(results, self.overrides)

    def _require_open(self, gates: tuple[GateResult, ...]) -> None:
        failed = self._facts(gates).failed
        if failed:
            names = dict.fromkeys(gate.gate for gate in failed)
            overriding = " ".join(f'--override-gate {name}="<reason>"' for name in names)
            raise GatesFailedError(
                "\n".join(map(str, failed)),
                remedy=f"nothing was changed; in an emergency, pass {overriding}; the reason is recorded",
            )

    def _promoted(self, gates: Sequence[GateResult]) -> Promoted:
        sides = [self.target, *([self.source] if self.source else [])]
        revision = change_revision_of(*(side.workspace for side in sides))
        return Promoted(
            source=self.gates.source,
            by=Checkout(self.session.project.root).actor(),
            at=now(),
            commit=revision.text,
            uncommitted=revision.recorded,
            note=override_note(gates),
        )

    def _finish_others(self) -> None:
        """Write the events of promotions that were killed after they wrote the lock."""
        target = self.target
        if self.decision.same and has_bucket(target):
            history = read_events(target.cloud, target.bucket, kinds=CHANGES)
            for event in unrecorded(target.workspace, self.decision.same, history):
                record_event(target.cloud, target.bucket, event)

    def _lock_diff(self, promoted: Promoted) -> list[str]:
        workspace = self.target.workspace
        after = lock_after(workspace, self.decision.entries, promoted)
        before = workspace.lock.record
        if after == before:
            return []
        old, new = (lock_text(lock).splitlines() for lock in (before, after))
        file = shown_path(workspace.lock.file)
        return list(difflib.unified_diff(old, new, file, file, lineterm=""))


def _require_environments(session: Session, *names: str) -> None:
    """Reject templates: their instances have no lock of their own to promote from or into."""
    for name in names:
        if name in template_names(session.project):
            raise UsageError(
                f"{name!r} is a template: its instances use another environment's lock and cannot be "
                "promoted",
                remedy=f"name permanent environments: {', '.join(environment_names(session.project))}",
                code=PromotionRejectedError.code,
            )
