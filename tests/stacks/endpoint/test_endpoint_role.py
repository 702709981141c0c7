"""The permissions of an endpoint's roles: least privilege, even with names known only at deploy time."""

import json

import pytest

from tests.stacks.templates import granting, statements

KEY = {"Ref": "KeyArn"}
SINGLE_ROLE = ["single", "shelf", "queued", "component", "rolled"]


@pytest.mark.parametrize("name", ["single", "compared", "shadowed"])
def test_role_reads_the_environments_models_only(every, name):
    """A variant that was removed may still serve its model, so the role reads more than the present ones."""
    bucket = "arn:aws:s3:::tritonstack-every-artifacts-123456789012-us-east-1"
    statement, *_ = granting(every.endpoint(name), "s3:GetObject")
    assert statement["Resource"] == [f"{bucket}/models/*"]


def test_a_model_can_grant_the_key_only_to_aws(every):
    """A grant outlives the endpoint and the role; without the condition, any principal could receive one."""
    statements = [item for name in SINGLE_ROLE for item in granting(every.endpoint(name), "kms:CreateGrant")]
    assert statements
    for statement in statements:
        assert statement["Action"] == ["kms:CreateGrant"]
        assert statement["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}
        assert statement["Resource"] == [KEY]


@pytest.mark.parametrize("name", SINGLE_ROLE)
def test_only_actions_without_resource_types_use_a_wildcard(every, name):
    template = every.endpoint(name)
    unlimited = [action for s in statements(template) if s["Resource"] == ["*"] for action in s["Action"]]
    listing = [action for action in unlimited if action.startswith("ec2:Describe")]
    assert sorted(set(unlimited) - set(listing)) == ["cloudwatch:PutMetricData", "ecr:GetAuthorizationToken"]


@pytest.mark.parametrize("name", SINGLE_ROLE)
def test_no_action_is_a_pattern_and_the_policy_fits_into_a_role(every, name):
    template = every.endpoint(name)
    assert not [action for s in statements(template) for action in s["Action"] if "*" in action]
    # IAM's limit for all inline policies of a role; references are shorter than what they become.
    assert len(json.dumps(statements(template), separators=(",", ":"))) < 8_000


def test_interfaces_are_created_only_in_the_environments_subnets_and_security_groups(every):
    subnets, two, three = granting(every.endpoint("single"), "ec2:CreateNetworkInterface")
    prefix = "arn:aws:ec2:us-east-1:123456789012:"
    for statement, kind, parameter in (
        (subnets, "subnet", "SubnetIds"),
        (two, "security-group", "SecurityGroupIds"),
    ):
        joined = {"Fn::Join": [f",{prefix}{kind}/", {"Ref": parameter}]}
        whole = {"Fn::Join": ["", [f"{prefix}{kind}/", joined]]}
        assert statement["Resource"] == {"Fn::Split": [",", whole]}
    assert three["Resource"] == [f"{prefix}network-interface/*"]
