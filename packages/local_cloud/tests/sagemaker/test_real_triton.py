"""Endpoints with a real Triton: artifacts in S3, requests, successful and failed updates."""

import os
from pathlib import Path

import numpy as np
import pytest

from packages.local_cloud.tests.sagemaker.cloud import eventually, run_cloud, short_id
from packages.local_cloud.tests.sagemaker.fakes import tarball
from tests.python_models import python_model
from tritonstack.base.paths import find_project
from tritonstack.client import (
    EndpointClient,
    ModelFailedError,
)

pytestmark = pytest.mark.e2e

CONFIG = """
backend: "python"
max_batch_size: 8
input [{ name: "x" data_type: TYPE_FP32 dims: [ -1 ] }]
output [{ name: "y" data_type: TYPE_FP32 dims: [ -1 ] }]
"""

MODEL = python_model("x * FACTOR")

BROKEN = """
class TritonPythonModel:
    def initialize(self, args):
        raise RuntimeError("the vocabulary is missing")
"""


def repository(code):
    return tarball({"scale/config.pbtxt": CONFIG, "scale/1/model.py": code})


def scaling_by(factor):
    return repository(MODEL.replace("FACTOR", str(factor)))


@pytest.fixture
def real_cloud(tmp_path):
    home = find_project(Path(__file__)).state_dir / "server"

    with run_cloud(tmp_path, server_home=home) as running:
        yield running
    assert supervisors(tmp_path) == []


def supervisors(folder):
    """Return the root processes of the servers of this process's cloud."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                command = (process / "cmdline").read_text()
                log = (process / "fd/1").readlink()
            except OSError:  # it has just ended
                continue
            if parent == os.getpid() and "supervisor.py" in command and log.is_relative_to(folder):
                found.append(process.name)
    return found


def deploy(cloud, name, archive, *, endpoint=None, **environment):
    url = cloud.upload(f"{name}.tar.gz", archive)
    cloud.model(name, url=url, environment={"SAGEMAKER_TRITON_LOG_VERBOSE": "false", **environment})
    cloud.config(name)
    if endpoint is None:
        cloud.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    else:
        cloud.sagemaker.update_endpoint(EndpointName=endpoint, EndpointConfigName=name)
    return cloud.settled(endpoint or name)


def infer(cloud, value):
    client = EndpointClient(endpoint_name="first", runtime=cloud.runtime)
    return client.infer({"x": np.array([[value]], np.float32)})["y"].item()


def logged(cloud, endpoint):
    logs, group = cloud.client("logs"), f"/aws/sagemaker/Endpoints/{endpoint}"
    return [
        event["message"]
        for stream in logs.describe_log_streams(logGroupName=group)["logStreams"]
        for event in logs.get_log_events(
            logGroupName=group, logStreamName=stream["logStreamName"], startFromHead=True
        )["events"]
    ]


@pytest.mark.parametrize(
    ("archive", "words"),
    [
        (repository(BROKEN), "the vocabulary is missing"),
        (tarball({"config.pbtxt": CONFIG, "1/model.py": BROKEN}), "Incorrect directory structure"),
        (tarball({"README": "no model"}), "No model found in model repository"),
    ],
    ids=short_id,
)
def test_an_endpoint_that_cannot_start_reports_the_reason(real_cloud, archive, words):
    described = deploy(real_cloud, "first", archive)
    assert described["EndpointStatus"] == "Failed"
    assert words in described["FailureReason"]


def test_stopped_cloud_leaves_no_server(real_cloud, tmp_path):
    """The cloud stops after the test."""
    deploy(real_cloud, "first", scaling_by(2))
    url = real_cloud.upload("second.tar.gz", scaling_by(2))
    real_cloud.model("second", url=url)
    real_cloud.config("second")
    real_cloud.sagemaker.create_endpoint(EndpointName="second", EndpointConfigName="second")
    eventually(lambda: len(supervisors(tmp_path)) >= 2, timeout_s=30)


def test_a_server_is_isolated(real_cloud, tmp_path, monkeypatch):
    """No credentials, network, or writable files, as reported by the server and /proc."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the cloud's own process")
    assert deploy(real_cloud, "first", repository(NOSY))["EndpointStatus"] == "InService"
    (supervisor,) = supervisors(tmp_path)
    below = processes_below(int(supervisor))
    servers = [pid for pid in below if (Path("/proc") / str(pid) / "comm").read_text() == "tritonserver\n"]
    assert len(servers) == 1
    for pid in processes_below(servers[0]) + servers:
        variables = (Path("/proc") / str(pid) / "environ").read_bytes().decode().split("\0")
        assert not [one for one in variables if one.startswith(("AWS_", "BOTO"))], variables
    with pytest.raises(ModelFailedError) as caught:
        infer(real_cloud, 1)
    said = caught.value.service.original_message
    assert "network: OSError 101" in said
    assert "model: OSError 30" in said


NOSY = """
import os
import socket

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        told = [attempt("network", call_out), attempt("model", write)]
        error = pb_utils.TritonError("; ".join(told))
        return [pb_utils.InferenceResponse(error=error) for _ in requests]


def attempt(what, act):
    try:
        act()
    except OSError as error:
        return f"{what}: OSError {error.errno}"
    return f"{what}: done"


def call_out():
    socket.create_connection(("192.0.2.1", 80), timeout=1)


def write():
    open("/opt/ml/model/scale/1/model.py", "a")
"""


def processes_below(pid):
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = children.get(pid, [])
    return found + [below for child in found for below in processes_below(child)]
