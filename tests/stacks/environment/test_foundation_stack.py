"""The foundation: what it protects, and who has access."""

from pathlib import Path
from typing import Any

import pytest
from aws_cdk.assertions import Match, Template

from stacks.foundation import FoundationStack
from tests.stacks.assemblies import new_app
from tritonstack.files.environment.environment import EnvironmentSpec

ACCOUNT_HOME = "eu-central-1:123456789012"


def only(template: Any, resource_type: str) -> dict[str, Any]:
    """Return the one resource of a type."""
    (resource,) = template.find_resources(resource_type).values()
    item: dict[str, Any] = resource
    return item


def statements(resource: dict[str, Any], document: str = "PolicyDocument") -> list[dict[str, Any]]:
    """Return the statements of a policy."""
    allowed: list[dict[str, Any]] = resource["Properties"][document]["Statement"]
    return allowed


def bucket(assembly: Any, kind: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the bucket of a kind, and what its policy says."""
    name = f"tritonstack-sample-{kind}-123456789012-eu-central-1"
    named = {"Properties": {"BucketName": Match.exact(name)}}
    ((key, resource),) = assembly.foundation.find_resources("AWS::S3::Bucket", named).items()
    of_bucket = {"Properties": {"Bucket": {"Ref": key}}}
    (policy,) = assembly.foundation.find_resources("AWS::S3::BucketPolicy", of_bucket).values()
    return resource, statements(policy)


def denial(assembly: Any, kind: str, sid: str) -> dict[str, Any]:
    """Return a Deny statement of a bucket's policy."""
    (item,) = [s for s in bucket(assembly, kind)[1] if s.get("Sid") == sid]
    assert (item["Effect"], item["Principal"]) == ("Deny", {"AWS": "*"})
    return item


def grants(key: dict[str, Any], service: str) -> dict[str, Any]:
    """Return the one statement of a key's policy for a service."""
    (statement,) = [s for s in statements(key, "KeyPolicy") if s["Principal"] == {"Service": service}]
    return statement


def test_alarms_of_this_environment_may_publish_to_a_topic_encrypted_with_the_key(sample):
    granted = grants(only(sample.foundation, "AWS::KMS::Key"), "cloudwatch.amazonaws.com")
    assert granted["Action"] == ["kms:Decrypt", "kms:GenerateDataKey*"]
    assert granted["Condition"] == {
        "ArnLike": {"aws:SourceArn": f"arn:aws:cloudwatch:{ACCOUNT_HOME}:alarm:tritonstack-sample-*"},
        "StringEquals": {"aws:SourceAccount": "123456789012"},
    }


def test_eventbridge_may_use_the_key_for_the_topic_without_a_source_condition(sample):
    """AWS documents that a condition on the source is unsupported there: messages would be lost."""
    granted = grants(only(sample.foundation, "AWS::KMS::Key"), "events.amazonaws.com")
    assert granted["Action"] == ["kms:Decrypt", "kms:GenerateDataKey*"]
    topic = f"arn:aws:sns:{ACCOUNT_HOME}:tritonstack-sample-alarms"
    assert granted["Condition"] == {"StringEquals": {"kms:EncryptionContext:aws:sns:topicArn": topic}}
    assert topic.endswith(only(sample.foundation, "AWS::SNS::Topic")["Properties"]["TopicName"])


def test_deleted_artifacts_can_be_restored_and_deleted_data_cannot(sample):
    (artifacts, _), (data, _) = bucket(sample, "artifacts"), bucket(sample, "data")
    assert artifacts["Properties"]["VersioningConfiguration"] == {"Status": "Enabled"}
    assert "VersioningConfiguration" not in data["Properties"]


@pytest.mark.parametrize("kind", ["artifacts", "data", "logs"])
def test_buckets_deny_old_tls_and_other_accounts_but_not_services(sample, kind):
    rejected = [s["Condition"] for s in bucket(sample, kind)[1] if s["Effect"] == "Deny"]
    assert {"Bool": {"aws:SecureTransport": "false"}} in rejected
    assert {"NumericLessThan": {"s3:TlsVersion": 1.2}} in rejected
    others = denial(sample, kind, "DenyOtherAccounts")
    assert others["Action"] == "s3:*"
    assert others["Condition"] == {
        "StringNotEquals": {"aws:PrincipalAccount": "123456789012"},
        "Bool": {"aws:PrincipalIsAWSService": "false"},
    }


@pytest.mark.parametrize("kind", ["artifacts", "data"])
def test_uploads_encrypted_with_another_key_are_rejected(sample, kind):
    (key_id,) = sample.foundation.find_resources("AWS::KMS::Key")
    algorithm = "s3:x-amz-server-side-encryption"
    other, key = denial(sample, kind, "DenyOtherEncryption"), denial(sample, kind, "DenyOtherKeys")
    # Only where an upload says what it wants: one that says nothing gets the bucket's own key.
    assert other["Condition"] == {"Null": {algorithm: "false"}, "StringNotEquals": {algorithm: "aws:kms"}}
    # A condition that is negated holds for uploads that name no key, too: they would get AWS's own.
    assert key["Condition"] == {
        "StringEquals": {algorithm: "aws:kms"},
        "StringNotEquals": {f"{algorithm}-aws-kms-key-id": {"Fn::GetAtt": [key_id, "Arn"]}},
    }
    assert {other["Action"], key["Action"]} == {"s3:PutObject"}


def test_alarm_topic_accepts_messages_over_tls_from_its_environment_and_events(sample):
    policy = statements(only(sample.foundation, "AWS::SNS::TopicPolicy"))
    (deny,) = [s for s in policy if s["Effect"] == "Deny"]
    assert deny["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    allowed = {s["Principal"]["Service"]: s for s in policy if s["Effect"] == "Allow"}
    assert {s["Action"] for s in allowed.values()} == {"sns:Publish"}
    assert allowed["cloudwatch.amazonaws.com"]["Condition"] == {
        "ArnLike": {"aws:SourceArn": f"arn:aws:cloudwatch:{ACCOUNT_HOME}:alarm:tritonstack-sample-*"},
        "StringEquals": {"aws:SourceAccount": "123456789012"},
    }
    rules = sample.foundation.find_resources("AWS::Events::Rule").values()
    pattern = f"arn:aws:events:{ACCOUNT_HOME}:rule/tritonstack-sample-*"
    assert allowed["events.amazonaws.com"]["Condition"] == {"ArnLike": {"aws:SourceArn": pattern}}
    assert rules
    for rule in rules:
        assert rule["Properties"]["Name"].startswith("tritonstack-sample-")
    assert allowed.keys() == {"cloudwatch.amazonaws.com", "events.amazonaws.com"}


def test_only_stacks_with_retained_data_are_protected_from_deletion(sample, retaining):
    stack = retaining.manifest("tritonstack-kept-foundation")
    assert stack["properties"]["terminationProtection"] is True
    stack = sample.manifest("tritonstack-sample-foundation")
    assert not stack["properties"].get("terminationProtection", False)


PLAIN = {"kind": "ensemble", "model": "encoder", "instance_type": "ml.m7i.large"}


def foundation_of(folder: Path, **endpoints: dict[str, Any]) -> dict[str, Any]:
    """Return the foundation's template for an environment with these endpoints."""
    spec = EnvironmentSpec.model_validate(
        {
            "name": "dev",
            "account": "123456789012",
            "region": "eu-central-1",
            "triton_release": "25.04",
            "endpoints": endpoints,
        }
    )
    template: dict[str, Any] = Template.from_stack(
        FoundationStack(new_app(folder), environment=spec)
    ).to_json()
    return template


def expiries(template: dict[str, Any]) -> dict[str, int]:
    """Return the expiry rules of the data bucket: prefix to days."""
    (store,) = [
        resource["Properties"]["LifecycleConfiguration"]["Rules"]
        for resource in template["Resources"].values()
        if "-data-" in resource.get("Properties", {}).get("BucketName", "")
    ]
    assert {rule["Status"] for rule in store} == {"Enabled"}
    assert len({rule["Id"] for rule in store}) == len(store)
    return {rule.get("Prefix", ""): rule["ExpirationInDays"] for rule in store}


def kept_for(template: dict[str, Any], key: str) -> int:
    """Return after how many days S3 deletes an object: the shortest of its rules."""
    return min(days for prefix, days in expiries(template).items() if key.startswith(prefix))


def test_data_is_retained_as_its_endpoint_configures(tmp_path):
    template = foundation_of(
        tmp_path,
        brief=PLAIN | {"data_capture": {"expiry_days": 2}},
        long=PLAIN | {"data_capture": {"expiry_days": 400}},
        queued=PLAIN | {"asynchronous": {"expiry_days": 5}},
        **{"long-ago": PLAIN | {"asynchronous": {"expiry_days": 60}}},
    )
    days = {
        "capture/tritonstack-dev-brief/main/2026/x.jsonl": 2,
        "capture/tritonstack-dev-long/main/2026/x.jsonl": 400,
        "answers/tritonstack-dev-queued/x.out": 5,
        "failures/tritonstack-dev-queued/x.out": 5,
        "requests/tritonstack-dev-queued/x.bin": 5,
        "answers/tritonstack-dev-long-ago/x.out": 60,
        "capture/tritonstack-dev-gone/main/2025/x.jsonl": 400,
    }
    assert {key: kept_for(template, key) for key in days} == days


def test_template_changes_only_with_the_data_rules_of_an_endpoint(tmp_path):
    before = foundation_of(tmp_path / "before", plain=PLAIN)
    others = foundation_of(
        tmp_path / "others",
        plain=PLAIN | {"instance_type": "ml.g5.xlarge", "scaling": {"max_instances": 9}},
        another=PLAIN | {"log_retention_days": 7},
    )
    assert others == before
    captured = foundation_of(tmp_path / "captured", plain=PLAIN | {"data_capture": {"expiry_days": 3}})
    assert captured != before
    (data_id,) = [
        key for key in before["Resources"] if before["Resources"][key] != captured["Resources"][key]
    ]
    for template in (before, captured):
        del template["Resources"][data_id]["Properties"]["LifecycleConfiguration"]
    assert captured == before
