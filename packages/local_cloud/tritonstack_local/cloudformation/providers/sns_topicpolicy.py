"""AWS::SNS::TopicPolicy."""

from __future__ import annotations

import json
from typing import ClassVar

from tritonstack_local.cloudformation.names import generated_name
from tritonstack_local.cloudformation.providers.base import (
    NOT_ENFORCED,
    Property,
    Provider,
    ResourceRequest,
    ignoring,
)

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


class TopicPolicy(Provider):
    """Identifier: a generated name. Deleting gives the topics the policy back that every new topic has."""

    type_name = "AWS::SNS::TopicPolicy"
    properties: ClassVar = {
        "PolicyDocument": Property(required=True, effect=False, why=NOT_ENFORCED),
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
        """Give topics that leave the list their first policy back."""
        for topic in previous.properties["Topics"]:
            if topic not in request.properties["Topics"]:
                _reset(request, topic)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Give every topic its first policy back."""
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
