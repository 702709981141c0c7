"""The API of Application Auto Scaling in a running cloud, through boto3."""

import pytest
from botocore.exceptions import ClientError

from tritonstack_local.autoscaling.requests import (
    OTHER_DIMENSIONS,
    OTHER_NAMESPACES,
    OTHER_SCHEDULES,
    OTHER_STEPS,
    PREDICTION,
    START_AND_END,
)

KEY = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/e/variant/v",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}
INVOCATIONS = "SageMakerVariantInvocationsPerInstance"


@pytest.fixture
def scaling(account):
    return account.client("application-autoscaling")


@pytest.fixture
def cloudwatch(account):
    return account.client("cloudwatch")


@pytest.fixture
def registered(scaling):
    return scaling.register_scalable_target(**KEY, MinCapacity=1, MaxCapacity=4)["ScalableTargetARN"]


def track(scaling, metric=INVOCATIONS, *, key=None, name="p", target=1000.0, **configuration):
    return scaling.put_scaling_policy(
        **(key or KEY),
        PolicyName=name,
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": target,
            "PredefinedMetricSpecification": {"PredefinedMetricType": metric},
            **configuration,
        },
    )


def alarms_of(cloudwatch):
    return {alarm["AlarmName"]: alarm for alarm in cloudwatch.describe_alarms()["MetricAlarms"]}


def shown(alarm):
    fields = ("MetricName", "Statistic", "Period", "EvaluationPeriods", "Threshold", "ComparisonOperator")
    return tuple(alarm[name] for name in fields)


@pytest.mark.usefixtures("registered")
def test_target_tracking_has_two_alarms_that_follow_the_policy(scaling, cloudwatch):
    made = track(scaling)
    alarms = alarms_of(cloudwatch)
    assert [item["AlarmName"] for item in made["Alarms"]] == sorted(alarms)
    high, low = (alarms[item["AlarmName"]] for item in made["Alarms"])
    assert high["AlarmName"].startswith("TargetTracking-endpoint/e/variant/v-AlarmHigh-")
    assert low["AlarmName"].startswith("TargetTracking-endpoint/e/variant/v-AlarmLow-")
    assert [item["AlarmARN"] for item in made["Alarms"]] == [high["AlarmArn"], low["AlarmArn"]]
    assert shown(high) == ("InvocationsPerInstance", "Sum", 60, 3, 1000.0, "GreaterThanThreshold")
    assert shown(low) == ("InvocationsPerInstance", "Sum", 60, 15, 900.0, "LessThanThreshold")
    assert {item["Name"]: item["Value"] for item in high["Dimensions"]} == {
        "EndpointName": "e",
        "VariantName": "v",
    }
    assert high["AlarmActions"][0].startswith(f"{made['PolicyARN']}:createdBy/")
    assert high["AlarmDescription"].startswith("DO NOT EDIT OR DELETE.")
    (described,) = scaling.describe_scaling_policies(**KEY)["ScalingPolicies"]
    assert described["Alarms"] == made["Alarms"]

    again = track(scaling, target=500.0)
    assert (again["PolicyARN"], again["Alarms"]) == (made["PolicyARN"], made["Alarms"])
    assert {alarm["Threshold"] for alarm in alarms_of(cloudwatch).values()} == {500.0, 450.0}
    out_only = track(scaling, DisableScaleIn=True)
    assert out_only["Alarms"] == made["Alarms"][:1]
    assert list(alarms_of(cloudwatch)) == [high["AlarmName"]]
    scaling.delete_scaling_policy(**KEY, PolicyName="p")
    assert alarms_of(cloudwatch) == {}


@pytest.mark.usefixtures("registered")
def test_deregistering_a_target_removes_what_belongs_to_it(scaling, cloudwatch):
    track(scaling)
    scaling.put_scheduled_action(**KEY, ScheduledActionName="s", Schedule="cron(0 8 * * ? *)")
    scaling.deregister_scalable_target(**KEY)
    assert alarms_of(cloudwatch) == {}
    assert scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"] == []
    assert scaling.describe_scheduled_actions(ServiceNamespace="sagemaker")["ScheduledActions"] == []
    with pytest.raises(ClientError) as error:
        scaling.deregister_scalable_target(**KEY)
    assert error.value.response["Error"]["Code"] == "ObjectNotFoundException"


def test_targets_are_described_as_registered(scaling, registered, account):
    (target,) = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    assert target["ScalableTargetARN"] == registered
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 4)
    assert target["RoleARN"].endswith("/AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint")
    assert set(target["SuspendedState"].values()) == {False}
    suspended = {"DynamicScalingInSuspended": True}
    scaling.register_scalable_target(**KEY, MaxCapacity=9, SuspendedState=suspended)
    (target,) = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 9)
    assert target["SuspendedState"]["DynamicScalingInSuspended"] is True
    listed = [item for item in account.inventory() if item["service"] == "application-autoscaling"]
    assert [item["type"] for item in listed] == ["scalable-target"]


STEPS = {"AdjustmentType": "ChangeInCapacity", "StepAdjustments": [{"ScalingAdjustment": 1}]}
DAILY = {"Schedule": "cron(0 8 * * ? *)"}
REJECTED_SCHEDULES = (
    "every day",
    "at(2030-01-15T08:30:00)",
    "rate(1 day)",
    "cron(60 8 * * ? *)",
    "cron(0 8 ? * ? *)",
)
COPIES = "sagemaker:inference-component:DesiredCopyCount"
OVERLAPPING = [
    {"MetricIntervalLowerBound": 0.0, "MetricIntervalUpperBound": 9.0, "ScalingAdjustment": 1},
    {"MetricIntervalLowerBound": 5.0, "ScalingAdjustment": 2},
]


def stepping(**configuration):
    return {"PolicyType": "StepScaling", "StepScalingPolicyConfiguration": {**STEPS, **configuration}}


@pytest.mark.parametrize(
    ("call", "fields", "code", "message"),
    [
        ("register_scalable_target", {"MaxCapacity": 0}, "ValidationException", "Minimum capacity 1 must be"),
        ("put_scaling_policy", {"PolicyType": "PredictiveScaling"}, "ValidationException", PREDICTION),
        ("put_scaling_policy", {"PolicyType": "StepScaling"}, "ValidationException", "StepScalingPolicyConf"),
        ("put_scaling_policy", stepping(StepAdjustments=OVERLAPPING), "ValidationException", "can't overlap"),
        ("put_scaling_policy", {"PolicyName": "\u00fc"}, "ValidationException", r"pattern: \\p{Print}"),
        ("put_scaling_policy", stepping(AdjustmentType="ExactCapacity"), "ValidationException", OTHER_STEPS),
        *(
            ("put_scheduled_action", {"Schedule": schedule}, "ValidationException", OTHER_SCHEDULES)
            for schedule in REJECTED_SCHEDULES
        ),
        ("put_scheduled_action", DAILY | {"EndTime": 2e9}, "ValidationException", START_AND_END),
        ("put_scheduled_action", DAILY | {"Timezone": "Nowhere"}, "ValidationException", "Timezone"),
        ("register_scalable_target", {"ResourceId": "endpoint/e"}, "ValidationException", OTHER_DIMENSIONS),
        ("register_scalable_target", {"ScalableDimension": COPIES}, "ValidationException", OTHER_DIMENSIONS),
        ("register_scalable_target", {"ServiceNamespace": "ecs"}, "ValidationException", OTHER_NAMESPACES),
        ("delete_scaling_policy", {}, "ObjectNotFoundException", "No scaling policy found"),
        ("delete_scheduled_action", {}, "ObjectNotFoundException", "No scheduled action found"),
        ("describe_scaling_activities", {"NextToken": "x"}, "InvalidNextTokenException", "next token"),
    ],
)
@pytest.mark.usefixtures("registered")
def test_invalid_requests_are_rejected(scaling, call, fields, code, message):
    names = {"policy": {"PolicyName": "p"}, "action": {"ScheduledActionName": "s"}}
    named = names.get(call.rpartition("_")[2], {})
    with pytest.raises(ClientError, match=message) as caught:
        getattr(scaling, call)(**(KEY | named | fields))
    assert caught.value.response["Error"]["Code"] == code


@pytest.mark.usefixtures("registered")
def test_wrong_metrics_are_rejected(scaling):
    with pytest.raises(ClientError, match="scalable dimension"):
        track(scaling, "SageMakerInferenceComponentInvocationsPerCopy")
    track(scaling)
    with pytest.raises(ClientError, match="Only one TargetTrackingScaling"):
        track(scaling, name="q")
    with pytest.raises(ClientError, match="scalable target"):
        track(scaling, key=KEY | {"ResourceId": "endpoint/x/variant/v"})
