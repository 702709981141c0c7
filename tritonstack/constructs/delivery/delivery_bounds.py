"""The permissions boundary of the delivery roles: actions that they can never perform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from tritonstack.constructs.delivery.execution_grants import EC2_ACTIONS, PRIVATE_NAMES, SERVICE_ACTIONS
from tritonstack.constructs.iam.granted_role import explain_wildcard
from tritonstack.constructs.iam.grants import AwsScope
from tritonstack.constructs.iam.managed_policy import managed_policy
from tritonstack.constructs.iam.skipped_checks import skip_check

_CHANGES_OF_RIGHTS = [
    f"iam:{verb}*"
    for verb in ("Add", "Attach", "Create", "Delete", "Detach", "Put", "Remove", "Set", "Update", "Upload")
]
_SERVICES = [
    *SERVICE_ACTIONS,
    "application-autoscaling:*",
    "cloudformation:*",
    "codepipeline:ListPipelines",
    "iam:*",
    "kms:*",
    PRIVATE_NAMES,
    "servicequotas:List*",
    "sts:*",
    "tag:GetResources",
]

_GRANTS_NOTHING = "a permissions boundary grants nothing; it limits what the roles' policies may grant"
_CHECKS_OF_GRANTS = [f"CKV_AWS_{number}" for number in range(107, 112)]


@dataclass(frozen=True)
class Bounds:
    """What the boundary allows."""

    regions: Sequence[str]
    may_take_on: Sequence[str]
    """The only roles that may be assumed."""
    may_make: Sequence[str]
    """The only roles that may be created or changed: those of previews, by CloudFormation."""


class DeliveryBounds(Construct):
    """Create a managed policy that bounds every role of the stack.

    If the environment has its own permissions boundary, a role has no room for a second one; the same denials
    are attached to each role instead.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        bounds: Bounds,
        own_boundary: str | None,
    ) -> None:
        super().__init__(scope, construct_id)
        aws = AwsScope.of(self)
        denials = _denials(bounds)
        if own_boundary is None:
            actions = [*_SERVICES, *_network_reads()]
            allowed = {"Effect": "Allow", "Action": actions, "Resource": "*"}
            self.policy = self._policy(name, "Bounds the roles that carry changes", [allowed, *denials])
            self.boundary_arn = self.policy.ref
            for action in (name for name in actions if "*" in name):
                explain_wildcard(self, f"Action::{action}", because=_GRANTS_NOTHING)
            explain_wildcard(self, "Resource::*", because=_GRANTS_NOTHING)
            for check in _CHECKS_OF_GRANTS:
                skip_check(self.policy, check, because=_GRANTS_NOTHING)
        else:
            self.policy = self._policy(name, "What the roles that carry changes never may", denials)
            self.boundary_arn = aws.iam(f"policy/{own_boundary}")
        self._attached = own_boundary is not None

    def enclose(self, roles: Sequence[str]) -> None:
        """Apply the boundary to the named roles and to every other role in the stack."""
        stack = cdk.Stack.of(self)
        boundary = iam.ManagedPolicy.from_managed_policy_arn(self, "Boundary", self.boundary_arn)
        iam.PermissionsBoundary.of(stack).apply(boundary)
        if self._attached:
            self.policy.roles = list(roles)

    def _policy(
        self, name: str, description: str, statements: Sequence[Mapping[str, object]]
    ) -> iam.CfnManagedPolicy:
        return managed_policy(self, "Policy", name=name, description=description, statements=statements)


def _denials(bounds: Bounds) -> list[Mapping[str, object]]:
    rights: dict[str, object] = {"Effect": "Deny", "Action": _CHANGES_OF_RIGHTS}
    return [
        rights | ({"NotResource": list(bounds.may_make)} if bounds.may_make else {"Resource": "*"}),
        {"Effect": "Deny", "Action": "sts:AssumeRole", "NotResource": list(bounds.may_take_on)},
        {
            "Effect": "Deny",
            # These services are global, so their ARNs have no region.
            "NotAction": ["iam:*", "sts:*", PRIVATE_NAMES, "s3:ListAllMyBuckets", "cloudwatch:*Dashboard*"],
            "Resource": "*",
            "Condition": {"StringNotEquals": {"aws:RequestedRegion": list(bounds.regions)}},
        },
    ]


def _network_reads() -> list[str]:
    return sorted(
        {*EC2_ACTIONS, "ec2:DescribeImages", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeSnapshots"}
    )
