"""S3 locations and permissions for an endpoint's requests, answers, failures, and captured data."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_sagemaker as sagemaker

from tritonstack.base import naming
from tritonstack.constructs.endpoint.answer_topics import AnswerTopics
from tritonstack.constructs.iam import grants
from tritonstack.files.endpoint.endpoint import Asynchronous, DataCapture

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
                naming.request_prefix(self.endpoint_name),
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
