"""The permissions of an endpoint's roles: least privilege, even with names known only at deploy time."""

import json

import pytest

from tests.stacks.templates import granted, granting, statements

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


def test_no_ec2_action_is_granted_without_a_network(plain):
    assert not [action for s in statements(plain) for action in s["Action"] if action.startswith("ec2:")]


def test_asynchronous_role_accesses_only_the_prefixes_of_its_endpoint(every):
    queued = every.endpoint("queued")
    mine = "tritonstack-every-queued"
    assert granting(queued, "s3:GetObject")[1]["Resource"] == [f"{EVERY_DATA}/requests/{mine}/*"]
    outputs = [f"{EVERY_DATA}/answers/{mine}/*", f"{EVERY_DATA}/failures/{mine}/*"]
    assert granted(queued, "s3:PutObject")["Resource"] == outputs
    contexts = [s["Condition"].get("StringLike") for s in granting(queued, "kms:GenerateDataKey")]
    assert contexts == [{"kms:EncryptionContext:aws:s3:arn": [EVERY_DATA, *outputs]}, None]


def test_asynchronous_role_publishes_to_its_own_topics_through_the_key(every):
    queued = every.endpoint("queued")
    topics = {id_: t["Properties"] for id_, t in queued.find_resources("AWS::SNS::Topic").items()}
    assert [topics[r["Ref"]]["TopicName"] for r in granted(queued, "sns:Publish")["Resource"]] == [
        "tritonstack-every-queued-success",
        "tritonstack-every-queued-error",
    ]
    through_sns = granting(queued, "kms:GenerateDataKey")[-1]
    assert through_sns["Condition"]["StringEquals"] == {"kms:ViaService": "sns.us-east-1.amazonaws.com"}
