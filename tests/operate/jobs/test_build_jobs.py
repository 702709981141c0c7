"""Build jobs: one is started, others attach; their messages and results."""

import json
import re
import threading
from dataclasses import replace
from typing import Any

import pytest

from tests.manifests import manifest, measured
from tests.operate.strict_aws import StrictCodeBuild, StrictLogs, StrictProcessing
from tritonstack.files.project.build_machines import CodeBuildMachine, ProcessingMachine
from tritonstack.operate.jobs.codebuild import (
    CodeBuildJobs,
    UnusableImageError,
    image_digest,
    image_job,
    missing_images,
)
from tritonstack.operate.jobs.jobs import (
    BuildInfra,
    BuildJobError,
    BuildStackError,
    JobOrder,
    JobService,
    JobUpdate,
    LogTail,
    NoRoomError,
    find_result,
    follow,
    own_role,
    start_or_attach,
)
from tritonstack.operate.jobs.processing import ProcessingJobs
from tritonstack.operate.shared.aws import Cloud

PROJECT = "t-dev-build-cpu"
REPOSITORY = "111111111111.dkr.ecr.eu-west-1.amazonaws.com/t-dev/builder"
GROUND = BuildInfra(
    base="t-dev",
    bucket="artifacts",
    source="assets/abc.zip",
    images={"cpu": f"{REPOSITORY}:25.04-py3-cpu-1", "gpu": f"{REPOSITORY}:25.04-py3-1"},
    processing_role="arn:aws:iam::111111111111:role/jobs",
    token_secret="hugging-face",
    timeout_minutes=90,
    tags={"environment": "dev"},
)
ORDER = JobOrder(
    "m", ("cpu-py312", "cpu"), "ab" * 32, CodeBuildMachine("cpu", PROJECT, "BUILD_GENERAL1_LARGE")
)
ON_L4 = replace(
    ORDER, targets=("sm89-25.04-py312", "sm89-25.04"), build_machine=ProcessingMachine("sm89", "ml.g6.xlarge")
)


class Account(Cloud):
    """A cloud whose services are stand-ins."""

    services: dict[str, Any]

    def client(self, service: str) -> Any:
        return self.services[service]


def account(**services: Any) -> Cloud:
    cloud = Account("111111111111", "eu-west-1", {})
    object.__setattr__(cloud, "services", services)
    return cloud


@pytest.fixture
def codebuild() -> StrictCodeBuild:
    return StrictCodeBuild(PROJECT, "t-dev-build-images")


@pytest.fixture
def service(codebuild: StrictCodeBuild) -> CodeBuildJobs:
    return CodeBuildJobs(account(codebuild=codebuild), GROUND, PROJECT)


def begin(service: JobService, order: JobOrder = ORDER) -> tuple[str, bool]:
    state, attached = start_or_attach(service, order, order.name(GROUND))
    return state.id, attached


def test_a_job_name_changes_with_every_input_of_the_build():
    others = [
        replace(ORDER, model="n").name(GROUND),
        replace(ORDER, targets=("cpu",)).name(GROUND),
        replace(ORDER, spec_hash="cd" * 32).name(GROUND),
        ORDER.name(replace(GROUND, source="assets/def.zip")),
        ORDER.name(replace(GROUND, images={"cpu": "other"})),
        replace(ORDER, choices={"m": "int8"}).name(GROUND),
        replace(ORDER, choices={"m": "fp32"}).name(GROUND),
    ]
    assert len({ORDER.name(GROUND), *others}) == 8
    assert ORDER.name(GROUND) == ORDER.name(replace(GROUND, images={**GROUND.images, "gpu": "other"}))


def test_a_build_gets_its_instructions_and_only_the_secret_and_role_that_it_needs(codebuild, service):
    role, sagemaker = "arn:aws:iam::111111111111:role/own", StrictProcessing()
    begin(service)
    begin(service, replace(ORDER, model="gated", needs_token=True, role=role))
    begin(ProcessingJobs(account(sagemaker=sagemaker), GROUND), replace(ON_L4, role=role))
    plain, gated = (
        {item["name"]: (item["type"], item["value"]) for item in started["environmentVariablesOverride"]}
        for started in codebuild.started
    )
    facts = {"MODEL": "m", "TARGETS": "cpu-py312 cpu", "CHOICES": "{}", "JOB": ORDER.name(GROUND)}
    assert plain == {name: ("PLAINTEXT", value) for name, value in facts.items()}
    assert gated["HF_TOKEN"] == ("SECRETS_MANAGER", "hugging-face")
    assert {started["sourceLocationOverride"] for started in codebuild.started} == {GROUND.source}
    assert [started.get("serviceRoleOverride") for started in codebuild.started] == [None, role]
    assert sagemaker.started[0]["RoleArn"] == role


def test_the_role_is_found_by_the_models_name(cloud):
    with pytest.raises(BuildStackError, match="'own'"):
        own_role(cloud, "t-dev", "own")
    cloud.client("ssm").put_parameter(Name="/t-dev/build-roles/own", Value="arn", Type="String")
    assert own_role(cloud, "t-dev", "own") == "arn"


def test_a_repeated_request_attaches_to_the_running_job(codebuild, service):
    """Also if two requests start it at once. One that failed is tried again, while CodeBuild still remembers
    the token of the first.
    """
    job = ORDER.name(GROUND)
    assert service.attempts(job) == []
    first, _ = begin(service)
    assert begin(service) == (first, True)
    assert service.start(ORDER, job, 1).id == first
    assert len(codebuild.started) == 1
    service.stop(first)
    assert (codebuild.stopped, service.poll(first).status) == ([first], "stopped")
    second, attached = begin(service)
    assert (second != first, attached) == (True, False)


@pytest.mark.parametrize(
    ("limits", "other", "cause"),
    [({"limit": 1}, PROJECT, "1 active builds"), ({"quota": 1}, "another", "1 builds in queue")],
)
def test_a_limit_that_other_builds_use_up_leaves_no_free_slot(limits, other, cause):
    """The account's quota covers the builds of every project."""
    codebuild = StrictCodeBuild(PROJECT, "another", **limits)
    codebuild.start_build(projectName=other, environmentVariablesOverride=[], idempotencyToken="other")
    service = CodeBuildJobs(account(codebuild=codebuild), GROUND, PROJECT)
    with pytest.raises(NoRoomError, match=cause) as caught:
        begin(service)
    assert caught.value.remedy
    codebuild.end(f"{other}:1", "SUCCEEDED")
    assert begin(service)[1] is False


def test_following_gives_each_line_once_and_ends_with_the_build(codebuild, service):
    logs, first = StrictLogs(), begin(service)[0]
    stream = f"{PROJECT}/1"
    lines: list[str] = []
    phases: list[str] = []

    def on_update(news: JobUpdate) -> None:
        lines.extend(news.lines)
        phases.append(news.state.phase)
        if len(phases) == 1:
            codebuild.write_log(first)  # its stream is there a moment later
        elif len(phases) == 2:
            logs.streams[stream] = ["one", "two", "three"]
        else:
            logs.streams[stream].append("four")
            codebuild.end(first, "SUCCEEDED")

    ended = follow(
        service,
        service.poll(first),
        LogTail(logs),
        on_update=on_update,
        cancelled=threading.Event(),
        poll_s=0,
    )
    assert ended.status == "succeeded"
    assert lines == ["one", "two", "three", "four"]
    assert phases[:2] == ["waiting for a machine", "building"]


def leave(cloud: Cloud, *, under: str = "cd" * 32, **changes: Any) -> None:
    """Write a job's results to the bucket."""
    s3, job = cloud.client("s3"), ORDER.name(GROUND)
    usual = {"model": "m", "digest": "cd" * 32, "spec_hash": ORDER.spec_hash, "examples_sha256": "ab" * 32}
    content = manifest(**{**usual, **measured(), **changes}).to_json()
    s3.put_object(Bucket="artifacts", Key=f"models/m/builds/{job}.json", Body=json.dumps({"digest": under}))
    s3.put_object(Bucket="artifacts", Key=f"models/m/{under}/manifest.json", Body=content)


def test_the_result_is_found_by_the_job_record(cloud):
    job = ORDER.name(GROUND)
    assert find_result(cloud, GROUND, ORDER, job) is None
    cloud.client("s3").create_bucket(Bucket="artifacts")
    assert find_result(cloud, GROUND, ORDER, job) is None
    leave(cloud, examples_sha256=None)  # by an earlier version: built again
    assert find_result(cloud, GROUND, ORDER, job) is None
    leave(cloud)
    result = find_result(cloud, GROUND, ORDER, job)
    assert result is not None
    assert (result.digest, result.target) == ("cd" * 32, "cpu")
    cloud.client("s3").delete_object(Bucket="artifacts", Key=f"models/m/{'cd' * 32}/manifest.json")
    assert find_result(cloud, GROUND, ORDER, job) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"spec_hash": "00" * 32},
        {"target": "sm86-25.04"},
        # What a model's own code might write: the lock would name another model, or other bytes.
        {"model": "another", "entry_model": "another"},
        {"digest": "ee" * 32},
    ],
)
def test_a_record_of_something_else_is_rejected(cloud, changes):
    cloud.client("s3").create_bucket(Bucket="artifacts")
    leave(cloud, **changes)
    with pytest.raises(BuildJobError, match="not match"):
        find_result(cloud, GROUND, ORDER, ORDER.name(GROUND))


@pytest.mark.parametrize("kind", ["image.manifest", "image.index"])
def test_image_not_accepted_by_sagemaker_is_rejected(cloud, kind, monkeypatch):
    """moto omits the manifest's media type, which ECR returns."""
    media_type = f"application/vnd.oci.{kind}.v1+json"
    image = {"imageDigest": "sha256:0a", "imageManifestMediaType": media_type}
    monkeypatch.setattr(cloud.client("ecr"), "describe_images", lambda **_: {"imageDetails": [image]})
    with pytest.raises(UnusableImageError, match=f"of type {re.escape(media_type)}; SageMaker accepts"):
        image_digest(cloud, GROUND.images["gpu"])


def test_only_missing_images_are_built(cloud, codebuild):
    assert missing_images(cloud, GROUND) == list(GROUND.images.values())
    ecr = cloud.client("ecr")
    ecr.create_repository(repositoryName="t-dev/builder")
    ecr.put_image(
        repositoryName="t-dev/builder",
        imageTag="25.04-py3-1",
        imageManifest=json.dumps({"schemaVersion": 2, "layers": []}),
        imageManifestMediaType="application/vnd.docker.distribution.manifest.v2+json",
    )
    assert missing_images(cloud, GROUND) == [GROUND.images["cpu"]]
    (held,) = ecr.describe_images(repositoryName="t-dev/builder")["imageDetails"]
    assert image_digest(cloud, GROUND.images["gpu"]) == held["imageDigest"]
    run_by_endpoints = replace(GROUND, endpoint_images=["1.dkr.ecr.eu-west-1.amazonaws.com/t-dev/serving:1"])
    assert missing_images(cloud, run_by_endpoints)[1:] == list(run_by_endpoints.endpoint_images)
    first = image_job(account(codebuild=codebuild), GROUND)
    second = image_job(account(codebuild=codebuild), GROUND)
    assert (first[1].id, first[2], second[2]) == (second[1].id, False, True)
