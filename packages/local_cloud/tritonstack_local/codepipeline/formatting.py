"""Format executions, stages, and actions for API answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tritonstack_local.codepipeline.records import ActionRun, ExecutionRecord
from tritonstack_local.service.control_plane import Fields


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
