"""Builds as jobs in the account, watched from the command line: started, attached to, left alone, taken."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest

from catalog.build_plans import NeededArtifact, needed_artifacts
from catalog.loading import load_workspace
from catalog.project import Project
from cli import build_there as module
from cli.build_here import BuildInterruptedError
from cli.build_outcomes import Outcome
from cli.build_there import build_there, ground_of
from cli.context import Context
from cli.output import Output
from operations.aws import Cloud
from operations.builds.ground import BuildGround
from tests.cli.stand_in_job import manifest_of
from tests.operations.strict_aws import StrictCodeBuild, StrictLogs, refused
from tests.played_aws import played_aws

OUTPUTS = {"SourceArchive": "assets/abc.zip", "CpuImage": "1.dkr.ecr.eu-west-1.amazonaws.com/t/builder:1"}
CPU = "tritonstack-dev-build-cpu"


class Account(Cloud):
    """moto's, but for CodeBuild and its logs."""

    def client(self, service: str) -> Any:
        found: dict[str, Any] = self.__dict__["stand_ins"]
        return found.get(service) or boto3.client(service, region_name="eu-west-1")


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

    @property
    def ground(self) -> BuildGround:
        return ground_of(self.workspace, OUTPUTS)

    @property
    def needed(self) -> list[NeededArtifact]:
        return needed_artifacts(self.workspace)

    def run(self, *, wait_for_it: bool = True) -> list[Outcome]:
        outcomes: list[Outcome] = []
        build_there(
            Context(self.project, Output()),
            self.cloud,
            self.ground,
            self.needed,
            wait_for_it=wait_for_it,
            on_done=outcomes.append,
        )
        return outcomes

    def finish(self, build_id: str) -> str:
        """What a job does at its end: the artifact, then the record, then nothing more."""
        content = b"an archive"
        manifest = manifest_of(self.project, "minilm", "cpu", content)
        bucket, job = self.ground.bucket, self.codebuild.started[-1]["idempotencyToken"].rpartition("-")[0]
        prefix = f"models/minilm/{manifest['digest']}"
        self.s3.put_object(Bucket=bucket, Key=f"{prefix}/manifest.json", Body=json.dumps(manifest))
        record = json.dumps({"digest": manifest["digest"]})
        self.s3.put_object(Bucket=bucket, Key=f"models/minilm/builds/{job}.json", Body=record)
        self.codebuild.end(build_id, "SUCCEEDED")
        return hashlib.sha256(content).hexdigest()


@pytest.fixture
def watched(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setattr(module, "missing_images", lambda *_: [])
    monkeypatch.setattr(module, "_POLL_S", 0.01)
    with played_aws():
        yield Watched(project)


def when_looked_at(watched: Watched, monkeypatch: pytest.MonkeyPatch, action: Callable[[str], None]) -> None:
    """Do something each time that the service is asked what has become of a build."""
    look = module.CodeBuildJobs.look

    def acting(self: Any, attempt_id: str) -> Any:
        action(attempt_id)
        return look(self, attempt_id)

    monkeypatch.setattr(module.CodeBuildJobs, "look", acting)


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
    assert f"minilm for cpu: started {CPU}:1" in err
    assert "  minilm: export: ONNX (1.0 s)" in err
    assert "hello" not in err


def test_a_job_that_ended_meanwhile_is_taken_and_none_is_started(watched: Watched) -> None:
    watched.run(wait_for_it=False)
    digest = watched.finish(f"{CPU}:1")
    (outcome,) = watched.run()
    assert (outcome.manifest and outcome.manifest.digest, outcome.reused) == (digest, True)
    assert len(watched.codebuild.started) == 1


def test_ctrl_c_leaves_the_job_alone_and_the_next_call_attaches(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, "wait", interrupt)
        with pytest.raises(BuildInterruptedError, match="in the account this goes on: minilm") as caught:
            watched.run()
    assert "attaches to what runs" in str(caught.value.remedy)
    assert "goes on in the account" in capsys.readouterr().err
    assert watched.codebuild.stopped == []
    when_looked_at(watched, monkeypatch, lambda build_id: watched.finish(build_id) and None)
    (outcome,) = watched.run()
    assert outcome.manifest is not None
    assert f"minilm for cpu: attached to {CPU}:1" in capsys.readouterr().err
    assert len(watched.codebuild.started) == 1


def test_a_job_that_fails_says_why_in_its_own_words(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = {
        "event": "failed",
        "message": "the graph answers otherwise",
        "remedy": "mend it",
        "exit_code": 1,
    }
    watched.logs.streams[f"{CPU}/1"] = [json.dumps(failed)]

    def act(build_id: str) -> None:
        watched.codebuild.write_log(build_id)
        watched.codebuild.end(build_id, "FAILED")

    when_looked_at(watched, monkeypatch, act)
    (outcome,) = watched.run()
    assert outcome.error is not None
    assert (outcome.error.message, outcome.error.remedy) == ("the graph answers otherwise", "mend it")


def test_a_job_that_dies_is_quoted(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    watched.logs.streams[f"{CPU}/1"] = ["Killed"]
    phase = {"phaseType": "BUILD", "phaseStatus": "FAILED", "contexts": [{"message": "exit status 137"}]}

    def act(build_id: str) -> None:
        watched.codebuild.write_log(build_id)
        watched.codebuild.end(build_id, "FAILED", phase)

    when_looked_at(watched, monkeypatch, act)
    (outcome,) = watched.run()
    assert outcome.error is not None
    assert outcome.error.message == "the build of minilm failed: BUILD: exit status 137\nKilled"
    assert outcome.error.remedy == f"its log is {CPU}/1 in /t-dev/builds"


def test_without_waiting_the_job_is_started_and_no_more(
    watched: Watched, capsys: pytest.CaptureFixture[str]
) -> None:
    assert watched.run(wait_for_it=False) == []
    assert f"minilm for cpu: started {CPU}:1" in capsys.readouterr().err


def test_credentials_that_expire_end_the_watching_and_not_the_build(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def expire(_: str) -> None:
        raise refused("BatchGetBuilds", "ExpiredTokenException", "The security token has expired")

    when_looked_at(watched, monkeypatch, expire)
    (outcome,) = watched.run()
    assert outcome.error is not None
    assert "the build of minilm, which goes on in the account" in outcome.error.message
    assert "it attaches" in str(outcome.error.remedy)
    assert watched.codebuild.stopped == []
