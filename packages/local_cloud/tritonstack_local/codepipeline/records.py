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
    """Return the time as everything here notes it."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class PipelineRecord:
    """A pipeline as its latest version says; the version is part of the declaration."""

    name: str
    arn: str
    created: datetime
    updated: datetime
    declaration: Declaration


@dataclass(frozen=True)
class ActionRun:
    """What became of one action in one execution."""

    id: str
    started: datetime
    updated: datetime
    status: ActionStatus = "InProgress"
    summary: str = ""
    external_id: str = ""
    """What does the work: a build, a change set."""
    token: str = ""
    """What an approval has to name."""
    code: str = ""
    message: str = ""
    artifacts: Mapping[str, str] = field(default_factory=dict)
    """What it gave, by the artifacts' names: keys in the artifact store."""
    revision: str = ""
    """What a source turned out to be."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What it tells later actions, which read them in its namespace."""

    def changed(self, **changes: Any) -> ActionRun:
        """Return the same with some fields changed, just now."""
        return replace(self, updated=now(), **changes)

    def as_api(self) -> dict[str, Any]:
        """Show it as GetPipelineState does."""
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
    """One execution of a pipeline, of the version that there was when it began."""

    name: str
    """Its id."""
    pipeline: str
    number: int
    """How many executions of the pipeline there had been, with this one."""
    declaration: Declaration
    trigger: Mapping[str, str]
    started: datetime
    updated: datetime
    status: Status = "InProgress"
    summary: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    revisions: Mapping[str, str] = field(default_factory=dict)
    """What the caller asked sources to be, by the names of their actions."""
    token: str = ""
    actions: Mapping[tuple[str, str], ActionRun] = field(default_factory=dict)
    """By the names of stage and action."""

    @property
    def stages(self) -> Sequence[Declaration]:
        """The stages in their order."""
        stages: Sequence[Declaration] = self.declaration["stages"]
        return stages

    def with_status(self, status: Status, summary: str = "") -> ExecutionRecord:
        """Return the same with another status."""
        return replace(self, status=status, summary=summary, updated=now())

    def with_action(self, stage: str, action: str, run: ActionRun) -> ExecutionRecord:
        """Return the same with an action's run put down."""
        return replace(self, actions={**self.actions, (stage, action): run}, updated=now())

    def retried(self, actions: Mapping[tuple[str, str], ActionRun]) -> ExecutionRecord:
        """Return the same on its way again, as if nothing but these actions had been done."""
        return replace(self, status="InProgress", actions=actions, updated=now())

    def stage_status(self, stage: Declaration) -> str | None:
        """Tell how a stage stands; None where it was not entered."""
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
        """Return every artifact there is by now: its key in the store by its name."""
        return {name: key for run in self.actions.values() for name, key in run.artifacts.items()}


@dataclass(frozen=True)
class CodePipelineTables:
    """All tables of this CodePipeline."""

    pipelines: Table[PipelineRecord] = field(default_factory=Table[PipelineRecord])
    executions: Table[ExecutionRecord] = field(default_factory=Table[ExecutionRecord])
    tags: Tags = field(default_factory=Tags)
