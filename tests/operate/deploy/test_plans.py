"""The description of what a deploy will do."""

import re
from typing import Any

import pytest

from tests.operate.conftest import STACK
from tests.operate.deploy.test_updates import copied, of_type
from tritonstack.operate.deploy.plans import StackPlan, describe_rollout, plan_stack
from tritonstack.operate.synth.assembly import COMPONENT, CONFIG, ENDPOINT, MODEL, EndpointTemplate, Template

FULL = "tritonstack-dev-search"


def properties(template: Template, kind: str) -> Any:
    return next(iter(of_type(template, kind).values()))["Properties"]


def plan(old: Template | None, new: Template) -> StackPlan:
    return plan_stack(STACK, deployed=old, new=new)


def test_what_needs_no_rollout(template):
    assert (plan(None, template).action, FULL in plan(None, template).summary) == ("create", True)
    assert plan(template, copied(template)).summary == f"{STACK}: nothing changes"
    changed = copied(template)
    for kind in (CONFIG, MODEL):
        properties(changed, kind)["Tags"] = []
    properties(changed, ENDPOINT)["DeploymentConfig"]["BlueGreenUpdatePolicy"]["TerminationWaitInSeconds"] = 0
    properties(changed, "AWS::CloudWatch::Alarm")["Threshold"] = 1
    stack_plan = plan(template, changed)
    assert (stack_plan.action, stack_plan.summary) == (
        "change",
        f"{STACK}: is changed; endpoint {FULL} is not affected",
    )


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
    stack_plan = plan(template, changed)
    assert (stack_plan.action, stack_plan.reasons) == ("roll-out", (reason,))
    assert stack_plan.summary == f"{STACK}: rollout of endpoint {FULL}: {reason}"
    assert stack_plan.details == [stack_plan.rollout]
    assert stack_plan.rollout.startswith("all at once,")


def test_an_instance_type_change_needs_two_phases(synthesized):
    stack_plan = plan(
        synthesized().template(STACK), synthesized(instance_type="ml.m7i.xlarge").template(STACK)
    )
    assert stack_plan.action == "two-phase"
    reason = "main: instance type ml.c7i.xlarge → ml.m7i.xlarge"
    assert stack_plan.summary == f"{STACK}: rollout of endpoint {FULL} in two phases: {reason}"
    assert stack_plan.details[1].startswith("two phases, because")


def test_impossible_combinations_are_rejected(synthesized):
    changed = copied(synthesized(instance_type="ml.m7i.xlarge").template(STACK))
    properties(changed, CONFIG)["AsyncInferenceConfig"] = {}
    stack_plan = plan(synthesized().template(STACK), changed)
    assert stack_plan.action == "rejected"
    assert stack_plan.summary.startswith(f"{STACK}: rejected: the endpoint")
    assert "instance type" not in stack_plan.summary


def test_a_model_change_of_a_component_rolls_it_out(template):
    """With components, the endpoint's own configuration names no model."""
    [model] = of_type(template, MODEL)
    old = copied(template)
    del properties(old, CONFIG)["ProductionVariants"][0]["ModelName"]
    specification = {"ModelName": {"Fn::GetAtt": [model, "ModelName"]}}
    policy = {"MaximumBatchSize": {"Type": "COPY_COUNT", "Value": 1}, "WaitIntervalInSeconds": 120}
    old["Resources"]["Component"] = {
        "Type": COMPONENT,
        "Properties": {"Specification": specification, "DeploymentConfig": {"RollingUpdatePolicy": policy}},
    }
    new = copied(old)
    properties(new, MODEL)["PrimaryContainer"]["ModelDataUrl"] += "x"
    stack_plan = plan(old, new)
    assert (stack_plan.action, stack_plan.reasons) == ("roll-out", ("inference component: artifact",))
    assert "rolling, 1 per batch, 120 s" in stack_plan.rollout


def percent(value: int) -> dict[str, Any]:
    return {"Type": "CAPACITY_PERCENT", "Value": value}


def shifting(kind: str, wait: int, kept: int, **size: Any) -> dict[str, Any]:
    routing = {"Type": kind, "WaitIntervalInSeconds": wait, **size}
    return {
        "BlueGreenUpdatePolicy": {"TerminationWaitInSeconds": kept, "TrafficRoutingConfiguration": routing}
    }


ROLLING = {"RollingUpdatePolicy": {"MaximumBatchSize": percent(25), "WaitIntervalInSeconds": 300}}


@pytest.mark.parametrize(
    ("policy", "numbers"),
    [
        (ROLLING, ["rolling", "25", "300"]),
        (shifting("CANARY", 600, 60, CanarySize=percent(10)), ["canary", "10", "600", "60"]),
        (shifting("LINEAR", 360, 0, LinearStepSize=percent(50)), ["linear", "50", "360", "0"]),
        ({}, ["all", "0"]),
    ],
)
def test_every_rollout_is_described(template, policy, numbers):
    changed = copied(template)
    alarms = {"Alarms": [{"AlarmName": "one"}, {"AlarmName": "two"}]}
    deployment = {**policy, "AutoRollbackConfiguration": alarms}
    properties(changed, ENDPOINT)["DeploymentConfig"] = deployment
    described = describe_rollout(EndpointTemplate(changed))
    assert re.findall(r"^\w+|\d+", described) == numbers
    assert described.endswith(": one, two")
