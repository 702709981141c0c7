"""Format executions, stages, and actions for API answers."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from tritonstack_local.codepipeline.actions.approval import APPROVED, REJECTED
from tritonstack_local.codepipeline.errors import invalid, no_execution
from tritonstack_local.codepipeline.execution_queue import ExecutionQueue
from tritonstack_local.codepipeline.pipelines import Pipelines
from tritonstack_local.codepipeline.records import (
    ActionRun,
    CodePipelineTables,
    ExecutionRecord,
    PipelineRecord,
    now,
)
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.errors import ServiceError
from tritonstack_local.service.wire import Fields


def described(execution: ExecutionRecord) -> dict[str, Any]:
    """Format an execution for GetPipelineExecution."""
    return {
        "pipelineName": execution.pipeline,
        "pipelineVersion": execution.declaration["version"],
        "pipelineExecutionId": execution.name,
        "status": execution.status,
        "statusSummary": execution.summary or None,
        "artifactRevisions": [
            {"name": name, "revisionId": run.revision, "revisionSummary": run.summary}
            for run in execution.actions.values()
            if run.revision
            for name in run.artifacts
        ],
        "variables": [{"name": name, "resolvedValue": value} for name, value in execution.variables.items()],
        "trigger": execution.trigger,
        "executionMode": execution.declaration["executionMode"],
        "executionType": "STANDARD",
    }


def summarised(execution: ExecutionRecord) -> dict[str, Any]:
    """Format an execution for ListPipelineExecutions."""
    return {
        "pipelineExecutionId": execution.name,
        "status": execution.status,
        "statusSummary": execution.summary or None,
        "startTime": execution.started,
        "lastUpdateTime": execution.updated,
        "sourceRevisions": [
            {"actionName": action, "revisionId": run.revision, "revisionSummary": run.summary}
            for (_, action), run in execution.actions.items()
            if run.revision
        ],
        "trigger": execution.trigger,
        "executionMode": execution.declaration["executionMode"],
        "executionType": "STANDARD",
    }


def stage_state(stage: Fields, executions: Sequence[ExecutionRecord]) -> dict[str, Any]:
    """Format a stage with its latest execution; `executions` are sorted latest first."""
    last = next((known for known in executions if known.stage_status(stage) is not None), None)
    shown: dict[str, Any] = {
        "stageName": stage["name"],
        "inboundTransitionState": {"enabled": True},
        "actionStates": [_action_state(stage["name"], action, last) for action in stage["actions"]],
    }
    if last is not None:
        status = last.stage_status(stage)
        shown["latestExecution"] = {"pipelineExecutionId": last.name, "status": status}
    return shown


def _action_state(stage: str, action: Fields, execution: ExecutionRecord | None) -> dict[str, Any]:
    run = execution.actions.get((stage, action["name"])) if execution else None
    shown: dict[str, Any] = {"actionName": action["name"]}
    if run is not None:
        shown["latestExecution"] = run.as_api()
        if run.revision:
            shown["currentRevision"] = {
                "revisionId": run.revision,
                "revisionChangeId": run.revision,
                "created": run.updated,
            }
    return shown


def action_detail(execution: ExecutionRecord, stage: str, action: Fields, run: ActionRun) -> dict[str, Any]:
    """Format an action's run for ListActionExecutions."""
    bucket, held = execution.declaration["artifactStore"]["location"], execution.artifacts()

    def described(artifacts: list[Mapping[str, str]]) -> list[dict[str, Any]]:
        return [
            {"name": item["name"], "s3location": {"bucket": bucket, "key": held[item["name"]]}}
            for item in artifacts
            if item["name"] in held
        ]

    result = {"externalExecutionId": run.external_id, "externalExecutionSummary": run.summary}
    if run.status == "Failed":
        result["errorDetails"] = {"code": run.code, "message": run.message}  # type: ignore[assignment]
    return {
        "pipelineExecutionId": execution.name,
        "actionExecutionId": run.id,
        "pipelineVersion": execution.declaration["version"],
        "stageName": stage,
        "actionName": action["name"],
        "startTime": run.started,
        "lastUpdateTime": run.updated,
        "status": run.status,
        "input": {
            "actionTypeId": action["actionTypeId"],
            "configuration": action.get("configuration"),
            "inputArtifacts": described(action.get("inputArtifacts", [])),
        },
        "output": {
            "outputArtifacts": described(action.get("outputArtifacts", [])),
            "executionResult": result,
            "outputVariables": dict(run.variables),
        },
    }


_SHOWN = 100
_REVISIONS = {"S3_OBJECT_VERSION_ID"}


class Executions:
    """The actions on executions."""

    def __init__(self, *, store: CodePipelineTables, clients: Clients, queue: ExecutionQueue) -> None:
        self._store = store
        self._queue = queue
        self._pipelines = Pipelines(store=store, clients=clients, begin=self.begin)

    @property
    def pipelines(self) -> Pipelines:
        """The actions on the pipelines themselves."""
        return self._pipelines

    def begin(self, scope: Scope, pipeline: PipelineRecord, trigger: Mapping[str, str]) -> str:
        """Start an execution with the current sources."""
        return self._begin(scope, pipeline, {}, trigger)

    def start(self, scope: Scope, request: Fields) -> Fields:
        """Start an execution, or return the one started with the same token."""
        pipeline = self._pipelines.find(scope, request["name"])
        token = request.get("clientRequestToken", "")
        for execution in self._of(scope, pipeline.name) if token else ():
            if execution.token == token:
                return {"pipelineExecutionId": execution.name}
        caller = f"arn:{scope.partition}:iam::{scope.account}:root"
        trigger = {"triggerType": "StartPipelineExecution", "triggerDetail": caller}
        return {"pipelineExecutionId": self._begin(scope, pipeline, request, trigger)}

    def stop(self, scope: Scope, request: Fields) -> Fields:
        """Stop an execution, after its running actions or at once."""
        execution = self._find(scope, request["pipelineName"], request["pipelineExecutionId"])
        if execution.status != "InProgress":
            raise ServiceError(
                "PipelineExecutionNotStoppableException",
                f"Pipeline execution {execution.name} is {execution.status} and cannot be stopped",
            )

        def stopping(found: ExecutionRecord) -> ExecutionRecord:
            found = found.with_status("Stopping", request.get("reason", ""))
            for (stage, action), run in found.actions.items() if request.get("abandon") else ():
                if run.status == "InProgress":
                    found = found.with_action(stage, action, run.changed(status="Abandoned"))
            return found

        self._store.executions.change(scope, execution.name, stopping)
        return {"pipelineExecutionId": execution.name}

    def retry(self, scope: Scope, request: Fields) -> Fields:
        """Retry an execution from its failed stage."""
        execution = self._find(scope, request["pipelineName"], request["pipelineExecutionId"])
        stage = next((item for item in execution.stages if item["name"] == request["stageName"]), None)
        if stage is None:
            raise ServiceError("StageNotFoundException", f"There is no stage {request['stageName']}")
        if execution.status != "Failed" or execution.stage_status(stage) != "Failed":
            raise ServiceError(
                "StageNotRetryableException", f"The stage {request['stageName']} has not failed"
            )
        everything = request["retryMode"] == "ALL_ACTIONS"

        def retried(found: ExecutionRecord) -> ExecutionRecord:
            kept = {
                key: run
                for key, run in found.actions.items()
                if key[0] != stage["name"] or (run.status == "Succeeded" and not everything)
            }
            return found.retried(kept)

        changed = self._store.executions.change(scope, execution.name, retried)
        if changed is not None:
            self._queue.start(scope, changed)
        return {"pipelineExecutionId": execution.name}

    def approve(self, scope: Scope, request: Fields) -> Fields:
        """Pass an approval result to the waiting action."""
        stage, action = request["stageName"], request["actionName"]
        waiting = [
            execution
            for execution in self._of(scope, self._pipelines.find(scope, request["pipelineName"]).name)
            if (run := execution.actions.get((stage, action))) and run.token == request["token"]
        ]
        if not waiting:
            raise ServiceError("InvalidApprovalTokenException", "The approval token is not valid")
        result, moment = request["result"], now()

        def decided(found: ExecutionRecord) -> ExecutionRecord:
            run = found.actions[stage, action]
            if run.status != "InProgress" or run.code:
                raise ServiceError(
                    "ApprovalAlreadyCompletedException", "The approval action has already been decided"
                )
            code = APPROVED if result["status"] == "Approved" else REJECTED
            return found.with_action(stage, action, run.changed(code=code, message=result["summary"]))

        self._store.executions.change(scope, waiting[0].name, decided)
        return {"approvedAt": moment}

    def get(self, scope: Scope, request: Fields) -> Fields:
        """Describe an execution."""
        execution = self._find(scope, request["pipelineName"], request["pipelineExecutionId"])
        return {"pipelineExecution": described(execution)}

    def list_all(self, scope: Scope, request: Fields) -> Fields:
        """List executions, latest first."""
        pipeline = self._pipelines.find(scope, request["pipelineName"])
        shown, token = _page(self._of(scope, pipeline.name), request)
        return {
            "pipelineExecutionSummaries": [summarised(execution) for execution in shown],
            "nextToken": token,
        }

    def list_actions(self, scope: Scope, request: Fields) -> Fields:
        """List action executions, latest first."""
        pipeline = self._pipelines.find(scope, request["pipelineName"])
        wanted = request.get("filter", {}).get("pipelineExecutionId")
        details = [
            action_detail(execution, stage["name"], action, run)
            for execution in self._of(scope, pipeline.name)
            if wanted in {None, execution.name}
            for stage in reversed(execution.stages)
            for action in reversed(stage["actions"])
            if (run := execution.actions.get((stage["name"], action["name"])))
        ]
        shown, token = _page(details, request)
        return {"actionExecutionDetails": shown, "nextToken": token}

    def state(self, scope: Scope, request: Fields) -> Fields:
        """Describe every stage with its latest execution."""
        pipeline = self._pipelines.find(scope, request["name"])
        executions = self._of(scope, pipeline.name)
        return {
            "pipelineName": pipeline.name,
            "pipelineVersion": pipeline.declaration["version"],
            "created": pipeline.created,
            "updated": pipeline.updated,
            "stageStates": [stage_state(stage, executions) for stage in pipeline.declaration["stages"]],
        }

    def _begin(
        self, scope: Scope, pipeline: PipelineRecord, request: Fields, trigger: Mapping[str, str]
    ) -> str:
        began = now()
        execution = ExecutionRecord(
            name=str(uuid.uuid4()),
            pipeline=pipeline.name,
            number=1 + max((known.number for known in self._of(scope, pipeline.name)), default=0),
            declaration=pipeline.declaration,
            trigger=trigger,
            started=began,
            updated=began,
            variables=_variables(pipeline.declaration, request.get("variables", [])),
            revisions=_revisions(request.get("sourceRevisions", [])),
            token=request.get("clientRequestToken", ""),
        )
        self._store.executions.add(scope, execution)
        self._queue.start(scope, execution)
        return execution.name

    def _of(self, scope: Scope, pipeline: str) -> Sequence[ExecutionRecord]:
        """Return a pipeline's executions, latest first."""
        found = [known for known in self._store.executions.within(scope) if known.pipeline == pipeline]
        return sorted(found, key=lambda execution: execution.number, reverse=True)

    def _find(self, scope: Scope, pipeline: str, execution_id: str) -> ExecutionRecord:
        found = self._store.executions.get(scope, execution_id)
        if found is None or found.pipeline != self._pipelines.find(scope, pipeline).name:
            raise no_execution(execution_id)
        return found


def _variables(declaration: Fields, given: list[Mapping[str, str]]) -> dict[str, str]:
    declared = {item["name"]: item.get("defaultValue") for item in declaration.get("variables", [])}
    asked = {item["name"]: item["value"] for item in given}
    unknown = sorted(asked.keys() - declared.keys())
    if unknown:
        raise invalid("Structure", f"The pipeline has no variable {unknown[0]}")
    values = {**declared, **asked}
    missing = [name for name, value in values.items() if value is None]
    if missing:
        raise invalid("Structure", f"The variable {missing[0]} has no default value and needs one")
    return {name: str(value) for name, value in values.items()}


def _revisions(given: list[Mapping[str, str]]) -> dict[str, str]:
    for item in given:
        if item["revisionType"] not in _REVISIONS:
            raise invalid("Structure", f"Sources in S3 have no revision of type {item['revisionType']}")
    return {item["actionName"]: item["revisionValue"] for item in given}


def _page(items: Sequence[Any], request: Fields) -> tuple[Sequence[Any], str | None]:
    start = int(request.get("nextToken") or 0)
    end = start + request.get("maxResults", _SHOWN)
    return items[start:end], str(end) if end < len(items) else None
