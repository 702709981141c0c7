"""What an endpoint's role may be allowed, as plain records: who reviews permissions starts here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from constructs import Construct

from tritonstack.base.errors import UsageError
from tritonstack.constructs.iam.partition import partition_of
from tritonstack.constructs.model_data import (
    ModelArchive,
    ModelNetwork,
    ModelShelf,
    split_image_uri,
    split_s3_url,
)

Conditions = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True)
class Grant:
    """One statement of a policy; `because` is why a resource of it is a pattern."""

    actions: Sequence[str]
    resources: Sequence[str]
    conditions: Conditions | None = None
    because: str | None = None

    def statement(self) -> dict[str, object]:
        """The statement as IAM reads it."""
        found: dict[str, object] = {
            "Effect": "Allow",
            "Action": list(self.actions),
            "Resource": self.resources,
        }
        return found | ({"Condition": self.conditions} if self.conditions else {})


@dataclass(frozen=True)
class Home:
    """The partition, region and account that a stack goes to."""

    partition: str
    region: str
    account: str

    @classmethod
    def of(cls, construct: Construct) -> Home:
        """Where a construct's stack goes."""
        stack = cdk.Stack.of(construct)
        return cls(partition_of(construct), stack.region, stack.account)

    def arn(self, service: str, resource: str) -> str:
        """Something of this account in this region."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"

    def bucket(self, name: str) -> str:
        """A bucket."""
        return f"arn:{self.partition}:s3:::{name}"


def read_model(home: Home, model: ModelArchive | ModelShelf, key_arn: str | None) -> list[Grant]:
    """Fetch a model's archive, or the archives of a shelf."""
    name, key = split_s3_url(model.url)
    if isinstance(model, ModelShelf):
        keys, because = f"{key}*", "all models on the endpoint's own shelf: the caller says which is meant"
    elif model.versions_prefix:
        keys = f"{model.versions_prefix}*"
        because = (
            "all versions of this one model: while an update runs, and after it was rolled back, "
            "machines that start fetch the version before"
        )
    else:
        keys, because = key, None
    bucket = home.bucket(name)
    return [
        Grant(["s3:GetObject"], [f"{bucket}/{keys}"], because=because),
        # Without it S3 answers "access denied" for an artifact that was never uploaded.
        Grant(["s3:ListBucket"], [bucket], {"StringLike": {"s3:prefix": keys}}),
        *use_key_through_s3(home, ["kms:Decrypt"], key_arn, [bucket, f"{bucket}/{keys}"]),
    ]


def pull_image(home: Home, uri: str) -> list[Grant]:
    """Fetch one image's layers."""
    account, region, repository = split_image_uri(uri)
    return [
        Grant(
            ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
            [f"arn:{home.partition}:ecr:{region}:{account}:repository/{repository}"],
        ),
        Grant(
            ["ecr:GetAuthorizationToken"],
            ["*"],
            because="ECR's token belongs to no repository: IAM knows only *",
        ),
    ]


def enter_network(home: Home, network: ModelNetwork) -> list[Grant]:
    """Give machines an interface in subnets, and take it away with them."""
    interfaces = [home.arn("ec2", "network-interface/*")]
    because = "EC2 names interfaces when it makes them; which subnets they may stand in is said beside it"
    return [
        Grant(["ec2:CreateNetworkInterface"], _each(home.arn("ec2", "subnet/"), network.subnet_ids)),
        Grant(
            ["ec2:CreateNetworkInterface"],
            _each(home.arn("ec2", "security-group/"), network.security_group_ids),
        ),
        Grant(
            [
                "ec2:CreateNetworkInterface",
                "ec2:CreateNetworkInterfacePermission",
                "ec2:DeleteNetworkInterface",
                "ec2:DeleteNetworkInterfacePermission",
            ],
            interfaces,
            because=because,
        ),
        Grant(
            [
                "ec2:DescribeDhcpOptions",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeVpcs",
            ],
            ["*"],
            because="what EC2 lists belongs to no resource: IAM knows only *",
        ),
    ]


def write_log(home: Home, group: str) -> Grant:
    """Write one log group."""
    arn = home.arn("logs", f"log-group:{group}")
    return Grant(
        ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
        [arn, f"{arn}:*"],
        because="the streams of this one group, which SageMaker names after its machines",
    )


def publish_metrics(*, component: bool) -> Grant:
    """Publish what SageMaker measures."""
    namespaces = ["AWS/SageMaker", "/aws/sagemaker/Endpoints"]
    return Grant(
        ["cloudwatch:PutMetricData"],
        ["*"],
        {
            "StringEquals": {
                "cloudwatch:namespace": [
                    *namespaces,
                    *(["/aws/sagemaker/InferenceComponents"] if component else []),
                ]
            }
        },
        because="metrics are no resources to IAM; the condition admits SageMaker's namespaces alone",
    )


def watch_alarms(home: Home, names: Sequence[str]) -> list[Grant]:
    """See the alarms that take an update back."""
    arns = [home.arn("cloudwatch", f"alarm:{name}") for name in names]
    return [Grant(["cloudwatch:DescribeAlarms"], arns)] if arns else []


def encrypt_volumes(key_arn: str | None) -> list[Grant]:
    """Let the machines' volumes be encrypted with a key."""
    if key_arn is None:
        return []
    # A grant made with this condition can be used by SageMaker's volumes, and by no other principal.
    return [
        Grant(["kms:CreateGrant"], [key_arn], {"Bool": {"kms:GrantIsForAWSResource": "true"}}),
        Grant(["kms:DescribeKey"], [key_arn]),
    ]


def write_objects(
    home: Home, bucket: str, prefixes: Sequence[str], *, key_arn: str | None, because: str
) -> list[Grant]:
    """Write objects below prefixes of a bucket."""
    arn = home.bucket(bucket)
    objects = [f"{arn}/{prefix}*" for prefix in prefixes]
    return [
        Grant(["s3:AbortMultipartUpload", "s3:PutObject"], objects, because=because),
        # Large objects are written in parts, and S3 decrypts the first to put them together.
        *use_key_through_s3(home, ["kms:Decrypt", "kms:GenerateDataKey"], key_arn, [arn, *objects]),
    ]


def read_objects(home: Home, bucket: str, prefix: str, *, key_arn: str | None, because: str) -> list[Grant]:
    """Read objects below a prefix of a bucket."""
    arn = home.bucket(bucket)
    return [
        Grant(["s3:GetObject"], [f"{arn}/{prefix}*"], because=because),
        Grant(["s3:ListBucket"], [arn], {"StringLike": {"s3:prefix": f"{prefix}*"}}),
        *use_key_through_s3(home, ["kms:Decrypt"], key_arn, [arn, f"{arn}/{prefix}*"]),
    ]


def publish_messages(home: Home, topic_arns: Sequence[str], key_arn: str | None) -> list[Grant]:
    """Send messages to topics."""
    through = {"StringEquals": {"kms:ViaService": f"sns.{home.region}.amazonaws.com"}}
    return [
        Grant(["sns:Publish"], topic_arns),
        *([Grant(["kms:Decrypt", "kms:GenerateDataKey"], [key_arn], through)] if key_arn else []),
    ]


def use_key_through_s3(
    home: Home, actions: Sequence[str], key_arn: str | None, contexts: Sequence[str]
) -> list[Grant]:
    """Let S3 use a key for what is read from it or written to it."""
    if key_arn is None:
        return []
    return [
        Grant(
            actions,
            [key_arn],
            {
                "StringEquals": {"kms:ViaService": f"s3.{home.region}.amazonaws.com"},
                # What S3 uses the key for: the bucket where its bucket key was used, else the very object.
                "StringLike": {"kms:EncryptionContext:aws:s3:arn": contexts},
            },
        )
    ]


def _each(prefix: str, ids: list[str]) -> Sequence[str]:
    """An ARN for each id; of a list that only the deploy knows, the ARNs are made then."""
    if cdk.Token.is_unresolved(ids):
        if cdk.Token.is_unresolved(prefix):
            # What CloudFormation joins a list with has to be plain text.
            raise UsageError(
                "neither the ids of the network nor the stack's account and region are known at synthesis, "
                "and CloudFormation makes no ARNs of two unknowns",
                remedy="give the stack env=Environment(account=..., region=...), or list the ids one by one",
            )
        return cdk.Fn.split(",", f"{prefix}{cdk.Fn.join(f',{prefix}', ids)}")
    return [f"{prefix}{one}" for one in ids]
