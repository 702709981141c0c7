"""Simulate how an endpoint scales under a load, and find the cheapest scaling that holds an objective."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

from tritonstack.base import naming
from tritonstack.base.error_kinds import CommandLineError, NotApplicableError
from tritonstack.base.files import write_text_atomically
from tritonstack.base.results import Key, Rounded
from tritonstack.files.endpoint.endpoint import MultiModelEndpoint
from tritonstack.operate.report.svg_charts import ChartLine, LineChart, draw_charts, round_step
from tritonstack.operate.shared.session import Session
from tritonstack_sizing.loads.arrivals import MAX_REQUESTS
from tritonstack_sizing.loads.bench import Period
from tritonstack_sizing.loads.captures import read_capture
from tritonstack_sizing.simulation.demand import (
    MONDAY,
    MOST_FOLLOWED,
    MOST_TICKS,
    Demand,
    captured_demand,
    counted_demand,
    trace_demand,
)
from tritonstack_sizing.simulation.endpoints import SimulatedEndpoint, find_endpoint, main_share
from tritonstack_sizing.simulation.history import (
    BackTest,
    RecordedMinute,
    back_test,
    read_history,
)
from tritonstack_sizing.simulation.options import SimulationOptions
from tritonstack_sizing.simulation.proposals import ProposedScaling, propose_scaling
from tritonstack_sizing.simulation.simulation import MOST_SLICES, ScalingRun, SimulatedSlice, simulate_scaling

_HOUR_S = 3600
Value = Callable[[SimulatedSlice], float | None]


def draw_simulations(title: str, runs: Mapping[str, ScalingRun]) -> str:
    """Return an SVG document of simulations by name: the first with solid lines, others with dashed ones."""
    shown = list(runs.items())
    first = shown[0][1]
    requests = _lines([("all", first)], lambda part: part.requests / first.slice_s)
    lost = _lines([(f"lost, {name}", run) for name, run in shown], lambda part: part.lost / first.slice_s)
    charts = [
        _chart("requests per second", [*requests, *lost], first),
        _chart("instances in service", _lines(shown, lambda part: part.in_service), first),
        _chart("p99 in ms", _lines(shown, lambda part: part.p99_ms), first),
    ]
    return draw_charts(title, charts)


def _lines(shown: Sequence[tuple[str, ScalingRun]], value: Value) -> list[ChartLine]:
    lines = []
    for number, (name, run) in enumerate(shown):
        points = [(part.at_s, height) for part in run.slices if (height := value(part)) is not None]
        lines.append(ChartLine(name, points, dashed=number > 0))
    return lines


def _chart(title: str, lines: Sequence[ChartLine], run: ScalingRun) -> LineChart:
    longest = max(run.hours * _HOUR_S, run.slice_s)
    unit, symbol = (_HOUR_S, "h") if longest >= 2 * _HOUR_S else (60, "min")
    step = round_step(longest / unit / 6)
    ticks = [
        (number * step * unit, f"{number * step:g} {symbol}")
        for number in range(int(longest / unit / step) + 1)
    ]
    return LineChart(title, lines, ticks, lambda second: second / longest)


@dataclass(frozen=True)
class Simulation:
    """How an endpoint would scale under a load."""

    environment: str
    endpoint: str
    instance_type: str
    curve: Annotated[str, Key("service_curve")]
    """Where the service curve comes from."""
    capacity_per_s: Annotated[float, Rounded(3)]
    """The most answers per second of one instance."""
    starting_s: Annotated[float, Rounded(1)]
    """Assumed time until additional capacity serves."""
    notes: tuple[str, ...]
    run: Annotated[ScalingRun, Key("present")] = field(repr=False)
    """The present scaling."""
    proposal: ProposedScaling | None = None
    history: BackTest | None = None

    def chart(self) -> str:
        """Return an SVG document."""
        runs = {"present": self.run}
        if self.proposal is not None and self.proposal.changes:
            runs["proposed"] = self.proposal.run
        return draw_simulations(f"{self.endpoint} in {self.environment}, simulated from {self.curve}", runs)


@dataclass(frozen=True)
class WrittenProposal:
    """The environment file of a proposal."""

    file: Path
    changed: bool


def simulate(
    session: Session,
    environment: str,
    endpoint: str,
    *,
    instance: str | None = None,
    options: SimulationOptions,
) -> Simulation:
    """Simulate an endpoint of an environment file under a load; nothing is deployed or sent.

    With an objective, also find the cheapest scaling that holds it. Raise SearchError if there is none.
    """
    workspace = session.workspace(environment, instance)
    if options.objective is not None and workspace.instance is not None:
        raise NotApplicableError(
            f"{environment!r} is a template, whose values depend on its parameters",
            remedy="omit --objective, or name an environment",
        )
    simulated = find_endpoint(session, workspace, endpoint, options)
    minutes: tuple[RecordedMinute, ...] = ()
    if options.history is not None:
        minutes = _recorded(session, simulated, options.history)
    demand = _demand(session, simulated, options, minutes)
    setup, slices = simulated.setup(options), len(minutes) or MOST_SLICES
    with session.reporter.step(f"simulate {demand.requests:,} requests") as step:
        run = simulate_scaling(setup, demand, most_slices=slices)
        step.detail = f"{run.instance_hours:.1f} instance hours, {run.lost:,} lost"
    proposal = None
    if options.objective is not None:
        proposal = propose_scaling(session, simulated, options, demand, options.objective)
    return Simulation(
        environment=workspace.spec.name,
        endpoint=endpoint,
        instance_type=simulated.spec.instance.name,
        curve=simulated.curve.source,
        capacity_per_s=setup.serving.curve.capacity,
        starting_s=options.provisioning_s + simulated.loading_s(options),
        notes=simulated.notes,
        run=run,
        proposal=proposal,
        history=back_test(run, minutes) if minutes else None,
    )


def write_proposal(session: Session, simulation: Simulation) -> WrittenProposal:
    """Write a proposal to the environment file, if it changes anything.

    Raise UneditableFileError if the form of the file prevents that.
    """
    proposal, file = simulation.proposal, session.project.environment_file(simulation.environment)
    if proposal is not None and proposal.uneditable is not None:
        raise proposal.uneditable
    if proposal is None or not proposal.diff:
        return WrittenProposal(file, changed=False)
    write_text_atomically(file, proposal.text)
    return WrittenProposal(file, changed=True)


def _recorded(session: Session, simulated: SimulatedEndpoint, period: Period) -> tuple[RecordedMinute, ...]:
    if simulated.spec.asynchronous:
        raise NotApplicableError(
            f"the endpoint {simulated.name!r} is asynchronous: CloudWatch has no latency of its requests",
            remedy="simulate a trace with --trace",
        )
    cloudwatch = session.cloud(simulated.workspace.spec).client("cloudwatch")
    monitored = simulated.monitored
    return read_history(
        cloudwatch, monitored, monitored.main, begin=_whole_minute(period.begin), end=period.end
    )


def _demand(
    session: Session,
    simulated: SimulatedEndpoint,
    options: SimulationOptions,
    minutes: Sequence[RecordedMinute],
) -> Demand:
    spec, seed = simulated.spec, options.seed
    # Which models are loaded follows from single requests, so these loads are never approximated.
    most = MAX_REQUESTS if isinstance(spec, MultiModelEndpoint) else MOST_FOLLOWED
    factor = options.factor * main_share(spec)
    if options.history is not None:
        demand = counted_demand(
            [minute.requests for minute in minutes],
            begin=_whole_minute(options.history.begin),
            seed=seed,
            most=most,
            instances=next(
                (round(minute.instances) for minute in minutes if minute.instances is not None), None
            ),
        )
    elif options.replay is not None:
        demand = _replayed(session, simulated, options, options.replay, most)
    elif options.trace is not None:
        demand = trace_demand(
            options.trace, factor=factor, begin=options.begin or MONDAY, seed=seed, most=most
        )
    if len(demand.counts) > MOST_TICKS:
        raise CommandLineError(
            f"the load lasts {demand.seconds / 86_400:.0f} days; a simulation has at most 35",
            remedy="simulate a typical week",
        )
    if isinstance(spec, MultiModelEndpoint) and demand.offsets is None:
        raise CommandLineError(
            f"the load has {demand.requests:,} requests; multi-model endpoints are simulated with at most "
            f"{MAX_REQUESTS:,}",
            remedy="simulate a shorter trace",
        )
    return demand


def _replayed(
    session: Session,
    simulated: SimulatedEndpoint,
    options: SimulationOptions,
    period: Period,
    most: int,
) -> Demand:
    spec, environment = simulated.spec, simulated.workspace.spec
    full = environment.endpoint_name(simulated.name)
    captured = read_capture(
        session.cloud(environment).client("s3"),
        bucket=environment.data_bucket,
        prefix=naming.capture_prefix(full),
        begin=period.begin,
        end=period.end,
        seed=options.seed,
    )
    sampled = 1.0 if spec.data_capture is None else 100 / spec.data_capture.sampling_percent
    factor = options.factor * main_share(spec) * sampled
    return captured_demand(captured.trace, factor=factor, begin=captured.begin, seed=options.seed, most=most)


def _whole_minute(when: datetime) -> datetime:
    return when - timedelta(seconds=when.second, microseconds=when.microsecond)
