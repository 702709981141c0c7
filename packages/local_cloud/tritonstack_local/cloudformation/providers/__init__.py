"""Resource providers, one file per AWS service; PROVIDERS lists every type the local cloud can deploy."""

from collections.abc import Mapping

from tritonstack_local.cloudformation.providers.autoscaling import ScalableTarget, ScalingPolicy
from tritonstack_local.cloudformation.providers.base import Provider
from tritonstack_local.cloudformation.providers.cdk_metadata import CdkMetadata
from tritonstack_local.cloudformation.providers.cloudwatch import Alarm, CompositeAlarm, Dashboard
from tritonstack_local.cloudformation.providers.codebuild import Project
from tritonstack_local.cloudformation.providers.codepipeline import Pipeline
from tritonstack_local.cloudformation.providers.ec2_network import (
    FlowLog,
    RouteTable,
    Subnet,
    SubnetRouteTableAssociation,
    Vpc,
    VpcEndpoint,
)
from tritonstack_local.cloudformation.providers.ec2_security_groups import (
    SecurityGroup,
    SecurityGroupEgress,
    SecurityGroupIngress,
)
from tritonstack_local.cloudformation.providers.ecr import Repository
from tritonstack_local.cloudformation.providers.events import Rule, Schedule
from tritonstack_local.cloudformation.providers.iam import ManagedPolicy, OidcProvider, Policy, Role
from tritonstack_local.cloudformation.providers.kms import Alias, Key
from tritonstack_local.cloudformation.providers.logs import LogGroup, MetricFilter
from tritonstack_local.cloudformation.providers.s3 import Bucket, BucketPolicy
from tritonstack_local.cloudformation.providers.sagemaker import Endpoint, EndpointConfig, Model
from tritonstack_local.cloudformation.providers.sns import Subscription, Topic, TopicPolicy
from tritonstack_local.cloudformation.providers.ssm import Parameter

PROVIDERS: Mapping[str, Provider] = {
    provider.type_name: provider
    for provider in (
        CdkMetadata(),
        Bucket(),
        BucketPolicy(),
        Key(),
        Alias(),
        Repository(),
        Vpc(),
        Subnet(),
        RouteTable(),
        SubnetRouteTableAssociation(),
        SecurityGroup(),
        SecurityGroupIngress(),
        SecurityGroupEgress(),
        VpcEndpoint(),
        FlowLog(),
        Rule(),
        Role(),
        Policy(),
        ManagedPolicy(),
        OidcProvider(),
        Parameter(),
        ScalableTarget(),
        ScalingPolicy(),
        Alarm(),
        CompositeAlarm(),
        Dashboard(),
        LogGroup(),
        Project(),
        Pipeline(),
        MetricFilter(),
        Endpoint(),
        EndpointConfig(),
        Model(),
        Schedule(),
        Subscription(),
        Topic(),
        TopicPolicy(),
    )
}
