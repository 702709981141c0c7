"""Running builds of an environment that is destroyed: which are its own, and that they are stopped first."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.operations.destruction.test_deletion import FastClock
from tests.operations.strict_aws import OnePage, StrictCodeBuild, StrictProcessing, client_error
from tests.operations.test_operations import TEMPLATE
from tritonstack.operations.aws import Cloud
from tritonstack.operations.destruction.destroy import destroy_environment, preview_destruction
from tritonstack.operations.destruction.running_builds import RunningBuild
from tritonstack.operations.stacks import DeletionError

BASE = "tritonstack-dev"
PROJECT, IMAGES = f"{BASE}-build-cpu", f"{BASE}-build-images"
JOB = f"{BASE}-build-0123456789abcdef-1"
ANOTHERS = f"{BASE}-build-build-0123456789abcdef-1"
"""Of an environment that is called dev-build."""


class Slow(StrictCodeBuild):
    """A CodeBuild that takes a while to stop a build."""

    def __init__(self, *projects: str, looks: float = 3) -> None:
        super().__init__(*projects)
        self.looks = looks

    def stop_build(self, **parameters: Any) -> None:
        self.stopped.append(parameters["id"])

    def batch_get_builds(self, **parameters: Any) -> dict[str, Any]:
        self.looks -= bool(self.stopped)
        if self.looks <= 0:
            for build_id in self.stopped:
                self.end(build_id, "STOPPED")
        return super().batch_get_builds(**parameters)


class Jobs(StrictProcessing):
    """Processing jobs that end at the next look."""

    def list_processing_jobs(self, **parameters: Any) -> dict[str, Any]:
        page = super().list_processing_jobs(**parameters)
        if parameters.get("StatusEquals") == "Stopping":
            for job in page["ProcessingJobSummaries"]:
                self.jobs[job["ProcessingJobName"]] = {**job, "ProcessingJobStatus": "Stopped"}
        return page


class Projects:
    """moto's CloudFormation with build stacks that contain projects, which moto cannot create."""

    def __init__(self, moto: Any) -> None:
        self._moto = moto

    def get_paginator(self, operation: str) -> Any:
        if operation == "list_stack_resources":
            return OnePage(self._resources)
        return self._moto.get_paginator(operation)

    def _resources(self, **stack: str) -> dict[str, Any]:
        held: dict[str, Any] = self._moto.list_stack_resources(**stack)
        for name, status in (
            (PROJECT, "UPDATE_COMPLETE"),
            (IMAGES, "CREATE_COMPLETE"),
            ("old", "DELETE_COMPLETE"),
        ):
            held["StackResourceSummaries"].append(
                {
                    "ResourceType": "AWS::CodeBuild::Project",
                    "LogicalResourceId": name,
                    "PhysicalResourceId": name,
                    "ResourceStatus": status,
                }
            )
        return held

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._moto, operation)


Played = Callable[..., None]


@pytest.fixture
def play(cloud, monkeypatch):
    """A build stack with two projects, and these services instead of moto's."""
    cloud.client("cloudformation").create_stack(StackName=f"{BASE}-build", TemplateBody=TEMPLATE)
    real = Cloud.client

    def put(codebuild: StrictCodeBuild, processing: StrictProcessing) -> None:
        played = {
            "codebuild": codebuild,
            "sagemaker": processing,
            "cloudformation": Projects(cloud.client("cloudformation")),
        }
        monkeypatch.setattr(Cloud, "client", lambda self, service: played.get(service) or real(self, service))

    return put


def build(codebuild: StrictCodeBuild, project: str, **variables: str) -> str:
    overrides = [{"name": name, "value": value, "type": "PLAINTEXT"} for name, value in variables.items()]
    started = codebuild.start_build(
        projectName=project, idempotencyToken=f"{project}{variables}", environmentVariablesOverride=overrides
    )
    return str(started["build"]["id"])


def run_job(processing: StrictProcessing, name: str, status: str = "InProgress") -> None:
    processing.put(name, status)


def stacks(cloud: Cloud) -> list[str]:
    return [stack["StackName"] for stack in cloud.client("cloudformation").describe_stacks()["Stacks"]]


def test_builds_end_before_anything_is_deleted(cloud, play):
    codebuild, processing = Slow(PROJECT, IMAGES), Jobs()
    ended = build(codebuild, PROJECT, MODEL="old")
    codebuild.end(ended, "SUCCEEDED")
    model, images = build(codebuild, PROJECT, MODEL="minilm"), build(codebuild, IMAGES)
    run_job(processing, JOB)
    run_job(processing, ANOTHERS)
    play(codebuild, processing)
    lines: list[str] = []
    destroyed = destroy_environment(cloud, BASE, on_update=lines.append, clock=FastClock())
    assert codebuild.stopped == [model, images]
    assert [item.id for item in destroyed.builds] == [model, images, JOB]
    assert lines[0].startswith(f"{model} (CodeBuild, builds minilm): ")
    assert lines.index(f"{JOB}: ended") < lines.index(f"{BASE}-build: DELETE_COMPLETE")
    assert destroyed.jobs == (JOB,)
    assert processing.jobs.keys() == {ANOTHERS}
    assert processing.jobs[ANOTHERS]["ProcessingJobStatus"] == "InProgress"


def test_builds_to_stop_are_listed_without_stopping_them(cloud, play):
    codebuild, processing = StrictCodeBuild(PROJECT, IMAGES), StrictProcessing()
    model = build(codebuild, PROJECT, MODEL="minilm")
    run_job(processing, JOB, "Stopping")
    play(codebuild, processing)
    foreseen = preview_destruction(cloud, BASE)
    assert foreseen.builds == (
        RunningBuild("CodeBuild", model, "minilm"),
        RunningBuild("SageMaker Processing", JOB),
    )
    assert foreseen.stacks == [f"{BASE}-build"] == stacks(cloud)
    assert codebuild.stopped == []


def test_the_next_run_resumes_after_a_kill(cloud, play):
    codebuild, processing = Slow(PROJECT, IMAGES), Jobs()
    build(codebuild, PROJECT, MODEL="minilm")
    run_job(processing, JOB, "Stopping")
    play(codebuild, processing)

    class Killed(BaseException):
        pass

    def kill(_: float) -> None:
        raise Killed

    clock = FastClock()
    object.__setattr__(clock, "sleep", kill)
    with pytest.raises(Killed):
        destroy_environment(cloud, BASE, on_update=lambda _: None, clock=clock)
    assert stacks(cloud) == [f"{BASE}-build"]
    destroyed = destroy_environment(cloud, BASE, on_update=lambda _: None, clock=FastClock())
    assert [item.builds for item in destroyed.builds] == ["minilm", ""]
    assert stacks(cloud) == []


def test_a_build_that_does_not_end_keeps_everything(cloud, play):
    codebuild = Slow(PROJECT, IMAGES, looks=float("inf"))
    model = build(codebuild, PROJECT, MODEL="minilm")
    play(codebuild, StrictProcessing())
    with pytest.raises(DeletionError, match=f"stop request: {model}") as raised:
        destroy_environment(cloud, BASE, on_update=lambda _: None, clock=FastClock())
    assert "nothing was deleted" in str(raised.value.remedy)
    assert stacks(cloud) == [f"{BASE}-build"]


def test_denied_job_stop_ends_the_command(cloud, play, monkeypatch):
    processing = StrictProcessing()
    run_job(processing, JOB)
    play(StrictCodeBuild(), processing)

    def reject(**_: str) -> None:
        raise client_error("StopProcessingJob", "AccessDeniedException", "not yours")

    monkeypatch.setattr(processing, "stop_processing_job", reject)
    with pytest.raises(ClientError, match="not yours"):
        destroy_environment(cloud, BASE, on_update=lambda _: None, clock=FastClock())
    assert stacks(cloud) == [f"{BASE}-build"]
