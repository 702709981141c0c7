"""Notify a topic of endpoints that failed to be created or updated, or were rolled back.

Event format and status names follow the AWS documentation: Events that Amazon SageMaker AI sends to Amazon
EventBridge, and CloudFormation's Stack Status Change event detail.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from tritonstack.base import naming
from tritonstack.constructs.iam.grants import AwsScope


def alarm_topic(
    scope: Construct, construct_id: str, *, base: str, key: kms.IKey, emails: Sequence[str]
) -> sns.Topic:
    """Create an encrypted topic for the alarms and the EventBridge rules of an environment."""
    scope = Construct(scope, construct_id)
    aws, name, prefix = AwsScope.of(scope), naming.alarm_topic_name(base), f"{base}-"
    topic = sns.Topic(scope, "Topic", topic_name=name, master_key=key, enforce_ssl=True)
    from_this_account = {
        "ArnLike": {"aws:SourceArn": aws.arn("cloudwatch", f"alarm:{prefix}*")},
        "StringEquals": {"aws:SourceAccount": aws.account},
    }
    from_these_rules = {"ArnLike": {"aws:SourceArn": aws.arn("events", f"rule/{prefix}*")}}
    # EventBridge passes its rule to SNS, but neither rule nor account to KMS: a condition on them there
    # would silently drop its messages. SNS passes the topic to KMS. Its ARN is a literal, because the key
    # policy cannot refer to the topic, which refers to the key.
    for_this_topic = {"StringEquals": {"kms:EncryptionContext:aws:sns:topicArn": aws.arn("sns", name)}}
    publish, topic_arn = ["sns:Publish"], topic.topic_arn
    encrypt = ["kms:Decrypt", "kms:GenerateDataKey*"]
    # The TLS rule replaces SNS's default policy, which allowed the account's alarms; this allows them
    # again. In a key policy, * means this key.
    for resource, sid, service, actions, target, conditions in (
        (topic, "AlarmsPublish", "cloudwatch", publish, topic_arn, from_this_account),
        (key, "AlarmsPublishToTheEncryptedTopic", "cloudwatch", encrypt, "*", from_this_account),
        (topic, "EventsPublish", "events", publish, topic_arn, from_these_rules),
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
        topic.add_subscription(subscriptions.EmailSubscription(address))
    return topic


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


def report_failures(scope: Construct, construct_id: str, *, base: str, topic_arn: str) -> None:
    """Create rules for all endpoints and their stacks with a name prefix, including future ones.

    Stack events are needed too: SageMaker sends endpoint events only, and a failed inference component or an
    exceeded quota does not change the endpoint. One failure can therefore cause several messages.
    """
    scope = Construct(scope, construct_id)
    endpoints, stacks = f"{base}-", naming.endpoint_stack_name(base, "")
    endpoint_pattern = {
        "source": ["aws.sagemaker"],
        "detail-type": ["SageMaker Endpoint State Change", "SageMaker Endpoint Deployment State Change"],
        "detail": {"EndpointName": [{"prefix": endpoints}], "EndpointStatus": list(FAILURES)},
    }
    stack_pattern = {
        "source": ["aws.cloudformation"],
        "detail-type": ["CloudFormation Stack Status Change"],
        "detail": {
            "stack-id": [{"prefix": AwsScope.of(scope).arn("cloudformation", f"stack/{stacks}")}],
            "status-details": {"status": list(STACK_FAILURES)},
        },
    }
    for rule_id, name, kind, pattern, values, text in (
        (
            *("Rule", naming.failed_updates_rule_name(base), f"endpoints {endpoints}*", endpoint_pattern),
            {"configuration": "EndpointConfigName", "endpoint": "EndpointName", "status": "EndpointStatus"},
            _TEXT,
        ),
        (
            *("Stacks", naming.failed_deployments_rule_name(base), f"stacks {stacks}*", stack_pattern),
            {
                "reason": "status-details.status-reason",
                "stack": "stack-id",
                "status": "status-details.status",
            },
            _STACK_TEXT,
        ),
    ):
        paths = {key: f"$.detail.{field}" for key, field in values.items()}
        transformer = events.CfnRule.InputTransformerProperty(
            input_paths_map={**_EVERYWHERE, **paths},
            # A JSON string; EventBridge replaces the names in angle brackets.
            input_template=json.dumps(text),
        )
        target = events.CfnRule.TargetProperty(id="topic", arn=topic_arn, input_transformer=transformer)
        description = f"Failures and rollbacks of {kind}"
        events.CfnRule(
            scope, rule_id, name=name, description=description, event_pattern=pattern, targets=[target]
        )
