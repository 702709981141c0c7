"""Create the success and error topics of an asynchronous endpoint.

Messages hold the S3 location of an answer, not the answer: a subscriber cannot read it without S3 access.
"""

from __future__ import annotations

from aws_cdk import aws_sns as sns
from constructs import Construct

from tritonstack.base import naming
from tritonstack.constructs.iam.granted_role import policy_document

_SNS_KEY = "alias/aws/sns"


class AnswerTopics(Construct):
    """Create encrypted topics that accept TLS connections only."""

    def __init__(
        self, scope: Construct, construct_id: str, *, endpoint_name: str, key_arn: str | None = None
    ) -> None:
        super().__init__(scope, construct_id)
        self.success_arn = self._topic("Success", naming.success_topic_name(endpoint_name), key_arn)
        self.error_arn = self._topic("Error", naming.error_topic_name(endpoint_name), key_arn)

    def _topic(self, construct_id: str, name: str, key_arn: str | None) -> str:
        topic = sns.CfnTopic(self, construct_id, topic_name=name, kms_master_key_id=key_arn or _SNS_KEY)
        sns.CfnTopicPolicy(
            self,
            f"{construct_id}Policy",
            topics=[topic.ref],
            # The publisher's own role allows publishing; the topic policy is only needed for the denial.
            policy_document=policy_document(
                [
                    {
                        "Sid": "TlsOnly",
                        "Effect": "Deny",
                        "Principal": "*",
                        "Action": "sns:Publish",
                        "Resource": topic.ref,
                        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                    }
                ]
            ),
        )
        return topic.ref
