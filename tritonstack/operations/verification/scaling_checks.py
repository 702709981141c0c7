"""Check an endpoint's scaling against its template. Pure.

Scheduled actions overwrite the registered limits, so either limits are accepted.
"""

from __future__ import annotations

from collections.abc import Iterator

from tritonstack.operations.deploying.endpoint_template import Properties
from tritonstack.operations.verification.checks import Check, range_text
from tritonstack.operations.verification.comparing import PropertyComparison
from tritonstack.operations.verification.expectations import ExpectedEndpoint
from tritonstack.operations.verification.live import Described, LiveEndpoint


def scaling_check(expected: ExpectedEndpoint, live: LiveEndpoint) -> Check:
    """Check targets, limits, policies, and schedules."""
    comparison, failures = PropertyComparison(), []
    for resource_id, target in expected.targets.items():
        registered = live.targets.get(resource_id)
        if registered is None:
            failures.append(f"{_described(resource_id)}: not registered for scaling")
            continue
        failures += _limit_failures(resource_id, target, registered)
        expected_actions = {item["ScheduledActionName"]: item for item in target.get("ScheduledActions", ())}
        found_actions = {item["ScheduledActionName"]: item for item in live.schedules.get(resource_id, ())}
        _compare_named(comparison, expected_actions, found_actions, f"{_described(resource_id)}: schedule")
    failures += [
        f"{_described(resource_id)}: registered for scaling, expected none"
        for resource_id in live.targets
        if resource_id not in expected.targets
    ]
    _compare_named(
        comparison,
        {
            f"{_described(key[0])}: {key[1]}": _without_target(policy)
            for key, policy in expected.policies.items()
        },
        {f"{_described(key[0])}: {key[1]}": policy for key, policy in live.policies.items()},
        "policy",
    )
    spans = [f"{_described(name)} {range_text(*span(target))}" for name, target in expected.targets.items()]
    detail = ", ".join(spans) or "none expected"
    # Two more checks per target: its limits, and that scaling is not suspended.
    return Check.of("scaling", comparison, failures, detail=detail, others=2 * len(expected.targets))


def limits(expected: ExpectedEndpoint, variant: str) -> tuple[int, int]:
    """Return the minimum and maximum instance count of a variant at any time."""
    target = expected.targets.get(f"endpoint/{expected.name}/variant/{variant}")
    properties = expected.variants[variant]
    if target is not None:
        return span(target)
    managed = properties.get("ManagedInstanceScaling", {})
    if managed.get("Status") == "ENABLED":
        return int(managed["MinInstanceCount"]), int(managed["MaxInstanceCount"])
    count = int(properties.get("InitialInstanceCount", 1))
    return count, count


def span(target: Properties) -> tuple[int, int]:
    """Return the minimum and maximum of a target at any time."""
    lows, highs = zip(*_allowed(target), strict=True)
    return min(lows), max(highs)


def _allowed(target: Properties) -> list[tuple[int, int]]:
    """Return all valid limits of a target: its own and those of its schedules."""
    actions = [item["ScalableTargetAction"] for item in target.get("ScheduledActions", ())]
    return [(int(item["MinCapacity"]), int(item["MaxCapacity"])) for item in (target, *actions)]


def _limit_failures(resource_id: str, target: Properties, live: Described) -> Iterator[str]:
    now = (int(live["MinCapacity"]), int(live["MaxCapacity"]))
    if now not in _allowed(target):
        allowed = " or ".join(dict.fromkeys(range_text(*pair) for pair in _allowed(target)))
        yield f"{_described(resource_id)} scales from {now[0]} to {now[1]}, expected {allowed}"
    suspended = [name for name, value in live.get("SuspendedState", {}).items() if value]
    if suspended:
        yield f"{_described(resource_id)}: scaling is suspended: {', '.join(suspended)}"


def _compare_named(
    comparison: PropertyComparison, expected: dict[str, Properties], live: dict[str, Described], label: str
) -> None:
    expected_items, live_items = (
        [{**item, "Name": name} for name, item in side.items()] for side in (expected, live)
    )
    comparison.compare(expected_items, live_items, label)


def _without_target(policy: Properties) -> Properties:
    """The policy was found by its target, so the target is not compared."""
    return {key: value for key, value in policy.items() if key != "ScalingTargetId"}


def _described(resource_id: str) -> str:
    """Return a scalable target in words: a variant, or copies."""
    return "the copies" if resource_id.startswith("inference-component/") else resource_id.rpartition("/")[2]
