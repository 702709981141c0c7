"""`tritonstack logs`: show or follow the logs of endpoints and builds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from tritonstack.cli.completion import complete_endpoint, complete_model
from tritonstack.cli.context import Context
from tritonstack.cli.selection import EnvironmentArgument, NameOption
from tritonstack.operate.logs.logs import LogQuery, follow_logs, readable
from tritonstack.operate.logs.logs import logs as run
from tritonstack.operate.logs.reading import LogLine


def logs(  # noqa: PLR0913, PLR0917 - each is an option of the command
    context: typer.Context,
    environment: EnvironmentArgument,
    endpoint: Annotated[
        str | None,
        typer.Argument(
            help="The endpoint, by its name in the environment file (default: all).",
            autocompletion=complete_endpoint,
        ),
    ] = None,
    build: Annotated[
        str | None,
        typer.Option(
            "--build",
            help="A model: show the log of its latest build instead.",
            metavar="MODEL",
            autocompletion=complete_model,
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until Ctrl-C.")] = False,
    since: Annotated[
        str | None,
        typer.Option(
            help="A duration such as 30m or 1d, or a UTC time (default: 1h, or the whole build).",
            metavar="TIME",
        ),
    ] = None,
    contains: Annotated[
        str | None, typer.Option("--filter", help="Show only lines that contain this text.", metavar="TEXT")
    ] = None,
    variant: Annotated[str | None, typer.Option(help="The variant: main, challenger, or shadow.")] = None,
    instance: Annotated[
        str | None, typer.Option(help="An instance, by its id or the start of it.", metavar="ID")
    ] = None,
    name: NameOption = None,
) -> None:
    """Show the container logs of an environment's endpoints, or the log of a model's latest build.

    Reads CloudWatch Logs. Lines of all instances are in order of time, in UTC. With --follow, waits for
    endpoints that are not deployed yet, and prints new lines until Ctrl-C, or until the build has ended;
    with --json, each line is then a JSON document of its own. Lines go to standard output, and everything
    else to standard error.

    Example: tritonstack logs prod search --since 2h --filter "failed to load"

    Example: tritonstack logs dev --build minilm --follow
    """
    state: Context = context.obj
    query = LogQuery(endpoint, build, since, contains, variant, instance)

    def show(lines: Sequence[LogLine]) -> None:
        if state.output.as_json:
            state.output.json_lines(lines)
        else:
            state.output.log_lines((_prefix(line, query), readable(line)) for line in lines)

    if follow:
        try:
            log = follow_logs(state, environment, query, instance=name, on_lines=show)
        except KeyboardInterrupt:  # the usual end; as other interrupted commands, but without an error
            raise typer.Exit(1) from None
    else:
        log = run(state, environment, query, instance=name)
        if state.output.as_json:
            state.output.result(log, text="")
            return
        show(log.lines)
    for note in log.notes:
        state.output.note(note)


def _prefix(line: LogLine, query: LogQuery) -> str:
    """Return the time of a line, and its origin unless the command names it."""
    if query.build is not None:
        return line.time
    source = "" if query.endpoint else f"{line.source} "
    return f"{line.time} {source}{line.stream}"
