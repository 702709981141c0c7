"""CodePipeline's records: pipelines, and executions with their actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from tritonstack_local.service.tables import Table, Tags

ActionStatus = Literal["InProgress", "Succeeded", "Failed", "Abandoned"]
Status = Literal["InProgress", "Stopping", "Stopped", "Succeeded", "Superseded", "Failed"]
Declaration = Mapping[str, Any]


def now() -> datetime:
    """Return the current time with time zone."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class PipelineRecord:
    """The latest version of a pipeline; the version is in the declaration."""

    name: str
    arn: str
    created: datetime
    updated: datetime
    declaration: Declaration


@dataclass(frozen=True)
class ActionRun:
    """The state of one action in one execution."""

    id: str
    started: datetime
    updated: datetime
    status: ActionStatus = "InProgress"
    summary: str = ""
    external_id: str = ""
    """Id of the build or change set that does the work."""
    token: str = ""
    """The token of an approval."""
    code: str = ""
    message: str = ""
    artifacts: Mapping[str, str] = field(default_factory=dict)
    """Output artifacts: keys in the artifact store by name."""
    revision: str = ""
    """The resolved source version."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables for later actions, in its namespace."""

    def changed(self, **changes: Any) -> ActionRun:
        """Return a copy with changed fields and the current time."""
        return replace(self, updated=now(), **changes)

    def as_api(self) -> dict[str, Any]:
        """Return it in the format of GetPipelineState."""
        shown: dict[str, Any] = {
            "actionExecutionId": self.id,
            "status": self.status,
            "lastStatusChange": self.updated,
            "summary": self.summary or None,
            "externalExecutionId": self.external_id or None,
            "token": self.token if self.status == "InProgress" and self.token else None,
        }
        if self.status == "Failed":
            shown["errorDetails"] = {"code": self.code, "message": self.message}
        return shown


@dataclass(frozen=True)
class ExecutionRecord:
    """One execution of a pipeline version."""

    name: str
    """Its id."""
    pipeline: str
    number: int
    """Its number among the pipeline's executions, starting at 1."""
    declaration: Declaration
    trigger: Mapping[str, str]
    started: datetime
    updated: datetime
    status: Status = "InProgress"
    summary: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    revisions: Mapping[str, str] = field(default_factory=dict)
    """Source versions requested by the caller, by action name."""
    token: str = ""
    actions: Mapping[tuple[str, str], ActionRun] = field(default_factory=dict)
    """Action runs by stage and action name."""

    @property
    def stages(self) -> Sequence[Declaration]:
        """The stages in order."""
        stages: Sequence[Declaration] = self.declaration["stages"]
        return stages

    def with_status(self, status: Status, summary: str = "") -> ExecutionRecord:
        """Return a copy with another status."""
        return replace(self, status=status, summary=summary, updated=now())

    def with_action(self, stage: str, action: str, run: ActionRun) -> ExecutionRecord:
        """Return a copy with an action's run."""
        return replace(self, actions={**self.actions, (stage, action): run}, updated=now())

    def retried(self, actions: Mapping[tuple[str, str], ActionRun]) -> ExecutionRecord:
        """Return a running copy with only these actions done."""
        return replace(self, status="InProgress", actions=actions, updated=now())

    def stage_status(self, stage: Declaration) -> str | None:
        """Return the status of a stage; None if not entered."""
        runs = [self.actions.get((stage["name"], action["name"])) for action in stage["actions"]]
        begun = [run.status for run in runs if run is not None]
        if not begun:
            return None
        if "Failed" in begun:
            return "Failed"
        if all(status == "Succeeded" for status in begun) and len(begun) == len(runs):
            return "Succeeded"
        return "Stopped" if self.status == "Stopped" else "InProgress"

    def artifacts(self) -> dict[str, str]:
        """Return the artifacts so far: keys in the store by name."""
        return {name: key for run in self.actions.values() for name, key in run.artifacts.items()}


@dataclass(frozen=True)
class CodePipelineTables:
    """All tables of CodePipeline."""

    pipelines: Table[PipelineRecord] = field(default_factory=Table[PipelineRecord])
    executions: Table[ExecutionRecord] = field(default_factory=Table[ExecutionRecord])
    tags: Tags = field(default_factory=Tags)
