"""Change sets: create, describe, execute, and become obsolete."""

import json

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.cloudformation.stacks import parameter


def test_a_stack_is_created_through_a_change_set(stack):
    plan = stack.propose({"A": parameter(Name="/a"), "B": parameter({"Ref": "A"})}, kind="CREATE")
    assert (plan["Status"], plan["ExecutionStatus"]) == ("CREATE_COMPLETE", "AVAILABLE")
    changes = {
        item["ResourceChange"]["LogicalResourceId"]: item["ResourceChange"] for item in plan["Changes"]
    }
    assert {name: change["Action"] for name, change in changes.items()} == {"A": "Add", "B": "Add"}
    assert stack.described()["StackStatus"] == "REVIEW_IN_PROGRESS"
    assert stack.account.client("ssm").describe_parameters()["Parameters"] == []

    stack.cloudformation.execute_change_set(StackName="stack", ChangeSetName="plan")
    assert stack.settled() == "CREATE_COMPLETE"
    with pytest.raises(ClientError, match="InvalidChangeSetStatus"):
        stack.cloudformation.execute_change_set(StackName="stack", ChangeSetName="plan")


def test_a_stack_under_review_can_be_deleted(stack):
    stack.propose({"A": parameter()}, kind="CREATE")
    assert stack.delete() == "DELETE_COMPLETE"


def test_an_update_shows_what_changes_and_why(stack):
    stack.create({"A": parameter("1", Name="/a"), "B": parameter({"Ref": "A"})})
    plan = stack.propose({"A": parameter("1", Name="/a2"), "B": parameter({"Ref": "A"}), "C": parameter()})
    changes = {
        item["ResourceChange"]["LogicalResourceId"]: item["ResourceChange"] for item in plan["Changes"]
    }
    root = changes["A"]["Details"][0]
    assert changes["A"]["PolicyAction"] == "ReplaceAndDelete"
    assert root["Target"] == {
        "Attribute": "Properties",
        "Name": "Name",
        "RequiresRecreation": "Always",
        "Path": "/Properties/Name",
    }
    assert (root["Evaluation"], root["ChangeSource"]) == ("Static", "DirectModification")
    dependent = changes["B"]["Details"][0]
    assert (dependent["Evaluation"], dependent["ChangeSource"]) == ("Dynamic", "ResourceReference")
    assert dependent["CausingEntity"] == "A"
    assert changes["C"]["Action"] == "Add"


def test_executing_a_change_set_makes_the_others_obsolete(stack):
    stack.create({"A": parameter("1")})
    body = json.dumps({"Resources": {"A": parameter("2")}})
    for name in ("one", "two"):
        stack.cloudformation.create_change_set(StackName="stack", ChangeSetName=name, TemplateBody=body)
    stack.cloudformation.execute_change_set(StackName="stack", ChangeSetName="one")
    stack.settled()
    with pytest.raises(ClientError, match="OBSOLETE") as caught:
        stack.cloudformation.execute_change_set(StackName="stack", ChangeSetName="two")
    assert caught.value.response["Error"]["Code"] == "InvalidChangeSetStatus"
