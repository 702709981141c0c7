"""`tritonstack tune`: search the settings of a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from tritonstack.base.error_kinds import CommandLineError
from tritonstack.cli.completion import complete_endpoint, complete_model
from tritonstack.cli.context import Context
from tritonstack.cli.rendering.tables import number_table
from tritonstack.cli.selection import DataOption, InputsOption, ModelOption, PlotOption, SeedOption
from tritonstack.operate.invoke.request_inputs import GivenInputs
from tritonstack.operate.shared.output_files import require_output, write_output
from tritonstack_sizing.commands import number_option
from tritonstack_sizing.tuning.planning import (
    TuneOptions,
    TunePlan,
    objective_of,
    plan_tuning,
    read_texts,
)
from tritonstack_sizing.tuning.tune import Tuning, describe, end_search, write_changes
from tritonstack_sizing.tuning.tune import tune as run


def tune(  # noqa: PLR0913, PLR0917 - each is an option of the command
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help="The model, or an environment.", metavar="MODEL|ENV", autocompletion=complete_model
        ),
    ],
    endpoint: Annotated[
        str | None,
        typer.Argument(help="An endpoint of the environment.", autocompletion=complete_endpoint),
    ] = None,
    users: Annotated[int, number_option("--users", "Closed loop with so many users.")] = 64,
    rate: Annotated[
        float | None, number_option("--rate", "Open loop: find the lowest p99 at this rate.", "NUMBER")
    ] = None,
    p99: Annotated[
        float | None, number_option("--p99", "Find the highest throughput with a p99 up to this.", "MS")
    ] = None,
    duration: Annotated[float, number_option("tune --duration", "Time of each run.", "SECONDS")] = 12.0,
    runs: Annotated[int | None, number_option("--runs", "Most runs.", "NUMBER")] = None,
    budget: Annotated[float | None, number_option("--budget", "Most time of all runs.", "MINUTES")] = None,
    cores: Annotated[int | None, number_option("--cores", "Cores for the server; by default all.")] = None,
    texts: Annotated[Path | None, typer.Option(help="Texts to send, one per line.", metavar="FILE")] = None,
    inputs: InputsOption = None,
    data: DataOption = None,
    model: ModelOption = None,
    seed: SeedOption = 1,
    write: Annotated[bool, typer.Option("--write", help="Write the result into the files.")] = False,
    plot: PlotOption = None,
) -> None:
    """Search the settings of a model, or of an endpoint's model, on this machine.

    Serves variants of the built artifact with a real Triton and measures each under load: instances, batches,
    small batches of texts, precision, and with an endpoint its threads. The models of an ensemble, and those
    that Python code calls, are searched together. Prints a diff of the files; --write applies it.

    Settings of backends that this machine's server has only as a stand-in are listed, and not searched. An
    interrupted search resumes with the same options. Nothing is deployed.

    Example: tritonstack tune minilm-embedding --p99 80

    Example: tritonstack tune dev reviews --rate 50 --budget 20 --plot reviews.svg
    """
    state: Context = context.obj
    if texts is not None and (inputs or data):
        raise CommandLineError("texts and other inputs exclude each other", remedy="omit one of them")
    options = TuneOptions(
        objective=objective_of(p99_ms=p99, rate=rate),
        users=users,
        seconds=duration,
        most_runs=runs,
        budget_s=None if budget is None else budget * 60,
        cores=cores,
        texts=() if texts is None else read_texts(texts),
        inputs=GivenInputs(inputs or (), data),
        seed=seed,
    )
    if plot is not None:
        require_output(plot)
    plan = plan_tuning(state, name, endpoint, model=model, options=options)
    for line in _plan_lines(plan):
        state.output.note(line)
    result = run(state, plan)
    state.output.result(result, text=_text(result))
    for line in _closing_lines(result):
        state.output.note(line)
    with state.output.after_result():  # on an error, the search is kept
        for line in _written(state, result, plot=plot, write=write):
            state.output.note(line)
    end_search(state, plan)
    if not result.meets:
        raise typer.Exit(1)


def _written(state: Context, result: Tuning, *, plot: Path | None, write: bool) -> Iterator[str]:
    """Write what the options name, and yield a line for each."""
    if write:
        if result.uneditable is not None:
            raise result.uneditable
        write_changes(state, result.plan, result.changes)
        if result.changes:
            yield "written; run `tritonstack build`"
    elif result.changes:
        yield "review the diff; --write applies it"
    if plot is not None:
        write_output(plot, result.chart().encode())
        yield f"wrote {plot}"


def _plan_lines(plan: TunePlan) -> Iterator[str]:
    yield from plan.notes
    for option in plan.skipped:
        yield f"not searched: {option.model or 'endpoint'}: {option.field}: {option.reason}"
    for setting in plan.settings:
        values = ", ".join(str(value) for value in setting.dimension.values)
        yield f"searched: {setting.dimension.name}: {values}"
    yield (
        f"{plan.options.objective.describe()}: at most {plan.search.most_runs} runs of "
        f"{plan.load.seconds:g} s instead of {plan.search.space.size:,}, "
        f"about {plan.seconds / 60:.0f} minutes, and two curves"
    )


def _text(result: Tuning) -> Group:
    rows = []
    for tried in result.runs:
        values = (tried.answered_per_s, tried.p50_ms, tried.p99_ms)
        figures = (f"{value:,.1f}" if tried.usable else "" for value in values)
        mark = " <" if tried.choice == result.tuned.choice else ""
        failed = tried.violation or (f"{tried.failed_share:.2%}" if tried.failed_share else "0")
        rows.append((f"{describe(result.plan, tried.choice)}{mark}", *figures, failed))
    table = number_table(("settings", "per second", "p50 ms", "p99 ms", "failed"), rows)
    unit = "users" if result.plan.load.rate is None else "rate"
    points = [
        (name, f"{point.load:g}", f"{point.answered_per_s:,.1f}", f"{point.p99_ms:,.1f}")
        for name, curve in result.curves.items()
        for point in curve
    ]
    curves = number_table(("curve", unit, "per second", "p99 ms"), points)
    proposed = result.diff or "the files stay as they are"
    if result.uneditable is not None:
        proposed = "the files cannot be edited"
    return Group(table, Text(), curves, Text(), Text(proposed))


def _closing_lines(result: Tuning) -> Iterator[str]:
    now, tuned = result.now, result.tuned
    yield (
        f"{len(result.runs)} runs of a grid of {result.grid:,}: "
        f"{now.answered_per_s:,.1f} -> {tuned.answered_per_s:,.1f} per second, "
        f"p99 {now.p99_ms:,.1f} -> {tuned.p99_ms:,.1f} ms"
    )
    if not result.meets:
        yield f"no configuration meets the objective: {result.objective}"
    if result.uneditable is not None:
        yield f"{result.uneditable}\n  best: {describe(result.plan, tuned.choice)}"
