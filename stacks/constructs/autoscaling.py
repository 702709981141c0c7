"""Follows the load: so many machines that each carries the invocations it was measured to carry."""

from __future__ import annotations

from aws_cdk import aws_applicationautoscaling as autoscaling
from constructs import Construct, IDependable

from catalog.endpoints import ServingOptions
from stacks.watched import Watched, WatchedVariant


class Autoscaling(Construct):
    """Target tracking on invocations per machine and minute."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        watched: Watched,
        options: ServingOptions,
        endpoint: IDependable,
    ) -> None:
        super().__init__(scope, construct_id)
        for variant in watched.variants:
            if variant.scaling.varies:
                self._follow(watched.endpoint_name, variant, options, endpoint)

    def _follow(
        self, endpoint_name: str, variant: WatchedVariant, options: ServingOptions, endpoint: IDependable
    ) -> None:
        target = autoscaling.CfnScalableTarget(
            self,
            "Target",
            service_namespace="sagemaker",
            scalable_dimension="sagemaker:variant:DesiredInstanceCount",
            resource_id=f"endpoint/{endpoint_name}/variant/{variant.name}",
            min_capacity=variant.scaling.min_instances,
            max_capacity=variant.scaling.max_instances,
        )
        # The resource id is text, so nothing else says that the endpoint must exist first.
        target.node.add_dependency(endpoint)
        tracking = autoscaling.CfnScalingPolicy.TargetTrackingScalingPolicyConfigurationProperty(
            target_value=options.measures["invocations_per_instance"],
            scale_out_cooldown=variant.scaling.scale_out_cooldown_s,
            scale_in_cooldown=variant.scaling.scale_in_cooldown_s,
            predefined_metric_specification=(
                autoscaling.CfnScalingPolicy.PredefinedMetricSpecificationProperty(
                    predefined_metric_type="SageMakerVariantInvocationsPerInstance"
                )
            ),
        )
        autoscaling.CfnScalingPolicy(
            self,
            "Policy",
            policy_name=f"{endpoint_name}-invocations",
            policy_type="TargetTrackingScaling",
            scaling_target_id=target.ref,
            target_tracking_scaling_policy_configuration=tracking,
        )
