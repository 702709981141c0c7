"""`tritonstack bench`: measure an endpoint under load."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from tritonstack.base.error_kinds import CommandLineError
from tritonstack.base.errors import TritonstackError
from tritonstack.cli.context import Context
from tritonstack.cli.rendering.tables import FittedTable, number_table
from tritonstack.cli.selection import (
    DataOption,
    EndpointArgument,
    EnvironmentArgument,
    InputsOption,
    ModelOption,
    NameOption,
    PlotOption,
    SeedOption,
    TextsArgument,
)
from tritonstack.operate.invoke.request_inputs import GivenInputs
from tritonstack.operate.shared.output_files import require_output, write_output
from tritonstack_sizing.commands import number_option
from tritonstack_sizing.loads.bench import (
    Benchmark,
    BenchPlan,
    LoadOptions,
    NoAnswersError,
    parse_period,
    plan_bench,
)
from tritonstack_sizing.loads.bench import bench as measure
from tritonstack_sizing.option_ranges import RANGES

_PERCENTS = (50.0, 90.0, 99.0, 99.9)


def bench(  # noqa: PLR0913, PLR0917 - each is an option of the command
    context: typer.Context,
    environment: EnvironmentArgument,
    endpoint: EndpointArgument,
    texts: TextsArgument = None,
    users: Annotated[
        str | None, typer.Option(help="Closed loop: numbers of users, such as 1,10,100.", metavar="NUMBERS")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="Open loop: requests per second, such as 10,50.", metavar="NUMBERS")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Open loop: arrivals from a CSV file.", metavar="FILE")
    ] = None,
    replay: Annotated[
        str | None, typer.Option(help="Open loop: captured requests of a period.", metavar="BEGIN/END")
    ] = None,
    duration: Annotated[
        float | None,
        number_option("--duration", "Time of each level; 30 by default.", "SECONDS"),
    ] = None,
    even: Annotated[bool, typer.Option("--even", help="Send a rate evenly instead of at random.")] = False,
    speed: Annotated[
        float,
        number_option("--speed", "Send a trace or replay faster.", "FACTOR"),
    ] = 1.0,
    inputs: InputsOption = None,
    data: DataOption = None,
    model: ModelOption = None,
    variant: Annotated[str | None, typer.Option(help="The variant; by default, by weight.")] = None,
    timeout: Annotated[
        float,
        number_option("--timeout", "Longest wait for an answer.", "SECONDS"),
    ] = 65.0,
    seed: SeedOption = 1,
    save: Annotated[Path | None, typer.Option(help="Write the result to a file.", metavar="FILE")] = None,
    compare: Annotated[Path | None, typer.Option(help="Compare with a saved result.", metavar="FILE")] = None,
    plot: PlotOption = None,
    record: Annotated[
        bool, typer.Option("--record", help="Record the result for the promotion gate `performance`.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Accept the cost on AWS.")] = False,
    name: NameOption = None,
) -> None:
    """Measure the latency and throughput of an endpoint under load.

    A closed loop (--users) has so many users, each of whom sends as soon as the previous answer has arrived:
    it finds the highest throughput. An open loop (--rate, --trace, --replay) sends when requests are due,
    whether or not earlier ones are answered, and counts latency from then: it shows what users get.

    The warm-up is found and left out. Errors are counted by class, and nothing is retried. With --compare,
    exits with 1 if a level is worse than before. With --record, writes an event to the environment's bucket,
    which the promotion gate `performance` reads.

    Example: tritonstack bench local minilm --users 1,8,64 --duration 10

    Example: tritonstack bench dev shop --model ncf-food --rate 50 --save before.json --plot before.svg

    Example: tritonstack bench dev reviews --replay 2026-11-24T09:00/30m --speed 2
    """
    state: Context = context.obj
    for file in filter(None, (save, plot)):
        require_output(file)
    options = LoadOptions(
        users=[int(number) for number in _numbers("--users", users, whole=True)],
        rates=_numbers("--rate", rate),
        trace=trace,
        replay=None if replay is None else parse_period(replay),
        seconds=duration,
        is_even=even,
        speed=speed,
        inputs=GivenInputs(inputs or (), data),
        timeout_s=timeout,
        seed=seed,
    )
    plan = plan_bench(
        state,
        environment,
        endpoint,
        texts or (),
        instance=name,
        model=model,
        variant=variant,
        options=options,
    )
    _require_consent(state, plan, yes=yes)
    try:
        result = measure(state, plan, compare=compare, record=record)
    except NoAnswersError as error:
        _save_unanswered(state, error, save)
        raise
    if result.recorded is not None:
        state.output.note(f"recorded as s3://{plan.workspace.spec.artifact_bucket}/{result.recorded}")
    for line in _remarks(result):
        state.output.note(line)
    state.output.result(result, text=_table(result))
    with state.output.after_result():
        if save is not None:
            _write(state, save, result.text())
        if plot is not None:
            _write(state, plot, result.chart())
    if result.is_worse:
        raise typer.Exit(1)


def _write(state: Context, file: Path, text: str) -> None:
    write_output(file, text.encode())
    state.output.note(f"wrote {file}")


def _save_unanswered(state: Context, error: NoAnswersError, save: Path | None) -> None:
    """Write a load test without answers; if that fails, only note it: the caller raises `error`."""
    if save is not None:
        try:
            _write(state, save, error.saved.text())
        except TritonstackError as write_error:
            state.output.note(write_error.message)


def _numbers(option: str, text: str | None, *, whole: bool = False) -> list[float]:
    """Parse the numbers of an option, separated by commas, or raise CommandLineError."""
    if text is None:
        return []
    least, most = RANGES[option]
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    valid = numbers and all(least <= number <= most for number in numbers)
    if not valid or (whole and any(number != int(number) for number in numbers)):
        raise CommandLineError(
            f"{option} {text}: expected {'whole ' if whole else ''}numbers from {least:g} to {most:,.0f}, "
            "separated by commas",
            remedy=f"write for example {option} 1,10,100",
        )
    return numbers


def _require_consent(state: Context, plan: BenchPlan, *, yes: bool) -> None:
    """Raise unless the user accepts what the load may cost."""
    if not plan.cost:
        return
    state.output.note(f"{plan.seconds:g} s of load on {plan.model.target.endpoint}: {plan.cost}")
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandLineError(
            f"load on {plan.model.target.endpoint} may cost money and requires confirmation",
            remedy="add --yes",
        )
    typer.confirm("Send it?", abort=True, err=True)


def _table(result: Benchmark) -> FittedTable:
    rows = []
    for run in result.runs:
        latencies = run.percentiles_ms()
        cells = (f"{latencies[percent]:,.1f}" if percent in latencies else "" for percent in _PERCENTS)
        failed = f"{run.failed_share:.2%}" if run.errors else "0"
        rows.append((run.load, f"{run.answered_per_s:,.1f}", *cells, failed))
    return number_table(
        ("load", "per second", *(f"p{percent:g} ms" for percent in _PERCENTS), "failed"), rows
    )


def _remarks(result: Benchmark) -> Iterator[str]:
    if not result.real_instances:
        yield f"measured on {result.measured_on}; {result.instance} on AWS answers at another speed"
    for run in result.runs:
        if run.warm_up:
            yield f"{run.load}: left out {run.warm_up * run.slice_s:g} s of warm-up"
        if not run.steady:
            yield f"{run.load}: not shown to be steady: use a longer --duration, or a lower load"
        for name, count in run.errors.items():
            yield f"{run.load}: {count} x {name}"
        if run.generator_limited:
            yield (
                f"{run.load}: this machine was the limit ({run.processor:.0%} of a processor, requests sent "
                f"{run.late_ms:.1f} ms late): send from a faster machine, or from several"
            )
    for comparison in result.comparisons:
        yield f"{comparison.load}: {comparison.verdict}"
        for change in comparison.differences:
            yield (
                f"  {change.measure}: {change.before:,.1f} -> {change.after:,.1f}, {change.ratio - 1:+.1%} "
                f"(95 % interval {change.low - 1:+.1%} to {change.high - 1:+.1%}): {change.verdict}"
            )
