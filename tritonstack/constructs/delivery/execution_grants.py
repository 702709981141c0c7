"""Permissions of the CloudFormation execution role, for one environment or all previews.

By default, `cdk bootstrap` gives CloudFormation administrator access, so anyone who can deploy could grant
themselves any permission. These policies limit a deployment to the resources of an environment and protect
the delivery roles.
"""

from __future__ import annotations

from collections.abc import Iterator

from tritonstack.base import naming
from tritonstack.constructs.delivery.delivery_grants import NamePatterns, any_key, global_arn
from tritonstack.constructs.iam.grants import AwsScope, Grant, iam_actions

_NAMELESS = "CloudFormation names these after their logical ids, not after their stack"
_KEYS = "a key has no name when it is created"
_ENCRYPTING = ("codebuild", "ecr", "logs", "s3", "sagemaker", "sns")
_SCALING = "this service has no resource-level permissions"
_ALARMS_OF_SCALING = (
    "Application Auto Scaling creates and names these alarms; before it accepts a policy, it checks "
    "that the caller could create them"
)
_SUBSCRIPTIONS = "subscriptions have no resource-level permissions"

# CloudFormation calls autoscaling:DescribeTags before it creates a flow log.
EC2_ACTIONS = iam_actions(
    "autoscaling: DescribeTags",
    "ec2: *FlowLogs *SecurityGroupEgress *SecurityGroupIngress *Tags AssociateRouteTable CreateRouteTable "
    "CreateSecurityGroup CreateSubnet CreateVpc CreateVpcEndpoint DeleteRouteTable DeleteSecurityGroup "
    "DeleteSubnet DeleteVpc DeleteVpcEndpoints DescribeAccountAttributes DescribeAvailabilityZones "
    "DescribeInstances DescribeNetworkAcls DescribeNetworkInterfaces DescribeRouteTables "
    "DescribeSecurityGroupRules DescribeSecurityGroups DescribeSubnets DescribeVpc* "
    "DisassociateRouteTable ModifySubnetAttribute ModifyVpcAttribute ModifyVpcEndpoint "
    "ReplaceRouteTableAssociation UpdateSecurityGroupRuleDescriptions*",
)

PRIVATE_NAMES = "route53:AssociateVPCWithHostedZone"
"""Interface endpoints with private DNS names need these global actions beside those of EC2."""

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
"""CloudFormation may call any action of these services on resources named like the environment."""


def execution_grants(
    aws: AwsScope, patterns: NamePatterns, *, boundary_arn: str, network: bool
) -> Iterator[Grant]:
    """Allow creating, changing, and deleting all resources of an environment except its boundary."""
    yield from service_grants(aws, patterns, network=network)
    yield from security_grants(aws, patterns, boundary_arn=boundary_arn)


def security_grants(aws: AwsScope, patterns: NamePatterns, *, boundary_arn: str) -> Iterator[Grant]:
    """Allow creating, changing, and deleting keys and roles.

    `boundary_arn` is the boundary of the environment's own roles: no role can be created without it or lose
    it.
    """
    yield from _keys(aws, patterns)
    yield from _roles(aws, patterns, boundary_arn)


def service_grants(aws: AwsScope, patterns: NamePatterns, *, network: bool) -> Iterator[Grant]:
    """Allow creating, changing, and deleting everything except keys and roles."""
    yield Grant(SERVICE_ACTIONS, _named_resources(aws, patterns), because=patterns.because)
    yield from _nameless(aws, patterns)
    if network:
        yield Grant(
            EC2_ACTIONS, ["*"], {"StringEquals": {"aws:RequestedRegion": aws.region}}, because=_NAMELESS
        )
        yield Grant([PRIVATE_NAMES], ["*"], because=_NAMELESS)


def _named_resources(aws: AwsScope, patterns: NamePatterns) -> list[str]:
    like = patterns.base if patterns.base.endswith("*") else f"{patterns.base}-*"
    return [
        aws.bucket(patterns.buckets),
        f"{aws.bucket(patterns.buckets)}/*",
        aws.arn("sagemaker", f"endpoint/{like}"),
        aws.arn("sagemaker", f"inference-component/{like}"),
        aws.arn("codebuild", f"project/{like}"),
        aws.arn("ecr", f"repository/{patterns.base}/*"),
        aws.arn("events", f"rule/{like}"),
        aws.arn("cloudwatch", f"alarm:{like}"),
        f"arn:{aws.partition}:cloudwatch::{aws.account}:dashboard/{patterns.base}*",
        aws.arn("logs", f"log-group:/{patterns.base}/*"),
        aws.arn("logs", f"log-group:{naming.endpoint_log_group(like)}"),
        aws.arn("logs", f"log-group:{naming.component_log_group(like)}"),
        aws.arn("sns", like),
        aws.arn("ssm", f"parameter/{patterns.base}/*"),
    ]


def _nameless(aws: AwsScope, patterns: NamePatterns) -> Iterator[Grant]:
    """Grants for resources without a name, or without the environment's name."""
    # CreateEndpoint and UpdateEndpoint: both must be allowed, the endpoint, which has the environment's name,
    # and its models.
    yield Grant(
        iam_actions(
            "sagemaker: AddTags CreateEndpoint CreateEndpointConfig CreateModel DeleteEndpointConfig "
            "DeleteModel DeleteTags DescribeEndpointConfig DescribeModel ListTags UpdateEndpoint"
        ),
        [aws.arn("sagemaker", "endpoint-config/*"), aws.arn("sagemaker", "model/*")],
        because=_NAMELESS,
    )
    yield Grant(
        iam_actions(
            "application-autoscaling: *",
            "cloudwatch: DescribeAlarms GetMetricData",
            "ecr: DescribeRepositories",
            "logs: DescribeIndexPolicies DescribeLogGroups DescribeMetricFilters",
            "ssm: DescribeParameters",
        ),
        ["*"],
        because=_SCALING,
    )
    yield Grant(
        ["cloudwatch:DeleteAlarms", "cloudwatch:PutMetricAlarm"],
        [aws.arn("cloudwatch", "alarm:TargetTracking*")],
        because=_ALARMS_OF_SCALING,
    )
    yield Grant(
        ["sns:GetSubscriptionAttributes", "sns:SetSubscriptionAttributes", "sns:Unsubscribe"],
        ["*"],
        because=_SUBSCRIPTIONS,
    )
    # CloudFormation fetches the CDK's staged assets: templates and build sources.
    yield Grant(
        ["s3:GetObject", "s3:GetObjectVersion"],
        [aws.bucket(patterns.bootstrap.bucket) + "/*"],
        because="the CDK names staged assets by their content",
    )
    yield Grant(
        ["ssm:GetParameters"],
        [aws.arn("ssm", f"parameter{patterns.bootstrap.version_parameter}")],
    )


def _keys(aws: AwsScope, patterns: NamePatterns) -> Iterator[Grant]:
    """Limit key actions by the environment's tags.

    Tag changes on a KMS key can take minutes to apply. Actions that directly follow key creation are limited
    by other means, or affect no existing key.
    """
    keys = [any_key(aws)]
    own_tags = {f"aws:ResourceTag/{tag}": text for tag, text in patterns.marks.items()}
    request_tags = {f"aws:RequestTag/{tag}": text for tag, text in patterns.marks.items()}
    unowned = {**dict.fromkeys(own_tags, "true"), "kms:ResourceAliases": "true"}
    yield Grant(["kms:CreateKey", "kms:ListAliases"], ["*"], because=_KEYS)
    # Tags are set at creation. A key with another owner or name cannot be retagged.
    yield Grant(["kms:TagResource"], keys, {"StringLike": request_tags, "Null": unowned}, because=_KEYS)
    yield Grant(
        iam_actions("kms: DescribeKey EnableKeyRotation GetKeyPolicy GetKeyRotationStatus ListResourceTags"),
        keys,
        because=_KEYS,
    )
    yield Grant(
        iam_actions(
            "kms: DisableKey DisableKeyRotation EnableKey PutKeyPolicy ScheduleKeyDeletion TagResource "
            "UntagResource UpdateKeyDescription"
        ),
        keys,
        {"StringLike": own_tags},
        because=_KEYS,
    )
    # Both must be allowed: the alias, which has the environment's name, and the key.
    yield Grant(
        ["kms:CreateAlias", "kms:DeleteAlias", "kms:UpdateAlias"],
        [*keys, aws.arn("kms", f"alias/{patterns.base}")],
        because=_KEYS,
    )
    services = [f"{service}.{aws.region}.amazonaws.com" for service in _ENCRYPTING]
    yield Grant(
        ["kms:CreateGrant", "kms:Decrypt", "kms:GenerateDataKey"],
        keys,
        {"StringEquals": {"kms:ViaService": services}},
        because="an AWS service makes this request; the condition names the services",
    )
    # KMS has no condition key for this action; the grant itself names the principal that may retire it.
    yield Grant(["kms:RetireGrant"], keys, because=_KEYS)


def _roles(aws: AwsScope, patterns: NamePatterns, boundary_arn: str) -> Iterator[Grant]:
    """Require the boundary on every new role: a role without it could do what CloudFormation itself may
    not."""
    roles = [patterns.roles(aws)]
    bounded = {"StringEquals": {"iam:PermissionsBoundary": boundary_arn}}
    yield Grant(
        iam_actions(
            "iam: AttachRolePolicy CreateRole DetachRolePolicy PutRolePermissionsBoundary PutRolePolicy"
        ),
        roles,
        bounded,
        because=patterns.because,
    )
    yield Grant(
        iam_actions(
            "iam: DeleteRole DeleteRolePolicy GetRole GetRolePolicy ListAttachedRolePolicies "
            "ListRolePolicies ListRoleTags TagRole UntagRole UpdateAssumeRolePolicy UpdateRole "
            "UpdateRoleDescription"
        ),
        roles,
        because=patterns.because,
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
        because=patterns.because,
    )
    yield Grant(["iam:CreateServiceLinkedRole"], [scaling_role_arn(aws)])


def boundary_grants(boundary_arn: str) -> Iterator[Grant]:
    """Allow deleting the boundary; only an administrator creates or changes it."""
    yield Grant(
        iam_actions(
            "iam: DeletePolicy DeletePolicyVersion GetPolicy GetPolicyVersion ListEntitiesForPolicy "
            "ListPolicyVersions"
        ),
        [boundary_arn],
    )


def scaling_role_arn(aws: AwsScope) -> str:
    """Allow creating the service-linked role of Application Auto Scaling, needed by the first scaled
    endpoint."""
    service = "sagemaker.application-autoscaling.amazonaws.com"
    name = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
    return global_arn(aws, f"role/aws-service-role/{service}/{name}")
