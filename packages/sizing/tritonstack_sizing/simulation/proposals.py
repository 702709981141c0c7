"""Find the cheapest scaling policy that holds an objective."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Annotated

import numpy as np

from tritonstack.base.results import Internal, Key, Shown
from tritonstack.base.yaml import read_text
from tritonstack.files.endpoint.endpoint import MultiModelEndpoint
from tritonstack.files.loading import load_workspace
from tritonstack.files.scaffold.yaml_edits import UneditableFileError, edit_mapping, message_of
from tritonstack.operate.shared.session import Session
from tritonstack_sizing.errors import SearchError
from tritonstack_sizing.simulation.demand import Demand
from tritonstack_sizing.simulation.endpoints import Settings, SimulatedEndpoint
from tritonstack_sizing.simulation.options import ScalingObjective, SimulationOptions
from tritonstack_sizing.simulation.serving import TICK_S, ServiceCurve
from tritonstack_sizing.simulation.simulation import (
    MOST_SLICES,
    ScalingRun,
    simulate_scaling,
)

Evaluate = Callable[[Settings], ScalingRun | None]
"""Simulate the environment's scaling with some keys changed; None if the result would be invalid."""

_UTILIZATIONS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
_CONCURRENCIES = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
"""Targets relative to the slots of an instance."""
_BACKLOGS = (1, 2, 5, 10, 20, 50, 100)
_METRICS = (
    "invocations_per_instance",
    "concurrent_requests_per_model",
    "backlog_per_instance",
    "gpu_utilization_percent",
    "steps",
)
_SCHEDULED = 3
_LEAD_H = 0.5
"""How long before its peak a schedule adds instances."""
_HOURS = 24
_DAY_S = 86_400.0
_PEAK_UTILIZATION = 0.6
_NEARLY = 1.01
"""Costs within 1 % count as equal."""


@dataclass(frozen=True)
class PolicyProposal:
    """A policy, and what it would do."""

    settings: Settings
    run: ScalingRun


@dataclass
class PolicySearch:
    """A search over metrics, targets, minimums, schedules, steps, and cooldowns."""

    evaluate: Evaluate
    objective: ScalingObjective
    demand: Demand
    curve: ServiceCurve
    current: Mapping[str, object]
    """The present values of `scaling`."""
    is_queued: bool
    """Whether the endpoint is asynchronous."""
    evaluated: int = 0
    _held: list[PolicyProposal] = field(default_factory=list)
    _known: dict[str, ScalingRun | None] = field(default_factory=dict)

    def run(self) -> Sequence[PolicyProposal]:
        """Return all policies that hold the objective, the cheapest first.

        Among policies that cost nearly the same, the one with the fewest changes is first.
        """
        self._tried({})
        self._with_least_minimum({})
        for policy in self._policies():
            self._with_least_minimum(policy)
        self._fixed()
        if self._held:
            self._refine_cooldowns()
        proposals, cheapest = [], min((proposal.run.instance_hours for proposal in self._held), default=0.0)
        for proposal in self._held:
            is_near = proposal.run.instance_hours <= _NEARLY * cheapest
            changes = sum(self.current.get(key) != value for key, value in proposal.settings.items())
            proposals.append((not is_near, changes if is_near else 0, proposal.run.instance_hours, proposal))
        return [proposal for *_, proposal in sorted(proposals, key=lambda item: item[:3])]

    @property
    def most(self) -> int:
        """The most instances that the load can need."""
        peak = float(self._smoothed().max(initial=0.0))
        return max(1, math.ceil(peak / (self.curve.capacity * _PEAK_UTILIZATION)))

    def _policies(self) -> Iterator[Settings]:
        # With a schedule, the metric decides less: a part of the targets suffices.
        daily = list(self._daily())
        for number, policy in enumerate(self._metrics()):
            yield {**policy, "schedules": None}
            if self.current.get("schedules"):
                yield policy
            for schedules in daily if number % _SCHEDULED == 0 else ():
                yield {**policy, **schedules}

    def _metrics(self) -> Iterator[Settings]:
        none: dict[str, object] = dict.fromkeys(_METRICS)
        if self.is_queued:
            yield from ({**none, "backlog_per_instance": value} for value in _BACKLOGS)
            return
        for share in _UTILIZATIONS:
            target = _rounded(share * self.curve.capacity * 60)
            yield {**none, "invocations_per_instance": max(1, int(target))}
        for times in _CONCURRENCIES:
            yield {**none, "concurrent_requests_per_model": _rounded(max(1.0, times * self.curve.slots))}
        # Slow and steady by requests, and two fast steps when queues grow.
        slots = self.curve.slots
        steps = {
            "metric": "concurrent_requests_per_model",
            "scale_out": [
                {"above": 4 * slots, "add": max(1, self.most // 4)},
                {"above": 16 * slots, "add": max(2, self.most // 2)},
            ],
            "scale_in": {"below": 1},
        }
        for share in (0.8, 0.6):
            target = max(1, int(_rounded(share * self.curve.capacity * 60)))
            yield {**none, "invocations_per_instance": target, "steps": steps}

    def _with_least_minimum(self, policy: Settings) -> None:
        """Find the lowest minimum with which a policy holds the objective, by bisection."""
        lowest, highest = self._lowest(), self.most
        if (cheapest := self._tried(self._limited(policy, lowest))) is None:
            return
        if self.objective.holds(cheapest):
            return
        if self._held and cheapest.instance_hours >= min(
            proposal.run.instance_hours for proposal in self._held
        ):
            return  # a higher minimum only costs more
        while highest - lowest > 1:
            middle = (lowest + highest) // 2
            run = self._tried(self._limited(policy, middle))
            if run is not None and self.objective.holds(run):
                highest = middle
            else:
                lowest = middle
        self._tried(self._limited(policy, highest))

    def _lowest(self) -> int:
        """The lowest minimum to try: 0 only if the present policy allows it."""
        return min(1, int(str(self.current["min_instances"])))

    def _limited(self, policy: Settings, minimum: int) -> Settings:
        present = int(str(self.current["max_instances"]))
        maximum = max(minimum, present if present >= self.most else self.most)
        schedules = policy.get("schedules")
        if not isinstance(schedules, dict):
            return {**policy, "min_instances": minimum, "max_instances": maximum}
        base = min(self._lowest() or 1, minimum)
        day, night = ({**schedules[name], "max": maximum} for name in ("day", "night"))
        return {
            **policy,
            "min_instances": base,
            "max_instances": maximum,
            "schedules": {"day": {**day, "min": minimum}, "night": {**night, "min": base}},
        }

    def _fixed(self) -> None:
        """Find the lowest fixed number of instances; its metrics stay, without effect."""
        lowest, highest = 1, self.most + 1
        while lowest < highest:
            middle = (lowest + highest) // 2
            run = self._tried({"min_instances": middle, "max_instances": middle, "schedules": None})
            if run is not None and self.objective.holds(run):
                highest = middle
            else:
                lowest = middle + 1

    def _refine_cooldowns(self) -> None:
        best = min(self._held, key=lambda proposal: proposal.run.instance_hours)
        for out_s in (0, 60, 300):
            for in_s in (0, 60, 300, 600):
                self._tried({**best.settings, "scale_out_cooldown_s": out_s, "scale_in_cooldown_s": in_s})

    def _daily(self) -> Iterator[Settings]:
        """Yield schedules for the busy hours, if the load shows a day with a pattern."""
        if self.demand.seconds < 0.8 * _DAY_S:
            return
        hours = self._by_hour()
        for share in (0.5, 0.7):
            busy = hours > share * hours.max()
            if busy.all():
                continue
            first, last = _longest_stretch(busy)
            begin = (first - _LEAD_H) % _HOURS
            at = f"{int(begin):02}:{round(begin % 1 * 60):02}"
            yield {
                "schedules": {
                    "day": {"at": at, "timezone": "UTC"},
                    "night": {"at": f"{last % _HOURS:02}:00", "timezone": "UTC"},
                }
            }

    def _by_hour(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The highest rate of each hour of the day, in UTC."""
        begin = self.demand.begin.astimezone(UTC)
        seconds = begin.hour * 3600 + begin.minute * 60 + begin.second
        hour = ((np.arange(len(self.demand.counts)) * TICK_S + seconds) / 3600).astype(np.int64) % _HOURS
        rates = np.zeros(_HOURS)
        np.maximum.at(rates, hour, self._smoothed())
        return rates

    def _smoothed(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The rate of each tick, averaged over a minute."""
        width = min(6, len(self.demand.counts))
        return np.convolve(self.demand.counts, np.ones(width), mode="same") / (width * TICK_S)

    def _tried(self, settings: Settings) -> ScalingRun | None:
        key = repr(sorted(settings.items()))
        if key not in self._known:
            self.evaluated += 1
            run = self._known[key] = self.evaluate(settings)
            if run is not None and self.objective.holds(run):
                self._held.append(PolicyProposal(settings, run))
        return self._known[key]


def _longest_stretch(busy: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[int, int]:
    """Return the begin and end (exclusive) of the longest run of true hours around the clock."""
    best = (0, 0)
    for begin in range(_HOURS):
        length = 0
        while length < _HOURS and busy[(begin + length) % _HOURS]:
            length += 1
        if length > best[1] - best[0]:
            best = (begin, begin + length)
    return best


def _rounded(value: float) -> float:
    """Return a number with two digits, as people write targets."""
    rounded = float(f"{value:.2g}")
    return int(rounded) if rounded == int(rounded) else rounded


# Find the cheapest scaling of an endpoint that holds an objective, as a change of the environment file.


_SEARCH_FOLLOWED = 10_000
"""Loads of at most so many requests are followed one by one during a search, too."""
_MOST_CONFIRMED = 12
"""Proposals of a search that are simulated again, the cheapest first."""


def _objective_text(objective: ScalingObjective) -> str:
    return objective.describe()


@dataclass(frozen=True)
class ProposedScaling:
    """The cheapest scaling that holds an objective."""

    objective: Annotated[ScalingObjective, Shown(_objective_text)]
    settings: Annotated[Settings, Key("changes")]
    """The keys that change."""
    run: Annotated[ScalingRun, Key("result")] = field(repr=False)
    diff: str
    """The change of the environment file; empty if the present scaling is the cheapest."""
    text: Internal[str] = field(repr=False)
    """The environment file with it."""
    simulated: Annotated[int, Key("policies_simulated")]
    """The number of policies that were simulated."""
    uneditable: Annotated[UneditableFileError | None, Shown(message_of)] = None
    """Why the environment file cannot be edited."""

    @property
    def changes(self) -> bool:
        """Whether it differs from the present scaling."""
        return bool(self.settings)


def propose_scaling(
    session: Session,
    simulated: SimulatedEndpoint,
    options: SimulationOptions,
    demand: Demand,
    objective: ScalingObjective,
) -> ProposedScaling:
    """Search on an approximation if there are many requests, and confirm the result on the whole load."""
    exact = isinstance(simulated.spec, MultiModelEndpoint) or demand.requests <= _SEARCH_FOLLOWED
    searched = demand if exact else demand.approximated()
    search: PolicySearch

    def evaluate(settings: Settings) -> ScalingRun | None:
        step.update(f"{search.evaluated} policies")
        return _evaluated(simulated, options, searched, settings, most_slices=1)

    with session.reporter.step(f"search for a policy with {objective.describe()}") as step:
        search = PolicySearch(
            evaluate,
            objective,
            searched,
            simulated.setup(options).serving.curve,
            current=simulated.settings(),
            is_queued=simulated.spec.asynchronous is not None,
        )
        proposals = search.run()
        confirmed = next(
            (
                PolicyProposal(proposal.settings, run)
                for proposal in proposals[:_MOST_CONFIRMED]
                if (run := _confirmed(simulated, options, demand, objective, proposal)) is not None
            ),
            None,
        )
        step.detail = f"{search.evaluated} policies, {len(proposals)} hold it"
    if confirmed is None:
        raise SearchError(
            f"none of {search.evaluated} policies holds {objective.describe()} with up to {search.most + 1} "
            f"instances of {simulated.spec.instance.name}",
            remedy="relax the objective, or choose a faster instance type; a p99 below the service time of "
            "one request is impossible at any scale",
        )
    return _proposed(session, simulated, objective, confirmed, search.evaluated)


def _confirmed(
    simulated: SimulatedEndpoint,
    options: SimulationOptions,
    demand: Demand,
    objective: ScalingObjective,
    proposal: PolicyProposal,
) -> ScalingRun | None:
    """Return the result on the whole load, if the policy holds there and with other random numbers, too."""
    run = _evaluated(simulated, options, demand, proposal.settings)
    if run is None or not objective.holds(run):
        return None
    other = replace(options, seed=options.seed + 1)
    again = _evaluated(simulated, other, demand, proposal.settings, most_slices=1)
    return run if again is not None and objective.holds(again) else None


def _evaluated(
    simulated: SimulatedEndpoint,
    options: SimulationOptions,
    demand: Demand,
    settings: Settings,
    *,
    most_slices: int = MOST_SLICES,
) -> ScalingRun | None:
    spec = simulated.changed(settings)
    if spec is None:
        return None
    return simulate_scaling(simulated.setup(options, spec), demand, most_slices=most_slices)


def _proposed(
    session: Session,
    simulated: SimulatedEndpoint,
    objective: ScalingObjective,
    proposal: PolicyProposal,
    evaluated: int,
) -> ProposedScaling:
    """Write the change into the text of the environment file, and validate the result."""
    name = simulated.workspace.spec.name
    file = session.project.environment_file(name)
    before = after = read_text(file)
    edits = simulated.edits(proposal.settings)
    uneditable = None
    try:
        for part, changes in edits.items():
            after = edit_mapping(after, ("endpoints", simulated.name, part), changes, file=file)
    except UneditableFileError as error:
        after, uneditable = before, error
    load_workspace(session.project, name, text=after)
    shown = file.relative_to(session.project.root).as_posix()
    diff = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{shown}", f"b/{shown}"
    )
    changed = {key: value for changes in edits.values() for key, value in changes.items()}
    return ProposedScaling(objective, changed, proposal.run, "".join(diff), after, evaluated, uneditable)
