"""`tritonstack build` in an account: bootstrap, synth, deploy, image, jobs, artifacts, lock.

The account is the local cloud's, and its CodeBuild runs the very commands of the deployed projects. Only
the programs `docker` and `aws` are played: the builder's image needs an engine and a registry; that it is
asked for and arrives in its repository needs neither.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Site, furnished_site
from tests.e2e.played_programs import write_programs
from tests.model_build.supplied_models import PYTHON_MODEL
from tests.model_build.tiny import save_tiny_model, write_model
from tritonstack.base.naming import EVENTS
from tritonstack.files.loading import load_workspace
from tritonstack.files.records.locks import Lock, load_lock
from tritonstack.operate.shared.aws import cloud_of
from tritonstack.triton.sandbox import why_no_namespaces

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(why_no_namespaces() is not None, reason="this system forbids namespaces"),
]

_HEADER = b'{"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 8]}}'
WRONG_HEADER = len(_HEADER).to_bytes(8, "little") + _HEADER + bytes(8)
"""Weights of the size that their header states, of fewer bytes than their shape takes: a build finds that."""
ENVIRONMENT = """\
name: dev
account: "000000000000"
region: us-east-1
triton_release: "25.04"
removal: destroy
builds: {enabled: true}
endpoints:
  search: {kind: ensemble, model: tiny, instance_type: ml.c7i.xlarge}
  twice: {kind: single, model: own, instance_type: ml.c7i.xlarge}
  hopeless: {kind: ensemble, model: broken, instance_type: ml.c7i.xlarge}
"""
OWN = """\
name: own
description: Twice its input.
recipe: {kind: python}
test_inputs: [{inputs: {x: [1.0, 2.0]}, outputs: {y: [2.0, 4.0]}}]
"""
STACK = "tritonstack-dev-build"


@dataclass(frozen=True)
class Account:
    """A site, and the account of its environment."""

    site: Site

    def client(self, service: str) -> Any:
        spec = load_workspace(self.site.project, "dev").spec
        return cloud_of(spec, variables=self.site.address.environment()).client(service)

    @property
    def lock(self) -> Lock:
        return load_lock(self.site.project.lock_file("dev")).record

    def builds(self) -> list[dict[str, Any]]:
        codebuild = self.client("codebuild")
        found: list[dict[str, Any]] = codebuild.batch_get_builds(ids=codebuild.list_builds()["ids"])["builds"]
        return found

    def log(self, build: dict[str, Any]) -> str:
        where = build["logs"]
        events = self.client("logs").get_log_events(
            logGroupName=where["groupName"], logStreamName=where["streamName"], startFromHead=True
        )["events"]
        return "".join(event["message"] for event in events)


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    root = tmp_path_factory.mktemp("account")
    site = _site(root / "site")
    site.variables["PATH"] = f"{write_programs(root / 'tools')}:{os.environ['PATH']}"
    site.tritonstack("up", "--detach")
    site.run("cdk", "bootstrap", "aws://000000000000/us-east-1", "-c", "env=dev", with_cloud=True)
    yield Account(site)
    site.tritonstack("down")


def _site(root: Path) -> Site:
    """Return a project of three models, one of them damaged. Images and build code come from the package."""
    root.mkdir()
    site = furnished_site(root, shared=("server",))
    models = root / "models"
    write_model(models / "tiny", source="file://weights")
    save_tiny_model(models / "tiny" / "weights")
    write_model(models / "broken", name="broken", source="file://weights")
    shutil.copytree(models / "tiny" / "weights", models / "broken" / "weights")
    (models / "broken" / "weights" / "model.safetensors").write_bytes(WRONG_HEADER)
    (models / "own").mkdir()
    (models / "own" / "model.yaml").write_text(OWN)
    (models / "own" / "model.py").write_text(PYTHON_MODEL.format(imports="", body="y = x * 2"))
    (root / "environments").mkdir()
    (root / "environments" / "dev.yaml").write_text(ENVIRONMENT)
    return site


def read_until(process: subprocess.Popen[str], count: int, words: str) -> str:
    """Return a command's output up to the given occurrence of a text."""
    said = ""
    assert process.stdout is not None
    for line in process.stdout:
        said += line
        if said.count(words) == count:
            return said
    pytest.fail(said)


def builders(count: int) -> list[int]:
    """Wait for this number of build processes, and return them."""
    deadline = time.monotonic() + 60
    while len(found := list(_builders())) < count:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found


def _builders() -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:3] == [b"/opt/builder/bin/python", b"-m", b"model_build"]:
            yield int(entry.name)


def test_build_in_an_empty_account_writes_a_lock(account: Account) -> None:
    """Interrupted once; the second call attaches, uses finished jobs, and reports the failed one."""
    site = account.site
    process = site.start("tritonstack", "build", "dev")
    first = read_until(process, 3, " for cpu: started tritonstack-dev-build-cpu:")
    held = builders(3)
    for builder in held:  # they would go on while nobody watches, and be done
        os.kill(builder, signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    first += process.communicate(timeout=300)[0]
    assert process.returncode == 1
    assert "✓ deploying tritonstack-dev-build and its dependencies" in first
    assert "✓ building the build image 25.04-py3-cpu-" in first
    assert first.count("error[") == 1
    assert "error[TS906]: stopped following; still running in AWS: broken, own, tiny" in first
    assert "Traceback" not in first
    assert account.lock.models == {}

    process = site.start("tritonstack", "build", "dev")
    second = read_until(process, 3, " for cpu: attached to tritonstack-dev-build-cpu:")
    for builder in held:
        os.kill(builder, signal.SIGCONT)
    second += process.communicate(timeout=900)[0]
    assert process.returncode == 1
    assert "deploying" not in second
    assert len(account.builds()) == 4
    assert "✗ building broken for cpu in CodeBuild" in second
    assert second.count("error[") == 1
    assert "model.safetensors" in second.partition("error[")[2]
    assert set(account.lock.models) == {"own", "tiny"}
    assert not list(_builders())


def test_the_log_of_the_latest_build_of_each_model_is_shown(account: Account) -> None:
    for model, ending, text in (("tiny", "succeeded", "export"), ("broken", "failed", "model.safetensors")):
        (build,) = (
            one
            for one in account.builds()
            if {"name": "MODEL", "value": model, "type": "PLAINTEXT"}
            in one["environment"]["environmentVariables"]
        )
        output = account.site.tritonstack("logs", "dev", "--build", model)
        assert text in output
        assert f"{model}: build {build['id']} {ending}" in output
        lines = account.site.asked("logs", "dev", "--build", model)["lines"]
        assert "".join(f"{line['message']}\n" for line in lines) == account.log(build)


def test_built_artifacts_are_at_the_locked_location(account: Account) -> None:
    bucket = load_workspace(account.site.project, "dev").spec.artifact_bucket
    listed = account.client("s3").list_objects_v2(Bucket=bucket)["Contents"]
    keys = {item["Key"]: item["Size"] for item in listed}
    for model in ("own", "tiny"):
        artifact = account.lock.models[model]["cpu"]
        prefix = f"models/{model}/{artifact.digest}"
        assert keys.pop(f"{prefix}/model.tar.gz") == artifact.archive_bytes
        assert keys.pop(f"{prefix}/examples.json")
        assert keys.pop(f"{prefix}/manifest.json")
    (event,) = (key for key in keys if key.startswith(EVENTS))
    assert sorted(key.rpartition("/")[0] for key in keys if key != event) == [
        "models/own/builds",
        "models/tiny/builds",
    ]
    told = json.loads(account.client("s3").get_object(Bucket=bucket, Key=event)["Body"].read())
    assert (told["kind"], {built["model"] for built in told["artifacts"]}) == ("built", {"own", "tiny"})


def test_custom_model_code_ran_with_the_role_of_its_stack(account: Account) -> None:
    roles = {
        variable["value"]: build["serviceRole"]
        for build in account.builds()
        for variable in build["environment"]["environmentVariables"]
        if variable["name"] == "MODEL"
    }
    parameter = account.client("ssm").get_parameter(Name="/tritonstack-dev/build-roles/own")["Parameter"]
    (project,) = account.client("codebuild").batch_get_projects(names=["tritonstack-dev-build-cpu"])[
        "projects"
    ]
    assert roles == dict.fromkeys(("broken", "tiny"), project["serviceRole"]) | {"own": parameter["Value"]}
    assert parameter["Value"] != project["serviceRole"]


def test_log_names_the_emulation_of_the_image(account: Account) -> None:
    images, *_ = sorted(account.builds(), key=lambda build: build["startTime"])
    assert "This machine emulates image aws/codebuild/standard:7.0" in account.log(images)
    assert "The project is privileged" in account.log(images)
    assert [line for line in account.log(images).splitlines() if line.startswith("docker")] == [
        "docker login",
        "docker buildx",
        "docker login",
        "docker push",
    ]


def test_the_next_call_builds_only_what_is_missing(account: Account) -> None:
    broken, *others = account.site.tritonstack("build", "dev", "--explain").splitlines()
    where = "to build in CodeBuild, project tritonstack-dev-build-cpu"
    assert broken == f"broken for cpu: {where}: never built for cpu"
    assert [line.partition(",")[0] for line in others] == [
        "own for cpu: up to date",
        "tiny for cpu: up to date",
    ]
    said = account.site.tritonstack("build", "dev", "own", "tiny")
    assert "up to date" in said
    assert len(account.builds()) == 4


def test_build_stack_is_destroyed_with_its_environment(account: Account) -> None:
    account.site.tritonstack("destroy", "dev", "--yes")
    assert not [item for item in account.site.inventory("dev") if item["service"] == "codebuild"]
