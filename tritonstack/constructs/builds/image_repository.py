"""Create an ECR repository for one of the images in containers/."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_kms as kms
from constructs import Construct


class ImageRepository(Construct):
    """Create a repository with scan on push and immutable tags."""

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, key: kms.IKey, removal: cdk.RemovalPolicy
    ) -> None:
        super().__init__(scope, construct_id)
        repository = ecr.Repository(
            self,
            "Repository",
            repository_name=name,
            image_scan_on_push=True,
            image_tag_mutability=ecr.TagMutability.IMMUTABLE,
            encryption=ecr.RepositoryEncryption.KMS,
            encryption_key=key,
            removal_policy=removal,
            empty_on_delete=removal == cdk.RemovalPolicy.DESTROY,
            # Expire only untagged images: an endpoint pulls its image again on each scale-out, however old it
            # is. `deploy` deletes superseded ones, because this rule knows nothing of locks and endpoints.
            lifecycle_rules=[
                ecr.LifecycleRule(
                    description="untagged images",
                    tag_status=ecr.TagStatus.UNTAGGED,
                    max_image_age=cdk.Duration.days(14),
                )
            ],
        )
        self.uri = repository.repository_uri
