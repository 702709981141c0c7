"""Rollouts of updates, what rolls them back, and what survives them."""

import pytest

from tritonstack.base.errors import UsageError
from tritonstack.constructs.endpoint.rollouts import (
    check_rollback_names,
    component_deployment,
    endpoint_deployment,
)
from tritonstack.files.endpoint.rollouts import AllAtOnce, Canary, Linear, Rolling


def test_every_rollback_alarm_exists(every):
    assert every.workspace.spec.endpoints
    for name in every.workspace.spec.endpoints:
        template = every.endpoint(name)
        alarms = {
            alarm["Properties"]["AlarmName"]
            for kind in ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")
            for alarm in template.find_resources(kind).values()
        }
        kinds = ("AWS::SageMaker::Endpoint", "AWS::SageMaker::InferenceComponent")
        rollback_names = {
            alarm["AlarmName"]
            for kind in kinds
            for thing in template.find_resources(kind).values()
            for alarm in thing["Properties"]
            .get("DeploymentConfig", {})
            .get("AutoRollbackConfiguration", {})
            .get("Alarms", [])
        }
        assert rollback_names <= alarms
        assert len(rollback_names) <= 10


@pytest.mark.parametrize(
    "rollout",
    [
        AllAtOnce(bake_s=3600),
        Canary(strategy="canary", wait_s=3600),
        Linear(strategy="linear", step_percent=10, wait_s=3600),
        Rolling(strategy="rolling", batch_percent=5, wait_s=3600),
    ],
)
def test_the_time_limit_stays_within_sagemakers(rollout):
    deployment = endpoint_deployment(rollout, starting_s=7200, alarm_names=["a"])
    policy = deployment.rolling_update_policy or deployment.blue_green_update_policy
    assert 600 <= policy.maximum_execution_timeout_in_seconds <= 28_800


def test_more_alarms_than_sagemaker_watches_are_rejected():
    check_rollback_names([f"alarm-{number}" for number in range(10)])
    with pytest.raises(UsageError, match=r"11 rollback.*at most 10"):
        check_rollback_names([f"alarm-{number}" for number in range(11)])


def test_component_has_no_partial_traffic_rollout():
    with pytest.raises(UsageError, match="got 'canary'"):
        component_deployment(Canary(strategy="canary"), batch_copies=1, starting_s=600, alarm_names=[])
