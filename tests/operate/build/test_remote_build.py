"""Builds as jobs in the account, followed from the command line: started, attached to, detached, finished."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest

from tests.cli.builds.stand_in_job import manifest_of
from tests.moto_aws import simulated_aws
from tests.operate.strict_aws import StrictCodeBuild, StrictLogs, client_error
from tritonstack.base.paths import Project
from tritonstack.cli.context import Context
from tritonstack.cli.output import Output
from tritonstack.files.loading import load_workspace
from tritonstack.files.project.build_plans import NeededArtifact, needed_artifacts
from tritonstack.operate.build import remote_build as module
from tritonstack.operate.build.local_build import BuildInterruptedError
from tritonstack.operate.build.outcomes import Outcome
from tritonstack.operate.build.remote_build import build_infra_of, build_remotely
from tritonstack.operate.jobs.codebuild import CodeBuildJobs
from tritonstack.operate.jobs.jobs import BuildInfra
from tritonstack.operate.shared.aws import Cloud

OUTPUTS = {"SourceArchive": "assets/abc.zip", "CpuImage": "1.dkr.ecr.eu-west-1.amazonaws.com/t/builder:1"}
CPU = "tritonstack-dev-build-cpu"


class Account(Cloud):
    """moto's account, except for CodeBuild and its logs."""

    def client(self, service: str) -> Any:
        stand_ins: dict[str, Any] = self.__dict__["stand_ins"]
        return stand_ins.get(service) or boto3.client(service, region_name="eu-west-1")


class Watched:
    """A project whose one model is built in the account."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.workspace = load_workspace(project, "dev")
        self.codebuild, self.logs = StrictCodeBuild(CPU, "tritonstack-dev-build-images"), StrictLogs()
        self.cloud = Account("1" * 12, "eu-west-1", {})
        self.cloud.__dict__["stand_ins"] = {"codebuild": self.codebuild, "logs": self.logs}
        self.s3 = boto3.client("s3", region_name="us-east-1")
        self.s3.create_bucket(Bucket=self.workspace.spec.artifact_bucket)
        self.models = ["minilm"]

    @property
    def build_stack(self) -> BuildInfra:
        return build_infra_of(self.workspace, OUTPUTS)

    @property
    def needed(self) -> list[NeededArtifact]:
        (needed,) = needed_artifacts(self.workspace)
        return [replace(needed, model=model) for model in self.models]

    def run(self, *, wait_for_it: bool = True, build_stack: BuildInfra | None = None) -> list[Outcome]:
        outcomes: list[Outcome] = []
        build_remotely(
            Context(self.project, Output()),
            self.cloud,
            build_stack or self.build_stack,
            self.needed,
            wait_for_it=wait_for_it,
            on_done=outcomes.append,
        )
        return outcomes

    def finish(self, build_id: str) -> str:
        """End a job as it does: first the artifact, then the record."""
        items = self.codebuild.builds[build_id]["environment"]["environmentVariables"]
        variables = {item["name"]: item["value"] for item in items}
        model, job = variables["MODEL"], variables["JOB"]
        content = f"an archive of {model}".encode()
        manifest = manifest_of(self.project, "minilm", "cpu", content) | {"model": model}
        bucket, prefix = self.build_stack.bucket, f"models/{model}/{manifest['digest']}"
        self.s3.put_object(Bucket=bucket, Key=f"{prefix}/manifest.json", Body=json.dumps(manifest))
        record = json.dumps({"digest": manifest["digest"]})
        self.s3.put_object(Bucket=bucket, Key=f"models/{model}/builds/{job}.json", Body=record)
        self.codebuild.end(build_id, "SUCCEEDED")
        return hashlib.sha256(content).hexdigest()

    def fill(self) -> list[str]:
        """Run other builds up to the project's limit."""
        return [
            self.codebuild.start_build(
                projectName=CPU, environmentVariablesOverride=[], idempotencyToken=f"other-{number}"
            )["build"]["id"]
            for number in range(4)
        ]


@pytest.fixture
def watched(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setattr(module, "missing_images", lambda *_: [])
    monkeypatch.setattr(module, "_POLL_S", 0.01)
    monkeypatch.setattr(module, "_ROOM_S", 0.01)
    with simulated_aws():
        yield Watched(project)


def when_looked_at(watched: Watched, monkeypatch: pytest.MonkeyPatch, action: Callable[[str], None]) -> None:
    """Do something each time the service is asked for the status of a build."""
    look = CodeBuildJobs.poll

    def acting(self: Any, attempt_id: str) -> Any:
        action(attempt_id)
        return look(self, attempt_id)

    monkeypatch.setattr(CodeBuildJobs, "poll", acting)


def test_a_job_is_followed_to_its_artifact(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step = {"event": "step", "step": "export", "state": "done", "detail": "ONNX", "seconds": 1.0}
    watched.logs.streams[f"{CPU}/1"] = ["[Container] hello", json.dumps(step)]

    def act(build_id: str) -> None:
        watched.codebuild.write_log(build_id)
        watched.finish(build_id)

    when_looked_at(watched, monkeypatch, act)
    (outcome,) = watched.run()
    assert outcome.manifest is not None
    assert outcome.manifest.model == "minilm"
    err = capsys.readouterr().err
    assert f"started {CPU}:1" in err
    assert "export: ONNX (1.0 s)" in err
    assert "hello" not in err


def test_job_that_just_ended_is_used_instead_of_a_new_one(watched: Watched) -> None:
    watched.run(wait_for_it=False)
    digest = watched.finish(f"{CPU}:1")
    (outcome,) = watched.run()
    assert outcome.manifest is not None
    assert (outcome.manifest.digest, outcome.reused) == (digest, True)
    assert len(watched.codebuild.started) == 1


def test_ctrl_c_keeps_the_job_and_the_next_call_attaches(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, "wait", interrupt)
        with pytest.raises(BuildInterruptedError, match="minilm"):
            watched.run()
    capsys.readouterr()
    assert watched.codebuild.stopped == []
    when_looked_at(watched, monkeypatch, lambda build_id: watched.finish(build_id) and None)
    (outcome,) = watched.run()
    assert outcome.manifest is not None
    assert f"attached to {CPU}:1" in capsys.readouterr().err
    assert len(watched.codebuild.started) == 1


def test_a_failed_job_reports_its_own_error(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {"event": "failed", "message": "other answers", "remedy": "mend it", "exit_code": 1}
    watched.logs.streams[f"{CPU}/1"] = [json.dumps(failed)]

    def act(build_id: str) -> None:
        watched.codebuild.write_log(build_id)
        watched.codebuild.end(build_id, "FAILED")

    when_looked_at(watched, monkeypatch, act)
    (outcome,) = watched.run()
    assert outcome.error is not None
    assert outcome.error.message.startswith("other answers\n")
    assert f"{CPU}/1 in /t-dev/builds" in outcome.error.message
    assert outcome.error.remedy == "mend it"


def test_expired_credentials_end_monitoring_and_not_the_build(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def expire(_: str) -> None:
        raise client_error("BatchGetBuilds", "ExpiredTokenException", "The security token has expired")

    when_looked_at(watched, monkeypatch, expire)
    (outcome,) = watched.run()
    assert outcome.error is not None
    assert "still running" in outcome.error.message
    assert watched.codebuild.stopped == []


@pytest.mark.parametrize(("concurrent", "quota", "at_once"), [(4, 60, 4), (None, 60, 9), (None, 1, 1)])
def test_concurrent_builds_are_limited_by_project_and_account(
    watched: Watched,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    concurrent: int | None,
    quota: int,
    at_once: int,
) -> None:
    """The account's quota is unknown: CodeBuild rejects builds beyond it, and the rest waits."""
    watched.codebuild = StrictCodeBuild(CPU, quota=quota, limit=concurrent or 100)
    watched.cloud.__dict__["stand_ins"]["codebuild"] = watched.codebuild
    watched.models = [f"model-{number}" for number in range(9)]
    running: list[int] = []

    def act(build_id: str) -> None:
        running.append(sum(not build["buildComplete"] for build in watched.codebuild.builds.values()))
        if not watched.codebuild.builds[build_id]["buildComplete"]:
            watched.finish(build_id)

    when_looked_at(watched, monkeypatch, act)
    outcomes = watched.run(build_stack=replace(watched.build_stack, concurrent=concurrent))
    assert sorted(outcome.needed.model for outcome in outcomes if outcome.manifest) == watched.models
    assert running[0] == max(running) == at_once
    assert bool(watched.codebuild.rejected) == (quota == 1)
    output = capsys.readouterr().err
    assert ("is waiting" in output) == (quota == 1)
    assert sum("model-8" in line and "waiting" in line for line in output.splitlines()) <= 1


def test_build_waits_for_a_free_slot(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    others, list_builds = watched.fill(), watched.codebuild.list_builds_for_project

    def in_time(**parameters: Any) -> dict[str, Any]:
        builds = list_builds(**parameters)
        if len(watched.codebuild.rejected) == 3:
            watched.codebuild.end(others[0], "SUCCEEDED")
        return builds

    monkeypatch.setattr(watched.codebuild, "list_builds_for_project", in_time)
    when_looked_at(watched, monkeypatch, lambda build_id: watched.finish(build_id) and None)
    (outcome,) = watched.run()
    assert outcome.manifest is not None
    assert watched.codebuild.rejected[:3] == [CPU] * 3


def test_without_waiting_builds_without_a_slot_are_reported(watched: Watched) -> None:
    watched.models = [f"model-{number}" for number in range(5)]
    (outcome,) = watched.run(wait_for_it=False)
    assert outcome.error is not None
    assert outcome.error.message.startswith("the build of ")
    assert "4 active builds" in outcome.error.message
    assert len(watched.codebuild.started) == 4
