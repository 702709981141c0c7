"""The foundation: what it protects, and whom it lets in."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk.assertions import Match

ACCOUNT_HOME = "eu-central-1:123456789012"


def only(template: Any, resource_type: str) -> dict[str, Any]:
    """The one resource of a type."""
    (resource,) = template.find_resources(resource_type).values()
    found: dict[str, Any] = resource
    return found


def statements(resource: dict[str, Any], document: str = "PolicyDocument") -> list[dict[str, Any]]:
    """The statements of a policy."""
    found: list[dict[str, Any]] = resource["Properties"][document]["Statement"]
    return found


def bucket(template: Any, name: str) -> dict[str, Any]:
    """The bucket of a name."""
    (found,) = template.find_resources(
        "AWS::S3::Bucket", {"Properties": {"BucketName": Match.exact(name)}}
    ).values()
    resource: dict[str, Any] = found
    return resource


@pytest.fixture
def artifacts(sample):
    return bucket(sample.foundation, "tritonstack-sample-artifacts-123456789012-eu-central-1")


@pytest.fixture
def access_log(sample):
    return bucket(sample.foundation, "tritonstack-sample-logs-123456789012-eu-central-1")


def test_key_rotates_and_is_found_by_its_alias(sample):
    key = only(sample.foundation, "AWS::KMS::Key")
    assert key["Properties"]["EnableKeyRotation"] is True
    sample.foundation.has_resource_properties("AWS::KMS::Alias", {"AliasName": "alias/tritonstack-sample"})


def test_alarms_may_publish_to_a_topic_encrypted_with_the_key(sample):
    granted = [
        s
        for s in statements(only(sample.foundation, "AWS::KMS::Key"), "KeyPolicy")
        if s["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    ]
    assert [s["Action"] for s in granted] == [["kms:Decrypt", "kms:GenerateDataKey*"]]


def test_artifacts_are_encrypted_with_the_key_and_versioned(sample, artifacts):
    (rule,) = artifacts["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    (key_id,) = sample.foundation.find_resources("AWS::KMS::Key")
    assert rule == {
        "BucketKeyEnabled": True,
        "ServerSideEncryptionByDefault": {
            "SSEAlgorithm": "aws:kms",
            "KMSMasterKeyID": {"Fn::GetAtt": [key_id, "Arn"]},
        },
    }
    assert artifacts["Properties"]["VersioningConfiguration"] == {"Status": "Enabled"}


def test_no_bucket_is_public_or_uses_access_lists(artifacts, access_log):
    for resource in (artifacts, access_log):
        properties = resource["Properties"]
        assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
        assert len(properties["PublicAccessBlockConfiguration"]) == 4
        assert properties["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}


def test_buckets_refuse_what_is_not_tls_1_2(sample):
    policies = sample.foundation.find_resources("AWS::S3::BucketPolicy")
    assert len(policies) == 2
    for policy in policies.values():
        refused = [s["Condition"] for s in statements(policy) if s["Effect"] == "Deny"]
        assert {"Bool": {"aws:SecureTransport": "false"}} in refused
        assert {"NumericLessThan": {"s3:TlsVersion": 1.2}} in refused


def test_reads_and_writes_of_artifacts_are_logged(sample, artifacts):
    logging = artifacts["Properties"]["LoggingConfiguration"]
    assert logging["LogFilePrefix"] == "artifacts/"
    log_bucket_id = logging["DestinationBucketName"]["Ref"]
    (policy,) = sample.foundation.find_resources(
        "AWS::S3::BucketPolicy", {"Properties": {"Bucket": {"Ref": log_bucket_id}}}
    ).values()
    (delivery,) = [s for s in statements(policy) if s["Effect"] == "Allow"]
    assert delivery["Principal"] == {"Service": "logging.s3.amazonaws.com"}
    assert delivery["Condition"]["StringEquals"] == {"aws:SourceAccount": "123456789012"}


def test_nothing_piles_up_in_the_buckets(artifacts, access_log):
    rules = {rule["Id"]: rule for rule in artifacts["Properties"]["LifecycleConfiguration"]["Rules"]}
    assert rules["expire-noncurrent-versions"]["NoncurrentVersionExpiration"] == {"NoncurrentDays": 30}
    assert rules["abort-incomplete-uploads"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
    # An artifact that an endpoint runs must never expire.
    assert not any("ExpirationInDays" in rule for rule in rules.values())
    logged = {rule["Id"]: rule for rule in access_log["Properties"]["LifecycleConfiguration"]["Rules"]}
    assert logged["expire"]["ExpirationInDays"] == 365


@pytest.mark.parametrize("image", ["serving", "builder"])
def test_image_repositories(sample, image):
    sample.foundation.has_resource_properties(
        "AWS::ECR::Repository",
        {
            "RepositoryName": f"tritonstack-sample/{image}",
            "ImageScanningConfiguration": {"ScanOnPush": True},
            "ImageTagMutability": "IMMUTABLE",
            "EncryptionConfiguration": {"EncryptionType": "KMS"},
            "LifecyclePolicy": {"LifecyclePolicyText": Match.string_like_regexp("untagged")},
            "EmptyOnDelete": True,
        },
    )


def test_alarm_topic_is_encrypted_and_heard_by_the_addresses_of_the_environment(sample):
    topic = only(sample.foundation, "AWS::SNS::Topic")
    assert topic["Properties"]["TopicName"] == "tritonstack-sample-alarms"
    assert "KmsMasterKeyId" in topic["Properties"]
    sample.foundation.has_resource_properties(
        "AWS::SNS::Subscription", {"Protocol": "email", "Endpoint": "on-call@example.com"}
    )


def test_alarm_topic_takes_messages_over_tls_and_from_this_environments_alarms(sample):
    policy = statements(only(sample.foundation, "AWS::SNS::TopicPolicy"))
    (deny,) = [s for s in policy if s["Effect"] == "Deny"]
    assert deny["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    (allow,) = [s for s in policy if s["Effect"] == "Allow"]
    assert allow["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert allow["Action"] == "sns:Publish"
    assert allow["Condition"] == {
        "ArnLike": {"aws:SourceArn": f"arn:aws:cloudwatch:{ACCOUNT_HOME}:alarm:tritonstack-sample-*"}
    }


@pytest.mark.parametrize("resource_type", ["AWS::KMS::Key", "AWS::S3::Bucket", "AWS::ECR::Repository"])
def test_removal_is_the_environments_choice(sample, kept, resource_type):
    assert {r["DeletionPolicy"] for r in sample.foundation.find_resources(resource_type).values()} == {
        "Delete"
    }
    retained = kept.foundation.find_resources(resource_type).values()
    # Kept for good once the stack stands; a first deployment that fails leaves no name taken behind.
    assert {r["DeletionPolicy"] for r in retained} == {"RetainExceptOnCreate"}
    assert {r["UpdateReplacePolicy"] for r in retained} == {"Retain"}
    assert not any(r["Properties"].get("EmptyOnDelete") for r in retained)


def test_only_stacks_whose_data_is_kept_are_protected_from_deletion(sample, kept):
    stack = kept.manifest("tritonstack-kept-foundation")
    assert stack["properties"]["terminationProtection"] is True
    stack = sample.manifest("tritonstack-sample-foundation")
    assert not stack["properties"].get("terminationProtection", False)


def test_an_environment_without_addresses_has_no_subscription(kept):
    kept.foundation.resource_count_is("AWS::SNS::Subscription", 0)


def test_no_code_of_ours_runs_in_the_account(sample):
    for template in (sample.foundation, sample.endpoint("plain")):
        types = {resource["Type"] for resource in template.to_json()["Resources"].values()}
        assert not {t for t in types if t.startswith(("Custom::", "AWS::Lambda", "AWS::CloudFormation"))}


def test_outputs_name_what_people_look_for_and_are_not_exported(sample):
    outputs = sample.foundation.to_json()["Outputs"]
    assert set(outputs) == {
        "AlarmTopic",
        "ArtifactBucket",
        "BuilderRepository",
        "KeyArn",
        "LogBucket",
        "ServingRepository",
    }
    assert not any("Export" in output for output in outputs.values())
