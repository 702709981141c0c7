"""Rules of Application Auto Scaling for SageMaker: alarms, metrics, cooldowns, and activities.

Facts, and the rule of step adjustments. The local cloud and the simulator implement the rest independently
of each other.

Sources:

* TRACKING: https://docs.aws.amazon.com/autoscaling/application/userguide/target-tracking-scaling-policy-overview.html
* STEPS: https://docs.aws.amazon.com/autoscaling/application/userguide/step-scaling-policy-overview.html
* BOUNDS: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_StepAdjustment.html
* AGGREGATION: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_StepScalingPolicyConfiguration.html
* POLICIES: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-add-code-define.html
* SCALE-IN: doc_source/endpoint-auto-scaling-edit.md of awsdocs/amazon-sagemaker-developer-guide, archived;
  the current page does not mention it.
* METRICS: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
* API: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_DescribeScalingActivities.html
* OBSERVED: not documented; read from alarms and activities that AWS created.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

VARIANT_DIMENSION = "sagemaker:variant:DesiredInstanceCount"
COPY_DIMENSION = "sagemaker:inference-component:DesiredCopyCount"


@dataclass(frozen=True, kw_only=True)
class ScalingAlarmRule:
    """An alarm of a target tracking policy: every evaluated datapoint must breach."""

    comparison: str
    period_s: int
    datapoints: int
    """Datapoints to alarm, and evaluation periods."""
    factor: float
    """Threshold as a factor of the target value."""

    @property
    def seconds(self) -> int:
        """The shortest time a metric must breach."""
        return self.period_s * self.datapoints


HIGH_ALARM = ScalingAlarmRule(comparison="GreaterThanThreshold", period_s=60, datapoints=3, factor=1.0)
"""Scale out: metric > target for 3 datapoints within 3 minutes. OBSERVED; TRACKING: "above the target"."""
HIGH_RESOLUTION_HIGH_ALARM = ScalingAlarmRule(
    comparison="GreaterThanThreshold", period_s=10, datapoints=3, factor=1.0
)
"""Scale out on a high-resolution metric. POLICIES documents one datapoint per 10 seconds and a faster
scale-out than with standard metrics. The number of datapoints is not documented: assumed as HIGH_ALARM.
"""
LOW_ALARM = ScalingAlarmRule(comparison="LessThanThreshold", period_s=60, datapoints=15, factor=0.9)
"""Scale in: metric < 90 % of the target for 15 datapoints within 15 minutes. OBSERVED; TRACKING: "usually
more than 10% lower". High-resolution metrics scale in "at the same speed as standard metrics" (POLICIES).

TRACKING: no scale-in if removing one unit would likely bring the metric back above the target.
"""
TREAT_MISSING_DATA = "missing"
"""A metric without datapoints leaves the alarm in INSUFFICIENT_DATA: no scaling, no scale-in (TRACKING).

Without traffic, InvocationsPerInstance still has datapoints: SageMaker publishes zeros, and the variant
scales in to its minimum (SCALE-IN).
"""
STEP_AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "Average": fmean,
    "Minimum": min,
    "Maximum": max,
}
"""MetricAggregationType of a step scaling policy; the default is Average (AGGREGATION).

It applies to all datapoints that the alarm evaluated (the CDK's documentation of `metricAggregationType`).
"""


def step_covers(breach: float, *, lower: float | None, upper: float | None, rises: bool) -> bool:
    """Return whether a step adjustment covers a breach: the aggregated metric minus the alarm's threshold.

    The bound nearer to the threshold is inclusive, and the other one exclusive (BOUNDS). A metric at the
    threshold is above it for alarms that compare with > or >= (`rises`).
    """
    above = breach > 0 or (breach == 0 and rises)
    over = lower is None or breach > lower or (above and breach == lower)
    under = upper is None or breach < upper or (not above and breach == upper)
    return over and under


@dataclass(frozen=True, kw_only=True)
class PredefinedMetric:
    """The CloudWatch metric of a predefined metric type."""

    namespace: str
    name: str
    statistic: str
    dimension: str
    """The scalable dimension it belongs to."""
    high: ScalingAlarmRule = HIGH_ALARM
    low: ScalingAlarmRule = LOW_ALARM


PREDEFINED_METRICS: Mapping[str, PredefinedMetric] = {
    # METRICS: "1/numberOfInstances is sent as the value on each request"; the valid statistic is Sum.
    "SageMakerVariantInvocationsPerInstance": PredefinedMetric(
        namespace="AWS/SageMaker",
        name="InvocationsPerInstance",
        statistic="Sum",
        dimension=VARIANT_DIMENSION,
    ),
    # POLICIES: ConcurrentRequestsPerModel, every 10 seconds. The statistic is not documented: Maximum.
    "SageMakerVariantConcurrentRequestsPerModelHighResolution": PredefinedMetric(
        namespace="AWS/SageMaker",
        name="ConcurrentRequestsPerModel",
        statistic="Maximum",
        dimension=VARIANT_DIMENSION,
        high=HIGH_RESOLUTION_HIGH_ALARM,
    ),
    "SageMakerInferenceComponentInvocationsPerCopy": PredefinedMetric(
        namespace="AWS/SageMaker",
        name="InvocationsPerCopy",
        statistic="Sum",
        dimension=COPY_DIMENSION,
    ),
    "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution": PredefinedMetric(
        namespace="AWS/SageMaker",
        name="ConcurrentRequestsPerCopy",
        statistic="Maximum",
        dimension=COPY_DIMENSION,
        high=HIGH_RESOLUTION_HIGH_ALARM,
    ),
}
"""By PredefinedMetricType."""

PROVISIONING_S = 240.0
"""Seconds from a scaling decision until the instance starts its container.

Not documented: users report 3 to 5 minutes.
"""

DEFAULT_COOLDOWN_S = 300
"""Scale-out, scale-in, and step cooldown of endpoint variants and inference components (TRACKING, STEPS).

TRACKING: a scale-out cooldown starts when a scale-out succeeds; until it ends, the policy adds capacity only
if a larger scale-out is triggered, and the capacity already added counts towards it. A scale-in cooldown
starts when a scale-in has completed, and blocks further scale-ins; a scale-out is not blocked and ends it.
Scheduled actions wait for no cooldown.
"""
HISTORY_DAYS = 42
"""DescribeScalingActivities returns the previous six weeks (API)."""
