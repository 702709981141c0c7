"""Setups of simulations for tests."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from tritonstack.constructs.endpoint.scaling_plan import ScalingPlan, scaling_plans
from tritonstack.constructs.monitoring.monitored import Monitored, MonitoredVariant
from tritonstack.facts.hardware import INSTANCE_TYPES
from tritonstack.files.endpoint.endpoint import SingleEndpoint
from tritonstack_sizing.loads.arrivals import Trace, count_arrivals, poisson
from tritonstack_sizing.simulation.demand import MONDAY, Demand
from tritonstack_sizing.simulation.serving import TICK_S, ServiceCurve, ServingSetup, TickLoad
from tritonstack_sizing.simulation.simulation import FleetPlan, SimulationSetup, StartTimes

CONSTANT = np.ones(1)
_PROBABILITIES = (np.arange(2000) + 0.5) / 2000
EXPONENTIAL = -np.log(1 - _PROBABILITIES) / -np.log(1 - _PROBABILITIES).mean()
STARTS = StartTimes(provisioning_s=240, loading_s=60)


def curve(service_s: float = 0.1, *, slots: int = 1, shape: Any = CONSTANT) -> ServiceCurve:
    return ServiceCurve("a test", tuple(number / service_s for number in range(1, slots + 1)), shape)


def plan(*, asynchronous: bool = False, **scaling: Any) -> ScalingPlan:
    """The plan that the CDK's constructs make of an endpoint with this `scaling`."""
    data = {
        "kind": "single",
        "model": "minilm",
        "instance_type": "ml.c7i.xlarge",
        "scaling": scaling,
        **({"asynchronous": {}} if asynchronous else {}),
    }
    endpoint = SingleEndpoint.model_validate_json(json.dumps(data))
    main = MonitoredVariant("main", INSTANCE_TYPES["ml.c7i.xlarge"], endpoint.scaling)
    (scaling_plan,) = scaling_plans(Monitored("search", (main,), asynchronous=asynchronous), endpoint)
    return scaling_plan


def setup(scaling: ScalingPlan | None, **changes: Any) -> SimulationSetup:
    usual: dict[str, Any] = {
        "serving": ServingSetup(curve(slots=2), timeout_s=60.0),
        "fleet": FleetPlan(STARTS),
        "initial": 1 if scaling is None else scaling.minimum,
        "price_per_hour": 0.2,
        "units": {"CPUUtilization": 4.0},
    }
    return SimulationSetup(plan=scaling, **{**usual, **changes})


def demand(*parts: tuple[float, float], begin: Any = MONDAY) -> Demand:
    """Parts of so many seconds with so many requests per second."""
    offsets, start = [], 0.0
    for number, (seconds, rate) in enumerate(parts):
        offsets.append(start + poisson(rate, seconds, seed=number).offsets)
        start += seconds
    trace = Trace(np.concatenate(offsets), start)
    return Demand(count_arrivals(trace, step_s=TICK_S), trace.offsets, begin)


def tick(number: int, **load: Any) -> TickLoad:
    usual = {"requests": 0, "instances": 1, "unserved": 0, "concurrency": 0.0, "busy": 0.0, "backlog": 0.0}
    return TickLoad(begin=number * TICK_S, **{**usual, **load})


def changes_of(run: Any) -> Sequence[tuple[float, int, int]]:
    return [(change.at_s, change.before, change.after) for change in run.changes]
