"""Check each aspect of an endpoint against its template. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tritonstack.operate.shared.running import SERVING
from tritonstack.operate.synth.assembly import Properties
from tritonstack.operate.verify.checks import (
    Check,
    PropertyComparison,
    describe_differences,
    range_text,
    shortened,
)
from tritonstack.operate.verify.expectations import ExpectedEndpoint, Unknown
from tritonstack.operate.verify.live import Described, LiveEndpoint

# Scheduled actions overwrite the registered limits, so either limits are accepted.


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


_UNDER_WAY = {
    "Creating": "the endpoint is being created",
    "Updating": "an update is in progress",
    "RollingBack": "an update is being rolled back",
    "Deleting": "the endpoint is being deleted",
}
HEALTH = "health"
"""Problems that can occur although the endpoint matches its template."""


def endpoint_checks(expected: ExpectedEndpoint, live: LiveEndpoint) -> list[Check]:
    """Return all checks of an endpoint."""
    if live.described is None:
        return [Check("endpoint", (f"endpoint {expected.name} does not exist",))]
    checks = [
        _endpoint(expected, live.described),
        _configuration(expected, live),
        _models(expected, live),
        _machines(expected, live.described),
    ]
    if expected.component is not None:
        checks.append(_component(expected, expected.component, live.component))
    if expected.names:
        checks.append(_names(expected, live))
    return [
        *checks,
        _rollout(expected, live),
        scaling_check(expected, live),
        _alarms(expected, live),
        _health(expected, live),
    ]


def firing_alarms(expected: ExpectedEndpoint, live: LiveEndpoint) -> list[str]:
    """Return the endpoint's alarms in state ALARM."""
    return [name for name in expected.alarms if live.alarms.get(name, {}).get("StateValue") == "ALARM"]


def _endpoint(expected: ExpectedEndpoint, described: Described) -> Check:
    status, active = described["EndpointStatus"], described["EndpointConfigName"]
    reason, expected_config = described.get("FailureReason", ""), expected.properties["EndpointConfigName"]
    because = f": {reason}" if reason else ""
    failures, notes = [], []
    if status in _UNDER_WAY:
        failures.append(f"{_UNDER_WAY[status]} ({status}){because}")
    elif status not in SERVING:
        failures.append(f"its status is {status}{because}")
    if isinstance(expected_config, Unknown):
        failures.append(f"it uses configuration {active}, which its stack did not create")
    elif active.lower() != expected_config.lower():
        failures.append(_other_config(active, expected_config, reason))
    elif status == "InService" and reason:
        notes.append(f"an update failed: {reason}")
    if status == "SystemUpdating":
        notes.append("SageMaker is maintaining its instances")
    return Check("endpoint", tuple(failures), tuple(notes), f"{status} with {active}", compared=2)


def _other_config(active: str, expected: str, reason: str) -> str:
    message = f"it uses configuration {active} instead of {expected}"
    if reason:
        return f"{message}: the update was rolled back; InService on its previous configuration: {reason}"
    return f"{message}: it was changed outside its stack, or its update was rolled back"


def _configuration(expected: ExpectedEndpoint, live: LiveEndpoint) -> Check:
    if live.config is None:
        return Check("configuration", ("its active configuration has been deleted",))
    comparison = PropertyComparison()
    comparison.compare(expected.config, live.config, "")
    types = dict.fromkeys(str(variant.get("InstanceType")) for variant in expected.variants.values())
    detail = f"{', '.join(expected.variants)} on {', '.join(types)}"
    check = Check.of("configuration", comparison, detail=detail)
    enabled = expected.config.get("DataCaptureConfig", {}).get("EnableCapture", False)
    status = (live.described or {}).get("DataCaptureConfig", {}).get("CaptureStatus", "Started")
    if not enabled or status == "Started":
        return check
    return replace(check, failures=(*check.failures, f"data capture is {status}, expected Started"))


def _models(expected: ExpectedEndpoint, live: LiveEndpoint) -> Check:
    comparison, failures = PropertyComparison(), []
    for holder, expected_model in expected.models.items():
        model = live.models.get(holder)
        if model is None:
            failures.append(f"{holder}: its model has been deleted")
        else:
            comparison.compare(expected_model, model, f"{holder}: ")
    detail = shortened(", ".join(_served(expected)))
    check = Check.of("models", comparison, failures, detail=detail, others=len(expected.models))
    return replace(check, failures=(*check.failures, *_image_failures(expected, live.described or {})))


def _served(expected: ExpectedEndpoint) -> Iterator[str]:
    for url in dict.fromkeys(
        str(_container(model).get("ModelDataUrl", "")) for model in expected.models.values()
    ):
        match = re.search(r"/models/([^/]+)/([0-9a-f]{64})/", url)
        yield f"{match[1]} {match[2]}" if match else "models at its model prefix"


def _image_failures(expected: ExpectedEndpoint, described: Described) -> Iterator[str]:
    """Check the running images, which were resolved when the instances started."""
    for variant in _live_variants(described):
        name = variant["VariantName"]
        expected_image = str(_container(expected.models.get(name, {})).get("Image", ""))
        for image in variant.get("DeployedImages", ()) if expected_image else ():
            specified, resolved = image.get("SpecifiedImage", expected_image), image.get("ResolvedImage", "")
            if specified != expected_image:
                yield f"{name}: its instances run image {specified}, expected {expected_image}"
            elif "@" in expected_image and resolved and _digest(resolved) != _digest(expected_image):
                yield f"{name}: its instances run image {resolved}, expected {expected_image}"


def _digest(image: str) -> str:
    return image.partition("@")[2]


def _machines(expected: ExpectedEndpoint, described: Described) -> Check:
    failures, notes, compared = [], [], []
    for variant in _live_variants(described):
        name = variant["VariantName"]
        expected_variant = expected.variants.get(name)
        if expected_variant is None:
            continue  # reported by the configuration check
        desired = int(variant.get("DesiredInstanceCount", variant.get("CurrentInstanceCount", 0)))
        current = int(variant.get("CurrentInstanceCount", desired))
        least, most = limits(expected, name)
        if not least <= desired <= most:
            failures.append(f"{name}: {desired} instances, expected {range_text(least, most)}")
        elif current == 0 and least > 0:
            failures.append(f"{name}: 0 of {desired} instances are running")
        elif current != desired:
            notes.append(f"{name}: {current} of {desired} instances are running")
        failures += _weight_failures(name, expected_variant, variant)
        compared.append(f"{name} {current} ({range_text(least, most)})")
    return Check("machines", tuple(failures), tuple(notes), ", ".join(compared), compared=2 * len(compared))


def _weight_failures(name: str, expected: Properties, variant: Described) -> Iterator[str]:
    weight, now = expected.get("InitialVariantWeight"), variant.get("CurrentWeight")
    if weight is not None and now is not None and abs(float(weight) - float(now)) > 1e-6:
        yield f"{name}: its weight is {now:g}, expected {weight:g}"


def _component(expected: ExpectedEndpoint, properties: Properties, component: Described | None) -> Check:
    name = properties["InferenceComponentName"]
    if component is None:
        return Check("component", (f"inference component {name} does not exist",))
    comparison, failures = PropertyComparison(), []
    comparison.compare(
        {key: item for key, item in properties.items() if key != "RuntimeConfig"}, component, ""
    )
    status, reason = component.get("InferenceComponentStatus"), component.get("FailureReason", "")
    if status != "InService":
        failures.append(f"its status is {status}{f': {reason}' if reason else ''}")
    copies = component.get("RuntimeConfig", {}).get("DesiredCopyCount", 0)
    target = expected.targets.get(f"inference-component/{name}")
    if target is not None:
        least, most = span(target)
    else:
        least = most = int(properties["RuntimeConfig"]["CopyCount"])
    if not least <= copies <= most:
        failures.append(f"{copies} copies, expected {range_text(least, most)}")
    detail = f"{status}, {copies} copies ({range_text(least, most)})"
    return Check.of("component", comparison, failures, detail=detail, others=2)


def _rollout(expected: ExpectedEndpoint, live: LiveEndpoint) -> Check:
    """Check the strategy of the last update; the next update uses the stack's strategy."""
    holder = live.component if expected.component is not None else live.described
    last = (holder or {}).get("LastDeploymentConfig")
    comparison = PropertyComparison()
    if last is not None:
        comparison.compare(expected.rollout, last, "")
    notes = tuple(
        f"the last update used another strategy than the next one will: {difference}"
        for difference in describe_differences(comparison.differences)
    )
    alarms = expected.rollback_alarms
    failures = tuple(f"rollback alarm {name} does not exist" for name in alarms if name not in live.alarms)
    detail = f"automatic rollback on {len(alarms)} alarms" if alarms else "no rollback alarms"
    return Check("rollout", failures, notes, detail, comparison.compared + len(alarms), comparison.skipped)


def _names(expected: ExpectedEndpoint, live: LiveEndpoint) -> Check:
    """Check that callers find the model names that the template publishes."""
    failures = []
    for parameter, value in expected.names.items():
        names = live.names.get(parameter)
        if names is None:
            failures.append(f"the parameter {parameter} with model names does not exist")
        elif names != value:
            failures.append(f"the model names in the parameter {parameter} differ from the template")
    path = next(iter(expected.names)).rpartition("/")[0]
    return Check("names", tuple(failures), detail=f"published at {path}", compared=len(expected.names))


def _alarms(expected: ExpectedEndpoint, live: LiveEndpoint) -> Check:
    """Check that each alarm exists, evaluates the right metric, and has actions enabled."""
    comparison, failures = PropertyComparison(), []
    for name, expected_alarm in expected.alarms.items():
        alarm = live.alarms.get(name)
        if alarm is None:
            failures.append(f"alarm {name} does not exist")
        else:
            comparison.compare({"ActionsEnabled": True, **expected_alarm}, alarm, f"{name}: ")
    detail = str(len(expected.alarms)) if expected.alarms else "none expected"
    return Check.of("alarms", comparison, failures, detail=detail, others=len(expected.alarms))


def _health(expected: ExpectedEndpoint, live: LiveEndpoint) -> Check:
    failures = tuple(
        f"{name} is in ALARM: {live.alarms[name].get('StateReason', 'no reason given')}"
        for name in firing_alarms(expected, live)
    )
    quiet = len(expected.alarms) - len(failures)
    return Check(HEALTH, failures, detail=f"{quiet} of {len(expected.alarms)} alarms are not in ALARM")


def _live_variants(described: Described) -> Iterator[Described]:
    yield from described.get("ProductionVariants", ())
    yield from described.get("ShadowProductionVariants", ())


def _container(model: Properties) -> Mapping[str, Any]:
    container: Mapping[str, Any] = model.get("PrimaryContainer", {})
    return container
