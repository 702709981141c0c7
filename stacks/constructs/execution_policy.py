"""The policy for `cdk bootstrap --cloudformation-execution-policies`: no administrator's rights."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from catalog import naming
from catalog.environments import EnvironmentSpec
from stacks.constructs.delivery_grants import Named, global_arn
from stacks.constructs.execution_grants import EC2_ACTIONS, SERVICE_ACTIONS, execution_grants
from stacks.constructs.granted_role import explain_pattern, policy_document
from stacks.constructs.grants import Home
from stacks.constructs.skipped_checks import skip_check


def execution_policy(scope: Construct, *, environment: EnvironmentSpec) -> iam.CfnManagedPolicy:
    """What CloudFormation may do for one environment."""
    home, boundary = Home.of(scope), environment.permissions_boundary
    granted = list(
        execution_grants(
            home,
            Named.like(environment),
            boundary_arn=global_arn(home, f"policy/{boundary}") if boundary else None,
            network=bool(environment.network and environment.network.create),
        )
    )
    policy = iam.CfnManagedPolicy(
        scope,
        "Execution",
        managed_policy_name=naming.execution_policy_name(environment.delivery_base),
        description=f"All that CloudFormation needs to make {environment.name}",
        policy_document=policy_document([grant.statement() for grant in granted]),
    )
    for grant in granted:
        for pattern in (resource for resource in grant.resources if "*" in resource):
            explain_pattern(policy, pattern, because=str(grant.because))
    explain_services(policy, policy)
    return policy


def explain_services(construct: Construct, policy: Construct) -> None:
    """Say to whoever checks templates why whole services are allowed."""
    reason = "CloudFormation makes, changes and deletes what is named like this, and nothing else"
    skip_check(policy, "CKV_AWS_111", because=reason)
    wide = dict.fromkeys((*SERVICE_ACTIONS, "application-autoscaling:*"), reason)
    network = "nothing of a network has a name, and a policy has room for no more than 6,144 characters"
    wide |= dict.fromkeys((action for action in EC2_ACTIONS if "*" in action), network)
    for action, because in wide.items():
        cdk.Validations.of(construct).acknowledge(
            cdk.Acknowledgment(id=f"AwsSolutions::AwsSolutions-IAM5[Action::{action}]", reason=because)
        )
