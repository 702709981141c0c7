"""The role by which other accounts read what they promote from an environment.

The buckets refuse every principal of another account, whatever it was granted. Who takes on this role is a
principal of the environment's own account for as long as it does, so the refusal stands as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from constructs import Construct

from tritonstack.base import naming
from tritonstack.constructs.iam.grants import Grant, Home, read_objects
from tritonstack.constructs.iam.service_role import ServiceRole
from tritonstack.spec.environments.environment import EnvironmentSpec

_EVERY_MODEL = "whoever promotes names the model; the artifacts of all of them are of one kind"
_EVERY_EVENT = "gates look at all that happened to an artifact, and events are named by their time"


class PromotionReader(Construct):
    """It reads artifacts, events and the images that endpoints run, and changes nothing.

    `accounts` are those of the environments that promote from this one; their administrators say which of
    their own principals may take the role on.
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
            taken_on_by={},
            accounts=sorted(set(accounts)),
            role_name=naming.promotion_role_name(environment.delivery_base),
            description=f"Other accounts read with it what they promote from {environment.name}",
            policy_name="read-what-is-promoted",
        )
        role.allow(reading_grants(Home.of(self), environment, key_arn))
        self.arn = role.arn


def reading_grants(home: Home, environment: EnvironmentSpec, key_arn: str) -> list[Grant]:
    """What promoting from an environment takes of it; roles of its own account may be granted the same."""
    bucket = environment.artifact_bucket
    repository = naming.image_repository_name(environment.base, "serving")
    return [
        *read_objects(home, bucket, naming.MODELS, key_arn=key_arn, because=_EVERY_MODEL),
        *read_objects(home, bucket, naming.EVENTS, key_arn=key_arn, because=_EVERY_EVENT),
        Grant(
            ["ecr:BatchGetImage", "ecr:DescribeImages", "ecr:GetDownloadUrlForLayer"],
            [home.arn("ecr", f"repository/{repository}")],
        ),
    ]


def resuming_grants(home: Home, environment: EnvironmentSpec) -> list[Grant]:
    """What promoting into an environment takes beside writing: going on with uploads that were killed."""
    bucket = home.bucket(environment.artifact_bucket)
    parts = f"{bucket}/{naming.MODELS}*"
    return [
        Grant(["s3:ListBucketMultipartUploads"], [bucket]),
        Grant(["s3:ListMultipartUploadParts"], [parts], because=_EVERY_MODEL),
    ]
