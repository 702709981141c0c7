"""Notify a topic of endpoints that failed to be created or updated, or were rolled back.

Event format and status names follow the AWS documentation: Events that Amazon SageMaker AI sends to Amazon
EventBridge, and CloudFormation's Stack Status Change event detail.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import aws_events as events
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


FAILURES = ("FAILED", "OUT_OF_SERVICE", "ROLLING_BACK", "UPDATE_ROLLBACK_FAILED")
"""Endpoint statuses that trigger a notification."""

STACK_FAILURES = (
    "CREATE_FAILED",
    "DELETE_FAILED",
    "ROLLBACK_FAILED",
    "ROLLBACK_IN_PROGRESS",
    "UPDATE_FAILED",
    "UPDATE_ROLLBACK_FAILED",
    "UPDATE_ROLLBACK_IN_PROGRESS",
)
"""Stack statuses that trigger a notification."""

_TEXT = """\
The endpoint <endpoint> in <region> (account <account>) is <status>.

ROLLING_BACK: an alarm or a failed container start stopped an update; the previous version keeps serving.
FAILED: creation failed, or it can no longer be updated.
OUT_OF_SERVICE: it cannot serve requests, but can be updated.
UPDATE_ROLLBACK_FAILED: neither the new nor the previous version could be started.

Its configuration: <configuration>
Source: <kind>, <time>"""

_STACK_TEXT = """\
The stack of an endpoint in <region> (account <account>) is <status>.

<reason>

Stack: <stack>
Source: <kind>, <time>"""

_EVERYWHERE = {"account": "$.account", "kind": "$.detail-type", "region": "$.region", "time": "$.time"}


class FailedUpdates(Construct):
    """Create rules for all endpoints and stacks with a name prefix, including future ones.

    Stack events are needed too: SageMaker sends endpoint events only, and a failed inference component or an
    exceeded quota does not change the endpoint. One failure can therefore cause several messages.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        endpoint_prefix: str,
        stacks_name: str,
        stack_prefix: str,
        topic_arn: str,
    ) -> None:
        super().__init__(scope, construct_id)
        self._topic_arn = topic_arn
        self._rule(
            "Rule",
            name=name,
            description=f"Failures and rollbacks of endpoints {endpoint_prefix}*",
            pattern={
                "source": ["aws.sagemaker"],
                "detail-type": [
                    "SageMaker Endpoint State Change",
                    "SageMaker Endpoint Deployment State Change",
                ],
                "detail": {"EndpointName": [{"prefix": endpoint_prefix}], "EndpointStatus": list(FAILURES)},
            },
            values={
                "configuration": "$.detail.EndpointConfigName",
                "endpoint": "$.detail.EndpointName",
                "status": "$.detail.EndpointStatus",
            },
            text=_TEXT,
        )
        arn = AwsScope.of(self).arn("cloudformation", f"stack/{stack_prefix}")
        self._rule(
            "Stacks",
            name=stacks_name,
            description=f"Failures and rollbacks of stacks {stack_prefix}*",
            pattern={
                "source": ["aws.cloudformation"],
                "detail-type": ["CloudFormation Stack Status Change"],
                "detail": {"stack-id": [{"prefix": arn}], "status-details": {"status": list(STACK_FAILURES)}},
            },
            values={
                "reason": "$.detail.status-details.status-reason",
                "stack": "$.detail.stack-id",
                "status": "$.detail.status-details.status",
            },
            text=_STACK_TEXT,
        )

    def _rule(
        self,
        construct_id: str,
        *,
        name: str,
        description: str,
        pattern: Mapping[str, Any],
        values: Mapping[str, str],
        text: str,
    ) -> None:
        events.CfnRule(
            self,
            construct_id,
            name=name,
            description=description,
            event_pattern=pattern,
            targets=[
                events.CfnRule.TargetProperty(
                    id="topic",
                    arn=self._topic_arn,
                    input_transformer=events.CfnRule.InputTransformerProperty(
                        input_paths_map={**_EVERYWHERE, **values},
                        # A JSON string; EventBridge replaces the names in angle brackets.
                        input_template=json.dumps(text),
                    ),
                )
            ],
        )
