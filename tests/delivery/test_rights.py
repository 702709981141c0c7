"""What each role of those who carry changes may do, and what none may."""

from __future__ import annotations

import json

import pytest

from stacks.carried import carried_to
from stacks.delivery import DeliveryStack
from tests.delivery.iam import may, roles
from tests.delivery.roads import DEV, PROD, REGION
from tests.stacks.assemblies import new_app

KEY = f"arn:aws:kms:{REGION}:{DEV}:key/0a1b"


def arn(service, resource, account=DEV, region=REGION):
    return f"arn:aws:{service}:{region}:{account}:{resource}"


def iam_role(name, account=DEV):
    return f"arn:aws:iam::{account}:role/{name}"


DEV_BUCKET = f"arn:aws:s3:::tritonstack-dev-artifacts-{DEV}-{REGION}"
STAGING_BUCKET = f"arn:aws:s3:::tritonstack-staging-artifacts-{DEV}-{REGION}"
PREVIEW_BUCKET = f"arn:aws:s3:::tritonstack-pr-7-artifacts-{DEV}-{REGION}"
CDK = iam_role(f"cdk-hnb659fds-deploy-role-{DEV}-{REGION}")
FILES = iam_role(f"cdk-hnb659fds-file-publishing-role-{DEV}-{REGION}")
LOOKUP = iam_role(f"cdk-hnb659fds-lookup-role-{DEV}-{REGION}")
EXECUTION = iam_role(f"cdk-hnb659fds-cfn-exec-role-{DEV}-{REGION}")
PREVIEW_EXECUTION = iam_role("tritonstack-delivery-dev-preview-execution")


@pytest.mark.parametrize(
    ("duty", "action", "resource", "allowed"),
    [
        # Plan looks at everything of its environment and changes nothing.
        ("plan", "cloudformation:GetTemplate", arn("cloudformation", "stack/tritonstack-dev-build/1"), True),
        ("plan", "sagemaker:DescribeEndpoint", arn("sagemaker", "endpoint/tritonstack-dev-search"), True),
        ("plan", "s3:GetObject", f"{DEV_BUCKET}/events/1.json", True),
        ("plan", "sts:AssumeRole", LOOKUP, True),
        ("plan", "s3:GetObject", f"{STAGING_BUCKET}/events/1.json", False),
        ("plan", "s3:PutObject", f"{DEV_BUCKET}/events/1.json", False),
        ("plan", "sagemaker:InvokeEndpoint", arn("sagemaker", "endpoint/tritonstack-dev-search"), False),
        ("plan", "sts:AssumeRole", CDK, False),
        # Deploy goes through the CDK's roles, publishes, builds, and asks endpoints.
        ("deploy", "sts:AssumeRole", CDK, True),
        ("deploy", "sts:AssumeRole", FILES, True),
        ("deploy", "s3:PutObject", f"{DEV_BUCKET}/models/encoder/ab/model.tar.gz", True),
        ("deploy", "s3:PutObject", f"{DEV_BUCKET}/endpoints/x/model.tar.gz", True),
        ("deploy", "s3:PutObject", f"{DEV_BUCKET}/events/1.json", True),
        ("deploy", "sagemaker:InvokeEndpoint", arn("sagemaker", "endpoint/tritonstack-dev-search"), True),
        ("deploy", "codebuild:StartBuild", arn("codebuild", "project/tritonstack-dev-build-cpu"), True),
        ("deploy", "s3:DeleteObject", f"{DEV_BUCKET}/events/1.json", False),
        ("deploy", "s3:PutObject", f"{STAGING_BUCKET}/events/1.json", False),
        ("deploy", "sagemaker:InvokeEndpoint", arn("sagemaker", "endpoint/tritonstack-staging-a"), False),
        ("deploy", "sts:AssumeRole", EXECUTION, False),
        ("deploy", "sts:AssumeRole", iam_role("Admin"), False),
        ("deploy", "iam:PutRolePolicy", iam_role("tritonstack-delivery-dev-deploy"), False),
        (
            "deploy",
            "cloudformation:DeleteStack",
            arn("cloudformation", "stack/tritonstack-dev-build/1"),
            False,
        ),
        # Previews: theirs alone.
        (
            "preview",
            "cloudformation:CreateChangeSet",
            arn("cloudformation", "stack/tritonstack-pr-7-a/1"),
            True,
        ),
        ("preview", "cloudformation:DeleteStack", arn("cloudformation", "stack/tritonstack-pr-7-a/1"), True),
        ("preview", "s3:DeleteObjectVersion", f"{PREVIEW_BUCKET}/models/x", True),
        ("preview", "s3:PutObject", f"{PREVIEW_BUCKET}/models/x", True),
        ("preview", "s3:GetObject", f"{DEV_BUCKET}/models/encoder/ab/model.tar.gz", True),
        ("preview", "sagemaker:InvokeEndpoint", arn("sagemaker", "endpoint/tritonstack-pr-7-search"), True),
        (
            "preview",
            "cloudformation:CreateChangeSet",
            arn("cloudformation", "stack/tritonstack-dev-a/1"),
            False,
        ),
        ("preview", "cloudformation:DeleteStack", arn("cloudformation", "stack/tritonstack-dev-a/1"), False),
        (
            "preview",
            "cloudformation:UpdateStack",
            arn("cloudformation", "stack/tritonstack-delivery-dev/1"),
            False,
        ),
        ("preview", "s3:DeleteObject", f"{DEV_BUCKET}/models/x", False),
        ("preview", "s3:PutObject", f"{DEV_BUCKET}/models/x", False),
        ("preview", "sts:AssumeRole", CDK, False),
        ("preview", "sts:AssumeRole", FILES, True),
        # What CloudFormation makes previews with.
        ("preview-execution", "iam:CreateRole", iam_role("tritonstack-pr-7-endpoint-search-Role-1"), True),
        (
            "preview-execution",
            "sagemaker:CreateEndpoint",
            arn("sagemaker", "endpoint/tritonstack-pr-7-x"),
            True,
        ),
        (
            "preview-execution",
            "sagemaker:DeleteEndpoint",
            arn("sagemaker", "endpoint/tritonstack-dev-x"),
            False,
        ),
        ("preview-execution", "iam:CreateRole", iam_role("tritonstack-dev-x"), False),
        ("preview-execution", "iam:PutRolePolicy", iam_role("tritonstack-delivery-dev-deploy"), False),
        ("preview-execution", "iam:PassRole", iam_role("Admin"), False),
        # Clean-up finds everything, and deletes previews.
        ("clean-up", "tag:GetResources", "*", True),
        ("clean-up", "cloudformation:DeleteStack", arn("cloudformation", "stack/tritonstack-pr-7-a/1"), True),
        ("clean-up", "cloudformation:DeleteStack", arn("cloudformation", "stack/tritonstack-dev-a/1"), False),
        (
            "clean-up",
            "cloudformation:CreateChangeSet",
            arn("cloudformation", "stack/tritonstack-pr-7-a/1"),
            False,
        ),
        ("clean-up", "s3:GetObject", f"{DEV_BUCKET}/models/x", False),
    ],
)
def test_in_dev(carriers, duty, action, resource, allowed):
    assert (
        may(carriers["dev"], f"tritonstack-delivery-dev-{duty}", action, resource, s3__prefix="") is allowed
    )


@pytest.mark.parametrize(
    ("role", "service", "allowed"),
    [
        ("tritonstack-dev-build-JobsShared-1", "codebuild.amazonaws.com", True),
        ("tritonstack-dev-build-JobsShared-1", "ec2.amazonaws.com", False),
        ("tritonstack-dev-endpoint-search-1", "sagemaker.amazonaws.com", False),
        ("Admin", "codebuild.amazonaws.com", False),
    ],
)
def test_deploy_passes_the_roles_of_builds_alone(carriers, role, service, allowed):
    found = may(
        carriers["dev"],
        "tritonstack-delivery-dev-deploy",
        "iam:PassRole",
        iam_role(role),
        iam__PassedToService=service,
    )
    assert found is allowed


@pytest.mark.parametrize(("role", "allowed"), [(PREVIEW_EXECUTION, True), (EXECUTION, False)])
def test_previews_are_made_with_their_own_role_alone(carriers, role, allowed):
    found = may(
        carriers["dev"],
        "tritonstack-delivery-dev-preview",
        "iam:PassRole",
        role,
        iam__PassedToService="cloudformation.amazonaws.com",
    )
    assert found is allowed


@pytest.mark.parametrize(
    ("environment", "resource", "allowed"),
    [
        ("staging", f"{DEV_BUCKET}/models/encoder/ab/model.tar.gz", True),
        ("staging", f"{DEV_BUCKET}/endpoints/x", False),
        ("prod", f"{STAGING_BUCKET}/models/encoder/ab/model.tar.gz", False),
    ],
)
def test_promote_reads_the_source_itself_only_within_one_account(carriers, environment, resource, allowed):
    role = f"tritonstack-delivery-{environment}-promote"
    assert may(carriers[environment], role, "s3:GetObject", resource) is allowed


def test_promote_reads_another_accounts_source_through_its_reader(carriers):
    role, action = "tritonstack-delivery-prod-promote", "sts:AssumeRole"
    assert may(carriers["prod"], role, action, iam_role("tritonstack-staging-promotion-reader"))
    assert not may(carriers["prod"], role, action, iam_role("tritonstack-dev-promotion-reader"))
    target = f"arn:aws:s3:::tritonstack-prod-artifacts-{PROD}-{REGION}"
    assert may(carriers["prod"], role, "s3:PutObject", f"{target}/models/x")
    assert not may(carriers["prod"], role, "s3:PutObject", f"{target}/endpoints/x")
    assert not may(carriers["prod"], role, "s3:DeleteObject", f"{target}/models/x")


def test_a_key_is_used_for_the_environments_own_buckets_alone(carriers):
    role = "tritonstack-delivery-dev-deploy"

    def allowed(bucket):
        return may(
            carriers["dev"],
            role,
            "kms:Decrypt",
            KEY,
            kms__ViaService="s3.eu-west-1.amazonaws.com",
            kms__EncryptionContext__aws__s3__arn=bucket,
        )

    assert allowed(DEV_BUCKET)
    assert not allowed(STAGING_BUCKET)
    assert not may(carriers["dev"], role, "kms:Decrypt", KEY)


def test_every_role_is_bounded(carriers):
    for name, template in carriers.items():
        for role in roles(template).values():
            boundary = role["PermissionsBoundary"]
            if name == "prod":
                assert boundary == f"arn:aws:iam::{PROD}:policy/team-boundary"
            else:
                assert template["Resources"][boundary["Ref"]]["Type"] == "AWS::IAM::ManagedPolicy"


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_the_edge_holds_whatever_else_is_granted(carriers, environment):
    """Somebody attaches an administrator's policy to the role for deploying."""
    template = carriers[environment] | {
        "Resources": carriers[environment]["Resources"]
        | {
            "Administrator": {
                "Type": "AWS::IAM::Policy",
                "Properties": {
                    "Roles": [
                        {
                            "Ref": roles(carriers[environment])[f"tritonstack-delivery-{environment}-deploy"][
                                "id"
                            ]
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


def test_cloudformation_can_be_held_to_the_environment(carriers):
    """The policy that `cdk bootstrap` is given."""
    (policy,) = [
        item["Properties"]
        for item in carriers["prod"]["Resources"].values()
        if item["Properties"].get("ManagedPolicyName") == "tritonstack-delivery-prod-execution"
    ]
    statements = policy["PolicyDocument"]["Statement"]
    assert "*" not in [statement["Action"] for statement in statements]
    makes_roles = [statement for statement in statements if "iam:CreateRole" in statement["Action"]]
    (statement,) = makes_roles
    assert statement["Resource"] == [iam_role("tritonstack-prod-*", PROD)]
    assert statement["Condition"] == {
        "StringEquals": {"iam:PermissionsBoundary": f"arn:aws:iam::{PROD}:policy/team-boundary"}
    }
    assert any("ec2:CreateVpc" in statement["Action"] for statement in statements)


def test_policies_fit_what_iam_takes(carriers):
    """6,144 characters a managed policy, 10,240 for all that stands in a role itself, blanks not counted."""
    for template in carriers.values():
        for item in template["Resources"].values():
            if document := item["Properties"].get("PolicyDocument"):
                limit = 6_144 if item["Type"] == "AWS::IAM::ManagedPolicy" else 10_240
                assert len(json.dumps(document, separators=(",", ":"))) <= limit


def test_it_is_a_persons_to_deploy_and_no_part_of_the_environment(roads, tmp_path):
    app = new_app(tmp_path)
    DeliveryStack(app, carried=carried_to(roads, "dev"))
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
