"""How an update reaches an endpoint or an inference component, in CloudFormation's words."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_sagemaker as sagemaker

from tritonstack.base.errors import UsageError
from tritonstack.spec.endpoints.rollouts import AlarmId, AllAtOnce, Canary, Linear, Rolling, longest_rollout_s

Endpoint = sagemaker.CfnEndpoint
Component = sagemaker.CfnInferenceComponent

MOST_ROLLBACK_ALARMS = 10
"""SageMaker watches no more than these in one update."""


def rollback_ids(rollout: AllAtOnce | Canary | Linear | Rolling, *, multi_model: bool) -> Sequence[AlarmId]:
    """The kinds of alarms that take an update back."""
    if rollout.roll_back_on is not None:
        return rollout.roll_back_on
    # Triton answers its own faults with 400 in multi-model mode.
    return ("latency-p99", "server-errors", *(("client-errors",) if multi_model else ()))


def check_rollback_names(names: Sequence[str]) -> None:
    """Refuse more alarms than SageMaker watches."""
    if len(names) > MOST_ROLLBACK_ALARMS:
        raise UsageError(
            f"{len(names)} alarms would take an update back, one a production variant and kind; SageMaker "
            f"watches at most {MOST_ROLLBACK_ALARMS}",
            remedy="name fewer kinds in roll_back_on",
        )


def endpoint_deployment(
    rollout: AllAtOnce | Canary | Linear | Rolling, *, starting_s: int, alarm_names: Sequence[str]
) -> Endpoint.DeploymentConfigProperty:
    """The deployment configuration of an endpoint whose containers need `starting_s` to start."""
    limit_s = longest_rollout_s(rollout, starting_s=starting_s)
    rollback = (
        Endpoint.AutoRollbackConfigProperty(
            alarms=[Endpoint.AlarmProperty(alarm_name=name) for name in alarm_names]
        )
        if alarm_names
        else None
    )
    if isinstance(rollout, Rolling):
        return Endpoint.DeploymentConfigProperty(
            rolling_update_policy=Endpoint.RollingUpdatePolicyProperty(
                maximum_batch_size=_percent(rollout.batch_percent),
                wait_interval_in_seconds=rollout.wait_s,
                maximum_execution_timeout_in_seconds=limit_s,
            ),
            auto_rollback_configuration=rollback,
        )
    return Endpoint.DeploymentConfigProperty(
        blue_green_update_policy=Endpoint.BlueGreenUpdatePolicyProperty(
            traffic_routing_configuration=_traffic(rollout),
            termination_wait_in_seconds=rollout.bake_s,
            maximum_execution_timeout_in_seconds=limit_s,
        ),
        auto_rollback_configuration=rollback,
    )


def component_deployment(
    rollout: AllAtOnce | Canary | Linear | Rolling, *, starting_s: int, alarm_names: Sequence[str]
) -> Component.InferenceComponentDeploymentConfigProperty:
    """The deployment configuration of an inference component: its copies are replaced in batches."""
    if not isinstance(rollout, Rolling):
        raise UsageError(
            f"the copies of an inference component are replaced in batches, not {rollout.strategy}",
            remedy="choose the rolling rollout, or none",
        )
    return Component.InferenceComponentDeploymentConfigProperty(
        rolling_update_policy=Component.InferenceComponentRollingUpdatePolicyProperty(
            maximum_batch_size=Component.InferenceComponentCapacitySizeProperty(
                type="CAPACITY_PERCENT", value=rollout.batch_percent
            ),
            wait_interval_in_seconds=rollout.wait_s,
            maximum_execution_timeout_in_seconds=longest_rollout_s(rollout, starting_s=starting_s),
        ),
        auto_rollback_configuration=(
            Component.AutoRollbackConfigurationProperty(
                alarms=[Component.AlarmProperty(alarm_name=name) for name in alarm_names]
            )
            if alarm_names
            else None
        ),
    )


def _traffic(rollout: AllAtOnce | Canary | Linear) -> Endpoint.TrafficRoutingConfigProperty:
    if isinstance(rollout, Canary):
        return Endpoint.TrafficRoutingConfigProperty(
            type="CANARY", canary_size=_percent(rollout.percent), wait_interval_in_seconds=rollout.wait_s
        )
    if isinstance(rollout, Linear):
        return Endpoint.TrafficRoutingConfigProperty(
            type="LINEAR",
            linear_step_size=_percent(rollout.step_percent),
            wait_interval_in_seconds=rollout.wait_s,
        )
    # The wait is required by the API, though there is no second step to wait for.
    return Endpoint.TrafficRoutingConfigProperty(type="ALL_AT_ONCE", wait_interval_in_seconds=0)


def _percent(value: int) -> Endpoint.CapacitySizeProperty:
    return Endpoint.CapacitySizeProperty(type="CAPACITY_PERCENT", value=value)
