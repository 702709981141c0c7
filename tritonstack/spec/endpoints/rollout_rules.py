"""Rules for rollouts: instance counts, variants, and alarms limit the strategies."""

from __future__ import annotations

from collections.abc import Iterator

from tritonstack.base.error_kinds import ScalingError
from tritonstack.base.yaml import Violation
from tritonstack.spec.endpoints.alarms import FIELDS
from tritonstack.spec.endpoints.endpoint_rules import RuledEndpoint
from tritonstack.spec.endpoints.rollouts import LONGEST_ROLLOUT_S, AlarmId, AllAtOnce, Canary, Linear, Rolling

_MOST_ROLLBACK_ALARMS = 10


def rollout_violations(endpoint: RuledEndpoint) -> Iterator[Violation]:
    """Yield rollouts that SageMaker would reject or never finish."""
    rollout = endpoint.options.rollout
    if rollout is None:
        return
    if endpoint.options.components and not isinstance(rollout, Rolling):
        yield ScalingError.at(
            ("rollout", "strategy"),
            "inference components support rolling updates only",
            "write `strategy: rolling`, or omit rollout",
        )
        return
    yield from _too_few_machines(endpoint, rollout)
    yield from _too_long(rollout)
    if isinstance(rollout, Rolling) and len(endpoint.variants) > 1:
        yield ScalingError.at(
            ("rollout", "strategy"),
            f"SageMaker supports rolling updates only with one variant, but there is a "
            f"{endpoint.variants[1].name}",
            "choose all-at-once, canary or linear",
        )
    yield from _missing_alarms(endpoint, rollout.roll_back_on or ())


def _too_few_machines(
    endpoint: RuledEndpoint, rollout: AllAtOnce | Canary | Linear | Rolling
) -> Iterator[Violation]:
    """Each part must be at least one instance; SageMaker does not document its rounding."""
    if isinstance(rollout, AllAtOnce) or endpoint.options.components:
        return
    field = {"canary": "percent", "linear": "step_percent", "rolling": "batch_percent"}[rollout.strategy]
    percent: int = getattr(rollout, field)
    for variant in endpoint.variants:
        least = variant.scaling.lowest
        path = ".".join(map(str, endpoint.scaling_path(variant)))
        if least < 2:
            yield ScalingError.at(
                ("rollout", "strategy"),
                f"a {rollout.strategy} rollout needs at least 2 instances, but {path} allows only {least}",
                f"raise min_instances (and min of schedules) of {path} to 2, or choose all-at-once",
            )
        elif percent * least < 100:
            enough = -(-100 // least)
            yield ScalingError.at(
                ("rollout", field),
                f"{percent} % of {path}'s minimum of {least} instances is less than one instance",
                f"write {enough} or more",
            )


def _too_long(rollout: AllAtOnce | Canary | Linear | Rolling) -> Iterator[Violation]:
    """Yield rollouts whose waits alone exceed SageMaker's time limit."""
    if rollout.shifting_s >= LONGEST_ROLLOUT_S:
        yield ScalingError.at(
            ("rollout",),
            f"the waits of this rollout take {rollout.shifting_s:,} s, but SageMaker's limit is "
            f"{LONGEST_ROLLOUT_S:,} s",
            "use larger parts or shorter waits",
        )


def _missing_alarms(endpoint: RuledEndpoint, alarms: tuple[AlarmId, ...]) -> Iterator[Violation]:
    for index, alarm in enumerate(alarms):
        reason = _missing(endpoint, alarm)
        if reason:
            remedy = "remove it, or set the alarm's threshold" if "null" in reason else "remove it"
            yield ScalingError.at(
                ("rollout", "roll_back_on", index), f"unavailable alarm {alarm!r}: {reason}", remedy
            )
    names = len(alarms) * len(endpoint.production)
    if names > _MOST_ROLLBACK_ALARMS:
        yield ScalingError.at(
            ("rollout", "roll_back_on"),
            f"{len(alarms)} alarms on {len(endpoint.production)} variants make {names} alarms, but SageMaker "
            f"supports at most {_MOST_ROLLBACK_ALARMS}",
            f"list at most {_MOST_ROLLBACK_ALARMS // len(endpoint.production)} alarms",
        )


def _missing(endpoint: RuledEndpoint, alarm: AlarmId) -> str | None:
    """Return why an endpoint lacks an alarm; None if it has it."""
    if alarm == "gpu-memory" and not any(variant.instance.gpus for variant in endpoint.production):
        return f"{endpoint.variants[0].instance.name} has no GPU"
    if alarm == "overhead-p99" and endpoint.options.asynchronous:
        return "asynchronous endpoints do not publish the overhead metric"
    if alarm == "triton-errors" and len(endpoint.production) < len(endpoint.variants):
        return "the shadow writes to the same log, so its errors would count"
    if alarm == "backlog" and endpoint.options.asynchronous is None:
        return "only asynchronous endpoints have a backlog"
    if endpoint.options.alarms.threshold(alarm) is None:
        return f"alarms.{FIELDS[alarm]} is null or not given"
    return None
