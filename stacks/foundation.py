"""Create the resources that all endpoints of an environment share: key, buckets, repositories, and alarm
topic."""

from __future__ import annotations

from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks.environment_stack import EnvironmentStack
from tritonstack.base import naming
from tritonstack.constructs.data.buckets import (
    access_log,
    artifact_bucket,
    data_bucket,
    encryption_key,
    image_repository,
)
from tritonstack.constructs.delivery.bounds import role_bounds
from tritonstack.constructs.delivery.delivery_grants import NamePatterns
from tritonstack.constructs.iam.grants import AwsScope
from tritonstack.constructs.monitoring.failed_updates import alarm_topic, report_failures
from tritonstack.files.endpoint.endpoint import ServingOptions
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.environment.templates import Instance


class FoundationStack(EnvironmentStack):
    """The foundation stack, deployed before any endpoint.

    It depends on the endpoints only for the retention of their data.
    """

    def __init__(
        self, scope: Construct, *, environment: EnvironmentSpec, instance: Instance | None = None
    ) -> None:
        """`instance` is the request that created the environment, if it comes from a template."""
        super().__init__(
            scope,
            stack_name=naming.foundation_stack_name(environment.base),
            description=f"tritonstack: shared resources of {environment.name}",
            environment=environment,
        )
        if environment.permissions_boundary is None:
            self._boundary(environment)
        key = self._key(environment)
        self._buckets(environment, key)
        self._images(environment, key)
        self._alarms(environment, key)
        if instance:
            self.share(
                "InstanceParameter",
                name=naming.INSTANCE_PARAMETER,
                value=instance.to_json(),
                description=f"The request that created {environment.name}",
            )

    def _boundary(self, environment: EnvironmentSpec) -> None:
        """Create the permissions boundary. Only an administrator can change it, so it does not depend on
        models or endpoints."""
        aws = AwsScope.of(self)
        role_bounds(
            self,
            "Boundary",
            name=environment.roles_boundary,
            patterns=NamePatterns.like(aws, environment),
            description=f"Bounds the roles of {environment.name}",
            # The buckets of source models change with the models.
            reads_models=aws.bucket("*") if environment.builds_in_account else None,
            token_secret=environment.builds.hugging_face_token_secret,
        )

    def _key(self, environment: EnvironmentSpec) -> kms.Key:
        base = environment.base
        key = encryption_key(
            self,
            "Encryption",
            alias=naming.key_alias(base),
            description=f"Encrypts artifacts, data, images, volumes, logs and alarms of {base}",
            removal=self.removal,
            log_groups=[
                *naming.endpoint_log_groups(base),
                naming.flow_log_group(base),
                naming.build_log_group(base),
            ],
        )
        self.share(
            "KeyParameter",
            name=naming.KEY_PARAMETER,
            value=key.key_arn,
            description=f"Encrypts the data of {base}",
        )
        self.output(
            "KeyArn", value=key.key_arn, description=("ARN of the key that encrypts this environment's data")
        )
        return key

    def _buckets(self, environment: EnvironmentSpec, key: kms.IKey) -> None:
        log = access_log(self, "AccessLog", name=environment.log_bucket, removal=self.removal)
        artifacts = artifact_bucket(
            self, "Artifacts", name=environment.artifact_bucket, key=key, log=log, removal=self.removal
        )
        data = data_bucket(
            self,
            "Data",
            name=environment.data_bucket,
            key=key,
            log=log,
            expiry_days=_expiry_days(environment),
            removal=self.removal,
        )
        self.output("ArtifactBucket", value=artifacts.bucket_name, description="Bucket for artifacts")
        self.output(
            "DataBucket", value=data.bucket_name, description=("Bucket for captured requests and answers")
        )
        self.output("LogBucket", value=log.bucket_name, description="Bucket for the access logs of both")

    def _images(self, environment: EnvironmentSpec, key: kms.IKey) -> None:
        purposes = {"serving": "Repository of serving images", "builder": "Repository of build images"}
        for image, purpose in purposes.items():
            uri = image_repository(
                self,
                f"{image.capitalize()}Image",
                name=naming.image_repository_name(environment.base, image),
                key=key,
                removal=self.removal,
            )
            self.output(f"{image.capitalize()}Repository", value=uri, description=purpose)

    def _alarms(self, environment: EnvironmentSpec, key: kms.IKey) -> None:
        base = environment.base
        arn = alarm_topic(self, "Alarms", base=base, key=key, emails=environment.alarm_emails).topic_arn
        report_failures(self, "FailedUpdates", base=base, topic_arn=arn)
        self.output("AlarmTopic", value=arn, description="SNS topic for alarm notifications")


def _expiry_days(environment: EnvironmentSpec) -> dict[str, int]:
    """Return the retention per prefix of the data bucket, in days."""
    expiry_days: dict[str, int] = {}
    for name, endpoint in environment.endpoints.items():
        expiry_days |= _endpoint_expiry_days(environment.endpoint_name(name), endpoint)
    return expiry_days


def _endpoint_expiry_days(full_name: str, endpoint: ServingOptions) -> dict[str, int]:
    expiry_days = {}
    if endpoint.data_capture:
        expiry_days[naming.capture_prefix(full_name)] = endpoint.data_capture.expiry_days
    if endpoint.asynchronous:
        for prefix in (naming.answer_prefix, naming.failure_prefix, naming.request_prefix):
            expiry_days[prefix(full_name)] = endpoint.asynchronous.expiry_days
    return expiry_days
