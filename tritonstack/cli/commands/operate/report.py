"""`tritonstack report`: write a report on the project as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tritonstack.base.errors import UsageError
from tritonstack.cli.completion import complete_environment
from tritonstack.cli.context import Context
from tritonstack.workflows.reports.report import ReportOptions, default_file
from tritonstack.workflows.reports.report import report as run
from tritonstack.workflows.reports.watching import watch_report


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
        bool, typer.Option("--watch", help="Serve a live page on this machine until Ctrl-C.")
    ] = False,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of --watch; by default a free one.")
    ] = None,
) -> None:
    """Write one HTML file without scripts: environments, artifacts, gates, rollouts, timeline, and costs.

    The file needs no network and can be attached to a pull request. Environments that are unreachable, and
    data that no command has produced yet, are named in it with the remedy.

    Example: tritonstack report --output report.html

    With --watch, a process on 127.0.0.1 serves the report and reads the environments every 10 seconds. Its
    address holds a token; requests without it, and those of other web pages, are denied.

    Example: tritonstack report dev prod --offline

    Example: tritonstack report local --watch
    """
    state: Context = context.obj
    options = ReportOptions(tuple(environments or ()), offline=offline, changes=diff)
    if watch:
        _reject_with_watch("--output" if output else "--offline" if offline else None)
        watch_report(state, options, port=port or 0, on_ready=lambda url: _announce(state, url))
        raise typer.Exit(1)  # as other commands that Ctrl-C ends
    if port is not None:
        raise UsageError("--port applies to --watch", remedy="add --watch, or omit --port", code="TS904")
    written = run(state, output or default_file(state), options)
    missing = len(written.data.missing)
    listed = f"; {missing} gap{'s' * (missing > 1)} in the data, listed on the page" if missing else ""
    text = f"{written.file}: {written.size_bytes / 1000:,.0f} kB{listed}"
    state.output.result(written.to_json(), text=text)


def _reject_with_watch(option: str | None) -> None:
    if option is not None:
        raise UsageError(f"{option} and --watch exclude each other", remedy=f"omit {option}", code="TS904")


def _announce(state: Context, url: str) -> None:
    if state.output.as_json:
        state.output.json_lines([{"url": url}])
        return
    state.output.piece(f"{url}\n")
    state.output.note("press Ctrl-C to end")
