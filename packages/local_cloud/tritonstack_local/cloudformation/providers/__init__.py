"""One provider per CloudFormation type, one file each; PROVIDERS is what the cloud can deploy."""

from collections.abc import Mapping

from tritonstack_local.cloudformation.providers.applicationautoscaling_scalabletarget import ScalableTarget
from tritonstack_local.cloudformation.providers.applicationautoscaling_scalingpolicy import ScalingPolicy
from tritonstack_local.cloudformation.providers.base import Provider
from tritonstack_local.cloudformation.providers.cdk_metadata import CdkMetadata
from tritonstack_local.cloudformation.providers.cloudwatch_alarm import Alarm
from tritonstack_local.cloudformation.providers.cloudwatch_compositealarm import CompositeAlarm
from tritonstack_local.cloudformation.providers.cloudwatch_dashboard import Dashboard
from tritonstack_local.cloudformation.providers.codebuild_project import Project
from tritonstack_local.cloudformation.providers.codepipeline_pipeline import Pipeline
from tritonstack_local.cloudformation.providers.ec2_flowlog import FlowLog
from tritonstack_local.cloudformation.providers.ec2_routetable import RouteTable
from tritonstack_local.cloudformation.providers.ec2_securitygroup import SecurityGroup
from tritonstack_local.cloudformation.providers.ec2_securitygroupegress import SecurityGroupEgress
from tritonstack_local.cloudformation.providers.ec2_securitygroupingress import SecurityGroupIngress
from tritonstack_local.cloudformation.providers.ec2_subnet import Subnet
from tritonstack_local.cloudformation.providers.ec2_subnetroutetableassociation import (
    SubnetRouteTableAssociation,
)
from tritonstack_local.cloudformation.providers.ec2_vpc import Vpc
from tritonstack_local.cloudformation.providers.ec2_vpcendpoint import VpcEndpoint
from tritonstack_local.cloudformation.providers.ecr_repository import Repository
from tritonstack_local.cloudformation.providers.events_rule import Rule
from tritonstack_local.cloudformation.providers.iam_managedpolicy import ManagedPolicy
from tritonstack_local.cloudformation.providers.iam_oidcprovider import OidcProvider
from tritonstack_local.cloudformation.providers.iam_policy import Policy
from tritonstack_local.cloudformation.providers.iam_role import Role
from tritonstack_local.cloudformation.providers.kms_alias import Alias
from tritonstack_local.cloudformation.providers.kms_key import Key
from tritonstack_local.cloudformation.providers.logs_loggroup import LogGroup
from tritonstack_local.cloudformation.providers.logs_metricfilter import MetricFilter
from tritonstack_local.cloudformation.providers.s3_bucket import Bucket
from tritonstack_local.cloudformation.providers.s3_bucketpolicy import BucketPolicy
from tritonstack_local.cloudformation.providers.sagemaker_endpoint import Endpoint
from tritonstack_local.cloudformation.providers.sagemaker_endpointconfig import EndpointConfig
from tritonstack_local.cloudformation.providers.sagemaker_model import Model
from tritonstack_local.cloudformation.providers.scheduler_schedule import Schedule
from tritonstack_local.cloudformation.providers.sns_subscription import Subscription
from tritonstack_local.cloudformation.providers.sns_topic import Topic
from tritonstack_local.cloudformation.providers.sns_topicpolicy import TopicPolicy
from tritonstack_local.cloudformation.providers.ssm_parameter import Parameter

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
