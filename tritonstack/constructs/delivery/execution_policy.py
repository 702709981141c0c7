"""The policies for `cdk bootstrap --cloudformation-execution-policies`, without administrator access.

There are two, because IAM allows 6,144 characters per managed policy: one for services and network, one for
keys and roles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aws_cdk import aws_iam as iam
from constructs import Construct

from tritonstack.base import naming
from tritonstack.constructs.delivery.delivery_grants import NamePatterns
from tritonstack.constructs.iam.granted_role import explain_pattern, explain_wildcard, managed_policy
from tritonstack.constructs.iam.grants import AwsScope, Grant, allow, iam_actions
from tritonstack.constructs.iam.skipped_checks import skip_check
from tritonstack.files.environment.environment import EnvironmentSpec

# Permissions of the CloudFormation execution role, for one environment or all previews.
#
# By default, `cdk bootstrap` gives CloudFormation administrator access, so anyone who can deploy could grant
# themselves any permission. These policies limit a deployment to the resources of an environment and protect
# the delivery roles.


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
    "autoscaling: DescribeTags; "
    "ec2: *FlowLogs *SecurityGroupEgress *SecurityGroupIngress *Tags AssociateRouteTable CreateRouteTable "
    "CreateSecurityGroup CreateSubnet CreateVpc CreateVpcEndpoint DeleteRouteTable DeleteSecurityGroup "
    "DeleteSubnet DeleteVpc DeleteVpcEndpoints DescribeAccountAttributes DescribeAvailabilityZones "
    "DescribeInstances DescribeNetworkAcls DescribeNetworkInterfaces DescribeRouteTables "
    "DescribeSecurityGroupRules DescribeSecurityGroups DescribeSubnets DescribeVpc* "
    "DisassociateRouteTable ModifySubnetAttribute ModifyVpcAttribute ModifyVpcEndpoint "
    "ReplaceRouteTableAssociation UpdateSecurityGroupRuleDescriptions*"
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


def execution_grants(patterns: NamePatterns, *, boundary_arn: str, network: bool) -> Iterator[Grant]:
    """Allow creating, changing, and deleting all resources of an environment except its boundary."""
    yield from service_grants(patterns, network=network)
    yield from security_grants(patterns, boundary_arn=boundary_arn)


def security_grants(patterns: NamePatterns, *, boundary_arn: str) -> Iterator[Grant]:
    """Allow creating, changing, and deleting keys and roles.

    `boundary_arn` is the boundary of the environment's own roles: no role can be created without it or lose
    it.
    """
    yield from _keys(patterns)
    yield from _roles(patterns, boundary_arn)


def service_grants(patterns: NamePatterns, *, network: bool) -> Iterator[Grant]:
    """Allow creating, changing, and deleting everything except keys and roles."""
    yield Grant(SERVICE_ACTIONS, _named_resources(patterns), because=patterns.because)
    yield from _nameless(patterns)
    if network:
        region = {"StringEquals": {"aws:RequestedRegion": patterns.aws.region}}
        yield Grant(EC2_ACTIONS, ["*"], region, because=_NAMELESS)
        yield Grant([PRIVATE_NAMES], ["*"], because=_NAMELESS)


def _named_resources(patterns: NamePatterns) -> list[str]:
    aws = patterns.aws
    return [
        patterns.bucket,
        f"{patterns.bucket}/*",
        *patterns.arns(
            "sagemaker:endpoint/{named}",
            "sagemaker:inference-component/{named}",
            "codebuild:project/{named}",
            "ecr:repository/{base}/*",
            "events:rule/{named}",
            "cloudwatch:alarm:{named}",
        ),
        f"arn:{aws.partition}:cloudwatch::{aws.account}:dashboard/{patterns.base}*",
        *patterns.arns(
            "logs:log-group:/{base}/*",
            f"logs:log-group:{naming.endpoint_log_group(patterns.named)}",
            f"logs:log-group:{naming.component_log_group(patterns.named)}",
            "sns:{named}",
            "ssm:parameter/{base}/*",
        ),
    ]


def _nameless(patterns: NamePatterns) -> Iterator[Grant]:
    """Grants for resources without a name, or without the environment's name."""
    aws = patterns.aws
    # CreateEndpoint and UpdateEndpoint: both must be allowed, the endpoint, which has the environment's name,
    # and its models.
    yield allow(
        "sagemaker: AddTags CreateEndpoint CreateEndpointConfig CreateModel DeleteEndpointConfig "
        "DeleteModel DeleteTags DescribeEndpointConfig DescribeModel ListTags UpdateEndpoint",
        aws.arn("sagemaker", "endpoint-config/*"),
        aws.arn("sagemaker", "model/*"),
        because=_NAMELESS,
    )
    yield allow(
        "application-autoscaling: *; cloudwatch: DescribeAlarms GetMetricData; ecr: DescribeRepositories; "
        "logs: DescribeIndexPolicies DescribeLogGroups DescribeMetricFilters; ssm: DescribeParameters",
        "*",
        because=_SCALING,
    )
    alarms = aws.arn("cloudwatch", "alarm:TargetTracking*")
    yield allow("cloudwatch: DeleteAlarms PutMetricAlarm", alarms, because=_ALARMS_OF_SCALING)
    subscriptions = "sns: GetSubscriptionAttributes SetSubscriptionAttributes Unsubscribe"
    yield allow(subscriptions, "*", because=_SUBSCRIPTIONS)
    # CloudFormation fetches the CDK's staged assets: templates and build sources.
    staged = aws.bucket(patterns.bootstrap.bucket) + "/*"
    because = "the CDK names staged assets by their content"
    yield allow("s3: GetObject GetObjectVersion", staged, because=because)
    yield allow("ssm: GetParameters", aws.arn("ssm", f"parameter{patterns.bootstrap.version_parameter}"))


def _keys(patterns: NamePatterns) -> Iterator[Grant]:
    """Limit key actions by the environment's tags.

    Tag changes on a KMS key can take minutes to apply. Actions that directly follow key creation are limited
    by other means, or affect no existing key.
    """
    aws, key = patterns.aws, patterns.aws.any_key
    request_tags = {f"aws:RequestTag/{tag}": text for tag, text in patterns.marks.items()}
    unowned = {**dict.fromkeys(patterns.owned["StringLike"], "true"), "kms:ResourceAliases": "true"}
    yield allow("kms: CreateKey ListAliases", "*", because=_KEYS)
    # Tags are set at creation. A key with another owner or name cannot be retagged.
    new = {"StringLike": request_tags, "Null": unowned}
    yield allow("kms: TagResource", key, where=new, because=_KEYS)
    reading = "kms: DescribeKey EnableKeyRotation GetKeyPolicy GetKeyRotationStatus ListResourceTags"
    yield allow(reading, key, because=_KEYS)
    yield allow(
        "kms: DisableKey DisableKeyRotation EnableKey PutKeyPolicy ScheduleKeyDeletion TagResource "
        "UntagResource UpdateKeyDescription",
        key,
        where=patterns.owned,
        because=_KEYS,
    )
    # Both must be allowed: the alias, which has the environment's name, and the key.
    alias = aws.arn("kms", f"alias/{patterns.base}")
    yield allow("kms: CreateAlias DeleteAlias UpdateAlias", key, alias, because=_KEYS)
    services = [f"{service}.{aws.region}.amazonaws.com" for service in _ENCRYPTING]
    yield allow(
        "kms: CreateGrant Decrypt GenerateDataKey",
        key,
        where={"StringEquals": {"kms:ViaService": services}},
        because="an AWS service makes this request; the condition names the services",
    )
    # KMS has no condition key for this action; the grant itself names the principal that may retire it.
    yield allow("kms: RetireGrant", key, because=_KEYS)


def _roles(patterns: NamePatterns, boundary_arn: str) -> Iterator[Grant]:
    """Require the boundary on every new role: a role without it could do what CloudFormation itself may
    not."""
    services = ["codebuild.amazonaws.com", "sagemaker.amazonaws.com", "vpc-flow-logs.amazonaws.com"]
    for actions, where in (
        (
            "iam: AttachRolePolicy CreateRole DetachRolePolicy PutRolePermissionsBoundary PutRolePolicy",
            {"StringEquals": {"iam:PermissionsBoundary": boundary_arn}},
        ),
        (
            "iam: DeleteRole DeleteRolePolicy GetRole GetRolePolicy ListAttachedRolePolicies "
            "ListRolePolicies ListRoleTags TagRole UntagRole UpdateAssumeRolePolicy UpdateRole "
            "UpdateRoleDescription",
            None,
        ),
        ("iam: PassRole", {"StringEquals": {"iam:PassedToService": services}}),
    ):
        yield allow(actions, patterns.roles, where=where, because=patterns.because)
    yield allow("iam: CreateServiceLinkedRole", scaling_role_arn(patterns.aws))


def boundary_grants(boundary_arn: str) -> Iterator[Grant]:
    """Allow deleting the boundary; only an administrator creates or changes it."""
    yield allow(
        "iam: DeletePolicy DeletePolicyVersion GetPolicy GetPolicyVersion ListEntitiesForPolicy "
        "ListPolicyVersions",
        boundary_arn,
    )


def scaling_role_arn(aws: AwsScope) -> str:
    """Allow creating the service-linked role of Application Auto Scaling, needed by the first scaled
    endpoint."""
    service = "sagemaker.application-autoscaling.amazonaws.com"
    name = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
    return aws.iam(f"role/aws-service-role/{service}/{name}")


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
