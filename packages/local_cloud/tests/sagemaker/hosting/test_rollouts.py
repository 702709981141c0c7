"""Rollout steps of a deployment configuration, and invalid configurations."""

import pytest

from tritonstack_local.sagemaker.hosting.updates import check_rollout, plan_rollout
from tritonstack_local.service.errors import ServiceError

ALL = {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}


def percent(value):
    return {"Type": "CAPACITY_PERCENT", "Value": value}


def count(value):
    return {"Type": "INSTANCE_COUNT", "Value": value}


def blue_green(*, bake=0, **routing):
    return {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": {"WaitIntervalInSeconds": 60, **routing},
            "TerminationWaitInSeconds": bake,
        }
    }


def rolling(size, **fields):
    return {"RollingUpdatePolicy": {"MaximumBatchSize": size, "WaitIntervalInSeconds": 60, **fields}}


def steps(config, new, old=None):
    rollout = plan_rollout(config, new=new, old=old or new)
    return [
        (sum(step.new.values()), sum(step.active.values()), sum(step.old.values()), step.share, step.wait_s)
        for step in rollout.steps
    ]


@pytest.mark.parametrize("config", [None, {}, {"AutoRollbackConfiguration": {}}])
def test_default_rollout_shifts_all_traffic_at_once(config):
    assert steps(config, {"a": 3}) == [(3, 3, 0, 1.0, 0)]


def test_all_at_once_bakes_before_the_old_fleet_is_deleted():
    assert steps(blue_green(bake=300, Type="ALL_AT_ONCE"), {"a": 2, "b": 1}) == [(3, 3, 0, 1.0, 300)]


@pytest.mark.parametrize(
    ("size", "canary"), [(percent(25), 1), (percent(50), 2), (percent(1), 1), (count(2), 2)]
)
def test_a_canary_shifts_one_part_and_then_the_rest(size, canary):
    assert steps(blue_green(bake=300, Type="CANARY", CanarySize=size), {"a": 4}) == [
        (4, canary, 4, canary / 4, 60),
        (4, 4, 0, 1.0, 300),
    ]


@pytest.mark.parametrize(
    ("size", "active"), [(percent(25), [1, 2, 3, 4]), (percent(50), [2, 4]), (count(1), [1, 2, 3, 4])]
)
def test_linear_steps_are_equal(size, active):
    found = steps(blue_green(bake=300, Type="LINEAR", LinearStepSize=size), {"a": 4})
    assert [(step[1], step[3]) for step in found] == [(part, part / 4) for part in active]
    assert [step[4] for step in found] == [60] * (len(active) - 1) + [300]
    assert [step[2] for step in found] == [4] * (len(active) - 1) + [0]


def test_variants_shift_together_in_separate_steps():
    rollout = plan_rollout(
        blue_green(Type="LINEAR", LinearStepSize=percent(50)), new={"a": 4, "b": 2}, old={"a": 4, "b": 2}
    )
    assert [dict(step.active) for step in rollout.steps] == [{"a": 2, "b": 1}, {"a": 4, "b": 2}]


def test_rolling_replaces_batches_and_keeps_one_old_instance_until_the_end():
    assert steps(rolling(percent(50)), {"a": 4}) == [(2, 2, 2, 0.5, 60), (4, 4, 0, 1.0, 60)]
    assert [step[2] for step in steps(rolling(count(1)), {"a": 4}, {"a": 1})] == [1, 1, 1, 0]


def test_rolling_plans_its_rollback():
    assert plan_rollout(rolling(count(1)), new={"a": 4}, old={"a": 4}).rollback_batch is None
    config = rolling(count(1), RollbackMaximumBatchSize=percent(50))
    assert plan_rollout(config, new={"a": 4}, old={"a": 4}).rollback_batch == 2


@pytest.mark.parametrize(
    ("config", "counts", "words"),
    [
        (blue_green(Type="CANARY"), {"a": 2}, "CanarySize must be given"),
        (blue_green(Type="LINEAR"), {"a": 2}, "LinearStepSize must be given"),
        (blue_green(Type="ALL_AT_ONCE", CanarySize=count(1)), {"a": 2}, "CanarySize must not be given"),
        (blue_green(Type="CANARY", CanarySize=percent(60)), {"a": 9}, "between 1% and 50%"),
        (blue_green(Type="LINEAR", LinearStepSize=percent(5)), {"a": 40}, "between 10% and 50%"),
        (blue_green(Type="CANARY", CanarySize=percent(50)), {"a": 1}, "less than or equal to 50%"),
        (blue_green(Type="CANARY", CanarySize=count(2)), {"a": 3}, "which has 3 instance"),
        (rolling(percent(60)), {"a": 9}, "between 5% and 50%"),
        (rolling(count(1)), {"a": 2, "b": 2}, "multiple production variants"),
        (rolling(count(1)) | blue_green(**ALL), {"a": 2}, "Only one of"),
    ],
)
def test_invalid_deployment_configurations_are_rejected(config, counts, words):
    with pytest.raises(ServiceError, match=words):
        check_rollout(config, counts)


def test_half_of_the_instances_is_a_valid_step():
    check_rollout(blue_green(Type="CANARY", CanarySize=count(1)), {"a": 2})
