"""Create the SNS topic for all alarms and failed endpoint updates of an environment."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

_ALARMS = "cloudwatch.amazonaws.com"
_EVENTS = "events.amazonaws.com"


class AlarmTopic(Construct):
    """Create an encrypted topic for the alarms and the EventBridge rules with a given name prefix."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        key: kms.IKey,
        prefix: str,
        emails: Sequence[str] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        self.topic = sns.Topic(self, "Topic", topic_name=name, master_key=key, enforce_ssl=True)
        # A literal ARN, because the key policy cannot refer to the topic, which refers to the key.
        arn = f"arn:aws:sns:{stack.region}:{stack.account}:{name}"
        from_this_account = {
            "ArnLike": {
                "aws:SourceArn": f"arn:aws:cloudwatch:{stack.region}:{stack.account}:alarm:{prefix}*"
            },
            "StringEquals": {"aws:SourceAccount": stack.account},
        }
        from_these_rules = {
            "ArnLike": {"aws:SourceArn": f"arn:aws:events:{stack.region}:{stack.account}:rule/{prefix}*"}
        }
        # The TLS rule replaces SNS's default policy, which allowed the account's alarms; this allows them
        # again.
        self._publish(_ALARMS, "AlarmsPublish", from_this_account)
        self._encrypt(key, _ALARMS, "AlarmsPublishToTheEncryptedTopic", from_this_account)
        # EventBridge passes its rule to SNS, but neither rule nor account to KMS: a condition on them there
        # would silently drop its messages. SNS passes the topic to KMS.
        self._publish(_EVENTS, "EventsPublish", from_these_rules)
        self._encrypt(
            key,
            _EVENTS,
            "EventsPublishToTheEncryptedTopic",
            {"StringEquals": {"kms:EncryptionContext:aws:sns:topicArn": arn}},
        )
        for address in emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(address))

    def _publish(self, service: str, sid: str, conditions: dict[str, dict[str, str]]) -> None:
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid=sid,
                principals=[iam.ServicePrincipal(service)],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                conditions=conditions,
            )
        )

    def _encrypt(self, key: kms.IKey, service: str, sid: str, conditions: dict[str, dict[str, str]]) -> None:
        key.add_to_resource_policy(
            iam.PolicyStatement(
                sid=sid,
                principals=[iam.ServicePrincipal(service)],
                actions=["kms:Decrypt", "kms:GenerateDataKey*"],
                # In a key policy, * means this key.
                resources=["*"],
                conditions=conditions,
            )
        )
