"""The policies for `cdk bootstrap --cloudformation-execution-policies`, without administrator access.

There are two, because IAM allows 6,144 characters per managed policy: one for services and network, one for
keys and roles.
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_iam as iam
from constructs import Construct

from tritonstack.base import naming
from tritonstack.constructs.delivery.delivery_grants import NamePatterns
from tritonstack.constructs.delivery.execution_grants import (
    EC2_ACTIONS,
    SERVICE_ACTIONS,
    boundary_grants,
    security_grants,
    service_grants,
)
from tritonstack.constructs.iam.granted_role import explain_pattern, explain_wildcard
from tritonstack.constructs.iam.grants import AwsScope, Grant
from tritonstack.constructs.iam.managed_policy import managed_policy
from tritonstack.constructs.iam.skipped_checks import skip_check
from tritonstack.files.environment.environment import EnvironmentSpec

_UNBOUND_WRITES = "CKV_AWS_111"
_NAMED = "CloudFormation creates, changes, and deletes only resources with this name"


def execution_policies(scope: Construct, *, environment: EnvironmentSpec) -> list[iam.CfnManagedPolicy]:
    """Create the execution policies of one environment."""
    aws = AwsScope.of(scope)
    patterns = NamePatterns.like(aws, environment)
    services, security = naming.execution_policy_names(environment.delivery_base)
    network = bool(environment.network and environment.network.create)
    boundary_arn = aws.iam(f"policy/{environment.roles_boundary}")
    for_services = _policy(
        scope,
        "Execution",
        services,
        f"What CloudFormation needs to make {environment.name}, beside keys and roles",
        list(service_grants(patterns, network=network)),
    )
    skip_check(for_services, _UNBOUND_WRITES, because=_NAMED)
    return [
        for_services,
        _policy(
            scope,
            "ExecutionSecurity",
            security,
            f"The keys and roles that CloudFormation makes for {environment.name}",
            [
                *security_grants(patterns, boundary_arn=boundary_arn),
                *([] if environment.permissions_boundary else boundary_grants(boundary_arn)),
            ],
        ),
    ]


def _policy(
    scope: Construct, construct_id: str, name: str, description: str, granted: Sequence[Grant]
) -> iam.CfnManagedPolicy:
    policy = managed_policy(
        scope,
        construct_id,
        name=name,
        description=description,
        statements=[grant.statement() for grant in granted],
    )
    for grant in granted:
        for pattern in (resource for resource in grant.resources if "*" in resource):
            explain_pattern(policy, pattern, because=str(grant.because))
    _explain_actions(policy)
    return policy


def explain_services(construct: Construct, policy: Construct) -> None:
    """State in the template why whole services are allowed."""
    skip_check(policy, _UNBOUND_WRITES, because=_NAMED)
    _explain_actions(construct)


def _explain_actions(construct: Construct) -> None:
    wide = dict.fromkeys((*SERVICE_ACTIONS, "application-autoscaling:*"), _NAMED)
    network = "network resources have no names, and a policy holds at most 6,144 characters"
    wide |= dict.fromkeys((action for action in EC2_ACTIONS if "*" in action), network)
    for action, because in wide.items():
        explain_wildcard(construct, f"Action::{action}", because=because)
