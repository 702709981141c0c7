"""Create, change, describe, and delete pipelines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tritonstack_local.access.role_trust import may_assume
from tritonstack_local.codepipeline.errors import invalid, no_pipeline
from tritonstack_local.codepipeline.records import CodePipelineTables, PipelineRecord, now
from tritonstack_local.codepipeline.unsupported import reject_unsupported
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.errors import ServiceError
from tritonstack_local.service.wire import Fields

Begin = Callable[[Scope, PipelineRecord, Mapping[str, str]], str]
"""Starts a triggered execution."""

_LEAST_STAGES = 2
_ARTIFACT = re.compile(r"[a-zA-Z0-9_\-]+")


class Pipelines:
    """The actions on pipelines."""

    def __init__(self, *, store: CodePipelineTables, clients: Clients, begin: Begin) -> None:
        self._store = store
        self._clients = clients
        self._begin = begin

    def create(self, scope: Scope, request: Fields) -> Fields:
        """Create a pipeline and run it, as AWS does."""
        declared = _completed(request["pipeline"], version=1)
        self._check_roles(scope, declared)
        made = now()
        record = PipelineRecord(
            declared["name"], scope.arn("codepipeline", declared["name"]), made, made, declared
        )
        if not self._store.pipelines.add(scope, record):
            raise ServiceError(
                "PipelineNameInUseException", f"A pipeline with the name '{record.name}' already exists"
            )
        self._store.tags.put(record.arn, _pairs(request.get("tags", [])))
        self._begin(scope, record, {"triggerType": "CreatePipeline", "triggerDetail": ""})
        return {"pipeline": declared, "tags": request.get("tags")}

    def get(self, scope: Scope, request: Fields) -> Fields:
        """Describe a pipeline; earlier versions are not stored."""
        record = self.find(scope, request["name"])
        wanted = request.get("version", record.declaration["version"])
        if wanted != record.declaration["version"]:
            raise ServiceError(
                "PipelineVersionNotFoundException",
                f"The local cloud keeps the latest version of {record.name} alone, which is "
                f"{record.declaration['version']}",
            )
        metadata = {"pipelineArn": record.arn, "created": record.created, "updated": record.updated}
        return {"pipeline": record.declaration, "metadata": metadata}

    def update(self, scope: Scope, request: Fields) -> Fields:
        """Write the next version; running executions keep theirs."""
        name = request["pipeline"]["name"]
        before = self.find(scope, name)
        declared = _completed(request["pipeline"], version=before.declaration["version"] + 1)
        self._check_roles(scope, declared)
        self._store.pipelines.change(
            scope, name, lambda found: replace(found, declaration=declared, updated=now())
        )
        return {"pipeline": declared}

    def delete(self, scope: Scope, request: Fields) -> Fields:
        """Delete a pipeline and its executions. A missing one is not an error."""
        record = self._store.pipelines.remove(scope, request["name"])
        if record is not None:
            self._store.tags.forget(record.arn)
            for execution in self._store.executions.within(scope):
                if execution.pipeline == record.name:
                    self._store.executions.remove(scope, execution.name)
        return {}

    def list(self, scope: Scope, request: Fields) -> Fields:
        """List pipelines."""
        del request
        return {
            "pipelines": [
                {
                    "name": record.name,
                    "created": record.created,
                    "updated": record.updated,
                    **{name: record.declaration[name] for name in _SUMMARISED},
                }
                for record in sorted(self._store.pipelines.within(scope), key=lambda record: record.name)
            ]
        }

    def tag(self, scope: Scope, request: Fields) -> Fields:
        """Add or replace tags."""
        self._store.tags.put(self._known(scope, request), _pairs(request["tags"]))
        return {}

    def untag(self, scope: Scope, request: Fields) -> Fields:
        """Remove tags."""
        self._store.tags.drop(self._known(scope, request), request["tagKeys"])
        return {}

    def tags(self, scope: Scope, request: Fields) -> Fields:
        """List tags."""
        tags = self._store.tags.of(self._known(scope, request))
        return {"tags": [{"key": tag["Key"], "value": tag["Value"]} for tag in tags]}

    def find(self, scope: Scope, name: str) -> PipelineRecord:
        """Return a pipeline, or raise the error for a missing one."""
        record = self._store.pipelines.get(scope, name)
        if record is None:
            raise no_pipeline(name, scope.account)
        return record

    def _check_roles(self, scope: Scope, declared: Fields) -> None:
        """Reject an action whose role the pipeline's role cannot assume, as AWS does."""
        own = declared["roleArn"]
        roles = {action.get("roleArn") for stage in declared["stages"] for action in stage["actions"]}
        for role in sorted(roles - {None}):
            if not may_assume(self._clients, scope, own, role):
                raise invalid("Structure", f"{own} is not authorized to perform AssumeRole on role {role}")

    def _known(self, scope: Scope, request: Fields) -> str:
        arn: str = request["resourceArn"]
        if arn not in {record.arn for record in self._store.pipelines.within(scope)}:
            raise ServiceError("ResourceNotFoundException", f"The resource {arn} does not exist")
        return arn


_SUMMARISED = ("version", "pipelineType", "executionMode")


def _completed(declared: Fields, *, version: int) -> dict[str, Any]:
    """Check a declaration, and add AWS's defaults."""
    reject_unsupported(declared)
    if declared.get("artifactStore") is None:
        raise invalid("Structure", "Pipeline should have an artifact store")
    _check_stages(declared["stages"])
    stages = [
        {**stage, "actions": [{"runOrder": 1, **action} for action in stage["actions"]]}
        for stage in declared["stages"]
    ]
    usual = {"pipelineType": "V1", "executionMode": "SUPERSEDED"}
    return {**usual, **declared, "stages": stages, "version": version}


def _check_stages(stages: list[Fields]) -> None:
    if len(stages) < _LEAST_STAGES:
        raise invalid("Structure", "Pipeline has only 1 stage(s). There should be a minimum of 2 stages")
    names = [stage["name"] for stage in stages]
    if len(set(names)) < len(names):
        raise invalid("Structure", f"Stage names have to be unique within a pipeline: {', '.join(names)}")
    given: set[str] = set()
    for position, stage in enumerate(stages):
        for action in stage["actions"]:
            is_source = action["actionTypeId"]["category"] == "Source"
            if is_source != (position == 0):
                raise invalid("StageDeclaration", "The first stage has source actions, and no other has any")
        given |= _outputs_of(stage, given)


def _outputs_of(stage: Fields, given: set[str]) -> set[str]:
    """Check that a stage's input artifacts exist before it; return its output artifacts."""
    made: set[str] = set()
    actions = sorted(stage["actions"], key=lambda action: action.get("runOrder", 1))
    if len({action["name"] for action in actions}) < len(actions):
        raise invalid("ActionDeclaration", f"Action names have to be unique within the stage {stage['name']}")
    for action in actions:
        for artifact in action.get("inputArtifacts", []):
            if artifact["name"] not in given | made:
                raise invalid(
                    "ActionDeclaration",
                    f"Input Artifact Bundle {artifact['name']} in action {action['name']} is not declared as "
                    "output artifact of an action before it",
                )
        for artifact in action.get("outputArtifacts", []):
            if artifact["name"] in given | made or _ARTIFACT.fullmatch(artifact["name"]) is None:
                raise invalid(
                    "ActionDeclaration", f"Output Artifact Bundle name {artifact['name']} must be unique"
                )
            made.add(artifact["name"])
    return made


def _pairs(tags: list[Mapping[str, str]]) -> list[Mapping[str, str]]:
    return [{"Key": tag["key"], "Value": tag["value"]} for tag in tags]
