"""An overload during a canary: the good release stays, and a bad one is still rolled back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.constructs.monitored_endpoints import of_type, resources, variant
from tests.e2e.load.crowd import asking
from tests.e2e.load.hosted import ENDPOINT, HostedCloud, hosted_cloud, limited
from tritonstack.base.naming import alarm_name
from tritonstack.constructs.monitoring.endpoint_alarms import EndpointAlarms
from tritonstack.constructs.monitoring.monitored import Monitored
from tritonstack.files.endpoint.endpoint import Alarms
from tritonstack_local.settings import TimeScale

pytestmark = pytest.mark.soak

DELAY_S, WAITING = 0.3, 6
"""A full queue takes 1.8 s; an answer without a queue is in time."""
ALARMS = Alarms(latency_p99_ms=1000, server_errors=5)
OWN = [alarm_name(ENDPOINT, "AllTraffic", kind) for kind in ("latency-p99", "server-errors")]
ROLLBACK = [f"{name}-rollout" for name in OWN]
CANARY = {
    "BlueGreenUpdatePolicy": {
        "TrafficRoutingConfiguration": {
            "Type": "CANARY",
            "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 50},
            "WaitIntervalInSeconds": 540,
        },
        "TerminationWaitInSeconds": 60,
        "MaximumExecutionTimeoutInSeconds": 3600,
    },
    "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": name} for name in ROLLBACK]},
}


def put_alarms(cloud: HostedCloud) -> None:
    """Create the alarms that the CDK creates for such an endpoint."""
    endpoint = Monitored(ENDPOINT, (variant("AllTraffic"),))
    made = resources(
        lambda stack: EndpointAlarms(
            stack, "Alarms", monitored=endpoint, alarms=ALARMS, compared=("latency-p99", "server-errors")
        )
    )
    alarms = {alarm["AlarmName"]: alarm for alarm in of_type(made, "AWS::CloudWatch::Alarm").values()}
    for name in (*OWN, *ROLLBACK):
        cloud.client("cloudwatch").put_metric_alarm(**alarms[name])


def fired(cloud: HostedCloud, name: str) -> bool:
    history = cloud.client("cloudwatch").describe_alarm_history(AlarmName=name, HistoryItemType="StateUpdate")
    return any("to ALARM" in item["HistorySummary"] for item in history["AlarmHistoryItems"])


def test_an_overload_keeps_a_good_release_and_a_bad_one_is_rolled_back(tmp_path: Path) -> None:
    with hosted_cloud(tmp_path / "cloud", TimeScale(minute_s=2)) as cloud:
        for name, formula in {"first": "x + 1", "better": "x + 2", "broken": "x + unknown"}.items():
            archive = limited(formula=formula, delay_s=DELAY_S, waiting=WAITING)
            cloud.config(name, archive, instances=2)
        cloud.sagemaker.create_endpoint(EndpointName=ENDPOINT, EndpointConfigName="first")
        assert cloud.settled()["EndpointStatus"] == "InService"
        put_alarms(cloud)

        with asking(cloud.ask, clients=40, pause_s=0.2) as crowd:
            cloud.sagemaker.update_endpoint(
                EndpointName=ENDPOINT, EndpointConfigName="better", DeploymentConfig=CANARY
            )
            described = cloud.settled()
        assert described["EndpointConfigName"] == "better", described.get("FailureReason")
        # It was an overload: requests were rejected, and the endpoint's own alarms told people so.
        assert {outcome.error for outcome in crowd.failed} == {"ModelError"}
        assert len(crowd.failed) > 100
        assert all(fired(cloud, name) for name in OWN)
        assert {outcome.answer for outcome in crowd.outcomes} == {None, 21.0, 22.0}

        with asking(cloud.ask, clients=4, pause_s=0.5):
            cloud.sagemaker.update_endpoint(
                EndpointName=ENDPOINT, EndpointConfigName="broken", RetainDeploymentConfig=True
            )
            described = cloud.settled()
        assert described["EndpointConfigName"] == "better"
        assert any(name in described["FailureReason"] for name in ROLLBACK)
        assert cloud.ask() == 22
