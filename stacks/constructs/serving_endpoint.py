"""The endpoint and its configuration: which machines, how many at first, and how an update rolls out."""

from __future__ import annotations

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from catalog import naming
from catalog.endpoints import MAIN
from stacks.constructs.endpoint_alarms import EndpointAlarms
from stacks.constructs.serving_model import ServingModel
from stacks.deployment import EndpointDeployment

_BAKING_S = 360
"""The old machines stay this long after the traffic has moved: alarms look at five minutes."""

_MACHINES_S = 1800
"""What SageMaker may take to bring up machines, beside download and start of the container."""


class ServingEndpoint(Construct):
    """An endpoint that keeps its number of machines through updates, and goes back when alarms ring."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: EndpointDeployment,
        model: ServingModel,
        alarms: EndpointAlarms,
    ) -> None:
        super().__init__(scope, construct_id)
        config = sagemaker.CfnEndpointConfig(
            self,
            # No name: a configuration cannot be changed, so every change makes a new one.
            "Config",
            production_variants=[_variant(deployment, model)],
            kms_key_id=None
            if deployment.has_local_storage
            else naming.key_alias(deployment.environment.base),
        )
        self.endpoint = sagemaker.CfnEndpoint(
            self,
            "Endpoint",
            endpoint_name=deployment.endpoint_name,
            endpoint_config_name=config.attr_endpoint_config_name,
            # What scaling has arrived at outlives an update; a number fixed in the file is meant as written.
            retain_all_variant_properties=deployment.endpoint.scaling.varies,
            deployment_config=_rollout(deployment, alarms),
        )
        # An update names the alarms, so they must exist by then.
        self.endpoint.node.add_dependency(alarms)


def _variant(
    deployment: EndpointDeployment, model: ServingModel
) -> sagemaker.CfnEndpointConfig.ProductionVariantProperty:
    endpoint = deployment.endpoint
    return sagemaker.CfnEndpointConfig.ProductionVariantProperty(
        variant_name=MAIN,
        model_name=model.name,
        instance_type=endpoint.instance_type,
        initial_instance_count=endpoint.scaling.min_instances,
        initial_variant_weight=1,
        volume_size_in_gb=None if deployment.has_local_storage else deployment.volume_gb,
        container_startup_health_check_timeout_in_seconds=(endpoint.startup_timeout_s or 600),
        model_data_download_timeout_in_seconds=(endpoint.download_timeout_s or 600),
        routing_config=sagemaker.CfnEndpointConfig.RoutingConfigProperty(
            routing_strategy="LEAST_OUTSTANDING_REQUESTS"
        ),
    )


def _rollout(
    deployment: EndpointDeployment, alarms: EndpointAlarms
) -> sagemaker.CfnEndpoint.DeploymentConfigProperty:
    endpoint = deployment.endpoint
    return sagemaker.CfnEndpoint.DeploymentConfigProperty(
        blue_green_update_policy=sagemaker.CfnEndpoint.BlueGreenUpdatePolicyProperty(
            traffic_routing_configuration=sagemaker.CfnEndpoint.TrafficRoutingConfigProperty(
                type="ALL_AT_ONCE",
                # Required by the API, though there is no second step to wait for.
                wait_interval_in_seconds=0,
            ),
            termination_wait_in_seconds=_BAKING_S,
            maximum_execution_timeout_in_seconds=(
                _MACHINES_S
                + (endpoint.download_timeout_s or 600)
                + (endpoint.startup_timeout_s or 600)
                + _BAKING_S
            ),
        ),
        auto_rollback_configuration=sagemaker.CfnEndpoint.AutoRollbackConfigProperty(
            alarms=[
                sagemaker.CfnEndpoint.AlarmProperty(alarm_name=name)
                for name in alarms.names(("latency-p99", "server-errors"))
            ]
        ),
    )
