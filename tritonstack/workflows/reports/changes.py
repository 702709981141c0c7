"""Compare environments with what is deployed, which synthesizes the stacks."""

from __future__ import annotations

from dataclasses import dataclass, field

from tritonstack.operations.verification.status import EnvironmentStatus
from tritonstack.project.workspace import Workspace
from tritonstack.workflows.deployment.diff import DeployOutlook, diff
from tritonstack.workflows.reports.report_data import DeployChanges, Gaps
from tritonstack.workflows.session import Session


@dataclass
class ChangeReader:
    """Reads what a deploy would change, again only if the files or the last deployment have changed."""

    _comparisons: dict[str, tuple[object, DeployChanges | None, Gaps]] = field(default_factory=dict)

    def read(
        self, session: Session, workspace: Workspace, status: EnvironmentStatus, gaps: Gaps
    ) -> DeployChanges | None:
        """Return what a deploy of an environment would change; None if that is missing."""
        name = workspace.spec.name
        deployed = [
            (endpoint.status, endpoint.deployed and endpoint.deployed.key) for endpoint in status.endpoints
        ]
        state = (workspace.spec, workspace.lock.record, dict(workspace.hashes), deployed)
        if name not in self._comparisons or self._comparisons[name][0] != state:
            missing = Gaps()
            changes = missing.attempt(f"changes by a deploy of {name}", lambda: _changes(diff(session, name)))
            self._comparisons[name] = state, changes, missing
        _, changes, missing = self._comparisons[name]
        gaps += missing
        return changes


def _changes(outlook: DeployOutlook) -> DeployChanges:
    stacks = []
    for plan in outlook.changes.plans:
        planned = [change for change in outlook.resource_changes.get(plan.stack, ()) if not change.expected]
        taken = [change.summary for change in outlook.taken_by(plan.stack)]
        if plan.action != "nothing" or taken:
            details = (*taken, *plan.details, *(change.summary for change in planned))
            stacks.append((plan.summary, details))
    copied = [f"{name}: {', '.join(models)}" for name, models in outlook.model_prefixes.items()]
    others = (*outlook.leftover_lines, *(f"copied to the model prefix of {line}" for line in copied))
    return DeployChanges(tuple(outlook.model_lines), tuple(stacks), others, outlook.rejected)
