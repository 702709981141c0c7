"""Endpoints of a running cloud that scale by load, alarms, and schedules."""

import re
import threading
import time

import pytest

from packages.local_cloud.tests.cloudwatch.test_evaluator import eventually, put_alarm
from packages.local_cloud.tests.sagemaker.cloud import IMAGE, a_variant, role_of

KEY = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/e/variant/AllTraffic",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}


@pytest.fixture
def endpoint(account):
    sagemaker = account.client("sagemaker")
    sagemaker.create_model(
        ModelName="m",
        ExecutionRoleArn=role_of(sagemaker),
        PrimaryContainer={"Image": IMAGE, "Environment": {"FAKE_ANSWER": "yes"}},
    )
    sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[a_variant("m")])
    sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="c")
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName="e", WaiterConfig={"Delay": 1})
    yield account
    account.client("application-autoscaling").deregister_scalable_target(**KEY)
    sagemaker.delete_endpoint(EndpointName="e")


def count_and_status(account):
    endpoint = account.client("sagemaker").describe_endpoint(EndpointName="e")
    return endpoint["ProductionVariants"][0]["DesiredInstanceCount"], endpoint["EndpointStatus"]


def activities_of(account):
    scaling = account.client("application-autoscaling")
    return scaling.describe_scaling_activities(**KEY)["ScalingActivities"]


def causes_of(activities):
    """Return the alarm and the policy of each activity."""
    cause = re.compile(r"monitor alarm (\S+) in state \w+ triggered policy (\S+)")
    return {cause.fullmatch(activity["Cause"]).groups() for activity in activities}


class Load:
    """Invokes an endpoint until the end of the context, at a pause that may change."""

    def __init__(self, account, pause_s):
        self.pause_s = pause_s
        self._runtime = account.client("sagemaker-runtime")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _run(self):
        while not self._ended.wait(self.pause_s):
            self._runtime.invoke_endpoint(EndpointName="e", Body=b"ask")


def test_load_scales_out_and_in_again(endpoint):
    scaling = endpoint.client("application-autoscaling")
    scaling.register_scalable_target(**KEY, MinCapacity=1, MaxCapacity=3)
    # A minute lasts 0.2 seconds: at full load, one thread sends more than ten requests in it.
    policy = scaling.put_scaling_policy(
        **KEY,
        PolicyName="follow",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": 3.0,
            "PredefinedMetricSpecification": {
                "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
            },
            "ScaleOutCooldown": 60,
            "ScaleInCooldown": 60,
        },
    )
    with Load(endpoint, 0.005) as load:
        eventually(lambda: count_and_status(endpoint), lambda state: state == (3, "InService"))
        load.pause_s = 0.15
    eventually(lambda: count_and_status(endpoint), lambda state: state == (1, "InService"))
    eventually(lambda: activities_of(endpoint), lambda latest: latest[0]["StatusCode"] == "Successful")
    activities = activities_of(endpoint)
    assert {activity["StatusCode"] for activity in activities} == {"Successful"}
    assert causes_of(activities) == {(alarm["AlarmName"], "follow") for alarm in policy["Alarms"]}
    counts = [activity["Description"].rstrip(".").rpartition(" ")[2] for activity in activities]
    assert counts[0] == "1"
    assert "3" in counts
    history = endpoint.client("cloudwatch").describe_alarm_history(
        AlarmName=policy["Alarms"][0]["AlarmName"], HistoryItemType="Action"
    )
    assert history["AlarmHistoryItems"][0]["HistorySummary"].startswith("Successfully executed")


def test_an_alarm_triggers_its_step_policy_every_minute(endpoint):
    scaling, cloudwatch = (endpoint.client(name) for name in ("application-autoscaling", "cloudwatch"))
    scaling.register_scalable_target(**KEY, MinCapacity=1, MaxCapacity=3)
    policy = scaling.put_scaling_policy(
        **KEY,
        PolicyName="steps",
        PolicyType="StepScaling",
        StepScalingPolicyConfiguration={
            "AdjustmentType": "ChangeInCapacity",
            "StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}],
            "Cooldown": 0,
        },
    )
    missing_policy = "arn:aws:autoscaling:eu-west-1:1:scalingPolicy:x:resource/y:policyName/z"
    put_alarm(cloudwatch, AlarmActions=[policy["PolicyARN"], missing_policy], Threshold=1)
    deadline = time.monotonic() + 15
    while count_and_status(endpoint) != (3, "InService"):
        assert time.monotonic() < deadline
        cloudwatch.put_metric_data(Namespace="Shop", MetricData=[{"MetricName": "Errors", "Value": 5}])
        time.sleep(0.05)
    assert causes_of(activities_of(endpoint)) == {("a", "steps")}
    history = cloudwatch.describe_alarm_history(AlarmName="a", HistoryItemType="Action")
    assert any(missing_policy in item["HistorySummary"] for item in history["AlarmHistoryItems"])
