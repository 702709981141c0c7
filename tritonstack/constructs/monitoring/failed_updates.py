"""Notify a topic of endpoints that failed to be created or updated, or were rolled back.

Event format and status names follow the AWS documentation: Events that Amazon SageMaker AI sends to Amazon
EventBridge, and CloudFormation's Stack Status Change event detail.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aws_cdk import aws_events as events
from constructs import Construct

from tritonstack.constructs.iam.grants import AwsScope

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
                "detail": {
                    "EndpointName": [{"prefix": endpoint_prefix}],
                    "EndpointStatus": list(FAILURES),
                },
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
                "detail": {
                    "stack-id": [{"prefix": arn}],
                    "status-details": {"status": list(STACK_FAILURES)},
                },
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
