"""Application Auto Scaling: targets per metric, steps, schedules, and scaling from zero."""

from typing import Any

import aws_cdk as cdk
import pytest

from tests.constructs.monitored_endpoints import (
    NAME,
    monitored,
    of_type,
    options,
    resources,
    scaling,
    variant,
)
from tritonstack.constructs.endpoint.autoscaling import Autoscaling
from tritonstack.files.endpoint.scaling import Scaling

TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"
ALARM = "AWS::CloudWatch::Alarm"


def scaled(endpoint: Any, serving: Any) -> dict[str, dict[str, Any]]:
    def build(stack: cdk.Stack) -> None:
        exists = cdk.CfnResource(stack, "Endpoint", type="AWS::SageMaker::Endpoint")
        Autoscaling(stack, "Autoscaling", monitored=endpoint, options=serving, endpoint=exists)

    return resources(build)


def with_scaling(**settings: Any) -> dict[str, dict[str, Any]]:
    """The only variant of a real-time endpoint with this scaling."""
    instance = settings.pop("instance", "ml.g5.12xlarge")
    own = scaling(**{"max_instances": 4} | settings)
    return scaled(monitored(variant(instance=instance, scaling=own)), options(scaling=own))


def only(stack: dict[str, dict[str, Any]], resource_type: str) -> dict[str, Any]:
    (properties,) = of_type(stack, resource_type).values()
    return properties


def policy(stack: dict[str, dict[str, Any]], end: str) -> tuple[str, dict[str, Any]]:
    """Return the policy whose name ends so, with its logical id."""
    ((key, properties),) = (
        (key, item) for key, item in of_type(stack, POLICY).items() if item["PolicyName"].endswith(end)
    )
    return key, properties


def alarm(stack: dict[str, dict[str, Any]], end: str) -> dict[str, Any]:
    (properties,) = (item for item in of_type(stack, ALARM).values() if item["AlarmName"].endswith(f"-{end}"))
    return properties


def test_every_variant_has_its_own_scaling_including_the_shadow():
    main = variant()
    challenger = variant("challenger", scaling=Scaling(max_instances=3, concurrent_requests_per_model=4))
    moving = variant("shadow", shadow=True)
    stack = scaled(monitored(main, challenger, moving), options(scaling={"invocations_per_instance": 700}))
    assert sorted(item["ResourceId"] for item in of_type(stack, TARGET).values()) == [
        f"endpoint/{NAME}/variant/{name}" for name in ("challenger", "main", "shadow")
    ]
    _, tracking = policy(stack, "challenger-concurrent-requests-per-model")
    assert tracking["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] == 4


def test_fixed_instance_count_is_restored_next_to_a_scaled_variant():
    fixed = variant("shadow", shadow=True, scaling=Scaling(min_instances=3, max_instances=3))
    stack = scaled(monitored(variant(), fixed), options())
    limits = {
        item["ResourceId"].rpartition("/")[2]: (item["MinCapacity"], item["MaxCapacity"])
        for item in of_type(stack, TARGET).values()
    }
    assert limits == {"main": (1, 4), "shadow": (3, 3)}
    assert [key for key in of_type(stack, POLICY) if "shadow" in key] == []


STEPS = {
    "metric": "invocations_per_instance",
    "scale_out": [{"above": 100, "add": 1}, {"above": 250, "add": 2}, {"above": 400, "add": 5}],
    "scale_in": {"below": 30, "remove": 2},
}


def test_scale_out_steps_start_at_the_first_bound():
    stack = with_scaling(steps=STEPS, scale_out_cooldown_s=90)
    key, step = policy(stack, "scale-out")
    assert step["PolicyType"] == "StepScaling"
    configuration = step["StepScalingPolicyConfiguration"]
    assert configuration["Cooldown"] == 90
    assert configuration["StepAdjustments"] == [
        {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": 150, "ScalingAdjustment": 1},
        {"MetricIntervalLowerBound": 150, "MetricIntervalUpperBound": 300, "ScalingAdjustment": 2},
        {"MetricIntervalLowerBound": 300, "ScalingAdjustment": 5},
    ]
    fires = alarm(stack, "scale-out")
    assert (fires["Threshold"], fires["ComparisonOperator"]) == (100, "GreaterThanThreshold")
    assert (fires["MetricName"], fires["Statistic"]) == ("InvocationsPerInstance", "Sum")
    assert (fires["Period"], fires["EvaluationPeriods"]) == (60, 1)
    assert fires["AlarmActions"] == [{"Ref": key}]


def test_scale_in_step_is_below_its_bound_and_treats_missing_data_as_idle():
    stack = with_scaling(steps=STEPS, scale_in_cooldown_s=600)
    _, step = policy(stack, "scale-in")
    configuration = step["StepScalingPolicyConfiguration"]
    assert configuration["Cooldown"] == 600
    assert configuration["StepAdjustments"] == [{"MetricIntervalUpperBound": 0, "ScalingAdjustment": -2}]
    fires = alarm(stack, "scale-in")
    assert (fires["Threshold"], fires["ComparisonOperator"]) == (30, "LessThanThreshold")
    assert fires["EvaluationPeriods"] == 5
    (expression,) = [query["Expression"] for query in fires["Metrics"] if query["ReturnData"]]
    assert expression == "FILL(load, 0)"


@pytest.mark.parametrize(
    ("metric", "published", "statistic", "threshold"),
    [
        ("concurrent_requests_per_model", "ConcurrentRequestsPerModel", "Maximum", 50),
        ("cpu_utilization_percent", "CPUUtilization", "Average", 50 * 48),
        ("gpu_utilization_percent", "GPUUtilization", "Average", 50 * 4),
    ],
)
def test_bounds_are_in_the_unit_of_the_metric(metric, published, statistic, threshold):
    """An ml.g5.12xlarge has 48 vCPUs and 4 GPUs, whose utilization SageMaker adds up."""
    steps = STEPS | {"metric": metric, "scale_out": [{"above": 50, "add": 1}], "scale_in": {"below": 10}}
    fires = alarm(with_scaling(steps=steps), "scale-out")
    assert (fires["MetricName"], fires["Statistic"], fires["Threshold"]) == (published, statistic, threshold)


def test_schedules_set_other_limits_in_their_time_zone():
    stack = with_scaling(
        schedules={
            "office": {"at": "08:05", "days": "MON-FRI", "timezone": "Europe/Berlin", "min": 4, "max": 9},
            "night": {"at": "19:30", "min": 1, "max": 2},
        }
    )
    assert only(stack, TARGET)["ScheduledActions"] == [
        {
            "ScheduledActionName": "office",
            "Schedule": "cron(5 8 ? * MON,TUE,WED,THU,FRI *)",
            "Timezone": "Europe/Berlin",
            "ScalableTargetAction": {"MinCapacity": 4, "MaxCapacity": 9},
        },
        {
            "ScheduledActionName": "night",
            "Schedule": "cron(30 19 ? * MON,TUE,WED,THU,FRI,SAT,SUN *)",
            "Timezone": "UTC",
            "ScalableTargetAction": {"MinCapacity": 1, "MaxCapacity": 2},
        },
    ]


@pytest.mark.parametrize(
    ("days", "written_out"),
    [
        ("SAT,SUN", "SAT,SUN"),
        ("FRI-MON", "MON,FRI,SAT,SUN"),
        ("WED", "WED"),
        ("MON-WED,TUE,FRI", "MON,TUE,WED,FRI"),
    ],
)
def test_days_are_written_out(days, written_out):
    stack = with_scaling(schedules={"then": {"at": "00:00", "days": days, "min": 1, "max": 2}})
    (action,) = only(stack, TARGET)["ScheduledActions"]
    assert action["Schedule"] == f"cron(0 0 ? * {written_out} *)"


# Inference components
