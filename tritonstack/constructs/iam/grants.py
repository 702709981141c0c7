"""IAM grants of an endpoint's role, as plain records: start here to review permissions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import region_info
from constructs import Construct

from tritonstack.base.error_kinds import ConstructError
from tritonstack.constructs.model_data import (
    ModelArchive,
    ModelNetwork,
    ModelPrefix,
    split_image_uri,
    split_s3_url,
)

Conditions = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True)
class Grant:
    """One statement of a policy; `because` explains its wildcards."""

    actions: Sequence[str]
    resources: Sequence[str]
    conditions: Conditions | None = None
    because: str | None = None

    def statement(self) -> dict[str, object]:
        """Return the IAM statement."""
        statement: dict[str, object] = {
            "Effect": "Allow",
            "Action": list(self.actions),
            "Resource": self.resources,
        }
        return statement | ({"Condition": self.conditions} if self.conditions else {})


@dataclass(frozen=True)
class AwsScope:
    """The partition, region, and account of a stack."""

    partition: str
    region: str
    account: str

    @classmethod
    def of(cls, construct: Construct) -> AwsScope:
        """Return the location of a construct's stack."""
        stack = cdk.Stack.of(construct)
        partition = None
        if not cdk.Token.is_unresolved(stack.region):
            # Plain text, because CloudFormation does not accept a token everywhere.
            partition = region_info.RegionInfo.get(stack.region).partition
        return cls(partition or stack.partition, stack.region, stack.account)

    def arn(self, service: str, resource: str) -> str:
        """Return an ARN in this account and region."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"

    def bucket(self, name: str) -> str:
        """Return the ARN of a bucket."""
        return f"arn:{self.partition}:s3:::{name}"

    def iam(self, resource: str) -> str:
        """Return the ARN of a role or policy in this account; it has no region."""
        return f"arn:{self.partition}:iam::{self.account}:{resource}"

    @property
    def any_key(self) -> str:
        """Any key in the account; the condition beside it limits it to one bucket's objects, or by tags."""
        return self.arn("kms", "key/*")


def iam_actions(text: str) -> list[str]:
    """Return the actions of services: `iam_actions("s3: GetObject PutObject; kms: Decrypt")`."""
    return [
        f"{service}:{name}"
        for service, names in (part.split(": ") for part in text.split("; "))
        for name in names.split()
    ]


def allow(
    actions: str, *resources: str, where: Conditions | None = None, because: str | None = None
) -> Grant:
    """Return a grant of actions, which are written as for `iam_actions`."""
    return Grant(iam_actions(actions), list(resources), where, because)


def read_model(aws: AwsScope, model: ModelArchive | ModelPrefix, key_arn: str | None) -> list[Grant]:
    """Allow fetching a model's archive, or all archives below a model prefix."""
    name, key = split_s3_url(model.url)
    if isinstance(model, ModelPrefix):
        keys, because = (
            f"{key}*",
            ("all models below the endpoint's own prefix; the caller selects one per request"),
        )
    elif model.versions_prefix:
        keys = f"{model.versions_prefix}*"
        because = (
            "all versions; during an update and after a rollback, new instances fetch what served before, "
            "whose model the endpoint may no longer name"
        )
    else:
        keys, because = key, None
    return read_objects(aws, name, keys, key_arn=key_arn, because=because)


def pull_image(aws: AwsScope, uri: str) -> list[Grant]:
    """Allow pulling one image."""
    account, region, repository = split_image_uri(uri)
    return [
        allow(
            "ecr: BatchCheckLayerAvailability BatchGetImage GetDownloadUrlForLayer",
            f"arn:{aws.partition}:ecr:{region}:{account}:repository/{repository}",
        ),
        allow(
            "ecr: GetAuthorizationToken",
            "*",
            because="ECR's authorization token has no resource-level permissions",
        ),
    ]


def enter_network(aws: AwsScope, network: ModelNetwork) -> list[Grant]:
    """Allow creating and deleting network interfaces in subnets."""
    create = ["ec2:CreateNetworkInterface"]
    return [
        Grant(create, _each(aws.arn("ec2", "subnet/"), network.subnet_ids)),
        Grant(create, _each(aws.arn("ec2", "security-group/"), network.security_group_ids)),
        allow(
            "ec2: CreateNetworkInterface CreateNetworkInterfacePermission DeleteNetworkInterface "
            "DeleteNetworkInterfacePermission",
            aws.arn("ec2", "network-interface/*"),
            because="EC2 names interfaces when it creates them; another statement limits the subnets",
        ),
        allow(
            "ec2: DescribeDhcpOptions DescribeNetworkInterfaces DescribeSecurityGroups DescribeSubnets "
            "DescribeVpcs",
            "*",
            because="the describe actions of EC2 have no resource-level permissions",
        ),
    ]


def write_log(aws: AwsScope, group: str) -> Grant:
    """Allow writing to one log group."""
    arn = aws.arn("logs", f"log-group:{group}")
    return allow(
        "logs: CreateLogGroup CreateLogStream DescribeLogStreams PutLogEvents",
        arn,
        f"{arn}:*",
        because="log streams of this log group; SageMaker names them after its instances",
    )


def publish_metrics(*, component: bool) -> Grant:
    """Allow publishing SageMaker's metrics."""
    namespaces = ["AWS/SageMaker", "/aws/sagemaker/Endpoints"]
    namespaces += ["/aws/sagemaker/InferenceComponents"] if component else []
    return allow(
        "cloudwatch: PutMetricData",
        "*",
        where={"StringEquals": {"cloudwatch:namespace": namespaces}},
        because="PutMetricData has no resource-level permissions; the condition limits it to SageMaker's "
        "namespaces",
    )


def watch_alarms(aws: AwsScope, names: Sequence[str]) -> list[Grant]:
    """Allow reading the rollback alarms."""
    arns = [aws.arn("cloudwatch", f"alarm:{name}") for name in names]
    return [allow("cloudwatch: DescribeAlarms", *arns)] if arns else []


def encrypt_volumes(key_arn: str | None) -> list[Grant]:
    """Allow encrypting instance volumes with a key."""
    if key_arn is None:
        return []
    # With this condition, only AWS services can use the grant.
    return [
        allow("kms: CreateGrant", key_arn, where={"Bool": {"kms:GrantIsForAWSResource": "true"}}),
        allow("kms: DescribeKey", key_arn),
    ]


def write_objects(
    aws: AwsScope, bucket: str, prefixes: Sequence[str], *, key_arn: str | None, because: str
) -> list[Grant]:
    """Allow writing objects below prefixes of a bucket."""
    arn = aws.bucket(bucket)
    objects = [f"{arn}/{prefix}*" for prefix in prefixes]
    return [
        allow("s3: AbortMultipartUpload PutObject", *objects, because=because),
        # Large objects are uploaded in parts; S3 decrypts them to combine them.
        *use_key_through_s3(aws, ["kms:Decrypt", "kms:GenerateDataKey"], key_arn, [arn, *objects]),
    ]


def read_objects(
    aws: AwsScope, bucket: str, keys: str, *, key_arn: str | None, because: str | None
) -> list[Grant]:
    """Allow reading objects of a bucket whose keys match a pattern."""
    arn = aws.bucket(bucket)
    return [
        allow("s3: GetObject", f"{arn}/{keys}", because=because),
        # Without this permission, S3 answers "access denied" for a missing object.
        allow("s3: ListBucket", arn, where={"StringLike": {"s3:prefix": keys}}),
        *use_key_through_s3(aws, ["kms:Decrypt"], key_arn, [arn, f"{arn}/{keys}"]),
    ]


def publish_messages(aws: AwsScope, topic_arns: Sequence[str], key_arn: str | None) -> list[Grant]:
    """Allow publishing to topics."""
    through = {"StringEquals": {"kms:ViaService": f"sns.{aws.region}.amazonaws.com"}}
    return [
        Grant(["sns:Publish"], topic_arns),
        *([Grant(["kms:Decrypt", "kms:GenerateDataKey"], [key_arn], through)] if key_arn else []),
    ]


def use_key_through_s3(
    aws: AwsScope, actions: Sequence[str], key_arn: str | None, contexts: Sequence[str]
) -> list[Grant]:
    """Allow S3 to use a key for objects that the role reads or writes."""
    if key_arn is None:
        return []
    return [
        Grant(
            actions,
            [key_arn],
            {
                "StringEquals": {"kms:ViaService": f"s3.{aws.region}.amazonaws.com"},
                # The encryption context: the bucket if its bucket key is used, otherwise the object.
                "StringLike": {"kms:EncryptionContext:aws:s3:arn": contexts},
            },
        )
    ]


def _each(prefix: str, ids: list[str]) -> Sequence[str]:
    """Return one ARN per id; unresolved lists are expanded at deployment."""
    if cdk.Token.is_unresolved(ids):
        if cdk.Token.is_unresolved(prefix):
            # CloudFormation can only join a list with plain text.
            raise ConstructError(
                (
                    "the network's ids and the stack's account and region are all unknown at synthesis, "
                    "and CloudFormation cannot combine them to ARNs"
                ),
                remedy=(
                    "set env=Environment(account=..., region=...) on the stack, or list the ids one by one"
                ),
            )
        return cdk.Fn.split(",", f"{prefix}{cdk.Fn.join(f',{prefix}', ids)}")
    return [f"{prefix}{identifier}" for identifier in ids]
