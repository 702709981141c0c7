"""Follows the load: so many machines that each carries the invocations it was measured to carry."""

from __future__ import annotations

from aws_cdk import aws_applicationautoscaling as autoscaling
from constructs import Construct

from stacks.constructs.serving_endpoint import ServingEndpoint
from stacks.deployment import VARIANT, EndpointDeployment


class Autoscaling(Construct):
    """Target tracking on invocations per machine and minute."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: EndpointDeployment,
        serving: ServingEndpoint,
    ) -> None:
        super().__init__(scope, construct_id)
        scaling = deployment.endpoint.scaling
        target = autoscaling.CfnScalableTarget(
            self,
            "Target",
            service_namespace="sagemaker",
            scalable_dimension="sagemaker:variant:DesiredInstanceCount",
            resource_id=f"endpoint/{deployment.endpoint_name}/variant/{VARIANT}",
            min_capacity=scaling.min_instances,
            max_capacity=scaling.max_instances,
        )
        # The resource id is text, so nothing else says that the endpoint must exist first.
        target.node.add_dependency(serving.endpoint)
        tracking = autoscaling.CfnScalingPolicy.TargetTrackingScalingPolicyConfigurationProperty(
            target_value=scaling.invocations_per_instance,
            scale_out_cooldown=scaling.scale_out_cooldown_s,
            scale_in_cooldown=scaling.scale_in_cooldown_s,
            predefined_metric_specification=(
                autoscaling.CfnScalingPolicy.PredefinedMetricSpecificationProperty(
                    predefined_metric_type="SageMakerVariantInvocationsPerInstance"
                )
            ),
        )
        autoscaling.CfnScalingPolicy(
            self,
            "Policy",
            policy_name=f"{deployment.endpoint_name}-invocations",
            policy_type="TargetTrackingScaling",
            scaling_target_id=target.ref,
            target_tracking_scaling_policy_configuration=tracking,
        )
