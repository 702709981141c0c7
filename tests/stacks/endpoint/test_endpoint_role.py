"""The permissions of an endpoint's roles: least privilege, even with names known only at deploy time."""

from __future__ import annotations

import json

import pytest

from tests.stacks.templates import granted, granting, properties, statements

NAME = "tritonstack-sample-plain"
HOME = "eu-central-1:123456789012"
BUCKET = "arn:aws:s3:::tritonstack-sample-artifacts-123456789012-eu-central-1"
KEY = {"Ref": "KeyArn"}
EVERY_DATA = "arn:aws:s3:::tritonstack-every-data-123456789012-us-east-1"
SINGLE_ROLE = ["single", "shelf", "queued", "component", "rolled"]


@pytest.fixture
def plain(sample):
    return sample.endpoint("plain")


@pytest.mark.parametrize("name", ["single", "compared", "shadowed"])
def test_role_reads_the_environments_models_only(every, name):
    """A variant that was removed may still serve its model, so the role reads more than the present ones."""
    bucket = "arn:aws:s3:::tritonstack-every-artifacts-123456789012-us-east-1"
    statement, *_ = granting(every.endpoint(name), "s3:GetObject")
    assert statement["Resource"] == [f"{bucket}/models/*"]


def test_role_lists_artifacts_below_the_models_prefix_only(plain):
    listing = granted(plain, "s3:ListBucket")
    assert listing["Resource"] == [BUCKET]
    assert listing["Condition"] == {"StringLike": {"s3:prefix": "models/*"}}


def test_role_decrypts_with_the_environments_key_through_s3_for_the_artifact_bucket_only(plain):
    statement = granted(plain, "kms:Decrypt")
    assert statement["Resource"] == [KEY]
    assert statement["Condition"] == {
        "StringEquals": {"kms:ViaService": "s3.eu-central-1.amazonaws.com"},
        "StringLike": {"kms:EncryptionContext:aws:s3:arn": [BUCKET, f"{BUCKET}/models/*"]},
    }


def test_multi_model_role_reads_its_own_prefix_only(every):
    bucket = "arn:aws:s3:::tritonstack-every-artifacts-123456789012-us-east-1"
    prefix = "endpoints/tritonstack-every-shelf/*"
    shelf = every.endpoint("shelf")
    assert granted(shelf, "s3:GetObject")["Resource"] == [f"{bucket}/{prefix}"]
    assert granted(shelf, "s3:ListBucket")["Condition"] == {"StringLike": {"s3:prefix": prefix}}


def test_role_pulls_sagemakers_triton_image_only(plain):
    repository = "arn:aws:ecr:eu-central-1:763104351884:repository/sagemaker-tritonserver"
    assert granted(plain, "ecr:BatchGetImage")["Resource"] == [repository]
    assert granted(plain, "ecr:GetAuthorizationToken")["Action"] == ["ecr:GetAuthorizationToken"]


def test_role_writes_its_own_log_and_sagemakers_metrics_only(plain):
    group = f"arn:aws:logs:{HOME}:log-group:/aws/sagemaker/Endpoints/{NAME}"
    assert granted(plain, "logs:PutLogEvents")["Resource"] == [group, f"{group}:*"]
    assert granted(plain, "cloudwatch:PutMetricData")["Condition"] == {
        "StringEquals": {"cloudwatch:namespace": ["AWS/SageMaker", "/aws/sagemaker/Endpoints"]}
    }


def test_component_role_writes_the_components_log(every):
    component = every.endpoint("component")
    group = "/aws/sagemaker/InferenceComponents/tritonstack-every-component-component"
    assert granted(component, "logs:PutLogEvents")["Resource"][0].endswith(f":log-group:{group}")
    assert properties(component, "AWS::Logs::LogGroup")["LogGroupName"] == group


def test_role_can_read_the_rollback_alarms(plain):
    assert granted(plain, "cloudwatch:DescribeAlarms")["Resource"] == [
        f"arn:aws:cloudwatch:{HOME}:alarm:{NAME}-latency-p99",
        f"arn:aws:cloudwatch:{HOME}:alarm:{NAME}-server-errors",
    ]


def test_role_without_rollback_alarms_cannot_read_alarms(every):
    assert granting(every.endpoint("rolled"), "cloudwatch:DescribeAlarms") == []


def test_volumes_are_encrypted_with_the_environments_key(plain):
    assert granted(plain, "kms:DescribeKey")["Resource"] == [KEY]


def test_a_model_can_grant_the_key_only_to_aws(every):
    """A grant outlives the endpoint and the role; without the condition, any principal could receive one."""
    statements = [one for name in SINGLE_ROLE for one in granting(every.endpoint(name), "kms:CreateGrant")]
    assert statements
    for statement in statements:
        assert statement["Action"] == ["kms:CreateGrant"]
        assert statement["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}
        assert statement["Resource"] == [KEY]


def test_volumes_of_most_endpoints_are_encrypted_with_a_grant(plain):
    assert granting(plain, "kms:CreateGrant")


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
    one, two, three = granting(every.endpoint("single"), "ec2:CreateNetworkInterface")
    prefix = "arn:aws:ec2:us-east-1:123456789012:"
    for statement, kind, parameter in (
        (one, "subnet", "SubnetIds"),
        (two, "security-group", "SecurityGroupIds"),
    ):
        joined = {"Fn::Join": [f",{prefix}{kind}/", {"Ref": parameter}]}
        whole = {"Fn::Join": ["", [f"{prefix}{kind}/", joined]]}
        assert statement["Resource"] == {"Fn::Split": [",", whole]}
    assert three["Resource"] == [f"{prefix}network-interface/*"]


def test_no_ec2_action_is_granted_without_a_network(plain):
    assert not [action for s in statements(plain) for action in s["Action"] if action.startswith("ec2:")]


def test_asynchronous_role_accesses_only_the_prefixes_of_its_endpoint(every):
    queued = every.endpoint("queued")
    mine = "tritonstack-every-queued"
    assert granting(queued, "s3:GetObject")[1]["Resource"] == [f"{EVERY_DATA}/requests/{mine}/*"]
    written = [f"{EVERY_DATA}/answers/{mine}/*", f"{EVERY_DATA}/failures/{mine}/*"]
    assert granted(queued, "s3:PutObject")["Resource"] == written
    contexts = [s["Condition"].get("StringLike") for s in granting(queued, "kms:GenerateDataKey")]
    assert contexts == [{"kms:EncryptionContext:aws:s3:arn": [EVERY_DATA, *written]}, None]


def test_asynchronous_role_publishes_to_its_own_topics_through_the_key(every):
    queued = every.endpoint("queued")
    topics = {id_: t["Properties"] for id_, t in queued.find_resources("AWS::SNS::Topic").items()}
    assert [topics[r["Ref"]]["TopicName"] for r in granted(queued, "sns:Publish")["Resource"]] == [
        "tritonstack-every-queued-success",
        "tritonstack-every-queued-error",
    ]
    through_sns = granting(queued, "kms:GenerateDataKey")[-1]
    assert through_sns["Condition"]["StringEquals"] == {"kms:ViaService": "sns.us-east-1.amazonaws.com"}


def test_role_of_a_capturing_endpoint_writes_captures_only(every):
    written = granted(every.endpoint("shadowed"), "s3:PutObject")["Resource"]
    assert written == [f"{EVERY_DATA}/capture/tritonstack-every-shadowed/*"]


def test_role_has_no_managed_policy_and_trusts_sagemaker(plain):
    role = properties(plain, "AWS::IAM::Role")
    assert "ManagedPolicyArns" not in role
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "sagemaker.amazonaws.com"}
