"""Change sets predict deployments, for many random changes."""

import json
import random
from typing import Any

import pytest

from packages.local_cloud.tests.cloudformation.stacks import StackDriver, parameter, resource

NAMES = "ABCDEFG"
REPLACED = "Requested update requires the creation of a new physical resource; hence creating one."
CONDITIONS = {
    "On": {"Fn::Equals": [{"Ref": "Switch"}, "on"]},
    "Off": {"Fn::Not": [{"Condition": "On"}]},
}


def template(chance: random.Random, revision: int) -> dict[str, Any]:
    """A template of parameters and topics that read each other, some under a condition."""
    resources: dict[str, Any] = {}
    for position, name in enumerate(NAMES):
        if chance.random() < 0.15:
            continue
        earlier = [other for other in NAMES[:position] if other in resources]
        # Nothing reads conditional resources: they may not exist.
        readable = [other for other in earlier if "Condition" not in resources[other]]
        body = one_resource(chance, name, readable)
        if chance.random() < 0.2:
            body["Condition"] = chance.choice(["On", "Off"])
        if chance.random() < 0.2:
            body["Metadata"] = {"revision": revision}
        if chance.random() < 0.2:
            body["DeletionPolicy"] = body["UpdateReplacePolicy"] = "Delete"
        resources[name] = body
    resources["Anchor"] = parameter("anchor")
    return {
        "Resources": resources,
        "Conditions": CONDITIONS,
        "Parameters": {"Switch": {"Type": "String", "Default": chance.choice(["on", "off"])}},
    }


def one_resource(chance: random.Random, name: str, readable: list[str]) -> dict[str, Any]:
    value: Any = chance.choice(["one", "two"])
    if readable and chance.random() < 0.7:
        value = reading(chance, chance.choice(readable))
    if name in "BE":
        properties: dict[str, Any] = {"KmsMasterKeyId": value}
        if chance.random() < 0.5:
            properties["TopicName"] = f"{name}-{chance.choice('xy')}"
        return resource("AWS::SNS::Topic", **properties)
    tags = {"Tags": {"team": chance.choice("ab")}} if chance.random() < 0.3 else {}
    named = {"Name": f"/{name}/{chance.choice('xy')}"} if chance.random() < 0.7 else {}
    return parameter(value, **named, **tags)


def reading(chance: random.Random, other: str) -> Any:
    attribute = "TopicName" if other in "BE" else "Value"
    return chance.choice(
        [
            {"Ref": other},
            {"Fn::GetAtt": [other, attribute]},
            {"Fn::Sub": f"read ${{{other}}}"},
            {"Fn::Join": ["-", ["read", {"Fn::GetAtt": [other, attribute]}]]},
            {"Fn::If": ["On", {"Ref": other}, "off"]},
        ]
    )


SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (2, 3))]


@pytest.mark.parametrize("seed", SEEDS)
def test_change_sets_match_deployments(account, seed):
    chance = random.Random(seed)  # noqa: S311 - the same ones every time
    stack = StackDriver(account)
    first = template(chance, 0)
    stack.create(first.pop("Resources"), **first)
    for revision in range(1, 13):
        wanted = template(chance, revision)
        resources = wanted.pop("Resources")
        plan = proposed(stack, resources, wanted)
        before = len(stack.events())
        if plan["Status"] == "FAILED":
            continue
        stack.cloudformation.execute_change_set(StackName="stack", ChangeSetName="plan")
        assert stack.settled() == "UPDATE_COMPLETE", stack.reasons()
        happened = what_happened(stack, before)
        said = {
            item["ResourceChange"]["LogicalResourceId"]: item["ResourceChange"] for item in plan["Changes"]
        }
        assert happened.keys() <= said.keys()
        for name, change in said.items():
            assert happened.get(name) in possible(change), (name, change, json.dumps(resources))
        assert proposed(stack, resources, wanted)["Status"] == "FAILED", "there was something left to do"


def proposed(stack: StackDriver, resources: dict[str, Any], sections: dict[str, Any]) -> dict[str, Any]:
    stack.cloudformation.delete_change_set(StackName="stack", ChangeSetName="plan")
    return stack.propose(resources, **sections)


def possible(change: dict[str, Any]) -> set[str | None]:
    """Return the possible results of a planned change; one with unknown values may change nothing."""
    if change["Action"] != "Modify":
        return {change["Action"]}
    properties = [item for item in change["Details"] if item["Target"]["Attribute"] == "Properties"]
    if not properties:
        return {None}
    wont = {None} if all(item["Evaluation"] == "Dynamic" for item in properties) else set()
    return (
        wont
        | {
            "True": {"Replace"},
            "False": {"Modify"},
            "Conditional": {"Replace", "Modify"},
        }[change["Replacement"]]
    )


def what_happened(stack: StackDriver, before: int) -> dict[str, str]:
    """Return the change of each resource, from the stack's events."""
    found = stack.cloudformation.describe_stack_events(StackName="stack")["StackEvents"]
    happened: dict[str, str] = {}
    for event in list(reversed(found))[before:]:
        name, status = event["LogicalResourceId"], event["ResourceStatus"]
        if event["ResourceType"] == "AWS::CloudFormation::Stack":
            continue
        if status == "CREATE_IN_PROGRESS":
            happened.setdefault(name, "Add")
        elif event.get("ResourceStatusReason") == REPLACED:
            happened[name] = "Replace"
        elif status == "UPDATE_IN_PROGRESS":
            happened.setdefault(name, "Modify")
        elif status.startswith("DELETE"):
            happened.setdefault(name, "Remove")
    return happened
