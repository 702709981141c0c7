"""What CloudFormation may do for an environment, or for every preview: make what is named like it.

`cdk bootstrap` gives CloudFormation the rights of an administrator unless it is told otherwise. Whoever may
deploy could then give himself any right, by deploying it. With these in their place, a deploy can make
nothing but an environment, and cannot touch those who carry changes.
"""

from __future__ import annotations

from collections.abc import Iterator

from tritonstack.base import naming
from tritonstack.constructs.delivery.delivery_grants import Named, global_arn, some_key
from tritonstack.constructs.iam.grants import Grant, Home

_NAMELESS = "CloudFormation names these after what they are in the template, not after their stack"
_KEYS = "a key has no name, and is made before anything names it"
_ENCRYPTING = ("codebuild", "ecr", "logs", "s3", "sagemaker", "sns")
_SCALING = "IAM knows no resource of this service by its name"
_ALARMS_OF_SCALING = (
    "Application Auto Scaling makes these for a policy and names them itself; before it takes a policy, it "
    "sees whether whoever brings it could make them"
)
_SUBSCRIPTIONS = "IAM knows no subscription by its name"

EC2_ACTIONS = (
    "autoscaling:DescribeTags",  # CloudFormation calls it before it makes a flow log
    "ec2:*FlowLogs",
    "ec2:*SecurityGroupEgress",
    "ec2:*SecurityGroupIngress",
    "ec2:*Tags",
    "ec2:AssociateRouteTable",
    "ec2:CreateRouteTable",
    "ec2:CreateSecurityGroup",
    "ec2:CreateSubnet",
    "ec2:CreateVpc",
    "ec2:CreateVpcEndpoint",
    "ec2:DeleteRouteTable",
    "ec2:DeleteSecurityGroup",
    "ec2:DeleteSubnet",
    "ec2:DeleteVpc",
    "ec2:DeleteVpcEndpoints",
    "ec2:DescribeAccountAttributes",
    "ec2:DescribeAvailabilityZones",
    "ec2:DescribeInstances",
    "ec2:DescribeNetworkAcls",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeRouteTables",
    "ec2:DescribeSecurityGroupRules",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpc*",
    "ec2:DisassociateRouteTable",
    "ec2:ModifySubnetAttribute",
    "ec2:ModifyVpcAttribute",
    "ec2:ModifyVpcEndpoint",
    "ec2:ReplaceRouteTableAssociation",
    "ec2:UpdateSecurityGroupRuleDescriptions*",
)

PRIVATE_NAMES = "route53:AssociateVPCWithHostedZone"
"""What an interface endpoint with private names takes beside the actions of EC2; it has no region."""

SERVICE_ACTIONS = (
    "cloudwatch:*",
    "codebuild:*",
    "ecr:*",
    "events:*",
    "logs:*",
    "s3:*",
    "sagemaker:*",
    "sns:*",
    "ssm:*",
)
"""Of these services CloudFormation may do anything to what is named like the environment."""


def execution_grants(home: Home, named: Named, *, boundary_arn: str, network: bool) -> Iterator[Grant]:
    """Make, change and delete everything that an environment consists of, but for a boundary of its own."""
    yield from service_grants(home, named, network=network)
    yield from security_grants(home, named, boundary_arn=boundary_arn)


def security_grants(home: Home, named: Named, *, boundary_arn: str) -> Iterator[Grant]:
    """Make, change and delete keys and roles.

    `boundary_arn` is the policy that bounds the environment's own roles: no role can be made without it, and
    none can lose it.
    """
    yield from _keys(home, named)
    yield from _roles(home, named, boundary_arn)


def service_grants(home: Home, named: Named, *, network: bool) -> Iterator[Grant]:
    """Make, change and delete everything but keys and roles."""
    yield Grant(SERVICE_ACTIONS, _named_resources(home, named), because=named.because)
    yield from _nameless(home, named)
    if network:
        yield Grant(
            EC2_ACTIONS, ["*"], {"StringEquals": {"aws:RequestedRegion": home.region}}, because=_NAMELESS
        )
        yield Grant([PRIVATE_NAMES], ["*"], because=_NAMELESS)


def _named_resources(home: Home, named: Named) -> list[str]:
    like = named.base if named.base.endswith("*") else f"{named.base}-*"
    return [
        home.bucket(named.buckets),
        f"{home.bucket(named.buckets)}/*",
        home.arn("sagemaker", f"endpoint/{like}"),
        home.arn("sagemaker", f"inference-component/{like}"),
        home.arn("codebuild", f"project/{like}"),
        home.arn("ecr", f"repository/{named.base}/*"),
        home.arn("events", f"rule/{like}"),
        home.arn("cloudwatch", f"alarm:{like}"),
        f"arn:{home.partition}:cloudwatch::{home.account}:dashboard/{named.base}*",
        home.arn("logs", f"log-group:/{named.base}/*"),
        home.arn("logs", f"log-group:{naming.endpoint_log_group(like)}"),
        home.arn("logs", f"log-group:{naming.component_log_group(like)}"),
        home.arn("sns", like),
        home.arn("ssm", f"parameter/{named.base}/*"),
    ]


def _nameless(home: Home, named: Named) -> Iterator[Grant]:
    """What has no name of the environment's, or no name at all."""
    yield Grant(
        [
            "sagemaker:AddTags",
            # Both have to be allowed, the endpoint, which is the environment's by its name, and what it runs.
            "sagemaker:CreateEndpoint",
            "sagemaker:CreateEndpointConfig",
            "sagemaker:CreateModel",
            "sagemaker:DeleteEndpointConfig",
            "sagemaker:DeleteModel",
            "sagemaker:DeleteTags",
            "sagemaker:DescribeEndpointConfig",
            "sagemaker:DescribeModel",
            "sagemaker:ListTags",
            "sagemaker:UpdateEndpoint",
        ],
        [home.arn("sagemaker", "endpoint-config/*"), home.arn("sagemaker", "model/*")],
        because=_NAMELESS,
    )
    yield Grant(
        [
            "application-autoscaling:*",
            "cloudwatch:DescribeAlarms",
            "cloudwatch:GetMetricData",
            "ecr:DescribeRepositories",
            "logs:DescribeIndexPolicies",
            "logs:DescribeLogGroups",
            "logs:DescribeMetricFilters",
            "ssm:DescribeParameters",
        ],
        ["*"],
        because=_SCALING,
    )
    yield Grant(
        ["cloudwatch:DeleteAlarms", "cloudwatch:PutMetricAlarm"],
        [home.arn("cloudwatch", "alarm:TargetTracking*")],
        because=_ALARMS_OF_SCALING,
    )
    yield Grant(
        ["sns:GetSubscriptionAttributes", "sns:SetSubscriptionAttributes", "sns:Unsubscribe"],
        ["*"],
        because=_SUBSCRIPTIONS,
    )
    # CloudFormation fetches what the CDK has staged: templates, and the source of builds.
    yield Grant(
        ["s3:GetObject", "s3:GetObjectVersion"],
        [home.bucket(named.bootstrap.bucket) + "/*"],
        because="what the CDK has staged is named by its content",
    )
    yield Grant(
        ["ssm:GetParameters"],
        [home.arn("ssm", f"parameter{named.bootstrap.version_parameter}")],
    )


def _keys(home: Home, named: Named) -> Iterator[Grant]:
    """What could take a key from somebody is bound to the tags that the environment's own bears.

    KMS may take minutes to mind a tag. So what follows at once when a key is made is bound by other means, or
    harms nobody's key.
    """
    keys = [some_key(home)]
    own = {f"aws:ResourceTag/{tag}": text for tag, text in named.marks.items()}
    asked = {f"aws:RequestTag/{tag}": text for tag, text in named.marks.items()}
    nobodys = {**dict.fromkeys(own, "true"), "kms:ResourceAliases": "true"}
    yield Grant(["kms:CreateKey", "kms:ListAliases"], ["*"], because=_KEYS)
    # Tags come with the key as it is made. None that has an owner or a name gets others' tags.
    yield Grant(["kms:TagResource"], keys, {"StringLike": asked, "Null": nobodys}, because=_KEYS)
    yield Grant(
        [
            "kms:DescribeKey",
            "kms:EnableKeyRotation",
            "kms:GetKeyPolicy",
            "kms:GetKeyRotationStatus",
            "kms:ListResourceTags",
        ],
        keys,
        because=_KEYS,
    )
    yield Grant(
        [
            "kms:DisableKey",
            "kms:DisableKeyRotation",
            "kms:EnableKey",
            "kms:PutKeyPolicy",
            "kms:ScheduleKeyDeletion",
            "kms:TagResource",
            "kms:UntagResource",
            "kms:UpdateKeyDescription",
        ],
        keys,
        {"StringLike": own},
        because=_KEYS,
    )
    # Both have to be allowed, the name and the key: the name is the environment's.
    yield Grant(
        ["kms:CreateAlias", "kms:DeleteAlias", "kms:UpdateAlias"],
        [*keys, home.arn("kms", f"alias/{named.base}")],
        because=_KEYS,
    )
    services = [f"{service}.{home.region}.amazonaws.com" for service in _ENCRYPTING]
    yield Grant(
        ["kms:CreateGrant", "kms:Decrypt", "kms:GenerateDataKey"],
        keys,
        {"StringEquals": {"kms:ViaService": services}},
        because="a service asks, for what is made in it; the condition says which services",
    )
    # KMS knows no condition for it: the grant itself says who may retire it.
    yield Grant(["kms:RetireGrant"], keys, because=_KEYS)


def _roles(home: Home, named: Named, boundary_arn: str) -> Iterator[Grant]:
    """A role that CloudFormation could make without a boundary could do what it itself may not."""
    roles = [named.roles(home)]
    bounded = {"StringEquals": {"iam:PermissionsBoundary": boundary_arn}}
    yield Grant(
        [
            "iam:AttachRolePolicy",
            "iam:CreateRole",
            "iam:DetachRolePolicy",
            "iam:PutRolePermissionsBoundary",
            "iam:PutRolePolicy",
        ],
        roles,
        bounded,
        because=named.because,
    )
    yield Grant(
        [
            "iam:DeleteRole",
            "iam:DeleteRolePolicy",
            "iam:GetRole",
            "iam:GetRolePolicy",
            "iam:ListAttachedRolePolicies",
            "iam:ListRolePolicies",
            "iam:ListRoleTags",
            "iam:TagRole",
            "iam:UntagRole",
            "iam:UpdateAssumeRolePolicy",
            "iam:UpdateRole",
            "iam:UpdateRoleDescription",
        ],
        roles,
        because=named.because,
    )
    yield Grant(
        ["iam:PassRole"],
        roles,
        {
            "StringEquals": {
                "iam:PassedToService": [
                    "codebuild.amazonaws.com",
                    "sagemaker.amazonaws.com",
                    "vpc-flow-logs.amazonaws.com",
                ]
            }
        },
        because=named.because,
    )
    yield Grant(["iam:CreateServiceLinkedRole"], [scaling_role_arn(home)])


def boundary_grants(boundary_arn: str) -> Iterator[Grant]:
    """Delete the boundary that the foundation has made; only an administrator makes and changes it."""
    yield Grant(
        [
            "iam:DeletePolicy",
            "iam:DeletePolicyVersion",
            "iam:GetPolicy",
            "iam:GetPolicyVersion",
            "iam:ListEntitiesForPolicy",
            "iam:ListPolicyVersions",
        ],
        [boundary_arn],
    )


def scaling_role_arn(home: Home) -> str:
    """The role of Application Auto Scaling's own, which comes with an account's first scaled endpoint."""
    service = "sagemaker.application-autoscaling.amazonaws.com"
    name = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
    return global_arn(home, f"role/aws-service-role/{service}/{name}")
