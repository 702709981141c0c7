"""Run one execution: stages in order, and actions by run order.

Every step is recorded before and after it runs, so that a restarted cloud continues: finished actions are not
repeated, and running ones are attached to.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
import uuid
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Protocol

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_message
from tritonstack_local.codepipeline.actions import ACTIONS
from tritonstack_local.codepipeline.actions.work import ActionOutcome, StartBuild, Work, reason_of
from tritonstack_local.codepipeline.errors import AbandonedError, ActionFailedError, CloudEndsError
from tritonstack_local.codepipeline.records import ActionRun, CodePipelineTables, ExecutionRecord, now
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients

_VARIABLE = re.compile(r"#\{(?P<namespace>[\w@-]+)\.(?P<name>[\w@-]+)\}")
_NAME_PART = 20
_ARTIFACT_PART = 10

log = logging.getLogger(__name__)


class StageLocks(Protocol):
    """Admits one execution at a time to a stage."""

    def turn(self, scope: Scope, pipeline: str, stage: str, execution: str) -> AbstractContextManager[bool]:
        """Wait for the stage; return False if a later execution superseded this one."""


@dataclass(frozen=True)
class ExecutionServices:
    """Services shared by all executions."""

    store: CodePipelineTables
    clients: Clients
    start_build: StartBuild
    turns: StageLocks
    closing: threading.Event
    """Set when the cloud stops."""


class ExecutionRun:
    """Runs one execution to its end."""

    def __init__(self, services: ExecutionServices, scope: Scope, execution: ExecutionRecord) -> None:
        self._services = services
        self._scope = scope
        self._id = execution.name
        self._pipeline = execution.pipeline
        self._declaration = execution.declaration

    def run(self) -> None:
        """Run the stages."""
        try:
            for stage in self._declaration["stages"]:
                if not self._enter(stage):
                    return
            self._end("Succeeded")
        except CloudEndsError:
            return
        except Exception as error:
            # An execution must never stay in progress forever.
            log.exception("pipeline execution %s", self._id)
            self._end("Failed", f"Internal failure of the local cloud: {error}")

    def _enter(self, stage: Mapping[str, Any]) -> bool:
        """Run a stage; return whether the next one may follow."""
        if self._record().stage_status(stage) == "Succeeded":
            return True
        with self._services.turns.turn(self._scope, self._pipeline, stage["name"], self._id) as mine:
            if not mine:
                self._end("Superseded")
                return False
            actions = sorted(stage["actions"], key=lambda action: action["runOrder"])
            for _, together in groupby(actions, key=lambda action: action["runOrder"]):
                if self._record().status == "Stopping":
                    self._end("Stopped")
                    return False
                if not self._side_by_side(stage["name"], list(together)):
                    self._end("Stopped" if self._record().status == "Stopping" else "Failed")
                    return False
        return True

    def _side_by_side(self, stage: str, actions: list[Mapping[str, Any]]) -> bool:
        """Run the actions of one run order; return whether all succeeded."""
        threads = [
            threading.Thread(target=partial(self._act, stage, action), name=f"{stage}/{action['name']}")
            for action in actions
        ]
        for thread in threads:
            thread.daemon = True
            thread.start()
        for thread in threads:
            thread.join()
        if self._services.closing.is_set():
            raise CloudEndsError("the local cloud is stopping")
        runs = [self._record().actions.get((stage, action["name"])) for action in actions]
        return all(run is not None and run.status == "Succeeded" for run in runs)

    def _act(self, stage: str, action: Mapping[str, Any]) -> None:
        """Run one action, and record its result."""
        before = self._record().actions.get((stage, action["name"]))
        if before is not None and before.status == "Succeeded":
            return
        if before is None or before.status != "InProgress":
            began = now()
            self._put_down(stage, action, ActionRun(str(uuid.uuid4()), began, began))
        note = partial(self._note, stage, action)
        try:
            done = self._outcome(stage, action)
        except CloudEndsError:
            return
        except AbandonedError:
            note(status="Abandoned")
        except ActionFailedError as failed:
            note(status="Failed", code=failed.code, message=failed.message)
        except Exception as error:
            log.exception("action %s of pipeline execution %s", action["name"], self._id)
            message = f"Internal failure of the local cloud: {error}"
            note(status="Failed", code="InternalError", message=message)
        else:
            note(
                status="Succeeded",
                artifacts=done.artifacts,
                revision=done.revision,
                variables=done.variables,
                summary=done.summary,
            )

    def _outcome(self, stage: str, action: Mapping[str, Any]) -> ActionOutcome:
        execution = self._record()
        run = execution.actions[stage, action["name"]]
        held = execution.artifacts()
        work = Work(
            pipeline=self._pipeline,
            stage=stage,
            action=_with_variables(action, execution),
            scope=self._acting(action),
            home=self._scope,
            bucket=self._declaration["artifactStore"]["location"],
            inputs={item["name"]: held[item["name"]] for item in action.get("inputArtifacts", [])},
            outputs={
                item["name"]: self._key(item["name"], run) for item in action.get("outputArtifacts", [])
            },
            revision=execution.revisions.get(action["name"], ""),
            clients=self._services.clients,
            start_build=self._services.start_build,
            look=partial(self._look, stage, action),
            note=partial(self._note, stage, action),
            pause=partial(self._pause, stage, action),
        )
        try:
            return ACTIONS[action["actionTypeId"]["provider"]](work)
        except ClientError as error:
            raise reason_of(error) from error

    def _acting(self, action: Mapping[str, Any]) -> Scope:
        """Return the scope of an action: the account of its role, which must exist."""
        region = action.get("region") or self._scope.region
        role = action.get("roleArn")
        if role is None:
            return Scope(self._scope.account, region)
        sts = self._services.clients.client("sts", self._scope)
        try:
            sts.assume_role(RoleArn=role, RoleSessionName=f"codepipeline-{self._id}")
        except ClientError as error:
            raise ActionFailedError(
                "PermissionError", f"The role {role} cannot be assumed: {aws_error_message(error)}"
            ) from error
        return Scope(role.split(":")[4], region)

    def _key(self, artifact: str, run: ActionRun) -> str:
        """Return an artifact's key as AWS names it; the same for repeated attempts."""
        own = hashlib.sha256(f"{run.id}/{artifact}".encode()).hexdigest()[:7]
        return f"{self._pipeline[:_NAME_PART]}/{artifact[:_ARTIFACT_PART]}/{own}"

    def _look(self, stage: str, action: Mapping[str, Any]) -> ActionRun:
        if self._services.closing.is_set():
            raise CloudEndsError("the local cloud is stopping")
        run = self._record().actions[stage, action["name"]]
        if run.status == "Abandoned":
            raise AbandonedError("the execution was stopped")
        return run

    def _pause(self, stage: str, action: Mapping[str, Any], seconds: float) -> None:
        self._services.closing.wait(seconds)
        self._look(stage, action)

    def _note(self, stage: str, action: Mapping[str, Any], **changes: Any) -> ActionRun:
        key = stage, action["name"]
        changed = self._services.store.executions.change(
            self._scope,
            self._id,
            lambda found: found.with_action(*key, found.actions[key].changed(**changes)),
        )
        if changed is None:
            raise CloudEndsError("the pipeline has been deleted")
        return changed.actions[key]

    def _put_down(self, stage: str, action: Mapping[str, Any], run: ActionRun) -> None:
        self._services.store.executions.change(
            self._scope, self._id, lambda found: found.with_action(stage, action["name"], run)
        )

    def _record(self) -> ExecutionRecord:
        found = self._services.store.executions.get(self._scope, self._id)
        if found is None:
            raise CloudEndsError("the pipeline has been deleted")
        return found

    def _end(self, status: Any, summary: str = "") -> None:
        self._services.store.executions.change(
            self._scope, self._id, lambda found: found.with_status(status, summary or found.summary)
        )


def _with_variables(action: Mapping[str, Any], execution: ExecutionRecord) -> Mapping[str, Any]:
    """Replace the variables in an action's configuration."""
    known = {"variables": execution.variables, "codepipeline": {"PipelineExecutionId": execution.name}}
    for stage in execution.stages:
        for earlier in stage["actions"]:
            run = execution.actions.get((stage["name"], earlier["name"]))
            if run is not None and "namespace" in earlier:
                known[earlier["namespace"]] = run.variables

    def value(match: re.Match[str]) -> str:
        found = known.get(match["namespace"], {}).get(match["name"])
        if found is None:
            raise ActionFailedError("ConfigurationError", f"The variable {match[0]} has no value")
        return found

    configuration = {
        name: _VARIABLE.sub(value, text) for name, text in action.get("configuration", {}).items()
    }
    return {**action, "configuration": configuration}
