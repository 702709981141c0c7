"""CloudFormation deployment configurations for endpoints and inference components."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_sagemaker as sagemaker

from tritonstack.base.error_kinds import ConstructError
from tritonstack.files.endpoint.rollouts import (
    MOST_ROLLBACK_ALARMS,
    AlarmId,
    AllAtOnce,
    Canary,
    Linear,
    Rolling,
    longest_rollout_s,
)

Endpoint = sagemaker.CfnEndpoint
Component = sagemaker.CfnInferenceComponent


def rollback_ids(rollout: AllAtOnce | Canary | Linear | Rolling, *, multi_model: bool) -> Sequence[AlarmId]:
    """Return the kinds of alarms that trigger a rollback."""
    if rollout.roll_back_on is not None:
        return rollout.roll_back_on
    # In multi-model mode, Triton reports its own errors as 400.
    return ("latency-p99", "server-errors", *(("client-errors",) if multi_model else ()))


def check_rollback_names(names: Sequence[str]) -> None:
    """Reject more alarms than SageMaker accepts."""
    if len(names) > MOST_ROLLBACK_ALARMS:
        raise ConstructError(
            (
                f"{len(names)} rollback alarms, one per production variant and kind; SageMaker accepts at "
                f"most {MOST_ROLLBACK_ALARMS}"
            ),
            remedy="list fewer kinds in roll_back_on",
        )


def endpoint_deployment(
    rollout: AllAtOnce | Canary | Linear | Rolling, *, starting_s: int, alarm_names: Sequence[str]
) -> Endpoint.DeploymentConfigProperty:
    """Return the deployment configuration of an endpoint whose containers take `starting_s` to start."""
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
    rollout: AllAtOnce | Canary | Linear | Rolling,
    *,
    batch_copies: int,
    starting_s: int,
    alarm_names: Sequence[str],
) -> Component.InferenceComponentDeploymentConfigProperty:
    """Return the deployment configuration of an inference component: copies are replaced in batches.

    A batch is a number of copies: SageMaker does not document how it rounds half of one copy.
    """
    if not isinstance(rollout, Rolling):
        raise ConstructError(
            f"inference components support the rolling strategy only, got {rollout.strategy!r}",
            remedy="set the rollout strategy to rolling, or omit rollout",
        )
    return Component.InferenceComponentDeploymentConfigProperty(
        rolling_update_policy=Component.InferenceComponentRollingUpdatePolicyProperty(
            maximum_batch_size=Component.InferenceComponentCapacitySizeProperty(
                type="COPY_COUNT", value=batch_copies
            ),
            wait_interval_in_seconds=rollout.wait_s,
            maximum_execution_timeout_in_seconds=longest_rollout_s(
                # Three copies make three batches, not two.
                rollout.model_copy(update={"batch_percent": min(rollout.batch_percent, 33)}),
                starting_s=starting_s,
            ),
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
    # The API requires the wait, although there is no second step.
    return Endpoint.TrafficRoutingConfigProperty(type="ALL_AT_ONCE", wait_interval_in_seconds=0)


def _percent(value: int) -> Endpoint.CapacitySizeProperty:
    return Endpoint.CapacitySizeProperty(type="CAPACITY_PERCENT", value=value)
