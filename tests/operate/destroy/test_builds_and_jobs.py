"""Builds and Processing jobs of a destroyed environment: which are its own, and that they end first.

SageMaker keeps ended jobs, which no stack owns.
"""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.operate.audit.test_audit import SCOPE, SimulatedPages
from tests.operate.destroy.test_deletion import FastClock
from tests.operate.shared.test_operations import TEMPLATE
from tests.operate.strict_aws import OnePage, StrictCodeBuild, StrictProcessing, client_error
from tritonstack.operate.audit import audit as reports
from tritonstack.operate.audit.audit import LISTINGS, find_resources
from tritonstack.operate.destroy.environment import (
    Destroyed,
    RunningBuild,
    destroy_environment,
    preview_destruction,
)
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.stacks import DeletionError

BASE = "tritonstack-dev"
BUILD = f"{BASE}-build"
PROJECT, IMAGES = f"{BUILD}-cpu", f"{BUILD}-images"
PROJECTS = {PROJECT: "UPDATE_COMPLETE", IMAGES: "CREATE_COMPLETE", "old": "DELETE_COMPLETE"}
JOB = f"{BUILD}-0123456789abcdef-1"
ENDED = {
    f"{BUILD}-0123456789abcde0-1": "Failed",
    f"{BUILD}-0123456789abcde1-1": "Stopped",
    f"{BUILD}-0123456789abcdef-12": "Completed",
}
ANOTHERS = f"{BUILD}-build-0123456789abcdef-1"
"""Of an environment that is called dev-build."""
BY_HAND = f"{BUILD}-evaluation-1"


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
        listed: dict[str, Any] = self._moto.list_stack_resources(**stack)
        listed["StackResourceSummaries"] += [
            {
                "ResourceType": "AWS::CodeBuild::Project",
                "LogicalResourceId": name,
                "PhysicalResourceId": name,
                "ResourceStatus": status,
            }
            for name, status in (
                (PROJECT, "UPDATE_COMPLETE"),
                (IMAGES, "CREATE_COMPLETE"),
                ("old", "DELETE_COMPLETE"),
            )
        ]
        return listed

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._moto, operation)


class BuildStack:
    """A build stack with two projects, and stand-ins for the services that moto lacks."""

    def __init__(self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cloud, self._monkeypatch = cloud, monkeypatch
        self.codebuild: StrictCodeBuild = Slow(PROJECT, IMAGES)
        self.processing: StrictProcessing = Jobs()
        self.lines: list[str] = []
        cloudformation, real = cloud.client("cloudformation"), Cloud.client
        cloudformation.create_stack(StackName=BUILD, TemplateBody=TEMPLATE)
        projects = Projects(cloudformation)

        def client(of: Cloud, service: str) -> Any:
            played: dict[str, Any] = {
                "codebuild": self.codebuild,
                "sagemaker": self.processing,
                "cloudformation": projects,
                "resourcegroupstaggingapi": self._tagged(),
            }
            return played.get(service) or real(of, service)

        monkeypatch.setattr(Cloud, "client", client)

    def _tagged(self) -> SimulatedPages:
        """Return the index of tags, which lists deleted jobs for a while."""
        others = {**SCOPE.tags, "environment": "dev-build"}
        tagged = [
            {
                "ResourceARN": f"arn:aws:sagemaker:us-east-1:123456789012:processing-job/{name}",
                "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
            }
            for name, tags in (*((name, SCOPE.tags) for name in ENDED), (ANOTHERS, others))
        ]
        return SimulatedPages({"get_resources": {"ResourceTagMappingList": tagged}})

    def build(self, project: str, **variables: str) -> str:
        overrides = [{"name": name, "value": value, "type": "PLAINTEXT"} for name, value in variables.items()]
        started = self.codebuild.start_build(
            projectName=project,
            idempotencyToken=f"{project}{variables}",
            environmentVariablesOverride=overrides,
        )
        return str(started["build"]["id"])

    def deny(self, operation: str) -> None:
        def reject(**_: Any) -> None:
            raise client_error("Operation", "AccessDeniedException", "not yours")

        self._monkeypatch.setattr(self.processing, operation, reject)

    def destroy(self, clock: FastClock | None = None) -> Destroyed:
        return destroy_environment(self.cloud, BASE, on_update=self.lines.append, clock=clock or FastClock())

    @property
    def exists(self) -> bool:
        return bool(self.cloud.client("cloudformation").describe_stacks()["Stacks"])

    def audit(self) -> dict[str, str | None]:
        """Return the jobs that an audit finds, with their stacks."""
        types = {"AWS::CloudFormation::Stack", "AWS::SageMaker::ProcessingJob"}
        listings = [listing for listing in LISTINGS if types & set(listing.types)]
        self._monkeypatch.setattr(reports, "LISTINGS", listings)
        report = find_resources(self.cloud, SCOPE)
        assert report.not_listed == ()
        return {
            item.id.rpartition("/")[2]: item.stack
            for item in report.items
            if item.type == "AWS::SageMaker::ProcessingJob"
        }


@pytest.fixture
def stack(cloud, monkeypatch):
    return BuildStack(cloud, monkeypatch)


@pytest.fixture
def ended(stack):
    """With ended jobs of its own and of others."""
    for name, status in {**ENDED, ANOTHERS: "Completed", BY_HAND: "Completed"}.items():
        stack.processing.put(name, status)
    return stack


def test_builds_end_before_anything_is_deleted(stack):
    stack.codebuild.end(stack.build(PROJECT, MODEL="old"), "SUCCEEDED")
    model, images = stack.build(PROJECT, MODEL="minilm"), stack.build(IMAGES)
    stack.processing.put(JOB, "InProgress")
    stack.processing.put(ANOTHERS, "InProgress")
    destroyed = stack.destroy()
    assert stack.codebuild.stopped == [model, images]
    assert [item.id for item in destroyed.builds] == [model, images, JOB]
    assert stack.lines[0].startswith(f"{model} (CodeBuild, builds minilm): ")
    assert stack.lines.index(f"{JOB}: ended") < stack.lines.index(f"{BUILD}: DELETE_COMPLETE")
    assert destroyed.jobs == (JOB,)
    assert stack.processing.jobs.keys() == {ANOTHERS}
    assert stack.processing.jobs[ANOTHERS]["ProcessingJobStatus"] == "InProgress"


def test_only_ended_jobs_are_deleted_and_before_any_stack(ended):
    assert ended.destroy().jobs == tuple(sorted(ENDED))
    assert ended.processing.jobs.keys() == {ANOTHERS, BY_HAND}
    last = max(ended.lines.index(f"{name}: ended Processing job deleted") for name in ENDED)
    assert last < ended.lines.index(f"{BUILD}: DELETE_COMPLETE")


def test_what_would_end_is_listed_and_kept(ended):
    model = ended.build(PROJECT, MODEL="minilm")
    ended.processing = StrictProcessing()
    for name, status in {**ENDED, JOB: "Stopping"}.items():
        ended.processing.put(name, status)
    foreseen = preview_destruction(ended.cloud, BASE)
    assert foreseen.builds == (
        RunningBuild("CodeBuild", model, "minilm"),
        RunningBuild("SageMaker Processing", JOB),
    )
    assert (foreseen.stacks, foreseen.jobs) == ([BUILD], tuple(sorted(ENDED)))
    assert (ended.exists, ended.codebuild.stopped) == (True, [])
    assert ENDED.keys() <= ended.processing.jobs.keys()


def test_the_next_run_resumes_after_a_kill(stack):
    stack.build(PROJECT, MODEL="minilm")
    stack.processing.put(JOB, "Stopping")

    def kill(_: float) -> None:
        raise KeyboardInterrupt

    clock = FastClock()
    object.__setattr__(clock, "sleep", kill)
    with pytest.raises(KeyboardInterrupt):
        stack.destroy(clock)
    assert stack.exists
    assert [item.builds for item in stack.destroy().builds] == ["minilm", ""]
    assert not stack.exists


def test_a_build_that_does_not_end_keeps_everything(stack):
    stack.codebuild = Slow(PROJECT, IMAGES, looks=float("inf"))
    model = stack.build(PROJECT, MODEL="minilm")
    with pytest.raises(DeletionError, match=f"stop request: {model}") as raised:
        stack.destroy()
    assert "nothing was deleted" in str(raised.value.remedy)
    assert stack.exists


@pytest.mark.parametrize(
    ("status", "operation"), [("InProgress", "stop_processing_job"), ("Failed", "delete_processing_job")]
)
def test_a_denied_call_keeps_the_stacks(stack, status, operation):
    stack.processing = StrictProcessing()
    stack.processing.put(JOB, status)
    stack.deny(operation)
    with pytest.raises(ClientError, match="not yours"):
        stack.destroy()
    assert stack.exists


def test_concurrent_destroys_do_not_conflict(ended, monkeypatch):
    first, *others = sorted(ENDED)
    real = ended.processing.delete_processing_job

    def delete(**parameters: Any) -> None:
        if parameters["ProcessingJobName"] == first:
            real(**parameters)
        real(**parameters)

    monkeypatch.setattr(ended.processing, "delete_processing_job", delete)
    assert ended.destroy().jobs == tuple(others)


def test_ended_jobs_belong_to_an_existing_build_stack_and_are_not_reported_once_deleted(ended):
    del ended.processing.jobs[BY_HAND]
    assert ended.audit() == dict.fromkeys(ENDED, BUILD)
    ended.destroy()
    assert ended.audit() == {}
