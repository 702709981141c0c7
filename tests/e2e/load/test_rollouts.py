"""200 clients of an ensemble during updates: to a good version, then to one that an alarm rolls back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.load.crowd import Crowd, asking
from tests.e2e.load.hosted import ENDPOINT, HostedCloud, ensemble, hosted_cloud

pytestmark = pytest.mark.soak

CLIENTS = 200
PAUSE_S = 4.0
ALARM = "crowded-latency-p99"
SLOW_S = 8.0
"""The broken version answers rightly, but far too slowly."""
LIMIT_S = 5.0
GUARDED = {
    "BlueGreenUpdatePolicy": {
        "TrafficRoutingConfiguration": {
            "Type": "CANARY",
            "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 50},
            # At the cloud's pace a minute lasts a second.
            "WaitIntervalInSeconds": 1800,
        },
        "TerminationWaitInSeconds": 300,
        "MaximumExecutionTimeoutInSeconds": 3600,
    },
    "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": ALARM}]},
}


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[HostedCloud]:
    with hosted_cloud(tmp_path / "cloud") as cloud:
        cloud.config("first", ensemble(adds=2), instances=2)
        cloud.sagemaker.create_endpoint(EndpointName=ENDPOINT, EndpointConfigName="first")
        assert cloud.settled()["EndpointStatus"] == "InService"
        cloud.client("cloudwatch").put_metric_alarm(
            AlarmName=ALARM,
            Namespace="AWS/SageMaker",
            MetricName="ModelLatency",
            Dimensions=[
                {"Name": "EndpointName", "Value": ENDPOINT},
                {"Name": "VariantName", "Value": "AllTraffic"},
            ],
            ExtendedStatistic="p99",
            Period=120,
            EvaluationPeriods=1,
            Threshold=LIMIT_S * 1_000_000,
            ComparisonOperator="GreaterThanOrEqualToThreshold",
            TreatMissingData="notBreaching",
        )
        yield cloud


def test_no_request_fails_during_an_update_and_a_rollback(cloud: HostedCloud) -> None:
    cloud.config("better", ensemble(adds=3), instances=2)
    cloud.config("broken", ensemble(adds=4, delay_s=SLOW_S), instances=2)
    with asking(cloud.ask, clients=CLIENTS, pause_s=PAUSE_S) as crowd:
        cloud.sagemaker.update_endpoint(
            EndpointName=ENDPOINT, EndpointConfigName="better", DeploymentConfig=GUARDED
        )
        described = cloud.settled()
        assert described["EndpointConfigName"] == "better", described.get("FailureReason")
        tell("the good update", crowd)

        cloud.sagemaker.update_endpoint(
            EndpointName=ENDPOINT, EndpointConfigName="broken", RetainDeploymentConfig=True
        )
        described = cloud.settled()
        tell("both updates", crowd)
    assert described["EndpointStatus"] == "InService"
    assert described["EndpointConfigName"] == "better"
    assert ALARM in described["FailureReason"]
    print(described["FailureReason"])
    assert crowd.failed == []
    assert {outcome.answer for outcome in crowd.outcomes} == {42.0, 43.0, 44.0}
    assert cloud.ask() == 43


def tell(what: str, crowd: Crowd) -> None:
    answers = sorted(outcome.answer for outcome in crowd.outcomes if outcome.error is None)
    counted = {answer: answers.count(answer) for answer in sorted(set(answers))}
    print(
        f"{what}: {len(crowd.outcomes)} requests of {CLIENTS} clients, {len(crowd.failed)} failed, "
        f"slowest {crowd.slowest_s():.1f} s, answers {counted}"
    )
