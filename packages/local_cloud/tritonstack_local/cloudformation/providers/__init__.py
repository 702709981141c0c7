"""Resource providers, by AWS service; PROVIDERS lists every type the local cloud can deploy."""

from __future__ import annotations

from collections.abc import Mapping

from tritonstack_local.cloudformation.providers.autoscaling import (
    ScalableTargetProvider,
    ScalingPolicyProvider,
)
from tritonstack_local.cloudformation.providers.base import Provider
from tritonstack_local.cloudformation.providers.builds import (
    ProjectProvider,
    RepositoryProvider,
)
from tritonstack_local.cloudformation.providers.cloudwatch import (
    AlarmProvider,
    CompositeAlarmProvider,
    DashboardProvider,
    LogGroupProvider,
    MetricFilterProvider,
)
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
from tritonstack_local.cloudformation.providers.events import RuleProvider, ScheduleProvider
from tritonstack_local.cloudformation.providers.iam import (
    ManagedPolicyProvider,
    OpenIdConnectProvider,
    PolicyProvider,
    RoleProvider,
)
from tritonstack_local.cloudformation.providers.keys_and_parameters import (
    AliasProvider,
    CdkMetadataProvider,
    KeyProvider,
    ParameterProvider,
)
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
from tritonstack_local.sagemaker.unsupported import NO_COMPONENTS
from tritonstack_local.service.errors import sentence

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


def providers_for(*, rollback_fails_update: bool) -> Mapping[str, Provider]:
    """Return the providers of a cloud with these settings."""
    if not rollback_fails_update:
        return PROVIDERS
    return {**PROVIDERS, EndpointProvider.type_name: EndpointProvider(rollback_fails_update=True)}


_NO_PROVIDER = "The local cloud does not support connections to Git providers."
UNSUPPORTED_TYPES: Mapping[str, str] = {
    "AWS::CodeConnections::Connection": _NO_PROVIDER,
    "AWS::CodePipeline::Pipeline": "The local cloud runs no pipelines; run their commands yourself.",
    "AWS::CodeStarConnections::Connection": _NO_PROVIDER,
    "AWS::SageMaker::InferenceComponent": sentence(NO_COMPONENTS),
}
"""Rejected resource types, with the reasons. Types neither here nor in PROVIDERS are unknown."""
