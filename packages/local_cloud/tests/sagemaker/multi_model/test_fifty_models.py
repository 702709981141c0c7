"""Fifty models on a real Triton that holds five, called by 16 clients."""

import json
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from packages.local_cloud.tests.sagemaker.cloud import IMAGE, BlockingServer, role_of, run_cloud
from packages.local_cloud.tests.sagemaker.test_real_triton import scaling_by
from tritonstack.base.paths import find_project
from tritonstack_local.sagemaker import SageMakerApp
from tritonstack_local.sagemaker.servers.server import triton_starter

pytestmark = pytest.mark.soak

METRICS = (
    "ModelCacheHit",
    "ModelLoadingWaitTime",
    "ModelDownloadingTime",
    "ModelLoadingTime",
    "ModelUnloadingTime",
    "LoadedModelCount",
)
# A Python with numpy, and its shared memory with the server.
A_MODEL_WEIGHS, THE_SERVER_WEIGHS = 45 << 20, 30 << 20
MODELS, HELD, CLIENTS, REQUESTS = 50, 5, 16, 2_000
ENVIRONMENT = {
    "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
    "SAGEMAKER_TRITON_PING_MODE": "live",
    # The configurations are complete; auto-completion takes a second per load.
    "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--disable-auto-complete-config",
}


class Watched(BlockingServer):
    """A server that records its loads, unloads, and memory use."""

    def __init__(self, server):
        self._server = server
        self.asked = Counter()
        self.loaded = 0
        self.most_loaded = 0
        self.weights = []
        self._lock = threading.Lock()

    def __getattr__(self, name):
        return getattr(self._server, name)

    def request(self, method, path, **fields):
        kinds = {("POST", "/models"): "load", ("DELETE", path): "unload", ("GET", "/ping"): "ping"}
        kind = kinds.get((method, path), "invoke")
        if kind == "load":
            self._count(1)  # it may use memory from now on
        answer, outcome = None, "none"
        try:
            answer = self._server.request(method, path, **fields)
            outcome = answer.status
        finally:
            with self._lock:
                self.asked[kind, outcome] += 1
        if kind == "unload" or (kind == "load" and answer.status != 200):
            self._count(-1)
        return answer

    def _count(self, change):
        with self._lock:
            self.loaded += change
            self.most_loaded = max(self.most_loaded, self.loaded)

    def weigh_until(self, ended):
        while not ended.wait(0.25):
            self.weights.append(self._server.memory_held())


@pytest.fixture
def servers():
    return []


@pytest.fixture
def cloud(tmp_path, servers):
    start = triton_starter(server_home=find_project(Path(__file__)).state_dir / "server")

    def start_watched(order):
        servers.append(Watched(start(order)))
        return servers[-1]

    def make_app(dependencies):
        return SageMakerApp(
            dependencies=replace(dependencies, loaded_models=HELD), start_server=start_watched
        )

    yield from run_cloud(make_app, tmp_path / "endpoints")


def popular_in_turn(seed=5):
    """Model 0 is requested throughout, the others in turn; a few return."""
    chance = random.Random(seed)  # noqa: S311 - the same requests in every run
    for turn in range(REQUESTS):
        newest = 1 + turn * (MODELS - 1) // REQUESTS
        draw = chance.random()
        if draw < 0.3:
            yield 0
        elif draw < 0.3 + 6 / REQUESTS:
            yield chance.randrange(MODELS)
        else:
            yield max(1, newest - min(2, int(chance.expovariate(2))))


def test_fifty_models_on_a_server_that_holds_five(cloud, servers, capsys):
    for number in range(MODELS):
        url = cloud.upload(f"shelf/m{number}.tar.gz", scaling_by(number + 1))
    container = {
        "Image": IMAGE,
        "Mode": "MultiModel",
        "ModelDataUrl": url.rpartition("/")[0] + "/",
        "Environment": ENVIRONMENT,
    }
    cloud.sagemaker.create_model(
        ModelName="e", ExecutionRoleArn=role_of(cloud.sagemaker), PrimaryContainer=container
    )
    cloud.config("e")
    cloud.sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="e")
    assert cloud.settled("e")["EndpointStatus"] == "InService"
    (server,) = servers
    begun, began_at = time.monotonic(), datetime.now(UTC)

    def ask(number):
        value = 1.0 + number % 7
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [value]}]}
        answer = cloud.runtime.invoke_endpoint(
            EndpointName="e", TargetModel=f"m{number}.tar.gz", Body=json.dumps(body)
        )
        said = json.loads(answer["Body"].read())["outputs"][0]["data"]
        return said == [value * (number + 1)]

    ended = threading.Event()
    with ThreadPoolExecutor(CLIENTS) as clients, ThreadPoolExecutor(1) as scales:
        weighing = scales.submit(server.weigh_until, ended)
        try:
            right = Counter(clients.map(ask, popular_in_turn()))
        finally:
            ended.set()
        weighing.result()
    took_s = time.monotonic() - begun
    metrics = published(cloud, since=began_at, requests=REQUESTS)
    report(capsys, server, metrics, took_s)

    assert right == {True: REQUESTS}
    loads, unloads = server.asked["load", 200], server.asked["unload", 200]
    invoked = {key: count for key, count in server.asked.items() if key[0] != "ping"}
    assert invoked == {("load", 200): loads, ("unload", 200): unloads, ("invoke", 200): REQUESTS}
    assert len(servers) == 1
    assert server.most_loaded == HELD
    assert loads - unloads == HELD
    assert loads >= MODELS
    # Reloaded models were still on the volume.
    assert metrics["ModelDownloadingTime"]["SampleCount"] == MODELS
    assert metrics["ModelLoadingTime"]["SampleCount"] == loads
    assert metrics["ModelUnloadingTime"]["SampleCount"] == unloads
    assert metrics["ModelCacheHit"]["SampleCount"] == REQUESTS
    assert metrics["LoadedModelCount"]["Maximum"] == HELD
    # The server uses the memory of five models, after fifty as after the first five.
    early, late = (
        max(server.weights[: len(server.weights) // 2]),
        max(server.weights[len(server.weights) // 2 :]),
    )
    assert late < 1.1 * early
    assert late < HELD * A_MODEL_WEIGHS + THE_SERVER_WEIGHS


def published(cloud, *, since, requests):
    """Read the metrics once those of every request have arrived."""
    deadline = time.monotonic() + 20
    while True:
        found = {name: statistics(cloud, name, since) for name in METRICS}
        counts = [found[name].get("SampleCount") for name in ("ModelCacheHit", "LoadedModelCount")]
        if counts[0] == requests and counts[1]:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def statistics(cloud, name, since):
    namespace = "/aws/sagemaker/Endpoints" if name == "LoadedModelCount" else "AWS/SageMaker"
    points = cloud.client("cloudwatch").get_metric_statistics(
        Namespace=namespace,
        MetricName=name,
        Dimensions=[{"Name": "EndpointName", "Value": "e"}, {"Name": "VariantName", "Value": "AllTraffic"}],
        StartTime=since,
        EndTime=since + timedelta(hours=1),
        Period=3600,
        Statistics=["SampleCount", "Average", "Sum", "Maximum"],
    )["Datapoints"]
    return points[0] if points else {}


def report(capsys, server, metrics, took_s):
    """Print the results."""
    wait = metrics["ModelLoadingWaitTime"]
    mib = [weight / 2**20 for weight in server.weights]
    half = len(mib) // 2
    lines = [
        f"{REQUESTS} requests from {CLIENTS} clients, {MODELS} models, {HELD} held, in {took_s:.0f} s",
        f"loads {server.asked['load', 200]}, unloads {server.asked['unload', 200]}, downloads "
        f"{metrics['ModelDownloadingTime']['SampleCount']:.0f}, most models in the server at once "
        f"{server.most_loaded}",
        f"requests that found their model loaded: {metrics['ModelCacheHit']['Average']:.1%}; the others "
        f"waited {wait['Average'] / 1e6:.1f} s on average, {wait['Maximum'] / 1e6:.1f} s at most",
        f"a load takes {metrics['ModelLoadingTime']['Average'] / 1e6:.2f} s, an unload "
        f"{metrics['ModelUnloadingTime']['Average'] / 1e6:.2f} s",
        f"pings answered in time {server.asked['ping', 200]}, not {server.asked['ping', 'none']}",
        f"memory of the server and its models: at most {max(mib[:half]):.0f} MiB in the first half, "
        f"{max(mib[half:]):.0f} MiB in the second",
    ]
    with capsys.disabled():
        print("", *lines, sep="\n")
