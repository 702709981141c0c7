"""One provider per CloudFormation type, one file each; PROVIDERS is what the cloud can deploy."""

from collections.abc import Mapping

from local_cloud.cloudformation.providers.applicationautoscaling_scalabletarget import ScalableTarget
from local_cloud.cloudformation.providers.applicationautoscaling_scalingpolicy import ScalingPolicy
from local_cloud.cloudformation.providers.base import Provider
from local_cloud.cloudformation.providers.cdk_metadata import CdkMetadata
from local_cloud.cloudformation.providers.cloudwatch_alarm import Alarm
from local_cloud.cloudformation.providers.cloudwatch_compositealarm import CompositeAlarm
from local_cloud.cloudformation.providers.cloudwatch_dashboard import Dashboard
from local_cloud.cloudformation.providers.codebuild_project import Project
from local_cloud.cloudformation.providers.codepipeline_pipeline import Pipeline
from local_cloud.cloudformation.providers.ec2_flowlog import FlowLog
from local_cloud.cloudformation.providers.ec2_routetable import RouteTable
from local_cloud.cloudformation.providers.ec2_securitygroup import SecurityGroup
from local_cloud.cloudformation.providers.ec2_securitygroupegress import SecurityGroupEgress
from local_cloud.cloudformation.providers.ec2_securitygroupingress import SecurityGroupIngress
from local_cloud.cloudformation.providers.ec2_subnet import Subnet
from local_cloud.cloudformation.providers.ec2_subnetroutetableassociation import SubnetRouteTableAssociation
from local_cloud.cloudformation.providers.ec2_vpc import Vpc
from local_cloud.cloudformation.providers.ec2_vpcendpoint import VpcEndpoint
from local_cloud.cloudformation.providers.ecr_repository import Repository
from local_cloud.cloudformation.providers.events_rule import Rule
from local_cloud.cloudformation.providers.iam_managedpolicy import ManagedPolicy
from local_cloud.cloudformation.providers.iam_oidcprovider import OidcProvider
from local_cloud.cloudformation.providers.iam_policy import Policy
from local_cloud.cloudformation.providers.iam_role import Role
from local_cloud.cloudformation.providers.kms_alias import Alias
from local_cloud.cloudformation.providers.kms_key import Key
from local_cloud.cloudformation.providers.logs_loggroup import LogGroup
from local_cloud.cloudformation.providers.logs_metricfilter import MetricFilter
from local_cloud.cloudformation.providers.s3_bucket import Bucket
from local_cloud.cloudformation.providers.s3_bucketpolicy import BucketPolicy
from local_cloud.cloudformation.providers.sagemaker_endpoint import Endpoint
from local_cloud.cloudformation.providers.sagemaker_endpointconfig import EndpointConfig
from local_cloud.cloudformation.providers.sagemaker_model import Model
from local_cloud.cloudformation.providers.scheduler_schedule import Schedule
from local_cloud.cloudformation.providers.sns_subscription import Subscription
from local_cloud.cloudformation.providers.sns_topic import Topic
from local_cloud.cloudformation.providers.sns_topicpolicy import TopicPolicy
from local_cloud.cloudformation.providers.ssm_parameter import Parameter

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
