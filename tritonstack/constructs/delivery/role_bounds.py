"""The permissions boundary of an environment's own roles: no deployment can create a role that exceeds it.

A commit can change the policies and trust of these roles. The boundary limits them to the environment's
resources and to reading source models, without IAM changes. With the execution policies
(`execution_policy.py`), CloudFormation can neither create a role without the boundary nor change the
boundary: only an administrator can.
"""

from __future__ import annotations

from collections.abc import Iterator

from constructs import Construct

from tritonstack.base import naming
from tritonstack.constructs.builds.build_grants import read_secret
from tritonstack.constructs.delivery.delivery_grants import NamePatterns, any_key
from tritonstack.constructs.iam.granted_role import explain_pattern
from tritonstack.constructs.iam.grants import AwsScope, Grant, iam_actions, use_key_through_s3
from tritonstack.constructs.iam.managed_policy import managed_policy
from tritonstack.constructs.iam.skipped_checks import skip_check

_EDGE = "a permissions boundary grants nothing; it limits what the roles' policies may grant"
_CHECKS_OF_GRANTS = ("CKV_AWS_109", "CKV_AWS_111")


class RoleBounds(Construct):
    """Create a managed policy that bounds all roles of one environment, or of all previews.

    `reads_models` are ARNs of objects and buckets that builds read source models from; `token_secret` is the
    secret that they may read.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        patterns: NamePatterns,
        description: str,
        reads_models: str | None = None,
        token_secret: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        aws = AwsScope.of(self)
        granted = [*_own_resources(aws, patterns), *_shared_resources(aws, patterns)]
        if reads_models:
            granted.append(Grant(["s3:GetObject", "s3:ListBucket"], [reads_models]))
        if token_secret:
            granted += read_secret(aws, token_secret, any_key(aws))
        self.policy = managed_policy(
            self,
            "Policy",
            name=name,
            description=description,
            statements=[grant.statement() for grant in granted],
        )
        for pattern in sorted(
            {resource for grant in granted for resource in grant.resources if "*" in resource}
        ):
            explain_pattern(self.policy, pattern, because=_EDGE)
        for check in _CHECKS_OF_GRANTS:
            skip_check(self.policy, check, because=_EDGE)


def _own_resources(aws: AwsScope, patterns: NamePatterns) -> Iterator[Grant]:
    bucket = aws.bucket(patterns.buckets)
    many = patterns.base.endswith("*")
    like, below = (patterns.base, patterns.base) if many else (f"{patterns.base}-*", f"{patterns.base}/*")
    yield Grant(
        ["s3:AbortMultipartUpload", "s3:GetObject", "s3:ListBucket", "s3:PutObject"], [bucket, f"{bucket}/*"]
    )
    yield Grant(
        ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
        [
            aws.arn("logs", f"log-group:{group}")
            for group in (
                naming.endpoint_log_group(like),
                naming.component_log_group(like),
                f"/{below}",
                f"{naming.PROCESSING_LOG_GROUP}*",
            )
        ],
    )
    yield Grant(
        ["ecr:CompleteLayerUpload", "ecr:InitiateLayerUpload", "ecr:PutImage", "ecr:UploadLayerPart"],
        patterns.arns(aws, "ecr", "repository/", after="/*"),
    )
    yield Grant(["cloudwatch:DescribeAlarms"], patterns.arns(aws, "cloudwatch", "alarm:"))
    yield Grant(["sns:Publish"], patterns.arns(aws, "sns", ""))
    yield from use_key_through_s3(
        aws, ["kms:Decrypt", "kms:GenerateDataKey"], any_key(aws), [bucket, f"{bucket}/*"]
    )


def _shared_resources(aws: AwsScope, patterns: NamePatterns) -> Iterator[Grant]:
    """Grants for resources without the environment's name; none exposes data of others."""
    staged = aws.bucket(patterns.bootstrap.bucket)
    yield Grant(
        iam_actions("s3: GetBucketAcl GetBucketLocation GetObject GetObjectVersion ListBucket"),
        [staged, f"{staged}/*"],
    )
    yield from use_key_through_s3(aws, ["kms:Decrypt"], patterns.bootstrap.key, [staged, f"{staged}/*"])
    yield Grant(
        ["kms:Decrypt", "kms:GenerateDataKey"],
        [any_key(aws)],
        {
            "StringEquals": {"kms:ViaService": f"sns.{aws.region}.amazonaws.com"},
            "StringLike": {"kms:EncryptionContext:aws:sns:topicArn": patterns.arns(aws, "sns", "")},
        },
    )
    # For volume encryption: only AWS services can use the grant, not the caller.
    yield Grant(["kms:CreateGrant"], [any_key(aws)], {"Bool": {"kms:GrantIsForAWSResource": "true"}})
    yield Grant(
        iam_actions(
            "cloudwatch: PutMetricData",
            "ec2: CreateNetworkInterface CreateNetworkInterfacePermission DeleteNetworkInterface "
            "DeleteNetworkInterfacePermission DescribeDhcpOptions DescribeNetworkInterfaces "
            "DescribeSecurityGroups DescribeSubnets DescribeVpcs",
            "ecr: BatchCheckLayerAvailability BatchGetImage DescribeImages GetAuthorizationToken "
            "GetDownloadUrlForLayer",
            "kms: DescribeKey",
            "logs: DescribeLogGroups",
        ),
        ["*"],
    )
