"""Scale instances, or copies of an inference component, by load and by schedule."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_applicationautoscaling as autoscaling
from constructs import Construct, IDependable

from tritonstack.constructs.data.stored_values import number_parameter
from tritonstack.constructs.endpoint.scaling_plan import (
    ScalingPlan,
    ScheduledLimits,
    Stepping,
    Tracking,
    scaling_plans,
)
from tritonstack.constructs.monitoring.endpoint_alarms import add_alarm
from tritonstack.constructs.monitoring.monitored import Metric, Monitored
from tritonstack.files.endpoint.endpoint import ServingOptions
from tritonstack.files.endpoint.scaling import Scaling


class Autoscaling(Construct):
    """Scale every variant with a variable instance count, or the copies of the inference component.

    `endpoint` is the endpoint or inference component, which must exist before its scalable targets.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        monitored: Monitored,
        options: ServingOptions,
        endpoint: IDependable,
    ) -> None:
        super().__init__(scope, construct_id)
        self._prefix = monitored.endpoint_name
        for plan in scaling_plans(monitored, options):
            self._scale(plan, endpoint)

    def _scale(self, plan: ScalingPlan, endpoint: IDependable) -> None:
        target = autoscaling.CfnScalableTarget(
            self,
            f"{plan.id}-target",
            service_namespace="sagemaker",
            scalable_dimension=plan.dimension,
            resource_id=plan.resource_id,
            min_capacity=self._limit(plan, "min", plan.minimum),
            max_capacity=self._limit(plan, "max", plan.maximum),
            scheduled_actions=_scheduled_actions(plan.scheduled),
        )
        # The resource id is a plain string, so the dependency must be explicit.
        target.node.add_dependency(endpoint)
        for tracking in plan.tracked:
            self._track(plan, tracking, target.ref)
        for stepping in plan.stepped:
            self._step(plan, stepping, target.ref)

    def _limit(self, plan: ScalingPlan, end: str, limit: int) -> int:
        """Return a limit; with schedules a parameter, which deployments set to the limit in force."""
        if not plan.scheduled:
            return limit
        return number_parameter(self, f"{plan.id}-{end}", limit, "Limit of scaling, of the schedule in force")

    def _track(self, plan: ScalingPlan, tracking: Tracking, target_id: str) -> None:
        name = f"{plan.id}-{tracking.measure.replace('_', '-')}"
        autoscaling.CfnScalingPolicy(
            self,
            name,
            policy_name=f"{self._prefix}-{name}",
            policy_type="TargetTrackingScaling",
            scaling_target_id=target_id,
            target_tracking_scaling_policy_configuration=_tracking_configuration(tracking, plan.scaling),
        )

    def _step(self, plan: ScalingPlan, stepping: Stepping, target_id: str) -> None:
        name = f"{plan.id}-{stepping.id}"
        policy = autoscaling.CfnScalingPolicy(
            self,
            name,
            policy_name=f"{self._prefix}-{name}",
            policy_type="StepScaling",
            scaling_target_id=target_id,
            step_scaling_policy_configuration=(
                autoscaling.CfnScalingPolicy.StepScalingPolicyConfigurationProperty(
                    adjustment_type="ChangeInCapacity",
                    metric_aggregation_type="Average",
                    cooldown=stepping.cooldown_s,
                    step_adjustments=[
                        autoscaling.CfnScalingPolicy.StepAdjustmentProperty(
                            scaling_adjustment=step.change,
                            metric_interval_lower_bound=step.lower,
                            metric_interval_upper_bound=step.upper,
                        )
                        for step in stepping.adjustments
                    ],
                )
            ),
        )
        add_alarm(self, f"{name}-alarm", plan=stepping.alarm, alarm_actions=[policy.ref])


def _scheduled_actions(
    scheduled: Sequence[ScheduledLimits],
) -> list[autoscaling.CfnScalableTarget.ScheduledActionProperty] | None:
    return [
        autoscaling.CfnScalableTarget.ScheduledActionProperty(
            scheduled_action_name=limits.name,
            schedule=limits.schedule,
            timezone=limits.timezone,
            scalable_target_action=autoscaling.CfnScalableTarget.ScalableTargetActionProperty(
                min_capacity=limits.minimum, max_capacity=limits.maximum
            ),
        )
        for limits in scheduled
    ] or None


def _tracking_configuration(
    tracking: Tracking, scaling: Scaling
) -> autoscaling.CfnScalingPolicy.TargetTrackingScalingPolicyConfigurationProperty:
    predefined = (
        autoscaling.CfnScalingPolicy.PredefinedMetricSpecificationProperty(
            predefined_metric_type=tracking.predefined
        )
        if tracking.predefined
        else None
    )
    return autoscaling.CfnScalingPolicy.TargetTrackingScalingPolicyConfigurationProperty(
        target_value=tracking.target,
        scale_out_cooldown=scaling.scale_out_cooldown_s,
        scale_in_cooldown=scaling.scale_in_cooldown_s,
        predefined_metric_specification=predefined,
        customized_metric_specification=_customized(tracking.metric) if tracking.metric else None,
    )


def _customized(metric: Metric) -> autoscaling.CfnScalingPolicy.CustomizedMetricSpecificationProperty:
    return autoscaling.CfnScalingPolicy.CustomizedMetricSpecificationProperty(
        namespace=metric.namespace,
        metric_name=metric.name,
        statistic="Average",
        dimensions=[
            autoscaling.CfnScalingPolicy.MetricDimensionProperty(name=name, value=value)
            for name, value in metric.dimensions
        ],
    )
