"""Asynchronous endpoints: where answers go, who is notified, and scaling to zero."""

from __future__ import annotations

import pytest

from tests.stacks.templates import production, properties

MINE = "tritonstack-every-queued"
BUCKET = "s3://tritonstack-every-data-123456789012-us-east-1"


@pytest.fixture
def queued(every):
    return every.endpoint("queued")


@pytest.fixture
def topics(queued):
    """Return the topics' logical ids by name."""
    found = queued.find_resources("AWS::SNS::Topic")
    return {topic["Properties"]["TopicName"]: logical_id for logical_id, topic in found.items()}


def test_answers_and_failures_have_separate_encrypted_prefixes(queued, topics):
    config = properties(queued, "AWS::SageMaker::EndpointConfig")["AsyncInferenceConfig"]
    assert config == {
        "ClientConfig": {"MaxConcurrentInvocationsPerInstance": 3},
        "OutputConfig": {
            "S3OutputPath": f"{BUCKET}/answers/{MINE}",
            "S3FailurePath": f"{BUCKET}/failures/{MINE}",
            "KmsKeyId": {"Ref": "KeyArn"},
            "NotificationConfig": {
                "SuccessTopic": {"Ref": topics[f"{MINE}-success"]},
                "ErrorTopic": {"Ref": topics[f"{MINE}-error"]},
            },
        },
    }


def test_topics_are_encrypted_and_reject_plain_http(queued, topics):
    for topic in queued.find_resources("AWS::SNS::Topic").values():
        assert topic["Properties"]["KmsMasterKeyId"] == {"Ref": "KeyArn"}
    protected = set()
    for policy in queued.find_resources("AWS::SNS::TopicPolicy").values():
        (denied,) = policy["Properties"]["PolicyDocument"]["Statement"]
        assert denied["Effect"] == "Deny"
        assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        protected.add(denied["Resource"]["Ref"])
    assert protected == set(topics.values())


def test_asynchronous_endpoint_starts_with_one_instance(queued):
    assert production(queued)["InitialInstanceCount"] == 1


def test_asynchronous_requests_have_no_routing(queued):
    assert "RoutingConfig" not in production(queued)


def test_callers_get_the_offsets(queued, topics):
    outputs = {name: output["Value"] for name, output in queued.to_json()["Outputs"].items()}
    assert outputs["InputPrefix"] == f"{BUCKET}/requests/{MINE}/"
    assert outputs["OutputPrefix"] == f"{BUCKET}/answers/{MINE}/"
    assert outputs["SuccessTopic"] == {"Ref": topics[f"{MINE}-success"]}
    assert outputs["ErrorTopic"] == {"Ref": topics[f"{MINE}-error"]}


def test_other_endpoints_have_no_topics(every):
    every.endpoint("single").resource_count_is("AWS::SNS::Topic", 0)
