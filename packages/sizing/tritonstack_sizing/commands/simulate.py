"""`tritonstack simulate`: simulate the scaling and cost of an endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from tritonstack.base.error_kinds import CommandLineError
from tritonstack.cli.context import Context
from tritonstack.cli.rendering.tables import FittedTable, number_table
from tritonstack.cli.selection import (
    EndpointArgument,
    EnvironmentArgument,
    NameOption,
    PlotOption,
    SeedOption,
)
from tritonstack.operate.shared.output_files import require_output, write_output
from tritonstack_sizing.commands import number_option
from tritonstack_sizing.loads.bench import parse_period
from tritonstack_sizing.simulation.options import (
    SimulationOptions,
    parse_begin,
    parse_objective,
    parse_popularity,
    parse_seconds,
    parse_window,
)
from tritonstack_sizing.simulation.simulate import Simulation, write_proposal
from tritonstack_sizing.simulation.simulate import simulate as run

_ROWS = 30


def simulate(  # noqa: PLR0913, PLR0917 - each is an option of the command
    context: typer.Context,
    environment: EnvironmentArgument,
    endpoint: EndpointArgument,
    trace: Annotated[Path | None, typer.Option(help="Arrivals from a CSV file.", metavar="FILE")] = None,
    replay: Annotated[
        str | None, typer.Option(help="Captured requests of a period.", metavar="BEGIN/END")
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(help="Compare with CloudWatch's record of a period.", metavar="BEGIN/END"),
    ] = None,
    bench: Annotated[
        Path | None,
        typer.Option(help="A result of bench --save on one instance.", metavar="FILE"),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(help="Find the cheapest scaling for p99=250ms,lost=0.", metavar="LIMITS"),
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Write it to the environment file.")] = False,
    begin: Annotated[
        str | None,
        typer.Option(help="Time of a trace's first second, for schedules; a Monday by default."),
    ] = None,
    factor: Annotated[
        float,
        number_option("--factor", "So many times the requests.", "FACTOR"),
    ] = 1.0,
    provisioning: Annotated[
        float, number_option("--provisioning", "Time until a new instance starts.", "SECONDS")
    ] = 240.0,
    loading: Annotated[
        float | None,
        number_option("--loading", "Time to load the model; by the artifact's size by default.", "SECONDS"),
    ] = None,
    rollout_at: Annotated[
        list[str] | None, typer.Option(help="Update the endpoint at this time, such as 2h.", metavar="TIME")
    ] = None,
    no_capacity: Annotated[
        list[str] | None,
        typer.Option(help="AWS has no capacity, such as 2h/30m.", metavar="BEGIN/LENGTH"),
    ] = None,
    popularity: Annotated[
        list[str] | None,
        typer.Option(help="Share of the requests on a multi-model endpoint.", metavar="MODEL=SHARE"),
    ] = None,
    plot: PlotOption = None,
    seed: SeedOption = 1,
    name: NameOption = None,
) -> None:
    """Simulate the scaling, latency, lost requests, and cost of an endpoint under a load.

    Nothing is deployed or sent. The scaling is that of the environment file. How fast an instance answers
    comes from a saved load test of one instance (--bench), or from the artifact's manifest.

    With --objective, search for the cheapest scaling that holds it, and print the change of the environment
    file. With --history, compare the simulation with what CloudWatch recorded.

    Example: tritonstack simulate prod search --trace monday.csv --bench one-instance.json

    Example: tritonstack simulate prod search --trace monday.csv --objective p99=250ms,lost=0 --write

    Example: tritonstack simulate prod search --history 2026-11-23T00:00/2026-11-24T00:00
    """
    state: Context = context.obj
    if write and objective is None:
        raise CommandLineError(
            "--write writes the scaling that --objective finds",
            remedy="add --objective p99=250ms,lost=0, or omit --write",
        )
    if plot is not None:
        require_output(plot)
    options = SimulationOptions(
        trace=trace,
        replay=None if replay is None else parse_period(replay),
        history=None if history is None else parse_period(history),
        bench=bench,
        begin=None if begin is None else parse_begin(begin),
        factor=factor,
        provisioning_s=provisioning,
        loading_s=loading,
        rollouts=tuple(parse_seconds(text, "--rollout-at") for text in rollout_at or ()),
        no_capacity=tuple(map(parse_window, no_capacity or ())),
        popularity=parse_popularity(popularity or ()),
        objective=None if objective is None else parse_objective(objective),
        seed=seed,
    )
    result = run(state, environment, endpoint, instance=name, options=options)
    for line in _remarks(result):
        state.output.note(line)
    state.output.result(result, text=Group(_over_time(result), Text(), _totals(result)))
    if not state.output.as_json and result.proposal is not None and result.proposal.diff:
        # Not folded on a narrow terminal, as a patch has to be.
        state.output.results.print(f"\n{result.proposal.diff}", markup=False, end="")
    with state.output.after_result():
        if plot is not None:
            write_output(plot, result.chart().encode())
            state.output.note(f"wrote {plot}")
        if write and write_proposal(state, result).changed:
            state.output.note(f"wrote environments/{environment}.yaml")


def _over_time(result: Simulation) -> FittedTable:
    """Return the course of the present scaling in at most so many rows."""
    slices = result.run.slices
    per_row = -(-len(slices) // _ROWS)
    rows = []
    for first in range(0, len(slices), per_row):
        part = slices[first : first + per_row]
        hours = sum(sample.instances for sample in part) * result.run.slice_s / 3600
        rows.append(
            (
                f"{part[0].at_s / 60:g}",
                f"{sum(sample.requests for sample in part):,}",
                f"{sum(sample.lost for sample in part):,.0f}",
                _range([sample.in_service for sample in part]),
                _number(max((sample.p50_ms for sample in part if sample.p50_ms is not None), default=None)),
                _number(max((sample.p99_ms for sample in part if sample.p99_ms is not None), default=None)),
                _money(hours, result.run.price_per_hour),
            )
        )
    titles = ("minute", "requests", "lost", "instances", "p50 ms", "p99 ms", _cost_title(result))
    return number_table(titles, rows)


def _totals(result: Simulation) -> FittedTable:
    runs = {"present": result.run}
    if result.proposal is not None:
        runs["proposed" if result.proposal.changes else "cheapest (present)"] = result.proposal.run
    rows = [
        (
            name,
            f"{total.lost:,} ({total.lost_share:.2%})" if total.lost else "0",
            _number(total.p50_ms),
            _number(total.p99_ms),
            _range([part.in_service for part in total.slices]),
            _money(total.instance_hours, total.price_per_hour),
            _money(total.instance_hours * total.cost_per_month / total.cost, total.price_per_hour)
            if total.cost and total.cost_per_month
            else _money(total.instance_hours * 730 / total.hours, None),
        )
        for name, total in runs.items()
    ]
    titles = ("scaling", "lost", "p50 ms", "p99 ms", "instances", _cost_title(result), "per month")
    return number_table(titles, rows)


def _range(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low}-{high}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"


def _money(instance_hours: float, price: float | None) -> str:
    return f"{instance_hours:,.2f}" if price is None else f"{instance_hours * price:,.2f}"


def _cost_title(result: Simulation) -> str:
    """Without a price, the tables show how long instances run."""
    return "instance hours" if result.run.price_per_hour is None else "cost"


def _remarks(result: Simulation) -> Iterator[str]:
    yield (
        f"service curve: {result.curve}; one {result.instance_type} answers at most "
        f"{result.capacity_per_s:,.1f} requests per second"
    )
    yield f"additional instances serve after {result.starting_s:.0f} s (assumed, not measured on AWS)"
    yield from result.notes
    run = result.run
    if not run.is_followed:
        yield "many requests: queues are approximated"
    if run.failed_launches:
        yield f"{run.failed_launches} launches failed without capacity"
    if run.waiting:
        yield f"{run.waiting:,} requests wait for an instance when the load ends; no figure includes them"
    if (test := result.history) is not None:
        ratio = (
            "" if test.p99_ratio is None else f"; p99 of a minute is {test.p99_ratio:.2f} of the recorded one"
        )
        yield (
            f"compared with CloudWatch: in {test.instances_within_one:.0%} of {test.minutes_compared} "
            "minutes, the instances "
            f"differ by at most one (mean {test.instances_mean_difference:+.2f}){ratio}"
        )
        if test.p99_ms is not None:
            yield (
                f"recorded: {test.recorded_instance_hours:.2f} instance hours, model latency p50 "
                f"{_number(test.p50_ms)} ms and p99 {_number(test.p99_ms)} ms on average"
            )
    if result.proposal is not None:
        count = result.proposal.simulated
        remarks = (
            "the present scaling is the cheapest"
            if not result.proposal.changes
            else "found a cheaper or safer one"
        )
        yield f"simulated {count} policies for {result.proposal.objective.describe()}: {remarks}"
        if result.proposal.uneditable is not None:
            yield str(result.proposal.uneditable)
