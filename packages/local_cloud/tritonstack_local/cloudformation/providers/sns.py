"""AWS::SNS resources."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import (
    NOT_ENFORCED,
    Property,
    Provider,
    ResourceRequest,
    generated_name,
    ignoring,
)

_ATTRIBUTES = ("DeliveryPolicy", "FilterPolicy", "FilterPolicyScope", "RawMessageDelivery", "RedrivePolicy")


class SubscriptionProvider(Provider):
    """Identifier: the subscription's ARN."""

    type_name = "AWS::SNS::Subscription"
    properties: ClassVar = {
        "DeliveryPolicy": Property(effect=False, reason="It is stored and returned; a message is sent once."),
        "Endpoint": Property(create_only=True),
        "FilterPolicy": Property(),
        "FilterPolicyScope": Property(),
        "Protocol": Property(
            create_only=True,
            required=True,
            reason="Supported: sqs, http, and https; no email or text message is sent.",
        ),
        "RawMessageDelivery": Property(),
        "RedrivePolicy": Property(
            effect=False, reason="It is stored and returned; undeliverable messages are dropped."
        ),
        "TopicArn": Property(create_only=True, required=True),
    }
    attribute_names = frozenset({"Arn"})

    def create(self, request: ResourceRequest) -> str:
        """Subscribe."""
        made = request.client("sns").subscribe(
            **request.api("TopicArn", "Protocol", "Endpoint"), ReturnSubscriptionArn=True
        )
        return str(made["SubscriptionArn"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set the attributes."""
        for name in _ATTRIBUTES:
            if name in request.properties:
                _set(request, physical_id, name, _text(request.properties[name]))

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Remove attributes."""
        for name in _ATTRIBUTES:
            if name in previous.properties and name not in request.properties:
                _set(request, physical_id, name, "false" if name == "RawMessageDelivery" else "{}")

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Unsubscribe."""
        with ignoring("NotFound"):
            request.client("sns").unsubscribe(SubscriptionArn=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, str]:
        """Return the ARN."""
        return {"Arn": physical_id}


def _set(request: ResourceRequest, arn: str, name: str, value: str) -> None:
    request.client("sns").set_subscription_attributes(
        SubscriptionArn=arn, AttributeName=name, AttributeValue=value
    )


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else json.dumps(value)


_TOPIC_ATTRIBUTES = ("DisplayName", "KmsMasterKeyId", "SignatureVersion", "TracingConfig")


class TopicProvider(Provider):
    """Identifier: the topic's ARN."""

    type_name = "AWS::SNS::Topic"
    name_property = "TopicName"
    properties: ClassVar = {
        "DisplayName": Property(effect=False, reason="It is stored and returned; no email is sent."),
        "KmsMasterKeyId": Property(effect=False, reason="It is stored and returned; nothing is encrypted."),
        "SignatureVersion": Property(effect=False, reason="Not stored: one signature version is used."),
        "Tags": Property(shape="sns:TagList"),
        "TopicName": Property(create_only=True),
        "TracingConfig": Property(effect=False, reason="Not stored: there is no X-Ray."),
    }
    attribute_names = frozenset({"TopicArn", "TopicName"})

    def create(self, request: ResourceRequest) -> str:
        """Create the topic."""
        made = request.client("sns").create_topic(Name=request.name("TopicName", max_length=256))
        return str(made["TopicArn"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set attributes and tags."""
        sns = request.client("sns")
        for name in _TOPIC_ATTRIBUTES:
            if name in request.properties:
                _topic_set(sns, physical_id, name, str(request.properties[name]))
        if request.properties.get("Tags"):
            sns.tag_resource(ResourceArn=physical_id, Tags=request.value("Tags"))

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Remove attributes and tags."""
        sns = request.client("sns")
        for name in _TOPIC_ATTRIBUTES:
            if name in previous.properties and name not in request.properties:
                _topic_set(sns, physical_id, name, "")
        kept = {tag["Key"] for tag in request.properties.get("Tags", [])}
        gone = [tag["Key"] for tag in previous.properties.get("Tags", []) if tag["Key"] not in kept]
        if gone:
            sns.untag_resource(ResourceArn=physical_id, TagKeys=gone)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the topic."""
        with ignoring("NotFound"):
            request.client("sns").delete_topic(TopicArn=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return ARN and name."""
        return {"TopicArn": physical_id, "TopicName": physical_id.rsplit(":", 1)[1]}


def _topic_set(sns: Any, arn: str, name: str, value: str) -> None:
    sns.set_topic_attributes(TopicArn=arn, AttributeName=name, AttributeValue=value)


_OWNER_ACTIONS = (
    "SNS:GetTopicAttributes",
    "SNS:SetTopicAttributes",
    "SNS:AddPermission",
    "SNS:RemovePermission",
    "SNS:DeleteTopic",
    "SNS:Subscribe",
    "SNS:ListSubscriptionsByTopic",
    "SNS:Publish",
)


class TopicPolicyProvider(Provider):
    """Identifier: a generated name. Deletion restores the topics' default policy."""

    type_name = "AWS::SNS::TopicPolicy"
    properties: ClassVar = {
        "PolicyDocument": Property(required=True, effect=False, reason=NOT_ENFORCED),
        "Topics": Property(required=True),
    }
    attribute_names = frozenset({"Id"})

    def create(self, request: ResourceRequest) -> str:
        """Return a name; `settle` sets the policies."""
        return generated_name(request.stack.name, request.logical_id, max_length=128)

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set the policy of every topic."""
        policy = json.dumps(request.properties["PolicyDocument"])
        for topic in request.properties["Topics"]:
            _set_policy(request, topic, policy)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Restore the default policy of removed topics."""
        for topic in previous.properties["Topics"]:
            if topic not in request.properties["Topics"]:
                _reset(request, topic)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Restore the default policy of every topic."""
        for topic in request.properties["Topics"]:
            _reset(request, topic)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, str]:
        """Return the identifier."""
        return {"Id": physical_id}


def _set_policy(request: ResourceRequest, topic: str, policy: str) -> None:
    request.client("sns").set_topic_attributes(TopicArn=topic, AttributeName="Policy", AttributeValue=policy)


def _reset(request: ResourceRequest, topic: str) -> None:
    statement = {
        "Sid": "__default_statement_ID",
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": list(_OWNER_ACTIONS),
        "Resource": topic,
        "Condition": {"StringEquals": {"AWS:SourceOwner": request.stack.account}},
    }
    policy = {"Version": "2008-10-17", "Id": "__default_policy_ID", "Statement": [statement]}
    with ignoring("NotFound"):
        _set_policy(request, topic, json.dumps(policy))
