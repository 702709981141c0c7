"""Compare the files of an environment with what is deployed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tritonstack.base import naming
from tritonstack.base.revisions import short_commit
from tritonstack.operations.aws import Cloud
from tritonstack.operations.deploying.assembly import Assembly
from tritonstack.operations.deploying.cdk_changes import PlannedChange, resource_changes
from tritonstack.operations.deploying.changes import Changes, cdk_diff, leftover_note, plan_stack_changes
from tritonstack.operations.deploying.lock_changes import (
    ArtifactChange,
    ImageChange,
    artifact_changes,
    deployed_digests,
    deployed_lock,
    image_changes,
)
from tritonstack.operations.deploying.plans import StackPlan
from tritonstack.operations.deploying.taken_names import TakenName
from tritonstack.operations.events import latest_events, latest_of_each
from tritonstack.operations.model_prefix import missing_copies, model_copies
from tritonstack.project.workspace import Workspace
from tritonstack.workflows.deployment.synthesis import cdk_of, synthesized
from tritonstack.workflows.environments.requirements import require_built
from tritonstack.workflows.session import Session

__all__ = ["ArtifactChange", "DeployOutlook", "PlannedChange", "StackPlan", "diff", "plan_deploy"]


@dataclass(frozen=True)
class DeployOutlook:
    """What a deploy would change."""

    workspace: Workspace
    changes: Changes
    resource_changes: Mapping[str, Sequence[PlannedChange]]
    model_prefixes: Mapping[str, Sequence[str]]
    """Endpoint -> the models that a deploy copies to its model prefix."""
    artifacts: Sequence[ArtifactChange]
    images: Sequence[ImageChange]
    cdk_lines: Sequence[str]
    since: str | None = None
    """The commit it compares with; None if it compares with what is deployed."""

    @property
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
    def models(self) -> list[str]:
        """The changes of models and images, one per line."""
        return [
            *(change.description for change in self.artifacts),
            *(change.description for change in self.images),
        ]

    @property
    def leftovers(self) -> list[str]:
        """The stacks that are no longer requested, one line per stack."""
        if self.since:
            note = f"exists at {short_commit(self.since)}, but is no longer requested; a deploy keeps it"
            return [f"{stack}: {note}" for stack in self.changes.leftovers]
        return [f"{stack}: {leftover_note(stack)}" for stack in self.changes.leftovers]

    def taken_by(self, stack: str) -> list[TakenName]:
        """Return the resources of a stack whose names are taken."""
        return [one for one in self.changes.taken if one.stack == stack]

    @property
    def _all_resource_changes(self) -> list[PlannedChange]:
        return [change for changes in self.resource_changes.values() for change in changes]

    def to_json(self) -> dict[str, Any]:
        """Return the outlook as JSON data."""
        return {
            "environment": self.workspace.spec.name,
            "since": self.since,
            "stacks": [
                plan.to_json()
                | {
                    "resources": [planned.to_json() for planned in self.resource_changes.get(plan.stack, ())],
                    "taken_names": [one.to_json() for one in self.taken_by(plan.stack)],
                }
                for plan in self.changes.plans
            ],
            "models": [change.to_json() for change in self.artifacts],
            "images": [change.to_json() for change in self.images],
            "model_prefixes": dict(self.model_prefixes),
            "leftovers": list(self.changes.leftovers),
            "rejected": self.rejected,
            "diff": "\n".join(self.cdk_lines),
        }


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
