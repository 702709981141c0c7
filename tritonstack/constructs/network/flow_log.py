"""Create the flow log of a VPC."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from tritonstack.constructs.data.log_group import log_group
from tritonstack.constructs.iam.granted_role import explain_wildcard, policy_document
from tritonstack.constructs.iam.grants import AwsScope

RETENTION_DAYS = 365


class FlowLog(Construct):
    """Log all accepted and rejected connections to an encrypted log group, for a year."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        vpc_id: str,
        key_arn: str,
        removal: cdk.RemovalPolicy,
    ) -> None:
        super().__init__(scope, construct_id)
        group = log_group(self, name=name, retention_days=RETENTION_DAYS, key_arn=key_arn, removal=removal)
        ec2.CfnFlowLog(
            self,
            "FlowLog",
            resource_id=vpc_id,
            resource_type="VPC",
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_group_name=group,
            deliver_logs_permission_arn=self._writer(name).attr_arn,
        )

    def _writer(self, group: str) -> iam.CfnRole:
        aws = AwsScope.of(self)
        streams, every_group = aws.arn("logs", f"log-group:{group}:*"), aws.arn("logs", "log-group:*")
        # The actions that the service needs, limited to its log group; AWS's example allows all log groups.
        allowed = {
            ("logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"): streams,
            ("logs:DescribeLogGroups",): every_group,
        }
        for pattern, reason in {
            streams: "the log streams of this group; the service names them after network interfaces",
            every_group: "the service lists all log groups to find its own; it reads names only",
        }.items():
            explain_wildcard(self, f"Resource::{pattern}", because=reason)
        return iam.CfnRole(
            self,
            "Writer",
            description="IAM role for VPC flow logs",
            assume_role_policy_document=policy_document(
                [
                    {
                        "Effect": "Allow",
                        "Principal": {"Service": "vpc-flow-logs.amazonaws.com"},
                        "Action": "sts:AssumeRole",
                        "Condition": {
                            "StringEquals": {"aws:SourceAccount": aws.account},
                            "ArnLike": {"aws:SourceArn": aws.arn("ec2", "vpc-flow-log/*")},
                        },
                    }
                ]
            ),
            policies=[
                iam.CfnRole.PolicyProperty(
                    policy_name="write",
                    policy_document=policy_document(
                        [
                            {"Effect": "Allow", "Action": list(actions), "Resource": resource}
                            for actions, resource in allowed.items()
                        ]
                    ),
                )
            ],
        )
