"""Compare the files of an environment with what is deployed."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from tritonstack.base import naming
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.files import short_digest
from tritonstack.base.results import Internal, Key, Shown, public
from tritonstack.base.revisions import commit_id, short_commit
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.events import Event
from tritonstack.files.records.locks import (
    Built,
    Figures,
    Lock,
    LockedArtifact,
    Promoted,
    changed_bounds,
    parse_lock,
)
from tritonstack.operate.deploy.cdk_changes import PlannedChange, resource_changes
from tritonstack.operate.deploy.changes import Changes, cdk_diff, leftover_note, plan_stack_changes
from tritonstack.operate.deploy.plans import StackPlan
from tritonstack.operate.deploy.preflight import require_built
from tritonstack.operate.deploy.taken_names import TakenName
from tritonstack.operate.shared.artifacts import missing_copies, model_copies
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.checkout import Checkout
from tritonstack.operate.shared.events import latest_events, latest_of_each
from tritonstack.operate.shared.session import Session
from tritonstack.operate.synth.assembly import Assembly, Template
from tritonstack.operate.synth.synthesis import cdk_of, synthesized

_ARTIFACT = re.compile(r"/models/(?P<model>[^/]+)/(?P<digest>[0-9a-f]{64})/")


def _digest_of(artifact: LockedArtifact) -> str:
    return artifact.digest


@dataclass(frozen=True)
class ArtifactChange:
    """A model whose artifact a deployment adds or replaces."""

    model: str
    target: str
    before: str | None
    """The deployed digest; None if there is none."""
    replaced: Internal[LockedArtifact | None]
    """Its entry in the lock of that deployment, if known."""
    after: Annotated[LockedArtifact, Shown(_digest_of)]

    @public
    def figures_before(self) -> Figures | None:
        """Return the measurements of the deployed artifact, if known."""
        return self.replaced.figures if self.replaced else None

    @public
    def changed_bounds(self) -> list[str]:
        """Return how the accepted bounds differ from those of the deployed artifact, one line per output."""
        return changed_bounds(self.replaced, self.after) if self.replaced else []

    @public
    def summary(self) -> str:
        """Return the change in one line."""
        digests = (
            f"{short_digest(self.before)} → {short_digest(self.after.digest)}"
            if self.before
            else short_digest(self.after.digest)
        )
        come = "" if self.before else ", new"
        parts = [f"{self.model} ({self.target}): {digests}{come}", *self._provenance(), *self._figures()]
        parts += [f"accepted bounds changed: {line}" for line in self.changed_bounds]
        return "; ".join(parts)

    @public
    def figures_after(self) -> Figures | None:
        """Return the measurements of the locked artifact, if known."""
        return self.after.figures

    @public
    def built(self) -> Built | None:
        """Who built the locked artifact, and from which commit."""
        return self.after.built

    @public
    def promoted(self) -> Promoted | None:
        """Who promoted the locked artifact, and from where."""
        return self.after.promoted

    def _provenance(self) -> Iterator[str]:
        if built := self.after.built:
            yield f"built by {built.by} at {_moment(built.at)}{_from(built.commit)}"
        if promoted := self.after.promoted:
            yield f"promoted from {promoted.source} by {promoted.by} at {_moment(promoted.at)}"

    def _figures(self) -> Iterator[str]:
        before, after = self.figures_before or Figures(), self.after.figures or Figures()
        for label, old, new, form in (
            ("cosine", before.min_cosine, after.min_cosine, "{:.6f}"),
            ("absolute error", before.max_absolute_error, after.max_absolute_error, "{:.2e}"),
            ("p99", before.p99_ms, after.p99_ms, "{:.1f} ms"),
        ):
            if new is not None:
                was = f"{form.format(old)} → " if old is not None and old != new else ""
                yield f"{label} {was}{form.format(new)}"


@dataclass(frozen=True)
class ImageChange:
    """A custom image that a deployment adds or replaces."""

    folder: str
    kind: str
    before: str | None
    after: str

    @public
    def summary(self) -> str:
        """Return the change in one line."""
        was = f"{short_digest(self.before)} → " if self.before else ""
        return f"image {self.folder} ({self.kind}): {was}{short_digest(self.after)}"


def artifact_changes(
    workspace: Workspace, before: Lock | None, digests: Mapping[tuple[str, str], str]
) -> list[ArtifactChange]:
    """Return the models whose locked artifact differs from the deployed one. Pure.

    `digests` are the deployed ones, by model and target; `before` is the lock of that deployment, if known.
    """
    changes = {}
    for name in workspace.spec.endpoints:
        for served in workspace.serves(name):
            target = workspace.target_for(served.model, served.instance)
            artifact = workspace.artifact_for(served.model, served.instance)
            if target is None or artifact is None:
                continue
            deployed = digests.get((served.model, target))
            if deployed != artifact.digest:
                old = before.find(served.model, [target]) if before else None
                replaced = old if old is not None and old.digest == deployed else None
                changes[served.model, target] = ArtifactChange(
                    served.model, target, deployed, replaced, artifact
                )
    return [changes[key] for key in sorted(changes)]


def image_changes(workspace: Workspace, before: Lock | None) -> list[ImageChange]:
    """Return the custom images that differ from an earlier lock. Pure."""
    changes = set()
    for name, endpoint in workspace.spec.endpoints.items():
        for variant in endpoint.variants:
            locked = workspace.image_for(name, variant.instance)
            if locked is None:
                continue
            kind = "gpu" if variant.instance.gpus else "cpu"
            kinds = before.images.get(str(endpoint.image), {}) if before else {}
            old = next((image.digest for key, image in kinds.items() if key == kind), None)
            if before is not None and old != locked.digest:
                changes.add(ImageChange(str(endpoint.image), kind, old, locked.digest))
    return sorted(changes, key=lambda change: (change.folder, change.kind))


def deployed_digests(
    workspace: Workspace, latest: Mapping[str, Event], templates: Mapping[str, Template]
) -> dict[tuple[str, str], str]:
    """Return the deployed digests, by model and target. Pure.

    They come from the deployed templates; for multi-model endpoints, whose templates name no models, from the
    last deployment events.
    """
    digests = {
        (item.model, item.target): item.digest
        for event in sorted(latest.values(), key=lambda event: event.at)
        for item in event.artifacts
    }
    for name, template in templates.items():
        named: dict[str, set[str]] = defaultdict(set)
        for match in _ARTIFACT.finditer(json.dumps(template)):
            named[match["model"]].add(match["digest"])
        for served in workspace.serves(name):
            target = workspace.target_for(served.model, served.instance)
            # For a model on two machine types, the template does not show the target of each digest.
            if target and len(named[served.model]) == 1:
                (digests[served.model, target],) = named[served.model]
    return digests


def deployed_lock(workspace: Workspace, latest: Mapping[str, Event]) -> Lock | None:
    """Return the lock of the last deployed commit from git; None if unknown."""
    last = max(latest.values(), key=lambda event: event.at, default=None)
    if last is None or last.commit is None:
        return None
    file = workspace.lock.file
    text = Checkout(workspace.project.root).file_at(commit_id(last.commit), file)
    if text is None:
        return None
    try:
        return parse_lock(text, file).record
    except InvalidFilesError:
        return None  # written by another version; not comparable


def _from(commit: str | None) -> str:
    return f" from commit {short_commit(commit)}" if commit else ""


def _moment(at: str) -> str:
    return f"{at[:10]} {at[11:16]}"


@dataclass(frozen=True)
class StackOutlook(StackPlan):
    """The plan of a stack, with the resources that it replaces or deletes."""

    resources: tuple[PlannedChange, ...] = ()
    taken_names: tuple[TakenName, ...] = ()
    """New resources whose names are taken."""


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines)


@dataclass(frozen=True)
class DeployOutlook:
    """What a deploy would change."""

    workspace: Internal[Workspace]
    changes: Internal[Changes]
    resource_changes: Internal[Mapping[str, Sequence[PlannedChange]]]
    model_prefixes: Mapping[str, Sequence[str]]
    """Endpoint -> the models that a deploy copies to its model prefix."""
    artifacts: Annotated[Sequence[ArtifactChange], Key("models")]
    images: Sequence[ImageChange]
    cdk_lines: Annotated[Sequence[str], Shown(_joined), Key("diff")]
    since: str | None = None
    """The commit it compares with; None if it compares with what is deployed."""

    @public
    def rejected(self) -> bool:
        """True if SageMaker or CloudFormation would reject the deploy."""
        is_rejected = bool(self.changes.rejected or self.changes.taken)
        return is_rejected or any(change.rejected for change in self._all_resource_changes)

    @property
    def changes_nothing(self) -> bool:
        """True if a deploy would change nothing."""
        plans = all(plan.action == "nothing" for plan in self.changes.plans)
        return plans and not self.model_prefixes

    @property
    def model_lines(self) -> list[str]:
        """The changes of models and images, one per line."""
        return [*(change.summary for change in self.artifacts), *(change.summary for change in self.images)]

    @property
    def leftover_lines(self) -> list[str]:
        """The stacks that are no longer requested, one line per stack."""
        if self.since:
            note = f"exists at {short_commit(self.since)}, but is no longer requested; a deploy keeps it"
            return [f"{stack}: {note}" for stack in self.changes.leftovers]
        return [f"{stack}: {leftover_note(stack)}" for stack in self.changes.leftovers]

    def taken_by(self, stack: str) -> list[TakenName]:
        """Return the resources of a stack whose names are taken."""
        return [conflict for conflict in self.changes.taken if conflict.stack == stack]

    @property
    def _all_resource_changes(self) -> list[PlannedChange]:
        return [change for changes in self.resource_changes.values() for change in changes]

    @public
    def environment(self) -> str:
        """The name of the environment."""
        return self.workspace.spec.name

    @public
    def stacks(self) -> list[StackOutlook]:
        """What the deploy does to each stack."""
        return [
            StackOutlook(
                **vars(plan),
                resources=tuple(self.resource_changes.get(plan.stack, ())),
                taken_names=tuple(self.taken_by(plan.stack)),
            )
            for plan in self.changes.plans
        ]

    @public
    def leftovers(self) -> Sequence[str]:
        """Stacks that are deployed, but no longer requested."""
        return self.changes.leftovers


def diff(session: Session, environment: str, *, instance: str | None = None) -> DeployOutlook:
    """Return what a deploy of an environment, or of an instance of a template, would change."""
    workspace = session.workspace(environment, instance)
    require_built(workspace)
    cloud = session.cloud(workspace.spec)
    cdk = cdk_of(workspace, cloud)
    with (
        synthesized(session, workspace, cdk) as assembly,
        session.reporter.step("comparing with what is deployed"),
    ):
        return plan_deploy(workspace, cloud, assembly, cdk_diff(cdk, assembly))


def plan_deploy(
    workspace: Workspace, cloud: Cloud, assembly: Assembly, cdk_lines: Sequence[str]
) -> DeployOutlook:
    """Compare the templates and the lock with what is deployed."""
    spec = workspace.spec
    changes = plan_stack_changes(cloud, spec.base, assembly)
    templates = {stack: assembly.template(stack) for stack in assembly.stacks}
    latest = latest_of_each(latest_events(cloud, spec.artifact_bucket, "deployed"), spec.endpoints)
    before = deployed_lock(workspace, latest)
    deployed = {
        name: changes.deployed[stack]
        for name in spec.endpoints
        if (stack := naming.endpoint_stack_name(spec.base, name)) in changes.deployed
    }
    return DeployOutlook(
        workspace=workspace,
        changes=changes,
        resource_changes=resource_changes(cdk_lines, changes.deployed, templates),
        model_prefixes=_missing_models(workspace, cloud),
        artifacts=artifact_changes(workspace, before, deployed_digests(workspace, latest, deployed)),
        images=image_changes(workspace, before),
        cdk_lines=cdk_lines,
    )


def _missing_models(workspace: Workspace, cloud: Cloud) -> Mapping[str, list[str]]:
    """Return the models that a deploy copies to the prefix of each multi-model endpoint."""
    bucket, copies = workspace.spec.artifact_bucket, model_copies(workspace)
    missing: dict[str, list[str]] = defaultdict(list)
    for copy in missing_copies(cloud, bucket=bucket, copies=copies):
        missing[copy.endpoint].append(copy.model)
    return missing
