"""Compare the files of an environment with what is deployed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from tritonstack.base import naming
from tritonstack.base.results import Internal, Key, Shown, public
from tritonstack.base.revisions import short_commit
from tritonstack.files.project.workspace import Workspace
from tritonstack.operate.deploy.cdk_changes import PlannedChange, resource_changes
from tritonstack.operate.deploy.changes import Changes, cdk_diff, leftover_note, plan_stack_changes
from tritonstack.operate.deploy.plans import StackPlan
from tritonstack.operate.deploy.requirements import require_built
from tritonstack.operate.deploy.taken_names import TakenName
from tritonstack.operate.diff.lock_changes import (
    ArtifactChange,
    ImageChange,
    artifact_changes,
    deployed_digests,
    deployed_lock,
    image_changes,
)
from tritonstack.operate.shared.artifacts import missing_copies, model_copies
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.events import latest_events, latest_of_each
from tritonstack.operate.shared.session import Session
from tritonstack.operate.synth.assembly import Assembly
from tritonstack.operate.synth.synthesis import cdk_of, synthesized

__all__ = ["ArtifactChange", "DeployOutlook", "PlannedChange", "StackPlan", "diff", "plan_deploy"]


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
        return [
            *(change.summary for change in self.artifacts),
            *(change.summary for change in self.images),
        ]

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
