"""Create the SNS topic for all alarms and failed endpoint updates of an environment."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from tritonstack.constructs.iam.grants import AwsScope


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
        aws = AwsScope.of(self)
        self.topic = sns.Topic(self, "Topic", topic_name=name, master_key=key, enforce_ssl=True)
        from_this_account = {
            "ArnLike": {"aws:SourceArn": aws.arn("cloudwatch", f"alarm:{prefix}*")},
            "StringEquals": {"aws:SourceAccount": aws.account},
        }
        from_these_rules = {"ArnLike": {"aws:SourceArn": aws.arn("events", f"rule/{prefix}*")}}
        # EventBridge passes its rule to SNS, but neither rule nor account to KMS: a condition on them there
        # would silently drop its messages. SNS passes the topic to KMS. Its ARN is a literal, because the key
        # policy cannot refer to the topic, which refers to the key.
        for_this_topic = {"StringEquals": {"kms:EncryptionContext:aws:sns:topicArn": aws.arn("sns", name)}}
        publish, topic_arn = ["sns:Publish"], self.topic.topic_arn
        encrypt = ["kms:Decrypt", "kms:GenerateDataKey*"]
        # The TLS rule replaces SNS's default policy, which allowed the account's alarms; this allows them
        # again. In a key policy, * means this key.
        for resource, sid, service, actions, target, conditions in (
            (self.topic, "AlarmsPublish", "cloudwatch", publish, topic_arn, from_this_account),
            (key, "AlarmsPublishToTheEncryptedTopic", "cloudwatch", encrypt, "*", from_this_account),
            (self.topic, "EventsPublish", "events", publish, topic_arn, from_these_rules),
            (key, "EventsPublishToTheEncryptedTopic", "events", encrypt, "*", for_this_topic),
        ):
            resource.add_to_resource_policy(
                iam.PolicyStatement(
                    sid=sid,
                    principals=[iam.ServicePrincipal(f"{service}.amazonaws.com")],
                    actions=actions,
                    resources=[target],
                    conditions=conditions,
                )
            )
        for address in emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(address))
