"""Endpoints with a real Triton: artifacts in S3, requests, successful and failed updates."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from botocore.exceptions import EventStreamError

from packages.local_cloud.tests.sagemaker.cloud import run_cloud, short_id, tarball
from tests.python_models import python_model
from tritonstack.base.paths import find_project
from tritonstack.client import (
    EndpointClient,
    ModelFailedError,
    ModelRequestError,
    NoResponseError,
    StreamFailedError,
)
from tritonstack_local.sagemaker import create_app

pytestmark = pytest.mark.e2e

CONFIG = """
backend: "python"
max_batch_size: 8
input [{ name: "x" data_type: TYPE_FP32 dims: [ -1 ] }]
output [{ name: "y" data_type: TYPE_FP32 dims: [ -1 ] }]
"""

MODEL = python_model(
    "x * FACTOR",
    "if x.flat[0] == -1: error = 'minus one is no input'",
    "if x.flat[0] == -2: time.sleep(2)",
)

COUNTING_CONFIG = """
backend: "python"
max_batch_size: 0
input [{ name: "n" data_type: TYPE_INT32 dims: [ 1 ] }]
output [{ name: "i" data_type: TYPE_INT32 dims: [ 1 ] }, { name: "halves" data_type: TYPE_FP32 dims: [ 2 ] }]
model_transaction_policy { decoupled: true }
"""

COUNTING = """
import itertools
import time

import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            n = pb_utils.get_input_tensor_by_name(request, "n").as_numpy()[0]
            for i in itertools.count() if n == -1 else range(n):
                if n == -1:  # it sends until the caller leaves
                    time.sleep(0.02)
                    if sender.is_cancelled():
                        break
                tensors = {"i": np.array([i], np.int32), "halves": np.array([i, i + 0.5], np.float32)}
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor(*pair) for pair in tensors.items()]))
            error = pb_utils.TritonError("too many", pb_utils.TritonError.INVALID_ARG)
            if n == 0 or n > 4:
                sender.send(pb_utils.InferenceResponse(error=error))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

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

    def make_app(dependencies):
        return create_app(dependencies=dependencies, server_home=home)

    yield from run_cloud(make_app, tmp_path / "endpoints")
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


def test_a_decoupled_model_streams_its_responses(real_cloud, tmp_path):
    archive = tarball({"count/config.pbtxt": COUNTING_CONFIG, "count/1/model.py": COUNTING})
    deploy(real_cloud, "count", archive, SAGEMAKER_TRITON_INFERENCE_TYPE="generate_stream")
    client = EndpointClient(endpoint_name="count", runtime=real_cloud.runtime)
    responses = list(client.stream_responses({"n": 3}))
    assert [response["i"] for response in responses] == [0, 1, 2]
    assert responses[2]["halves"] == [2.0, 2.5]
    with pytest.raises(ModelRequestError, match="too many"):
        next(client.stream_responses({"n": 0}))
    with pytest.raises(ModelRequestError, match="missing required input"):
        next(client.stream_responses({}))
    late = client.stream_responses({"n": 5})
    with pytest.raises(StreamFailedError, match="too many"):
        list(late)
    with pytest.raises(NoResponseError, match="sent no response"):
        next(client.stream_responses({"n": -2}))
    # What `bench` reads of whole answers: none, and one that ends with an error.
    for n, ending in ((-2, b""), (5, b'data: {"error":"too many"}')):
        answer = real_cloud.runtime.invoke_endpoint(
            EndpointName="count", ContentType="application/json", Body=b'{"n": %d}' % n
        )
        assert answer["ContentType"].startswith("text/event-stream")
        assert answer["Body"].read().strip().rpartition(b"\n")[2] == ending
    endless = client.stream_responses({"n": -1})
    assert [next(endless)["i"] for _ in range(3)] == [0, 1, 2]
    endless.close()
    # The one instance answers again only if the model has stopped.
    assert [response["i"] for response in client.stream_responses({"n": 1})] == [0]
    (server,) = supervisors(tmp_path)
    answer = real_cloud.runtime.invoke_endpoint_with_response_stream(
        EndpointName="count", ContentType="application/json", Body=b'{"n": -1}'
    )
    events = iter(answer["Body"])
    assert b'"i":0' in next(events)["PayloadPart"]["Bytes"]
    os.kill(int(server), signal.SIGKILL)
    with pytest.raises(EventStreamError, match="was closed") as caught:
        list(events)
    assert caught.value.response["Error"]["Code"] == "ModelStreamError"


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
    deploy(real_cloud, "first", scaling_by(2))
    url = real_cloud.upload("second.tar.gz", scaling_by(2))
    real_cloud.model("second", url=url)
    real_cloud.config("second")
    real_cloud.sagemaker.create_endpoint(EndpointName="second", EndpointConfigName="second")
    deadline = time.monotonic() + 30
    while len(supervisors(tmp_path)) < 2:
        assert time.monotonic() < deadline
    real_cloud.app.close()
    assert supervisors(tmp_path) == []


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
