"""Tells a topic of endpoints that could not be created or updated, or that went back to what they were.

The shape of the events, and the spelling of the states, is that of AWS's documentation: Events that Amazon
SageMaker AI sends to Amazon EventBridge, and CloudFormation's Stack Status Change event detail.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_events as events
from constructs import Construct

from tritonstack.constructs.iam.partition import partition_of

FAILURES = ("FAILED", "OUT_OF_SERVICE", "ROLLING_BACK", "UPDATE_ROLLBACK_FAILED")
"""The states of an endpoint that somebody has to hear of."""

STACK_FAILURES = (
    "CREATE_FAILED",
    "DELETE_FAILED",
    "ROLLBACK_FAILED",
    "ROLLBACK_IN_PROGRESS",
    "UPDATE_FAILED",
    "UPDATE_ROLLBACK_FAILED",
    "UPDATE_ROLLBACK_IN_PROGRESS",
)
"""The states of a stack that somebody has to hear of."""

_TEXT = """\
The endpoint <endpoint> in <region> (account <account>) is <status>.

ROLLING_BACK: an alarm, or containers that did not start, stopped an update; the version before serves on.
FAILED: it could not be created, or it cannot be updated any more.
OUT_OF_SERVICE: it cannot answer, but can be updated again.
UPDATE_ROLLBACK_FAILED: neither the new version nor the one before could be brought up.

Its configuration: <configuration>
Told by: <kind>, <time>"""

_STACK_TEXT = """\
The stack of an endpoint in <region> (account <account>) is <status>.

<reason>

Stack: <stack>
Told by: <kind>, <time>"""

_EVERYWHERE = {"account": "$.account", "kind": "$.detail-type", "region": "$.region", "time": "$.time"}


class FailedUpdates(Construct):
    """Rules for all endpoints and stacks whose names begin in one way, those to come included.

    Stacks are heard as well, since SageMaker tells of endpoints alone: an inference component that fails,
    or a quota that is too small, leaves the endpoint as it is. So one failure may be told more than once;
    as a state of the endpoint, and as one of its deployment, SageMaker does so itself.
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
        stack = cdk.Stack.of(self)
        self._topic_arn = topic_arn
        self._rule(
            "Rule",
            name=name,
            description=f"Endpoints {endpoint_prefix}* that fail or roll back",
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
        arn = f"arn:{partition_of(self)}:cloudformation:{stack.region}:{stack.account}:stack/{stack_prefix}"
        self._rule(
            "Stacks",
            name=stacks_name,
            description=f"Stacks {stack_prefix}* that fail or roll back",
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
                        # A JSON string, in which EventBridge fills in what stands in angle brackets.
                        input_template=json.dumps(text),
                    ),
                )
            ],
        )
