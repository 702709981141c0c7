"""What `tritonstack deploy` does when it is interrupted, or an endpoint rolled back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.operate.shared.test_operations import stand_in_cdk
from tests.operate.strict_aws import client_error
from tests.projects import edit
from tritonstack.base.error_kinds import CommandInterruptedError
from tritonstack.base.paths import Project
from tritonstack.files.loading import load_workspace
from tritonstack.operate.deploy import deploy as deploying
from tritonstack.operate.deploy.changes import Changes, Outdated
from tritonstack.operate.deploy.deploy import EnvironmentDeployment
from tritonstack.operate.deploy.plans import Hazard, StackPlan
from tritonstack.operate.destroy.retained import RunningEndpoint
from tritonstack.operate.locks.retention import TaggingResult
from tritonstack.operate.shared.revisions import revision_of
from tritonstack.operate.shared.running import EndpointState, RolledBackError
from tritonstack.operate.shared.session import NullReporter, Reporter, Session
from tritonstack.operate.shared.stacks import StackState
from tritonstack.operate.synth.assembly import Assembly
from tritonstack.operate.synth.cdk import find_cdk


def deployment_of(project: Project, folder: Path, reporter: Reporter | None = None) -> EnvironmentDeployment:
    """Return a deployment of dev with a CDK that fails."""
    session, workspace = Session(project, reporter or NullReporter()), load_workspace(project, "dev")
    stand_in_cdk(folder, "exit 1")
    cdk = find_cdk(folder, environment_name="dev", variables={})
    return EnvironmentDeployment(session, workspace, session.cloud(workspace.spec), cdk)


def finish(deployment: EnvironmentDeployment, before: list[RunningEndpoint] | None) -> None:
    deployment.finish(["search"], ["stack"], revision_of(deployment.workspace), before)


CLEAN_UP = ["live_endpoints", "delete_replaced", "mark_superseded", "delete_superseded_images"]


@pytest.mark.parametrize("phase", ["remove_scaling", "cdk_deploy"])
def test_ctrl_c_between_two_phases_lists_endpoints_without_scaling(
    project, account, tmp_path, monkeypatch, phase
):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    edit(project.environment_file("dev"), "1" * 12, account)
    stacks = [StackState("tritonstack-dev-endpoint-search", "UPDATE_COMPLETE")]
    monkeypatch.setattr(deploying, "environment_stacks", lambda *_: stacks)
    monkeypatch.setattr(deploying, "remove_scaling", lambda *_, **__: None)
    monkeypatch.setattr(deploying if phase == "remove_scaling" else EnvironmentDeployment, phase, interrupted)
    hazard = Hazard("the variant 'old' goes", "old")
    plan = StackPlan(stacks[0].name, "two-phase", "tritonstack-dev-search", hazards=(hazard,))
    with pytest.raises(CommandInterruptedError) as caught:
        deployment_of(project, tmp_path).deploy_all(Changes(Assembly(tmp_path), {}, [plan]), ["--all"])
    assert "operations: tritonstack-dev-endpoint-search" in caught.value.message


@pytest.mark.parametrize("phases", [1, 2])
def test_other_instance_types_are_restored_before_scaling_is_registered(
    project, account, tmp_path, monkeypatch, phases
):
    """SageMaker rejects them afterwards; other changes need the new alarms of the stacks."""
    calls: list[str] = []
    edit(project.environment_file("dev"), "1" * 12, account)
    monkeypatch.setattr(deploying, "remove_scaling", lambda *_, **__: calls.append("remove_scaling"))
    monkeypatch.setattr(EnvironmentDeployment, "cdk_deploy", lambda *_, **__: calls.append("cdk deploy"))
    monkeypatch.setattr(Assembly, "template", lambda *_: {})
    monkeypatch.setattr(deploying, "to_deployed", lambda *arguments: arguments[-1].name)
    monkeypatch.setattr(deploying, "switch", lambda _, planned, **__: calls.append(planned))
    plan = StackPlan("stack", ("nothing", "two-phase")[phases - 1], "type")
    outdated = [
        Outdated("stack", EndpointState(name, "new", "old", "InService"), name == "type")
        for name in ("other", "type")
    ]
    changes = Changes(Assembly(tmp_path), {}, [plan], outdated=outdated)
    deployment_of(project, tmp_path).deploy_all(changes, ["--all"])
    assert calls == [*(["remove_scaling"] * (phases - 1)), "type", "cdk deploy", "other"]


def test_nothing_is_deleted_or_marked_before_the_endpoints_run_what_was_deployed(
    project, account, tmp_path, monkeypatch
):
    """An endpoint that was rolled back runs what it ran before."""
    calls: list[str] = []

    def rolled_back(*_: object) -> None:
        calls.append("require_running")
        raise RolledBackError("rolled back", remedy=None)

    edit(project.environment_file("dev"), "1" * 12, account)
    monkeypatch.setattr(deploying, "require_running", rolled_back)
    for name in (*CLEAN_UP, "record_deployment"):
        monkeypatch.setattr(deploying, name, lambda *_, name=name, **__: calls.append(name) or [])
    with pytest.raises(RolledBackError):
        finish(deployment_of(project, tmp_path), [])
    assert calls == ["require_running"]


def test_nothing_is_deleted_if_what_ran_before_could_not_be_read(project, account, tmp_path, monkeypatch):
    calls: list[str] = []
    edit(project.environment_file("dev"), "1" * 12, account)
    for name in ("require_running", "record_deployment", *CLEAN_UP):
        monkeypatch.setattr(deploying, name, lambda *_, name=name, **__: calls.append(name))
    finish(deployment_of(project, tmp_path), None)
    assert calls == ["require_running", "record_deployment"]


@dataclass
class Notes(NullReporter):
    """Keeps the notes."""

    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.parametrize(
    ("rejected", "called"),
    [
        ("live_endpoints", ["live_endpoints"]),
        ("delete_replaced", CLEAN_UP),
        ("mark_superseded", CLEAN_UP),
        ("delete_superseded_images", CLEAN_UP),
    ],
)
@pytest.mark.parametrize(
    "code", ["AccessDeniedException", "ThrottlingException", "UnknownOperationException"]
)
def test_a_rejected_clean_up_is_noted_and_fails_no_recorded_deployment(
    project, account, tmp_path, monkeypatch, rejected, called, code
):
    calls: list[str] = []

    def part(name: str) -> Callable[..., Any]:
        def run(*_: object, **__: object) -> Any:
            calls.append(name)
            if name == rejected:
                raise client_error("DeleteModel", code, "not authorized to\nperform: sagemaker:DeleteModel")
            return TaggingResult(()) if name == "mark_superseded" else []

        return run

    edit(project.environment_file("dev"), "1" * 12, account)
    notes = Notes()
    for name in ("require_running", "record_deployment", *CLEAN_UP):
        monkeypatch.setattr(deploying, name, part(name))
    finish(deployment_of(project, tmp_path, notes), [])
    assert calls == ["require_running", "record_deployment", *called]
    (note,) = notes.notes
    assert all(part in note for part in ("DeleteModel", code, "sagemaker:DeleteModel"))
    assert "\n" not in note
