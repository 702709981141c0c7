"""Resource providers, by AWS service; PROVIDERS lists every type the local cloud can deploy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tritonstack_local.cloudformation.providers import (
    autoscaling,
    builds,
    cloudwatch,
    ec2_network,
    ec2_security_groups,
    events,
    iam,
    keys_and_parameters,
    s3,
    sagemaker,
    sns,
)
from tritonstack_local.cloudformation.providers.base import Provider
from tritonstack_local.sagemaker.unsupported import NO_COMPONENTS
from tritonstack_local.service.errors import sentence

_MODULES = (
    autoscaling,
    builds,
    cloudwatch,
    ec2_network,
    ec2_security_groups,
    events,
    iam,
    keys_and_parameters,
    s3,
    sagemaker,
    sns,
)
PROVIDERS: Mapping[str, Provider] = {
    provider.type_name: provider for module in _MODULES for provider in module.TYPES
}


def providers_for(*, rollback_fails_update: bool) -> Mapping[str, Provider]:
    """Return the providers of a cloud with these settings."""
    if not rollback_fails_update:
        return PROVIDERS
    endpoint = replace(sagemaker.ENDPOINT, rollback_fails_update=True)
    return {**PROVIDERS, endpoint.type_name: endpoint}


_NO_PROVIDER = "The local cloud does not support connections to Git providers."
UNSUPPORTED_TYPES: Mapping[str, str] = {
    "AWS::CloudWatch::CompositeAlarm": "The local cloud does not support composite alarms.",
    "AWS::CodeConnections::Connection": _NO_PROVIDER,
    "AWS::CodePipeline::Pipeline": "The local cloud runs no pipelines; run their commands yourself.",
    "AWS::CodeStarConnections::Connection": _NO_PROVIDER,
    "AWS::SageMaker::InferenceComponent": sentence(NO_COMPONENTS),
}
"""Rejected resource types, with the reasons. Types neither here nor in PROVIDERS are unknown."""
