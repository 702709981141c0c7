"""Create the log group of an endpoint's containers and its Triton error metrics."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from constructs import Construct

from tritonstack.constructs.data.stored_values import log_group
from tritonstack.constructs.monitoring.monitored import FILTER_PATTERNS, Monitored, log_count


class EndpointLog(Construct):
    """Create the log group before the endpoint does, to set its retention."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        monitored: Monitored,
        retention_days: int,
        removal: cdk.RemovalPolicy,
        key_arn: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        group = log_group(
            self,
            name=monitored.log_group_name,
            retention_days=retention_days,
            key_arn=key_arn,
            removal=removal,
        )
        for count, pattern in FILTER_PATTERNS.items():
            metric = log_count(monitored, count).metric
            logs.CfnMetricFilter(
                self,
                count.value,
                log_group_name=group,
                filter_name=count.value,
                filter_pattern=pattern,
                metric_transformations=[
                    logs.CfnMetricFilter.MetricTransformationProperty(
                        metric_namespace=metric.namespace,
                        metric_name=metric.name,
                        metric_value="1",
                        # Publish 0 when nothing matches, so alarms are OK rather than without data.
                        default_value=0,
                        unit="Count",
                    )
                ],
            )
