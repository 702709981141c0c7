"""Create the role that other accounts assume to read what they promote from an environment.

The buckets deny all principals of other accounts. A principal that assumes this role belongs to the
environment's own account, so the denial does not apply.
"""

from __future__ import annotations

from collections.abc import Sequence

from constructs import Construct

from tritonstack.base import naming
from tritonstack.constructs.iam.grants import AwsScope, Grant, allow, read_objects
from tritonstack.constructs.iam.service_role import ServiceRole
from tritonstack.files.environment.environment import EnvironmentSpec

_EVERY_MODEL = "artifacts of all models; the caller names the model to promote"
_EVERY_EVENT = "promotion gates read all events of an artifact, and events are named by time"


class PromotionReader(Construct):
    """Create a read-only role for artifacts, events, and serving images.

    `accounts` are the accounts of the environments that promote from this one; their administrators choose
    which of their principals may assume the role.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: EnvironmentSpec,
        key_arn: str,
        accounts: Sequence[str],
    ) -> None:
        super().__init__(scope, construct_id)
        role = ServiceRole(
            self,
            "Reader",
            assumed_by={},
            accounts=sorted(set(accounts)),
            role_name=naming.promotion_role_name(environment.delivery_base),
            description=f"IAM role for other accounts to read what they promote from {environment.name}",
            policy_name="read-what-is-promoted",
        )
        role.allow(reading_grants(AwsScope.of(self), environment, key_arn))
        self.arn = role.arn


def reading_grants(aws: AwsScope, environment: EnvironmentSpec, key_arn: str) -> list[Grant]:
    """Return what promotion from an environment needs to read; roles in its own account may get the same."""
    bucket = environment.artifact_bucket
    repository = naming.image_repository_name(environment.base, "serving")
    return [
        *read_objects(aws, bucket, naming.MODELS, key_arn=key_arn, because=_EVERY_MODEL),
        *read_objects(aws, bucket, naming.EVENTS, key_arn=key_arn, because=_EVERY_EVENT),
        allow(
            "ecr: BatchGetImage DescribeImages GetDownloadUrlForLayer",
            aws.arn("ecr", f"repository/{repository}"),
        ),
    ]


def resuming_grants(aws: AwsScope, environment: EnvironmentSpec) -> list[Grant]:
    """Return what resuming interrupted uploads into an environment needs, beside write access."""
    bucket = aws.bucket(environment.artifact_bucket)
    parts = f"{bucket}/{naming.MODELS}*"
    return [
        allow("s3: ListBucketMultipartUploads", bucket),
        allow("s3: ListMultipartUploadParts", parts, because=_EVERY_MODEL),
    ]
