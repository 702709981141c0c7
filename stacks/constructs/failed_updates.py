"""Tells a topic of endpoints that could not be created or updated, or that went back to what they were.

The shape of both events, and the spelling of the states, is that of SageMaker's documentation
(Events that Amazon SageMaker AI sends to Amazon EventBridge).
"""

from __future__ import annotations

import json

from aws_cdk import aws_events as events
from constructs import Construct

FAILURES = ("FAILED", "OUT_OF_SERVICE", "ROLLING_BACK", "UPDATE_ROLLBACK_FAILED")
"""The states of an endpoint that somebody has to hear of."""

_TEXT = """\
The endpoint <endpoint> in <region> (account <account>) is <status>.

ROLLING_BACK: an alarm, or containers that did not start, stopped an update; the version before serves on.
FAILED: it could not be created, or it cannot be updated any more.
OUT_OF_SERVICE: it cannot answer, but can be updated again.
UPDATE_ROLLBACK_FAILED: neither the new version nor the one before could be brought up.

Its configuration: <configuration>
Told by: <kind>, <time>"""


class FailedUpdates(Construct):
    """A rule for all endpoints whose names begin in one way, those that do not exist yet included.

    SageMaker may tell of one failure more than once: as a state of the endpoint, and as one of its
    deployment, which endpoints without deployment guardrails do not have.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        endpoint_prefix: str,
        topic_arn: str,
    ) -> None:
        super().__init__(scope, construct_id)
        events.CfnRule(
            self,
            "Rule",
            name=name,
            description=f"Endpoints {endpoint_prefix}* that fail or roll back",
            event_pattern={
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
            targets=[
                events.CfnRule.TargetProperty(
                    id="topic",
                    arn=topic_arn,
                    input_transformer=events.CfnRule.InputTransformerProperty(
                        input_paths_map={
                            "account": "$.account",
                            "configuration": "$.detail.EndpointConfigName",
                            "endpoint": "$.detail.EndpointName",
                            "kind": "$.detail-type",
                            "region": "$.region",
                            "status": "$.detail.EndpointStatus",
                            "time": "$.time",
                        },
                        # A JSON string, in which EventBridge fills in what stands in angle brackets.
                        input_template=json.dumps(_TEXT),
                    ),
                )
            ],
        )
