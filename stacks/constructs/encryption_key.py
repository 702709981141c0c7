"""The environment's key: artifacts, images, endpoint volumes and alarm messages are encrypted with it."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from catalog import naming
from catalog.environments import EnvironmentSpec
from stacks.removal import removal_policy


class EncryptionKey(Construct):
    """A customer-managed key that rotates every year, found by its alias."""

    def __init__(self, scope: Construct, construct_id: str, *, environment: EnvironmentSpec) -> None:
        super().__init__(scope, construct_id)
        self.key = kms.Key(
            self,
            "Key",
            alias=naming.key_alias(environment.base),
            description=f"Encrypts artifacts, images, volumes and alarms of {environment.base}",
            enable_key_rotation=True,
            removal_policy=removal_policy(environment),
            # The shortest wait KMS allows; a key that is retained is never scheduled for deletion.
            pending_window=cdk.Duration.days(7) if environment.removal == "destroy" else None,
        )
        self.key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsPublishToTheEncryptedTopic",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["kms:Decrypt", "kms:GenerateDataKey*"],
                # In a key's own policy, * is this key.
                resources=["*"],
            )
        )
