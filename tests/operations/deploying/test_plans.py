"""The description of what a deploy will do."""

from typing import Any

import pytest

from tests.operations.conftest import STACK
from tests.operations.deploying.test_updates import copied, of_type
from tritonstack.operations.deploying.assembly import Template
from tritonstack.operations.deploying.endpoint_template import (
    COMPONENT,
    CONFIG,
    ENDPOINT,
    MODEL,
    EndpointTemplate,
)
from tritonstack.operations.deploying.plans import StackPlan, describe_rollout, plan_stack

FULL = "tritonstack-dev-search"


def properties(template: Template, kind: str) -> Any:
    return next(iter(of_type(template, kind).values()))["Properties"]


def plan(old: Template | None, new: Template) -> StackPlan:
    return plan_stack(STACK, deployed=old, new=new)


def test_missing_stacks_are_created(template):
    made = plan(None, template)
    assert (made.action, made.summary) == ("create", f"{STACK}: is created with the endpoint {FULL}")


def test_repeated_request_changes_nothing(template):
    assert plan(template, copied(template)).summary == f"{STACK}: nothing changes"


def test_an_alarm_change_is_not_a_rollout(template):
    changed = copied(template)
    properties(changed, "AWS::CloudWatch::Alarm")["Threshold"] = 1
    made = plan(template, changed)
    assert (made.action, made.summary) == (
        "change",
        f"{STACK}: is changed; endpoint {FULL} is not affected",
    )


def test_a_tag_or_another_rollout_is_not_a_rollout(template):
    changed = copied(template)
    for kind in (CONFIG, MODEL):
        properties(changed, kind)["Tags"] = []
    properties(changed, ENDPOINT)["DeploymentConfig"]["BlueGreenUpdatePolicy"]["TerminationWaitInSeconds"] = 0
    assert plan(template, changed).action == "change"


@pytest.mark.parametrize(
    ("kind", "path", "value", "reason"),
    [
        (MODEL, ("PrimaryContainer", "ModelDataUrl"), "s3://other", "main: artifact"),
        (MODEL, ("PrimaryContainer", "Image"), "other", "main: image"),
        (MODEL, ("PrimaryContainer", "Environment"), {}, "main: environment variables"),
        (MODEL, ("EnableNetworkIsolation",), False, "main: EnableNetworkIsolation True → False"),
        (CONFIG, ("ProductionVariants", 0, "VolumeSizeInGB"), 64, "main: volume 30 → 64"),
        (CONFIG, ("DataCaptureConfig",), {"EnableCapture": True}, "DataCaptureConfig"),
    ],
)
def test_reasons_for_a_rollout(template, kind, path, value, reason):
    changed = copied(template)
    place = properties(changed, kind)
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    made = plan(template, changed)
    assert (made.action, made.reasons) == ("roll-out", (reason,))
    assert made.summary == f"{STACK}: rollout of endpoint {FULL}: {reason}"
    assert made.details == [made.rollout]
    assert made.rollout.startswith("all at once, old instances kept 360 s; automatic rollback on: ")


def test_added_variants_are_named(template):
    changed = copied(template)
    variants = properties(changed, CONFIG)["ProductionVariants"]
    variants.append({**variants[0], "VariantName": "challenger"})
    assert plan(template, changed).reasons == ("variant 'challenger' is added",)


def test_an_instance_type_change_needs_two_phases(synthesized):
    made = plan(synthesized().template(STACK), synthesized(instance_type="ml.m7i.xlarge").template(STACK))
    assert made.action == "two-phase"
    reason = "main: instance type ml.c7i.xlarge → ml.m7i.xlarge"
    assert made.summary == f"{STACK}: rollout of endpoint {FULL} in two phases: {reason}"
    assert made.details[1].startswith("two phases, because the instance type of variant 'main' changes from")


def test_impossible_combinations_are_rejected(synthesized):
    changed = copied(synthesized(instance_type="ml.m7i.xlarge").template(STACK))
    properties(changed, CONFIG)["AsyncInferenceConfig"] = {}
    made = plan(synthesized().template(STACK), changed)
    assert made.action == "rejected"
    assert made.summary.startswith(f"{STACK}: rejected: the endpoint is real-time")
    assert "instance type" not in made.summary


def test_a_model_change_of_a_component_rolls_it_out(template):
    """With components, the endpoint's own configuration names no model."""
    [model] = of_type(template, MODEL)
    old = copied(template)
    del properties(old, CONFIG)["ProductionVariants"][0]["ModelName"]
    specification = {"ModelName": {"Fn::GetAtt": [model, "ModelName"]}}
    policy = {"MaximumBatchSize": {"Type": "COPY_COUNT", "Value": 1}, "WaitIntervalInSeconds": 120}
    old["Resources"]["Component"] = {
        "Type": COMPONENT,
        "Properties": {
            "Specification": specification,
            "DeploymentConfig": {"RollingUpdatePolicy": policy},
        },
    }
    new = copied(old)
    properties(new, MODEL)["PrimaryContainer"]["ModelDataUrl"] += "x"
    made = plan(old, new)
    assert (made.action, made.reasons) == ("roll-out", ("inference component: artifact",))
    assert made.rollout == "rolling, 1 per batch, 120 s between batches; no rollback alarms"


def percent(value: int) -> dict[str, Any]:
    return {"Type": "CAPACITY_PERCENT", "Value": value}


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (
            {"RollingUpdatePolicy": {"MaximumBatchSize": percent(25), "WaitIntervalInSeconds": 300}},
            "rolling, 25 % per batch, 300 s between batches",
        ),
        (
            {
                "BlueGreenUpdatePolicy": {
                    "TerminationWaitInSeconds": 60,
                    "TrafficRoutingConfiguration": {
                        "Type": "CANARY",
                        "WaitIntervalInSeconds": 600,
                        "CanarySize": percent(10),
                    },
                }
            },
            "canary, 10 % first, then 600 s wait, old instances kept 60 s",
        ),
        (
            {
                "BlueGreenUpdatePolicy": {
                    "TerminationWaitInSeconds": 0,
                    "TrafficRoutingConfiguration": {
                        "Type": "LINEAR",
                        "WaitIntervalInSeconds": 360,
                        "LinearStepSize": percent(50),
                    },
                }
            },
            "linear, 50 % per step, 360 s between steps, old instances kept 0 s",
        ),
        ({}, "all at once, old instances kept 0 s"),
    ],
)
def test_every_rollout_is_described(template, policy, words):
    changed = copied(template)
    properties(changed, ENDPOINT)["DeploymentConfig"] = {
        **policy,
        "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "one"}, {"AlarmName": "two"}]},
    }
    assert describe_rollout(EndpointTemplate(changed)) == (f"{words}; automatic rollback on: one, two")
