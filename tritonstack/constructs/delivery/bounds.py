"""The permissions boundary of an environment's own roles: no deployment can create a role that exceeds it.

A commit can change the policies and trust of these roles. The boundary limits them to the environment's
resources and to reading source models, without IAM changes. With the execution policies
(`execution_policy.py`), CloudFormation can neither create a role without the boundary nor change the
boundary: only an administrator can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from tritonstack.base import naming
from tritonstack.constructs.builds.build_grants import read_secret
from tritonstack.constructs.delivery.delivery_grants import NamePatterns
from tritonstack.constructs.delivery.execution_policy import EC2_ACTIONS, PRIVATE_NAMES, SERVICE_ACTIONS
from tritonstack.constructs.iam.granted_role import explain_pattern, explain_wildcard, managed_policy
from tritonstack.constructs.iam.grants import AwsScope, Grant, allow, use_key_through_s3
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
_CHECKS_OF_EVERYTHING = [f"CKV_AWS_{number}" for number in range(107, 112)]


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
        self, scope: Construct, construct_id: str, *, name: str, bounds: Bounds, own_boundary: str | None
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
            for check in _CHECKS_OF_EVERYTHING:
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


_CHECKS_OF_GRANTS = ("CKV_AWS_109", "CKV_AWS_111")


def role_bounds(
    scope: Construct,
    construct_id: str,
    *,
    name: str,
    patterns: NamePatterns,
    description: str,
    reads_models: str | None = None,
    token_secret: str | None = None,
) -> None:
    """Create a managed policy that bounds all roles of one environment, or of all previews.

    `reads_models` are ARNs of objects and buckets that builds read source models from; `token_secret` is the
    secret that they may read.
    """
    scope = Construct(scope, construct_id)
    aws = AwsScope.of(scope)
    granted = [*_own_resources(patterns), *_shared_resources(patterns)]
    if reads_models:
        granted.append(allow("s3: GetObject ListBucket", reads_models))
    if token_secret:
        granted += read_secret(aws, token_secret, aws.any_key)
    policy = managed_policy(
        scope,
        "Policy",
        name=name,
        description=description,
        statements=[grant.statement() for grant in granted],
    )
    for pattern in sorted({resource for grant in granted for resource in grant.resources if "*" in resource}):
        explain_pattern(policy, pattern, because=_GRANTS_NOTHING)
    for check in _CHECKS_OF_GRANTS:
        skip_check(policy, check, because=_GRANTS_NOTHING)


def _own_resources(patterns: NamePatterns) -> Iterator[Grant]:
    aws, bucket, base = patterns.aws, patterns.bucket, patterns.base
    below = base if base.endswith("*") else f"{base}/*"
    groups = (
        naming.endpoint_log_group(patterns.named),
        naming.component_log_group(patterns.named),
        f"/{below}",
        f"{naming.PROCESSING_LOG_GROUP}*",
    )
    yield allow("s3: AbortMultipartUpload GetObject ListBucket PutObject", bucket, f"{bucket}/*")
    yield allow(
        "logs: CreateLogGroup CreateLogStream DescribeLogStreams PutLogEvents",
        *(aws.arn("logs", f"log-group:{group}") for group in groups),
    )
    yield allow(
        "ecr: CompleteLayerUpload InitiateLayerUpload PutImage UploadLayerPart",
        *patterns.arns("ecr:repository/{base}/*"),
    )
    yield allow("cloudwatch: DescribeAlarms", *patterns.arns("cloudwatch:alarm:{named}"))
    yield allow("sns: Publish", *patterns.arns("sns:{named}"))
    yield from use_key_through_s3(
        aws, ["kms:Decrypt", "kms:GenerateDataKey"], aws.any_key, [bucket, f"{bucket}/*"]
    )


def _shared_resources(patterns: NamePatterns) -> Iterator[Grant]:
    """Grants for resources without the environment's name; none exposes data of others."""
    aws, staged = patterns.aws, patterns.aws.bucket(patterns.bootstrap.bucket)
    yield allow(
        "s3: GetBucketAcl GetBucketLocation GetObject GetObjectVersion ListBucket", staged, f"{staged}/*"
    )
    yield from use_key_through_s3(aws, ["kms:Decrypt"], patterns.bootstrap.key, [staged, f"{staged}/*"])
    yield allow(
        "kms: Decrypt GenerateDataKey",
        aws.any_key,
        where={
            "StringEquals": {"kms:ViaService": f"sns.{aws.region}.amazonaws.com"},
            "StringLike": {"kms:EncryptionContext:aws:sns:topicArn": patterns.arns("sns:{named}")},
        },
    )
    # For volume encryption: only AWS services can use the grant, not the caller.
    yield allow("kms: CreateGrant", aws.any_key, where={"Bool": {"kms:GrantIsForAWSResource": "true"}})
    yield allow(
        "cloudwatch: PutMetricData; "
        "ec2: CreateNetworkInterface CreateNetworkInterfacePermission DeleteNetworkInterface "
        "DeleteNetworkInterfacePermission DescribeDhcpOptions DescribeNetworkInterfaces "
        "DescribeSecurityGroups DescribeSubnets DescribeVpcs; "
        "ecr: BatchCheckLayerAvailability BatchGetImage DescribeImages GetAuthorizationToken "
        "GetDownloadUrlForLayer; kms: DescribeKey; logs: DescribeLogGroups",
        "*",
    )
