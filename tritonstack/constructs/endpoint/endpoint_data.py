"""S3 locations and permissions for an endpoint's requests, answers, failures, and captured data."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sns as sns
from constructs import Construct

from tritonstack.base import naming
from tritonstack.constructs.iam import grants
from tritonstack.constructs.iam.granted_role import policy_document
from tritonstack.files.endpoint.endpoint import Asynchronous, DataCapture

# Create the success and error topics of an asynchronous endpoint.
#
# Messages hold the S3 location of an answer, not the answer: a subscriber cannot read it without S3 access.


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


_Config = sagemaker.CfnEndpointConfig


@dataclass(frozen=True)
class EndpointData:
    """One endpoint's prefixes in a bucket, and the key that encrypts them."""

    bucket: str
    endpoint_name: str
    key_arn: str | None

    def capture_config(self, options: DataCapture) -> _Config.DataCaptureConfigProperty:
        """Return the configuration that captures a sample of requests and answers."""
        return _Config.DataCaptureConfigProperty(
            enable_capture=True,
            initial_sampling_percentage=options.sampling_percent,
            destination_s3_uri=self._place(naming.capture_prefix(self.endpoint_name)),
            kms_key_id=self.key_arn,
            capture_options=[
                _Config.CaptureOptionProperty(capture_mode=mode.capitalize()) for mode in options.content
            ],
            # Other content types, such as Triton's binary format, are stored as base64.
            capture_content_type_header=_Config.CaptureContentTypeHeaderProperty(
                json_content_types=["application/json"]
            ),
        )

    def async_config(
        self, options: Asynchronous, topics: AnswerTopics
    ) -> _Config.AsyncInferenceConfigProperty:
        """Return the configuration that stores answers and failures and notifies the topics."""
        return _Config.AsyncInferenceConfigProperty(
            client_config=_Config.AsyncInferenceClientConfigProperty(
                max_concurrent_invocations_per_instance=options.max_concurrent_per_instance
            ),
            output_config=_Config.AsyncInferenceOutputConfigProperty(
                s3_output_path=self._place(naming.answer_prefix(self.endpoint_name)),
                s3_failure_path=self._place(naming.failure_prefix(self.endpoint_name)),
                kms_key_id=self.key_arn,
                notification_config=_Config.AsyncInferenceNotificationConfigProperty(
                    success_topic=topics.success_arn, error_topic=topics.error_arn
                ),
            ),
        )

    def capture_grants(self, aws: grants.AwsScope) -> list[grants.Grant]:
        """Return the grants that data capture needs."""
        return grants.write_objects(
            aws,
            self.bucket,
            [naming.capture_prefix(self.endpoint_name)],
            key_arn=self.key_arn,
            because="the captured requests of this one endpoint, which SageMaker names by the hour",
        )

    def async_grants(self, aws: grants.AwsScope, topics: AnswerTopics) -> list[grants.Grant]:
        """Return the grants that asynchronous inference needs."""
        return [
            *grants.read_objects(
                aws,
                self.bucket,
                f"{naming.request_prefix(self.endpoint_name)}*",
                key_arn=self.key_arn,
                because="requests of this endpoint; callers name them",
            ),
            *grants.write_objects(
                aws,
                self.bucket,
                [naming.answer_prefix(self.endpoint_name), naming.failure_prefix(self.endpoint_name)],
                key_arn=self.key_arn,
                because="answers and failures of this endpoint; SageMaker names them",
            ),
            *grants.publish_messages(aws, [topics.success_arn, topics.error_arn], self.key_arn),
        ]

    def _place(self, prefix: str) -> str:
        # SageMaker appends a slash.
        return f"s3://{self.bucket}/{prefix.removesuffix('/')}"
