"""The build job with its buildspec's own command, from bucket to bucket."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.model_build.tiny import write_model
from tests.projects import copy_build_source
from tritonstack.base.paths import Project, find_project

REPOSITORY = find_project(Path(__file__)).root


@pytest.fixture
def project(tmp_path: Path, tiny_folder: Path) -> Project:
    """The unpacked source archive: only the folders that builds read."""
    copy_build_source(REPOSITORY, tmp_path / "src")
    shutil.copytree(tiny_folder, tmp_path / "src" / "models" / "tiny" / "weights")
    write_model(tmp_path / "src" / "models" / "tiny", source="file://weights")
    return Project(tmp_path / "src")


def run_job(project: Project, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-m", "model_build", "--project", ".", *arguments],
        cwd=project.root,
        env=inherited | variables,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_an_unknown_model_is_exit_2_and_one_event(project):
    result = run_job(project, "--model", "nothing", "--json-progress")
    (event,) = events(result.stdout)
    assert (result.returncode, event["event"], event["exit_code"]) == (2, "failed", 2)
    assert event["message"] == "unknown model 'nothing'"


def test_a_build_that_cannot_start_reports_it(project):
    result = run_job(project, "--model", "tiny", "--targets", "sm86-25.04")
    assert result.returncode == 2
    assert "this machine has no GPU" in result.stdout
    assert "help: " in result.stdout


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.mark.soak
def test_the_buildspecs_own_command_builds_publishes_and_reports(project, endpoint, tmp_path):
    """Except for the path of its interpreter and the user, which only a container has."""
    from tritonstack.constructs.builds.model_builds import MODEL_BUILDSPEC

    phases: Any = MODEL_BUILDSPEC["phases"]
    (command,) = phases["build"]["commands"]
    assert command.startswith("HOME=/home/builder /opt/builder/bin/python -m model_build ")
    s3 = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    s3.create_bucket(Bucket="artifacts")
    state = tmp_path / "state"
    state.mkdir()
    (state / "server").symlink_to(find_project(Path(__file__)).server_dir)
    variables = {
        "MODEL": "tiny",
        "TARGETS": "cpu-py312 cpu",
        "CHOICES": '{"tiny": "fp32"}',
        "BUCKET": "artifacts",
        "JOB": "0a1b2c",
        "TRITONSTACK_HOME": str(state),
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    result = subprocess.run(
        [
            "/bin/sh",
            "-c",
            command.replace("/home/builder", str(state)).replace("/opt/builder/bin/python", sys.executable),
        ],
        cwd=project.root,
        env={"PATH": os.environ["PATH"], "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", **variables},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    told = events(result.stdout)
    assert told[-1]["event"] == "built"
    assert [event["step"] for event in told if event.get("state") == "done"][-2:] == ["keep", "publish"]
    record = json.loads(
        s3.get_object(Bucket="artifacts", Key="models/tiny/builds/0a1b2c.json")["Body"].read()
    )
    prefix = f"models/tiny/{record['digest']}"
    manifest = json.loads(s3.get_object(Bucket="artifacts", Key=f"{prefix}/manifest.json")["Body"].read())
    assert (manifest["spec_hash"], manifest["target"]) == (record["spec_hash"], "cpu")
    examples = s3.get_object(Bucket="artifacts", Key=f"{prefix}/examples.json")["Body"].read()
    assert hashlib.sha256(examples).hexdigest() == manifest["examples_sha256"]
    archive = s3.head_object(Bucket="artifacts", Key=f"{prefix}/model.tar.gz")
    assert archive["ContentLength"] == manifest["archive_bytes"]
