"""Resource providers, one file per AWS service; PROVIDERS lists every type the local cloud can deploy."""

from collections.abc import Mapping

from tritonstack_local.cloudformation.providers.autoscaling import (
    ScalableTargetProvider,
    ScalingPolicyProvider,
)
from tritonstack_local.cloudformation.providers.base import Provider
from tritonstack_local.cloudformation.providers.cdk_metadata import CdkMetadataProvider
from tritonstack_local.cloudformation.providers.cloudwatch import (
    AlarmProvider,
    CompositeAlarmProvider,
    DashboardProvider,
)
from tritonstack_local.cloudformation.providers.codebuild import ProjectProvider
from tritonstack_local.cloudformation.providers.codepipeline import PipelineProvider
from tritonstack_local.cloudformation.providers.ec2_network import (
    FlowLogProvider,
    RouteTableProvider,
    SubnetProvider,
    SubnetRouteTableAssociationProvider,
    VpcEndpointProvider,
    VpcProvider,
)
from tritonstack_local.cloudformation.providers.ec2_security_groups import (
    SecurityGroupEgressProvider,
    SecurityGroupIngressProvider,
    SecurityGroupProvider,
)
from tritonstack_local.cloudformation.providers.ecr import RepositoryProvider
from tritonstack_local.cloudformation.providers.events import RuleProvider, ScheduleProvider
from tritonstack_local.cloudformation.providers.iam import (
    ManagedPolicyProvider,
    OpenIdConnectProvider,
    PolicyProvider,
    RoleProvider,
)
from tritonstack_local.cloudformation.providers.kms import AliasProvider, KeyProvider
from tritonstack_local.cloudformation.providers.logs import LogGroupProvider, MetricFilterProvider
from tritonstack_local.cloudformation.providers.s3 import BucketPolicyProvider, BucketProvider
from tritonstack_local.cloudformation.providers.sagemaker import (
    EndpointConfigProvider,
    EndpointProvider,
    ModelProvider,
)
from tritonstack_local.cloudformation.providers.sns import (
    SubscriptionProvider,
    TopicPolicyProvider,
    TopicProvider,
)
from tritonstack_local.cloudformation.providers.ssm import ParameterProvider

PROVIDERS: Mapping[str, Provider] = {
    provider.type_name: provider
    for provider in (
        CdkMetadataProvider(),
        BucketProvider(),
        BucketPolicyProvider(),
        KeyProvider(),
        AliasProvider(),
        RepositoryProvider(),
        VpcProvider(),
        SubnetProvider(),
        RouteTableProvider(),
        SubnetRouteTableAssociationProvider(),
        SecurityGroupProvider(),
        SecurityGroupIngressProvider(),
        SecurityGroupEgressProvider(),
        VpcEndpointProvider(),
        FlowLogProvider(),
        RuleProvider(),
        RoleProvider(),
        PolicyProvider(),
        ManagedPolicyProvider(),
        OpenIdConnectProvider(),
        ParameterProvider(),
        ScalableTargetProvider(),
        ScalingPolicyProvider(),
        AlarmProvider(),
        CompositeAlarmProvider(),
        DashboardProvider(),
        LogGroupProvider(),
        ProjectProvider(),
        PipelineProvider(),
        MetricFilterProvider(),
        EndpointProvider(),
        EndpointConfigProvider(),
        ModelProvider(),
        ScheduleProvider(),
        SubscriptionProvider(),
        TopicProvider(),
        TopicPolicyProvider(),
    )
}
