"""What limits every delivery role: accounts, boundaries, execution policies, and IAM's sizes."""

import json

import pytest

from stacks.delivery import DeliveryStack, delivery_target
from tests.delivery.delivery_project import PROD, REGION
from tests.delivery.permissions.iam import may, roles, within
from tests.delivery.permissions.resources import (
    DEV_BUCKET,
    DEVS_KEY,
    KEY,
    STAGING_BUCKET,
    arn,
    executing,
    iam_role,
)
from tests.stacks.assemblies import new_app

STAGING_READER = iam_role("tritonstack-delivery-staging-promotion-reader")
PROD_BUCKET = f"arn:aws:s3:::tritonstack-prod-artifacts-{PROD}-{REGION}"


@pytest.mark.parametrize(
    ("environment", "action", "resource", "allowed"),
    [
        # The source itself is read only within one account, and another account's through its reader.
        ("staging", "s3:GetObject", f"{DEV_BUCKET}/models/encoder/ab/model.tar.gz", True),
        ("staging", "s3:GetObject", f"{DEV_BUCKET}/endpoints/x", False),
        ("prod", "s3:GetObject", f"{STAGING_BUCKET}/models/encoder/ab/model.tar.gz", False),
        ("prod", "sts:AssumeRole", STAGING_READER, True),
        ("prod", "sts:AssumeRole", STAGING_READER.replace("staging", "dev"), False),
        ("prod", "s3:PutObject", f"{PROD_BUCKET}/models/x", True),
        ("prod", "s3:PutObject", f"{PROD_BUCKET}/endpoints/x", False),
        ("prod", "s3:DeleteObject", f"{PROD_BUCKET}/models/x", False),
    ],
)
def test_promote_reads_the_source_and_writes_models(delivery_stacks, environment, action, resource, allowed):
    role = f"tritonstack-delivery-{environment}-promote"
    assert may(delivery_stacks[environment], role, action, resource) is allowed


def test_every_role_has_a_boundary(delivery_stacks):
    by_stack = {
        name: [role["PermissionsBoundary"] for role in roles(template).values()]
        for name, template in delivery_stacks.items()
    }
    assert set(by_stack) == {"dev", "staging", "prod"}
    assert all(by_stack.values())
    assert set(by_stack.pop("prod")) == {f"arn:aws:iam::{PROD}:policy/team-boundary"}
    for name, boundaries in by_stack.items():
        resources = delivery_stacks[name]["Resources"]
        assert {resources[reference["Ref"]]["Type"] for reference in boundaries} == {
            "AWS::IAM::ManagedPolicy"
        }


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_boundary_limits_every_other_grant(delivery_stacks, environment):
    """Someone attaches an administrator policy to the deploy role."""
    role = f"tritonstack-delivery-{environment}-deploy"
    everything = {
        "Roles": [{"Ref": roles(delivery_stacks[environment])[role]["id"]}],
        "PolicyDocument": {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]},
    }
    administrator = {"Type": "AWS::IAM::Policy", "Properties": everything}
    resources = delivery_stacks[environment]["Resources"] | {"Administrator": administrator}
    template = delivery_stacks[environment] | {"Resources": resources}
    assert may(template, role, "s3:DeleteObject", f"{DEV_BUCKET}/models/x")
    for action in ("iam:CreateUser", "iam:PutRolePolicy", "iam:UpdateAssumeRolePolicy", "iam:DeletePolicy"):
        assert not may(template, role, action, iam_role("tritonstack-delivery-dev-deploy"))
    assert not may(template, role, "sts:AssumeRole", iam_role("Admin"))
    assert not may(template, role, "sagemaker:CreateEndpoint", "*", **{"aws:RequestedRegion": "us-east-1"})


def test_an_environment_is_recognized_by_tags_that_its_file_sets(delivery_stacks):
    policy = executing(delivery_stacks["staging"], "staging")
    staging = {"aws:ResourceTag/project": "tritonstack", "aws:ResourceTag/environment": "staging"}
    region = {"aws:RequestedRegion": REGION}
    assert within(policy, "kms:ScheduleKeyDeletion", KEY, {**region, **staging})
    assert not within(policy, "kms:ScheduleKeyDeletion", KEY, {**region, **DEVS_KEY})
    assert not within(policy, "kms:CreateAlias", arn("kms", "alias/tritonstack-dev"), region)


def test_delivery_stack_is_deployed_manually_and_separately(roads, tmp_path):
    app = new_app(tmp_path)
    DeliveryStack(app, target=delivery_target(roads, "dev"))
    app.synth()
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    properties = manifest["artifacts"]["tritonstack-delivery-dev"]["properties"]
    assert "assumeRoleArn" not in properties  # the rights of whoever deploys it
    assert "cloudFormationExecutionRoleArn" not in properties
    assert properties["terminationProtection"] is True
    assert properties["tags"] == {"team": "search", "project": "tritonstack", "purpose": "delivery of dev"}
