"""AWS::SNS resources."""

from __future__ import annotations

import json

from tritonstack_local.cloudformation.providers.base import (
    NOT_ENFORCED,
    Creation,
    Deletion,
    Name,
    Property,
    PropertySetting,
    Provider,
    ResourceRequest,
    Tagging,
    alike,
    ignoring,
    kept,
    removed_items,
)

_SUBSCRIPTION = Provider(
    type_name="AWS::SNS::Subscription",
    identifier="SubscriptionArn",
    properties={
        **alike("Endpoint TopicArn", create_only=True, required=True),
        "Protocol": Property(
            create_only=True,
            required=True,
            reason="Supported: sqs, http, and https; no email or text message is sent.",
        ),
    },
    creation=Creation("subscribe", "SubscriptionArn"),
    deletion=Deletion("unsubscribe", "NotFound"),
    attributes={"Arn": "{id}"},
)

_TOPIC = Provider(
    type_name="AWS::SNS::Topic",
    identifier="TopicArn",
    name=Name("TopicName", 256, argument="Name"),
    properties={
        "KmsMasterKeyId": kept("nothing is encrypted."),
        "Tags": Property(shape="sns:TagList"),
        "TopicName": Property(create_only=True),
    },
    creation=Creation("create_topic", "TopicArn"),
    settings={
        "KmsMasterKeyId": PropertySetting(
            "set_topic_attributes", "AttributeValue", default="", fixed={"AttributeName": "KmsMasterKeyId"}
        )
    },
    tagging=Tagging("tag_resource", "untag_resource", {"ResourceArn": "{id}"}),
    deletion=Deletion("delete_topic", "NotFound"),
    attributes={"TopicArn": "{id}", "TopicName": "{name}"},
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


class TopicPolicyProvider(Provider):
    """Identifier: a generated name. Deletion restores the topics' default policy."""

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set the policy of every topic."""
        for topic in request.properties["Topics"]:
            self._set_policy(request, topic, request.properties["PolicyDocument"])

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Restore the default policy of removed topics."""
        self._reset(request, removed_items(request, previous, "Topics"))

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Restore the default policy of every topic."""
        self._reset(request, request.properties["Topics"])

    def _reset(self, request: ResourceRequest, topics: list[str]) -> None:
        for topic in topics:
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
                self._set_policy(request, topic, policy)

    def _set_policy(self, request: ResourceRequest, topic: str, policy: object) -> None:
        request.client("sns").set_topic_attributes(
            TopicArn=topic, AttributeName="Policy", AttributeValue=json.dumps(policy)
        )


_TOPIC_POLICY = TopicPolicyProvider(
    type_name="AWS::SNS::TopicPolicy",
    properties={
        "PolicyDocument": Property(required=True, effect=False, reason=NOT_ENFORCED),
        "Topics": Property(required=True),
    },
    attributes={"Id": "{id}"},
)

TYPES = (_SUBSCRIPTION, _TOPIC, _TOPIC_POLICY)
