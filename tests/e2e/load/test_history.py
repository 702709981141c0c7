"""`tritonstack simulate --history` against a running local cloud whose minutes are real."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from packages.sizing.tests.simulation.test_serving import level, saved
from tests.e2e.load.crowd import asking
from tests.e2e.load.hosted import HostedCloud, hosted_cloud, limited
from tests.operate.verify.smoke_environment import workspace_of
from tests.projects import edit
from tritonstack import Session
from tritonstack.cli.main import run
from tritonstack.files.loading import load_workspace
from tritonstack.operate.shared.aws import cloud_of
from tritonstack_local.settings import TimeScale

MINUTES, TARGET, MOST, CLIENTS = 6, 60, 3, 5
ENDPOINTS = f"""\
  search:
    kind: ensemble
    model: minilm
    instance_type: ml.c7i.xlarge
    scaling: {{max_instances: {MOST}, invocations_per_instance: {TARGET}}}
"""


def deploy(cloud: HostedCloud, name: str) -> None:
    """Create an endpoint of a model that sleeps 50 ms, and scale it as the environment file does."""
    cloud.config(name, limited(formula="x", delay_s=0.05, waiting=100), instances=1)
    sagemaker = cloud.sagemaker
    (variant,) = sagemaker.describe_endpoint_config(EndpointConfigName=name)["ProductionVariants"]
    sagemaker.create_endpoint_config(
        EndpointConfigName="main", ProductionVariants=[variant | {"VariantName": "main"}]
    )
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName="main")
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName=name, WaiterConfig={"Delay": 1})
    key = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"endpoint/{name}/variant/main",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }
    scaling = cloud.client("application-autoscaling")
    scaling.register_scalable_target(**key, MinCapacity=1, MaxCapacity=MOST)
    metric = {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}
    scaling.put_scaling_policy(
        **key,
        PolicyName="requests",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": TARGET,
            "PredefinedMetricSpecification": metric,
            "ScaleOutCooldown": 60,
            "ScaleInCooldown": 300,
        },
    )


@pytest.mark.soak
def test_the_minutes_of_a_running_cloud_are_those_that_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = workspace_of(tmp_path, ENDPOINTS).project
    (tmp_path / "one.json").write_text(saved(*(level(users) for users in (1, 2, 4))).text())
    with hosted_cloud(tmp_path / "cloud", TimeScale(minute_s=60)) as hosted:
        edit(project.environment_file("dev"), "us-east-1", hosted.address.region)
        edit(project.environment_file("dev"), "0" * 12, hosted.address.account_id)
        spec = load_workspace(project, "dev").spec
        found = cloud_of(spec, variables=hosted.address.environment())
        monkeypatch.setattr(Session, "cloud", lambda *_, **__: found)
        name = spec.endpoint_name("search")
        deploy(hosted, name)
        body = json.dumps({"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [20]}]})

        def ask() -> Any:
            answer = hosted.runtime.invoke_endpoint(EndpointName=name, Body=body)
            return json.load(answer["Body"])["outputs"][0]["data"]

        time.sleep(60 - time.time() % 60)
        begin = datetime.now(UTC).replace(second=0, microsecond=0)
        end = begin + timedelta(minutes=MINUTES)
        with asking(ask, clients=CLIENTS, pause_s=1.0) as crowd:
            time.sleep(end.timestamp() - time.time() - 3)
        assert not crowd.failed
        time.sleep(end.timestamp() - time.time() + 1)
        words = ["simulate", "dev", "search", "--bench", str(tmp_path / "one.json")]
        period = f"{begin:%Y-%m-%dT%H:%M}/{MINUTES}m"
        without_waits = ["--provisioning", "0", "--loading", "0"]
        command = ["--json", "--project", str(tmp_path), *words, "--history", period, *without_waits]
        assert run(command) == 0
    result = json.loads(capsys.readouterr().out)
    recorded, slices = result["history"]["recorded"], result["present"]["slices"]
    # Every request is in the minute in which it was answered, and is simulated in this minute.
    assert sum(one["requests"] for one in recorded) == len(crowd.outcomes)
    assert [one["requests"] for one in slices] == [one["requests"] for one in recorded]
    assert result["history"]["minutes_compared"] == len(slices) == MINUTES
    assert all(one["errors"] == 0 and one["p50_ms"] >= 50 for one in recorded)
    # Both scale from 1 to 3 after three minutes above the target; the simulator waits for the datapoints.
    assert [one["instances"] for one in recorded[:3]] == [1, 1, 1]
    assert [one["in_service"] for one in slices[:3]] == [1, 1, 1]
    assert recorded[-1]["instances"] == slices[-1]["in_service"] == MOST
    assert result["history"]["instances_within_one"] >= round((MINUTES - 1) / MINUTES, 4)
