"""`tritonstack report`: write a report on the project as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tritonstack.cli.completion import complete_environment
from tritonstack.cli.context import Context
from tritonstack.operate.report.report import ReportOptions, WrittenReport, default_file, watch_report
from tritonstack.operate.report.report import report as run


def report(
    context: typer.Context,
    environments: Annotated[
        list[str] | None,
        typer.Argument(
            help="Environments (default: all permanent ones).", autocompletion=complete_environment
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="The file (default: .tritonstack/report.html).", metavar="FILE"),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Read files and git only; query no environment.")
    ] = False,
    diff: Annotated[
        bool,
        typer.Option("--diff/--no-diff", help="Synthesize the stacks, and compare with what is deployed."),
    ] = True,
    watch: Annotated[
        bool, typer.Option("--watch", help="Write the page again every 10 seconds until Ctrl-C.")
    ] = False,
) -> None:
    """Write one HTML file without scripts: environments, artifacts, gates, rollouts, timeline, and costs.

    The file needs no network and can be attached to a pull request. Environments that are unreachable, and
    data that no command has produced yet, are named in it with the remedy.

    Example: tritonstack report --output report.html

    With --watch, the environments are read every 10 seconds, and an open page reloads itself.

    Example: tritonstack report dev prod --offline

    Example: tritonstack report local --watch
    """
    state: Context = context.obj
    options = ReportOptions(tuple(environments or ()), offline=offline, changes=diff)
    file = output or default_file(state)
    if watch:
        watch_report(state, file, options, on_written=lambda written: _print_watched(state, written))
        raise typer.Exit(1)  # as other commands that Ctrl-C ends
    _print(state, run(state, file, options))


def _print(state: Context, written: WrittenReport) -> None:
    missing = len(written.data.missing)
    listed = f"; {missing} gap{'s' * (missing > 1)} in the data, listed on the page" if missing else ""
    text = f"{written.file}: {written.size_bytes / 1000:,.0f} kB{listed}"
    state.output.result(written, text=text)


def _print_watched(state: Context, written: WrittenReport) -> None:
    _print(state, written)
    state.output.note("open the file in a browser; press Ctrl-C to end")
