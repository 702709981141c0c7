"""Create the environment's KMS key for artifacts, data, images, volumes, logs, and alarm messages."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from tritonstack.constructs.iam.grants import AwsScope, iam_actions


class EncryptionKey(Construct):
    """Create a customer-managed key with yearly rotation and an alias.

    `log_groups` are the names or patterns of the log groups that CloudWatch Logs encrypts with it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        alias: str,
        description: str,
        removal: cdk.RemovalPolicy,
        log_groups: Sequence[str] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        self.key = kms.Key(
            self,
            "Key",
            alias=alias,
            description=description,
            enable_key_rotation=True,
            removal_policy=removal,
            # The shortest waiting period that KMS allows; a retained key is never scheduled for deletion.
            pending_window=cdk.Duration.days(7) if removal == cdk.RemovalPolicy.DESTROY else None,
        )
        if log_groups:
            self._serve_logs(log_groups)

    def _serve_logs(self, names: Sequence[str]) -> None:
        aws = AwsScope.of(self)
        groups = [aws.arn("logs", f"log-group:{name}") for name in names]
        self.key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="LogsAreEncrypted",
                principals=[iam.ServicePrincipal(f"logs.{aws.region}.amazonaws.com")],
                actions=iam_actions("kms: Decrypt DescribeKey Encrypt GenerateDataKey* ReEncrypt*"),
                # In a key policy, * means this key.
                resources=["*"],
                conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
            )
        )
