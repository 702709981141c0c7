"""Find the cheapest scaling of an endpoint that holds an objective, as a change of the environment file."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, replace
from typing import Annotated

from tritonstack.base.results import Internal, Key, Shown
from tritonstack.base.yaml import read_text
from tritonstack.files.endpoint.endpoint import MultiModelEndpoint
from tritonstack.files.loading import load_workspace
from tritonstack.files.scaffold.yaml_edits import UneditableFileError, edit_mapping, message_of
from tritonstack.operate.shared.session import Session
from tritonstack_sizing.errors import SearchError
from tritonstack_sizing.simulation.demand import Demand
from tritonstack_sizing.simulation.endpoints import SimulatedEndpoint
from tritonstack_sizing.simulation.options import SimulationOptions
from tritonstack_sizing.simulation.proposals import (
    PolicyProposal,
    PolicySearch,
    ScalingObjective,
    Settings,
)
from tritonstack_sizing.simulation.simulation import (
    MOST_SLICES,
    ScalingRun,
    simulate_scaling,
)

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
