"""What no role inside a preview may ever do, whatever a pull request that nobody has read yet grants it.

A pull request writes the policies of its preview's roles, and says who takes them on. So this edge, and not
those policies, is what keeps a preview to itself. It is made with the rights of a person, by the stack that
delivers the environment beside which previews stand, and nothing that a workflow may do reaches it.
"""

from __future__ import annotations

from collections.abc import Iterator

from constructs import Construct

from catalog import naming
from stacks.constructs.delivery_grants import Named, some_key
from stacks.constructs.granted_role import explain_pattern
from stacks.constructs.grants import Grant, Home, use_key_through_s3
from stacks.constructs.managed_policy import managed_policy
from stacks.constructs.skipped_checks import skip_check

_EDGE = "a boundary grants nothing: it is the edge of what the roles of previews may be granted"
_CHECKS_OF_GRANTS = ("CKV_AWS_109", "CKV_AWS_111")


class PreviewBounds(Construct):
    """A policy that bounds every role of every preview; their template names it."""

    def __init__(self, scope: Construct, construct_id: str, *, name: str, named: Named) -> None:
        super().__init__(scope, construct_id)
        granted = [*_own_things(Home.of(self), named), *_shared_things(Home.of(self), named)]
        self.policy = managed_policy(
            self,
            "Policy",
            name=name,
            description="Bounds the roles inside previews",
            statements=[grant.statement() for grant in granted],
        )
        for pattern in sorted({one for grant in granted for one in grant.resources if "*" in one}):
            explain_pattern(self.policy, pattern, because=_EDGE)
        for check in _CHECKS_OF_GRANTS:
            skip_check(self.policy, check, because=_EDGE)


def _own_things(home: Home, named: Named) -> Iterator[Grant]:
    bucket = home.bucket(named.buckets)
    yield Grant(
        ["s3:AbortMultipartUpload", "s3:GetObject", "s3:ListBucket", "s3:PutObject"], [bucket, f"{bucket}/*"]
    )
    yield Grant(
        ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
        [
            home.arn("logs", f"log-group:{group}*")
            for group in (
                naming.endpoint_log_group(named.base),
                naming.component_log_group(named.base),
                f"/{named.base}",
            )
        ]
        + [home.arn("logs", f"log-group:{naming.PROCESSING_LOG_GROUP}*")],
    )
    yield Grant(
        ["ecr:CompleteLayerUpload", "ecr:InitiateLayerUpload", "ecr:PutImage", "ecr:UploadLayerPart"],
        named.arns(home, "ecr", "repository/", after="/*"),
    )
    yield Grant(["cloudwatch:DescribeAlarms"], named.arns(home, "cloudwatch", "alarm:"))
    yield Grant(["sns:Publish"], named.arns(home, "sns", ""))
    yield from use_key_through_s3(
        home, ["kms:Decrypt", "kms:GenerateDataKey"], some_key(home), [bucket, f"{bucket}/*"]
    )


def _shared_things(home: Home, named: Named) -> Iterator[Grant]:
    """What has no name of the preview's; none of it opens what is somebody else's."""
    staged = home.bucket(named.bootstrap.bucket)
    yield Grant(
        [
            "s3:GetBucketAcl",
            "s3:GetBucketLocation",
            "s3:GetObject",
            "s3:GetObjectVersion",
            "s3:ListBucket",
        ],
        [staged, f"{staged}/*"],
    )
    yield from use_key_through_s3(home, ["kms:Decrypt"], named.bootstrap.key, [staged, f"{staged}/*"])
    yield Grant(
        ["kms:Decrypt", "kms:GenerateDataKey"],
        [some_key(home)],
        {
            "StringEquals": {"kms:ViaService": f"sns.{home.region}.amazonaws.com"},
            "StringLike": {"kms:EncryptionContext:aws:sns:topicArn": named.arns(home, "sns", "")},
        },
    )
    # Volumes of machines: the grant is SageMaker's to use, and opens nothing to whoever asked for it.
    yield Grant(["kms:CreateGrant"], [some_key(home)], {"Bool": {"kms:GrantIsForAWSResource": "true"}})
    yield Grant(
        [
            "cloudwatch:PutMetricData",
            "ec2:CreateNetworkInterface",
            "ec2:CreateNetworkInterfacePermission",
            "ec2:DeleteNetworkInterface",
            "ec2:DeleteNetworkInterfacePermission",
            "ec2:DescribeDhcpOptions",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSecurityGroups",
            "ec2:DescribeSubnets",
            "ec2:DescribeVpcs",
            "ecr:BatchCheckLayerAvailability",
            "ecr:BatchGetImage",
            "ecr:DescribeImages",
            "ecr:GetAuthorizationToken",
            "ecr:GetDownloadUrlForLayer",
            "kms:DescribeKey",
        ],
        ["*"],
    )
