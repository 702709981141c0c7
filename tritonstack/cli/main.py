"""The entry point: options that stand before every command, and the one place where errors become words."""

from __future__ import annotations

import errno
import io
import itertools
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from tritonstack.base.errors import TritonstackError, UsageError
from tritonstack.base.extras import install_command
from tritonstack.base.paths import Project, find_project
from tritonstack.cli.output import Output
from tritonstack.cli.registry import COMMANDS, CommandGroup

COMPLETING = "_TRITONSTACK_COMPLETE"
"""Set by the shell when it asks for completions."""
_INTERRUPTED = 130  # what Typer makes of Ctrl-C
_NOT_WRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT})

app = typer.Typer(
    name="tritonstack",
    cls=CommandGroup,
    help="Deploy models to NVIDIA Triton on Amazon SageMaker with AWS CDK.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def options(
    context: typer.Context,
    project: Annotated[
        Path | None, typer.Option(help="The project's folder; by default the one around here.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
) -> None:
    """Take what stands before the command; `run` has looked for --debug itself."""
    # Loads AWS's SDK and the specification, which `--help` does not need.
    from tritonstack.cli.context import Context  # noqa: PLC0415

    found = Project(Path.cwd()) if context.invoked_subcommand == "init" else find_project(project)
    context.obj = Context(found, Output(as_json=json_output))


def main() -> None:
    """Run the command line: exit 0 done, 1 failed, 2 wrong usage or an invalid file."""
    # Whoever ends a job in a pipeline sends SIGTERM; what was started is to end with it, as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # it is None where it was closed
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; what it raises becomes words on standard error and an exit code."""
    try:
        # Outside standalone mode click gives back what typer.Exit carries, and raises the rest.
        status = app(args=arguments or ["--help"], prog_name="tritonstack", standalone_mode=False)
        if status == _INTERRUPTED:
            raise KeyboardInterrupt
    except (Exception, KeyboardInterrupt) as error:
        if COMPLETING in os.environ:  # a message would appear in the middle of the command being typed
            return 1
        options = _before_command(arguments)
        if "--debug" in options:
            traceback.print_exc()
        known = _in_words(error)
        Output(as_json="--json" in options).error(known)
        return known.exit_code
    return status if isinstance(status, int) else 0


def _before_command(arguments: list[str]) -> list[str]:
    """The options of the command line itself; they count even where it cannot be understood."""
    return list(itertools.takewhile(lambda word: word not in COMMANDS, arguments))


def _in_words(error: BaseException) -> TritonstackError:
    """The same error, as something a person can act on."""
    if isinstance(error, TritonstackError):
        return error
    if isinstance(error, typer.TyperException):
        asked = getattr(error, "ctx", None)  # what is wrong before any command was known has none
        command = asked.command_path if asked is not None else "tritonstack"
        return UsageError(error.format_message(), remedy=f"`{command} --help` shows what it takes")
    if isinstance(error, typer.Abort | KeyboardInterrupt):
        return TritonstackError("stopped by you")
    if _is_of_aws(error):
        return TritonstackError(f"AWS answered: {error}", remedy="run again with --debug to see the call")
    return _of_this_machine(error) or TritonstackError(
        f"this should not have happened: {type(error).__name__}: {error}",
        remedy="run again with --debug and report what it prints",
    )


def _is_of_aws(error: BaseException) -> bool:
    """Return whether botocore raised an error. botocore is imported only if something raised it."""
    exceptions = sys.modules.get("botocore.exceptions")
    return exceptions is not None and isinstance(error, exceptions.BotoCoreError | exceptions.ClientError)


def _of_this_machine(error: BaseException) -> TritonstackError | None:
    """What the machine lacks: room, rights, a package."""
    if isinstance(error, OSError) and error.errno in _NOT_WRITABLE:
        where = f"{error.filename}: " if error.filename else ""
        return TritonstackError(
            f"{where}{error.strerror}", remedy="check the rights in that folder and the room on its disk"
        )
    if isinstance(error, ModuleNotFoundError):
        return UsageError(
            f"{error.name} is not installed", remedy=f"run `{install_command(error.name or '')}`"
        )
    return None
