"""What limits every delivery role: accounts, boundaries, execution policies, and IAM's sizes."""

import json

import pytest

from stacks.delivery import DeliveryStack
from stacks.delivery_target import delivery_target
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


@pytest.mark.parametrize(
    ("environment", "resource", "allowed"),
    [
        ("staging", f"{DEV_BUCKET}/models/encoder/ab/model.tar.gz", True),
        ("staging", f"{DEV_BUCKET}/endpoints/x", False),
        ("prod", f"{STAGING_BUCKET}/models/encoder/ab/model.tar.gz", False),
    ],
)
def test_promote_reads_the_source_itself_only_within_one_account(
    delivery_stacks, environment, resource, allowed
):
    role = f"tritonstack-delivery-{environment}-promote"
    assert may(delivery_stacks[environment], role, "s3:GetObject", resource) is allowed


def test_promote_reads_another_accounts_source_through_its_reader(delivery_stacks):
    role, action = "tritonstack-delivery-prod-promote", "sts:AssumeRole"
    assert may(
        delivery_stacks["prod"], role, action, iam_role("tritonstack-delivery-staging-promotion-reader")
    )
    assert not may(
        delivery_stacks["prod"], role, action, iam_role("tritonstack-delivery-dev-promotion-reader")
    )
    target = f"arn:aws:s3:::tritonstack-prod-artifacts-{PROD}-{REGION}"
    assert may(delivery_stacks["prod"], role, "s3:PutObject", f"{target}/models/x")
    assert not may(delivery_stacks["prod"], role, "s3:PutObject", f"{target}/endpoints/x")
    assert not may(delivery_stacks["prod"], role, "s3:DeleteObject", f"{target}/models/x")


def test_key_is_used_only_for_the_buckets_of_the_environment(delivery_stacks):
    role = "tritonstack-delivery-dev-deploy"

    def allowed(bucket):
        return may(
            delivery_stacks["dev"],
            role,
            "kms:Decrypt",
            KEY,
            kms__ViaService="s3.eu-west-1.amazonaws.com",
            kms__EncryptionContext__aws__s3__arn=bucket,
        )

    assert allowed(DEV_BUCKET)
    assert not allowed(STAGING_BUCKET)
    assert not may(delivery_stacks["dev"], role, "kms:Decrypt", KEY)


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
    template = delivery_stacks[environment] | {
        "Resources": delivery_stacks[environment]["Resources"]
        | {
            "Administrator": {
                "Type": "AWS::IAM::Policy",
                "Properties": {
                    "Roles": [
                        {
                            "Ref": roles(delivery_stacks[environment])[
                                f"tritonstack-delivery-{environment}-deploy"
                            ]["id"]
                        }
                    ],
                    "PolicyDocument": {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]},
                },
            }
        }
    }
    role = f"tritonstack-delivery-{environment}-deploy"
    assert may(template, role, "s3:DeleteObject", f"{DEV_BUCKET}/models/x")
    for action in ("iam:CreateUser", "iam:PutRolePolicy", "iam:UpdateAssumeRolePolicy", "iam:DeletePolicy"):
        assert not may(template, role, action, iam_role("tritonstack-delivery-dev-deploy"))
    assert not may(template, role, "sts:AssumeRole", iam_role("Admin"))
    assert not may(template, role, "sagemaker:CreateEndpoint", "*", **{"aws__RequestedRegion": "us-east-1"})


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
    assert properties["tags"] == {
        "team": "search",
        "project": "tritonstack",
        "purpose": "delivery of dev",
    }
