"""Compare the scaling simulator with the scaling of the local cloud, on the same requests.

    python -m benchmarks.simulation [--minute 5] [--traces ramp,spike,wave] [--provisioning 2.5]

An endpoint of a local cloud scales from 1 to 8 instances of a Python model that sleeps 100 ms, so that each
instance adds capacity on any machine. The cloud runs 8 real Triton servers, more than it would start on a
machine with fewer cores. Each trace is sent once, and simulated with the same arrivals and the service time
that was measured before, on a busy instance.

Passed: at the end of each minute the instances differ by at most one, where a change may be one minute early
or late (the cloud's minutes begin a little after the trace), and the p99 of all requests differs by at most
25 %. The same comparison must fail for the spike if the simulator has no provisioning time.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import boto3
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.cloud import ACCOUNT, BODY, CONFIG, JSON, NAME, QUIET, REGION, deploy
from model_build.store.archive import pack
from tritonstack.base.paths import find_project
from tritonstack.client import EndpointClient
from tritonstack.constructs.endpoint.scaling_plan import ScalingPlan, Tracking
from tritonstack.operations.aws import Cloud
from tritonstack.operations.loads.arrivals import Offsets, Trace
from tritonstack.operations.loads.requests import LoadSender, PreparedRequest
from tritonstack.operations.loads.sending import Sent, open_loop, run_loop
from tritonstack.operations.scaling_simulation.demand import MONDAY, captured_demand
from tritonstack.operations.scaling_simulation.fleet import FleetPlan, StartTimes
from tritonstack.operations.scaling_simulation.service_curves import ServiceCurve
from tritonstack.operations.scaling_simulation.serving import ServingSetup
from tritonstack.operations.scaling_simulation.simulation import (
    ScalingRun,
    SimulationSetup,
    simulate_scaling,
)
from tritonstack.spec.endpoints.scaling import Scaling
from tritonstack_local.cloud_folder import CloudAddress
from tritonstack_local.sagemaker.control_plane.app import SageMakerApp, create_app
from tritonstack_local.sagemaker.dependencies import Dependencies
from tritonstack_local.sagemaker.servers.limits import ServerSlots
from tritonstack_local.server import LocalCloud
from tritonstack_local.settings import CloudSettings, TimeScale

MOST = 8
SLEEP_S = 0.1
UTILIZATION = 0.6
"""The target, as a share of what an instance answers."""
LARGEST_ERROR = 0.25
NOTICED_S = 0.5
"""Time until the cloud notices that instances serve: it looks several times per minute."""
WARM_UP = 20
USERS = 3
"""Concurrent users who keep an instance busy."""
CODE = f"""
import time
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            time.sleep({SLEEP_S})
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", x * 2)]))
        return responses
"""
TRACES: Mapping[str, Sequence[tuple[float, float]]] = {
    "ramp": [(4, 4.0), *((2, rate) for rate in (7.0, 10.0, 14.0, 18.0, 23.0, 28.0, 34.0)), (10, 36.0)],
    "spike": [(5, 4.0), (9, 18.0), (20, 4.0)],
    "wave": [(1, 4.0 + 22.0 * np.sin(np.pi * minute / 30) ** 2) for minute in range(36)],
}
"""Minutes (of the cloud's time scale) with requests per second."""


@dataclass(frozen=True)
class Measured:
    """What an endpoint did under one trace."""

    offsets: Offsets
    minutes: int
    instances: tuple[int, ...]
    """In service at the end of each minute."""
    p99_s: float
    failed: int
    service_s: float


def main() -> None:
    """Run all traces and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minute", type=float, default=5.0, help="seconds of a minute in the cloud")
    parser.add_argument("--provisioning", type=float, default=2.5, help="minutes until an instance serves")
    parser.add_argument("--traces", default=",".join(TRACES), help="names of traces")
    parser.add_argument("--serve", type=CloudSettings.from_json, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve)
        return
    table = Table("trace", "provisioning", "minutes within one", "p99 measured", "p99 simulated", "result")
    results = []
    for name in options.traces.split(","):
        measured = measure(TRACES[name], options.minute, options.provisioning)
        for provisioning in (options.provisioning, 0.0):
            run = simulated(measured, options.minute, provisioning)
            within, error = compared(measured, run, options.minute)
            passed = within == 1.0 and abs(error) <= LARGEST_ERROR
            results.append((name, provisioning > 0, passed))
            table.add_row(
                name,
                f"{provisioning:g} min",
                f"{within:.0%} of {measured.minutes}",
                f"{measured.p99_s * 1000:,.0f} ms",
                f"{(run.p99_ms or 0.0) * options.minute / 60:,.0f} ms ({error:+.0%})",
                "passed" if passed else "failed",
            )
            report(name, measured, run)
    Console().print(table)
    expected = all(passed for _, is_real, passed in results if is_real)
    discerning = all(not passed for name, is_real, passed in results if not is_real and name == "spike")
    sys.exit(0 if expected and discerning else 1)


def report(name: str, measured: Measured, run: ScalingRun) -> None:
    """Print the instances of each minute."""
    served = f"{measured.failed} failed, service time {measured.service_s * 1000:.1f} ms"
    print(f"{name}: {served}", file=sys.stderr)
    print("  measured ", *measured.instances, file=sys.stderr)
    print("  simulated", *(part.in_service for part in run.slices), file=sys.stderr)


def simulated(measured: Measured, minute_s: float, provisioning_min: float) -> ScalingRun:
    """Simulate the same arrivals in the time of AWS, which runs 60 / `minute_s` times slower."""
    slower = 60 / minute_s
    service_s = measured.service_s * slower
    trace = Trace(measured.offsets * slower, measured.minutes * 60.0)
    setup = SimulationSetup(
        ServingSetup(
            ServiceCurve("measured", (1 / service_s,), np.ones(1)),
            timeout_s=60 * slower,
            counts_answers=True,  # as the local cloud does
        ),
        FleetPlan(StartTimes(provisioning_min * 60, NOTICED_S * slower, removal_s=10.0)),
        plan(minute_s),
        initial=1,
        delay_periods=0.125,  # it evaluates alarms four times per minute
    )
    demand = captured_demand(trace, factor=1.0, begin=MONDAY, seed=1)
    return simulate_scaling(setup, demand)


def compared(measured: Measured, run: ScalingRun, minute_s: float) -> tuple[float, float]:
    """Return the share of minutes within one instance, and the relative error of the p99."""
    counts = [part.in_service for part in run.slices]
    within = 0
    for minute, instances in enumerate(measured.instances):
        near = counts[max(0, minute - 1) : minute + 2]
        within += min(near) - 1 <= instances <= max(near) + 1
    simulated_s = (run.p99_ms or 0.0) / 1000 * minute_s / 60
    return within / len(measured.instances), simulated_s / measured.p99_s - 1


def target(minute_s: float) -> float:
    """Return the target of requests per minute and instance."""
    return round(UTILIZATION * minute_s / SLEEP_S)


def plan(minute_s: float) -> ScalingPlan:
    """Return the policy, as the simulator reads it."""
    scaling = Scaling(min_instances=1, max_instances=MOST)
    tracked = Tracking(
        "invocations_per_instance",
        target(minute_s),
        predefined="SageMakerVariantInvocationsPerInstance",
    )
    return ScalingPlan("main", "", "", 1, MOST, scaling, (tracked,), (), ())


def measure(parts: Sequence[tuple[float, float]], minute_s: float, provisioning_min: float) -> Measured:
    """Send a trace to a new endpoint, and note its instances each minute."""
    with tempfile.TemporaryDirectory() as temporary:
        settings = CloudSettings(
            state_dir=Path(temporary) / "state",
            server_home=find_project(Path(__file__).parent).server_dir,
            account_id=ACCOUNT,
            region=REGION,
            time_scale=TimeScale(minute_s),
            provisioning_minutes=provisioning_min,
        )
        with started(settings) as cloud:
            publish(cloud, Path(temporary))
            service_s = measured_service_s(cloud)
            register(cloud, minute_s)
            return send(cloud, parts, minute_s, service_s)


def send(cloud: Cloud, parts: Sequence[tuple[float, float]], minute_s: float, service_s: float) -> Measured:
    """Send a trace from the begin of a minute of the cloud on."""
    offsets, minutes = arrivals(parts, minute_s)
    facts = EndpointClient(endpoint_name=NAME, runtime=cloud.client("sagemaker-runtime")).request_facts
    sender = LoadSender(cloud, facts, [PreparedRequest(BODY, JSON)], timeout_s=65)

    async def sent() -> Sent:
        try:
            return await open_loop(sender.send, offsets)
        finally:
            await sender.close()

    time.sleep(minute_s - time.time() % minute_s)
    began, counts = time.time(), list[int]()
    watcher = threading.Thread(target=watch, args=(cloud, began, minute_s, minutes, counts))
    watcher.start()
    responses = run_loop(sent())
    watcher.join()
    latencies = np.array(responses.ended) - np.array(responses.due)
    answered = np.array([not error for error in responses.errors])
    return Measured(
        offsets,
        minutes,
        tuple(counts),
        float(np.percentile(latencies[answered], 99)),
        int((~answered).sum()),
        service_s,
    )


def arrivals(parts: Sequence[tuple[float, float]], minute_s: float) -> tuple[Offsets, int]:
    """Return when the requests of a trace are due, evenly within each part, and its minutes."""
    pieces, begin = [], 0.0
    for minutes, rate in parts:
        count = round(minutes * minute_s * rate)
        pieces.append(begin + (np.arange(count) + 0.5) * minutes * minute_s / count)
        begin += minutes * minute_s
    return np.concatenate(pieces), round(begin / minute_s)


def watch(cloud: Cloud, began: float, minute_s: float, minutes: int, counts: list[int]) -> None:
    """Note the instances in service at the end of each minute."""
    sagemaker = cloud.client("sagemaker")
    for minute in range(1, minutes + 1):
        time.sleep(max(0.0, began + minute * minute_s - 0.05 - time.time()))
        (variant,) = sagemaker.describe_endpoint(EndpointName=NAME)["ProductionVariants"]
        counts.append(variant["CurrentInstanceCount"])


def publish(cloud: Cloud, folder: Path) -> None:
    """Create an endpoint of the model that sleeps."""
    version = folder / "repository/sleeper/1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(CODE)
    (version.parent / "config.pbtxt").write_text(CONFIG)
    archive = folder / "model.tar.gz"
    pack(folder / "repository", archive)
    keys = {"aws_access_key_id": "AWS_ACCESS_KEY_ID", "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY"}
    session = boto3.Session(
        region_name=REGION, **{name: cloud.variables[variable] for name, variable in keys.items()}
    )
    deploy(session, cloud.variables["AWS_ENDPOINT_URL"], archive, QUIET)


def measured_service_s(cloud: Cloud) -> float:
    """Return the usual time between two answers of an instance that is never idle.

    In a queue, only this time counts: the way to the instance and back is hidden by it.
    """
    runtime = cloud.client("sagemaker-runtime")

    def ask(_: int) -> float:
        runtime.invoke_endpoint(EndpointName=NAME, Body=BODY, ContentType=JSON)["Body"].read()
        return time.perf_counter()

    with ThreadPoolExecutor(USERS) as pool:
        answered = sorted(pool.map(ask, range(5 * WARM_UP)))
    return float(np.median(np.diff(answered[WARM_UP:])))


def register(cloud: Cloud, minute_s: float) -> None:
    """Register the endpoint with the policy."""
    scaling = cloud.client("application-autoscaling")
    key = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"endpoint/{NAME}/variant/AllTraffic",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }
    scaling.register_scalable_target(**key, MinCapacity=1, MaxCapacity=MOST)
    cooldowns = plan(minute_s).scaling
    scaling.put_scaling_policy(
        **key,
        PolicyName="requests",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": target(minute_s),
            "PredefinedMetricSpecification": {
                "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
            },
            "ScaleOutCooldown": cooldowns.scale_out_cooldown_s,
            "ScaleInCooldown": cooldowns.scale_in_cooldown_s,
        },
    )


@contextmanager
def started(settings: CloudSettings) -> Iterator[Cloud]:
    """Start a cloud with room for 8 servers in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.simulation", "--serve", settings.resolved().to_json()]
    with (
        (settings.state_dir.parent / "cloud.log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            yield Cloud(ACCOUNT, REGION, json.loads(process.stdout.readline()))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=90)


def serve(settings: CloudSettings) -> None:
    """Serve a cloud until a signal; print the variables that direct AWS tools to it."""

    def make(*, dependencies: Dependencies, server_home: Path) -> SageMakerApp:
        roomy = replace(dependencies, machine=ServerSlots(cores=MOST, instance_bytes=2**28))
        return create_app(dependencies=roomy, server_home=server_home)

    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    listener = socket.create_server(("127.0.0.1", 0))
    cloud = LocalCloud(settings=settings, listener=listener, make_sagemaker=make)
    try:
        address = CloudAddress(
            cloud.endpoint_url,
            cloud.port,
            os.getpid(),
            ACCOUNT,
            REGION,
            secret=cloud.secret,
        )
        print(json.dumps(address.environment()), flush=True)
        while not ended.wait(0.5):
            continue
    finally:
        cloud.close()


if __name__ == "__main__":
    main()
