"""Create an isolated VPC: private subnets in several zones, without an internet gateway."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from tritonstack.constructs.data.stored_values import log_group
from tritonstack.constructs.iam.granted_role import explain_wildcard, policy_document
from tritonstack.constructs.iam.grants import AwsScope, iam_actions


class PrivateNetwork(Construct):
    """Create a VPC with one private subnet per zone, and one route table.

    `zones` are zone ids, or how many of the account's first zones to use. Each subnet has a quarter of the
    addresses, so a zone can be added later.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, cidr: str, zones: Sequence[str] | int
    ) -> None:
        super().__init__(scope, construct_id)
        self.cidr = cidr
        vpc = ec2.CfnVPC(
            self,
            "Vpc",
            cidr_block=cidr,
            # Both are needed to resolve AWS service names to the interface endpoints.
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags=_named(name),
        )
        routes = ec2.CfnRouteTable(self, "Routes", vpc_id=vpc.attr_vpc_id, tags=_named(name))
        self.vpc_id = vpc.attr_vpc_id
        self.route_table_id = routes.attr_route_table_id
        blocks = list(ipaddress.IPv4Network(cidr).subnets(prefixlen_diff=2))
        zone_ids = [None] * zones if isinstance(zones, int) else zones
        self.subnet_ids = [
            self._subnet(name, index, str(blocks[index]), zone_id) for index, zone_id in enumerate(zone_ids)
        ]

    def _subnet(self, name: str, index: int, block: str, zone_id: str | None) -> str:
        subnet = ec2.CfnSubnet(
            self,
            f"Subnet{index + 1}",
            vpc_id=self.vpc_id,
            # CloudFormation selects the zones, so synthesis needs no account access.
            availability_zone=None if zone_id else cdk.Fn.select(index, cdk.Fn.get_azs()),
            availability_zone_id=zone_id,
            cidr_block=block,
            map_public_ip_on_launch=False,
            tags=_named(f"{name}-private-{index + 1}"),
        )
        ec2.CfnSubnetRouteTableAssociation(
            self, f"Routes{index + 1}", subnet_id=subnet.attr_subnet_id, route_table_id=self.route_table_id
        )
        return subnet.attr_subnet_id


def _named(name: str) -> list[cdk.CfnTag]:
    return [cdk.CfnTag(key="Name", value=name)]


# Create the security groups of a VPC: one for endpoints, one for AWS service interfaces.
#
# CloudFormation cannot restrict the VPC's default group without a custom resource; nothing uses it.


_HTTPS: Mapping[str, Any] = {"ip_protocol": "tcp", "from_port": 443, "to_port": 443}
# A group without egress rules allows all egress. This rule allows only an unreachable address.
_NOTHING = ec2.CfnSecurityGroup.EgressProperty(
    ip_protocol="icmp",
    from_port=252,
    to_port=86,
    cidr_ip="255.255.255.255/32",
    description="nothing goes out",
)


class NetworkGuards(Construct):
    """Create one group for SageMaker endpoints and one for the interface endpoints of AWS services."""

    def __init__(self, scope: Construct, construct_id: str, *, name: str, vpc_id: str) -> None:
        super().__init__(scope, construct_id)
        services = ec2.CfnSecurityGroup(
            self,
            "Services",
            group_description="The interfaces of AWS services: endpoints of this environment come in",
            vpc_id=vpc_id,
            security_group_egress=[_NOTHING],
            tags=[cdk.CfnTag(key="Name", value=f"{name}-services")],
        )
        self.services_group_id = services.attr_group_id
        endpoints = ec2.CfnSecurityGroup(
            self,
            "Endpoints",
            group_description="SageMaker endpoints: nobody comes in, AWS services are reached over TLS",
            vpc_id=vpc_id,
            security_group_egress=[
                ec2.CfnSecurityGroup.EgressProperty(
                    **_HTTPS,
                    destination_security_group_id=self.services_group_id,
                    description="the interfaces of AWS services",
                ),
                # S3's prefix list id is only known by lookup. The routes of this network reach only the VPC
                # and, through the gateway endpoint, S3, so all other addresses are unreachable.
                ec2.CfnSecurityGroup.EgressProperty(
                    **_HTTPS, cidr_ip="0.0.0.0/0", description="S3, through its gateway"
                ),
            ],
            tags=[cdk.CfnTag(key="Name", value=f"{name}-endpoints")],
        )
        self.endpoints_group_id = endpoints.attr_group_id
        # Separate resources, because each of the two groups refers to the other.
        ec2.CfnSecurityGroupIngress(
            self,
            "EndpointsReachServices",
            **_HTTPS,
            group_id=self.services_group_id,
            source_security_group_id=self.endpoints_group_id,
            description="endpoints of this environment",
        )


RETENTION_DAYS = 365


def flow_log(
    scope: Construct, construct_id: str, *, name: str, vpc_id: str, key_arn: str, removal: cdk.RemovalPolicy
) -> None:
    """Log all accepted and rejected connections to an encrypted log group, for a year."""
    scope = Construct(scope, construct_id)
    aws = AwsScope.of(scope)
    group = log_group(scope, name=name, retention_days=RETENTION_DAYS, key_arn=key_arn, removal=removal)
    streams, every_group = aws.arn("logs", f"log-group:{name}:*"), aws.arn("logs", "log-group:*")
    for pattern, reason in {
        streams: "the log streams of this group; the service names them after network interfaces",
        every_group: "the service lists all log groups to find its own; it reads names only",
    }.items():
        explain_wildcard(scope, f"Resource::{pattern}", because=reason)
    trust = {
        "Effect": "Allow",
        "Principal": {"Service": "vpc-flow-logs.amazonaws.com"},
        "Action": "sts:AssumeRole",
        "Condition": {
            "StringEquals": {"aws:SourceAccount": aws.account},
            "ArnLike": {"aws:SourceArn": aws.arn("ec2", "vpc-flow-log/*")},
        },
    }
    # The actions that the service needs, limited to its log group; AWS's example allows all log groups.
    allowed = {
        "logs: CreateLogStream DescribeLogStreams PutLogEvents": streams,
        "logs: DescribeLogGroups": every_group,
    }
    writer = iam.CfnRole(
        scope,
        "Writer",
        description="IAM role for VPC flow logs",
        assume_role_policy_document=policy_document([trust]),
        policies=[
            iam.CfnRole.PolicyProperty(
                policy_name="write",
                policy_document=policy_document(
                    [
                        {"Effect": "Allow", "Action": iam_actions(actions), "Resource": resource}
                        for actions, resource in allowed.items()
                    ]
                ),
            )
        ],
    )
    ec2.CfnFlowLog(
        scope,
        "FlowLog",
        resource_id=vpc_id,
        resource_type="VPC",
        traffic_type="ALL",
        log_destination_type="cloud-watch-logs",
        log_group_name=group,
        deliver_logs_permission_arn=writer.attr_arn,
    )


# Create the VPC endpoints that SageMaker containers need.
#
# They are S3 for artifacts and data, ECR for images, and CloudWatch Logs. Others would cost money per hour
# without use: SageMaker provides credentials (no STS) and publishes metrics (no CloudWatch), S3 calls KMS
# itself, and callers invoke endpoints from their own networks (no SageMaker Runtime).


_PULL = iam_actions(
    "ecr: BatchCheckLayerAvailability BatchGetImage GetAuthorizationToken GetDownloadUrlForLayer"
)
_WRITE_LOGS = iam_actions("logs: CreateLogGroup CreateLogStream DescribeLogStreams PutLogEvents")
_SERVICES: Mapping[str, Sequence[str]] = {"ecr.api": _PULL, "ecr.dkr": _PULL, "logs": _WRITE_LOGS}


def service_access(
    scope: Construct,
    construct_id: str,
    *,
    network: PrivateNetwork,
    buckets: Sequence[str],
    security_group_id: str,
) -> None:
    """Create a gateway endpoint for S3, limited to some buckets, and interface endpoints for other
    services."""
    scope = Construct(scope, construct_id)
    stack = cdk.Stack.of(scope)
    # Callers' own policies limit the resources; this policy limits the account.
    from_this_account = {"StringEquals": {"aws:PrincipalAccount": stack.account}}
    ec2.CfnVPCEndpoint(
        scope,
        "S3",
        vpc_id=network.vpc_id,
        service_name=f"com.amazonaws.{stack.region}.s3",
        vpc_endpoint_type="Gateway",
        route_table_ids=[network.route_table_id],
        policy_document=_policy(
            {
                "Sid": "BucketsOfThisEnvironment",
                "Action": ["s3:AbortMultipartUpload", "s3:GetObject", "s3:ListBucket", "s3:PutObject"],
                "Resource": [arn for name in buckets for arn in _bucket_arns(name)],
                "Condition": from_this_account,
            },
            {
                # ECR stores image layers in its own bucket, behind presigned URLs.
                "Sid": "LayersOfImages",
                "Action": ["s3:GetObject"],
                "Resource": [f"arn:aws:s3:::prod-{stack.region}-starport-layer-bucket/*"],
            },
        ),
    )
    for service, actions in _SERVICES.items():
        ec2.CfnVPCEndpoint(
            scope,
            service,
            vpc_id=network.vpc_id,
            service_name=f"com.amazonaws.{stack.region}.{service}",
            vpc_endpoint_type="Interface",
            private_dns_enabled=True,
            subnet_ids=network.subnet_ids,
            security_group_ids=[security_group_id],
            policy_document=_policy({"Action": actions, "Resource": ["*"], "Condition": from_this_account}),
        )


def _bucket_arns(name: str) -> tuple[str, str]:
    return f"arn:aws:s3:::{name}", f"arn:aws:s3:::{name}/*"


def _policy(*statements: Mapping[str, Any]) -> dict[str, Any]:
    allowed = [{"Effect": "Allow", "Principal": "*", **statement} for statement in statements]
    return {"Version": "2012-10-17", "Statement": allowed}
