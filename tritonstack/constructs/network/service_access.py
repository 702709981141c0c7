"""Create the VPC endpoints that SageMaker containers need.

They are S3 for artifacts and data, ECR for images, and CloudWatch Logs. Others would cost money per hour
without use: SageMaker provides credentials (no STS) and publishes metrics (no CloudWatch), S3 calls KMS
itself, and callers invoke endpoints from their own networks (no SageMaker Runtime).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from tritonstack.constructs.iam.grants import iam_actions
from tritonstack.constructs.network.private_network import PrivateNetwork

_PULL = iam_actions(
    "ecr: BatchCheckLayerAvailability BatchGetImage GetAuthorizationToken GetDownloadUrlForLayer"
)
_WRITE_LOGS = iam_actions("logs: CreateLogGroup CreateLogStream DescribeLogStreams PutLogEvents")
_SERVICES: Mapping[str, Sequence[str]] = {"ecr.api": _PULL, "ecr.dkr": _PULL, "logs": _WRITE_LOGS}


class ServiceAccess(Construct):
    """Create a gateway endpoint for S3, limited to some buckets, and interface endpoints for other
    services."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        network: PrivateNetwork,
        buckets: Sequence[str],
        security_group_id: str,
    ) -> None:
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        # Callers' own policies limit the resources; this policy limits the account.
        from_this_account = {"StringEquals": {"aws:PrincipalAccount": stack.account}}
        ec2.CfnVPCEndpoint(
            self,
            "S3",
            vpc_id=network.vpc_id,
            service_name=f"com.amazonaws.{stack.region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[network.route_table_id],
            policy_document=_policy(
                {
                    "Sid": "BucketsOfThisEnvironment",
                    "Action": ["s3:AbortMultipartUpload", "s3:GetObject", "s3:ListBucket", "s3:PutObject"],
                    "Resource": [arn for name in buckets for arn in _bucket_arns(name)],
                    "Condition": from_this_account,
                },
                {
                    # ECR stores image layers in its own bucket, behind presigned URLs.
                    "Sid": "LayersOfImages",
                    "Action": ["s3:GetObject"],
                    "Resource": [f"arn:aws:s3:::prod-{stack.region}-starport-layer-bucket/*"],
                },
            ),
        )
        for service, actions in _SERVICES.items():
            ec2.CfnVPCEndpoint(
                self,
                service,
                vpc_id=network.vpc_id,
                service_name=f"com.amazonaws.{stack.region}.{service}",
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=network.subnet_ids,
                security_group_ids=[security_group_id],
                policy_document=_policy(
                    {"Action": actions, "Resource": ["*"], "Condition": from_this_account}
                ),
            )


def _bucket_arns(name: str) -> tuple[str, str]:
    return f"arn:aws:s3:::{name}", f"arn:aws:s3:::{name}/*"


def _policy(*statements: Mapping[str, Any]) -> dict[str, Any]:
    allowed = [{"Effect": "Allow", "Principal": "*", **statement} for statement in statements]
    return {"Version": "2012-10-17", "Statement": allowed}
