"""Asynchronous endpoints: where answers go, who is notified, and scaling to zero."""

import pytest


@pytest.fixture
def queued(every):
    return every.endpoint("queued")


@pytest.fixture
def topics(queued):
    """Return the topics' logical ids by name."""
    resources = queued.find_resources("AWS::SNS::Topic")
    return {topic["Properties"]["TopicName"]: logical_id for logical_id, topic in resources.items()}


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
