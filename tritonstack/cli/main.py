"""The entry point: global options, and the conversion of errors to messages and exit codes."""

from __future__ import annotations

import codecs
import errno
import io
import itertools
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from tritonstack.base.error_kinds import (
    AwsCallError,
    CommandInterruptedError,
    CommandLineError,
    MissingPackageError,
    StorageError,
)
from tritonstack.base.errors import TritonstackError, UsageError
from tritonstack.base.extras import install_command
from tritonstack.base.paths import Project, find_project
from tritonstack.cli.help_text import WIDTH
from tritonstack.cli.output import Output
from tritonstack.cli.registry import COMMANDS, CommandGroup

ERRORS = "tritonstack-ascii"
"""Name of the error handler, for `errors=` of a stream."""
_REPLACEMENTS: Mapping[str, str] = {
    "✓": "+",
    "✗": "x",
    "–": "-",
    "…": "...",
    "→": "->",
    "≠": "!=",
    "≥": ">=",
    "≤": "<=",
    "±": "+-",
    "×": "x",
}


def _replaced(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    text = "".join(_REPLACEMENTS.get(character) or ascii(character)[1:-1] for character in characters)
    return text, error.end


codecs.register_error(ERRORS, _replaced)


COMPLETING = "_TRITONSTACK_COMPLETE"
"""Set by the shell when it asks for completions."""
_WITHOUT_PROJECT = ("explain", "doctor")
"""Commands that also work outside a project."""
_INTERRUPTED = 130  # Typer exit code for Ctrl-C
_NOT_WRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_NO_FOLDER = {errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG}
"""A file is where a folder should be, or the reverse, or no path leads there."""

app = typer.Typer(
    name="tritonstack",
    cls=CommandGroup,
    help="Deploy models to NVIDIA Triton on Amazon SageMaker with AWS CDK.\n\n"
    "From a model to an endpoint: init, new, build, deploy, invoke, verify, promote.",
    epilog="Run `tritonstack COMMAND --help` for the options and examples of a command.",
    context_settings={"max_content_width": WIDTH},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class InternalError(TritonstackError):
    """An unexpected exception: a defect of tritonstack. Rerun with `--debug`, and report the traceback."""

    code = "TS999"
    title = "Internal error"


def print_version(requested: bool) -> None:
    """Print the version of the distribution, and end."""
    if requested:
        from importlib.metadata import version as installed_version  # noqa: PLC0415 - only this option needs it

        typer.echo(f"tritonstack {installed_version('tritonstack')}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    project: Annotated[
        Path | None, typer.Option(help="The project folder (default: found from the current folder).")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=print_version, help="Print the version.")
    ] = False,
) -> None:
    """Store the global options; `run` reads --debug itself."""
    # Loads the AWS SDK and the specification, which `--help` does not need.
    from tritonstack.cli.context import Context  # noqa: PLC0415

    asks_for_help = "--help" in (context.obj or ())
    root = _project(context.invoked_subcommand, project, needs_one=not asks_for_help)
    context.obj = Context(root, Output(as_json=json_output))


def _project(command: str | None, folder: Path | None, *, needs_one: bool) -> Project:
    """Return the project; for a command that needs none, the current folder if it is in no project."""
    if command == "init":
        return Project(Path.cwd())
    try:
        return find_project(folder)
    except UsageError:
        if folder is None and (command in _WITHOUT_PROJECT or not needs_one):
            return Project(Path.cwd())
        raise


def _hang_up(number: int, _: FrameType | None) -> NoReturn:
    """Interrupt the command once: a terminal that closes, and its shell, send several of this signal."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line; exit with 0 on success, 1 on failure, 2 on invalid usage or files."""
    # Jobs of CI systems end with SIGTERM, terminals with SIGHUP. Child processes then end as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup sets it
        signal.signal(signal.SIGHUP, _hang_up)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None if it was closed
            stream.reconfigure(errors=ERRORS)
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; print its errors to standard error and return the exit code."""
    try:
        # Outside standalone mode, click returns the code of typer.Exit and raises other exceptions.
        status = app(
            args=arguments or ["--help"], prog_name="tritonstack", standalone_mode=False, obj=tuple(arguments)
        )
        if status == _INTERRUPTED:
            raise KeyboardInterrupt
    except (Exception, KeyboardInterrupt) as error:
        if COMPLETING in os.environ:  # a message would appear in the middle of the command being typed
            return 1
        options = _before_command(arguments)
        if "--debug" in options:
            traceback.print_exc()
        described = _described(error)
        Output(as_json="--json" in options).error(described)
        return described.exit_code
    return status if isinstance(status, int) else 0


def _before_command(arguments: list[str]) -> list[str]:
    """Return the global options, even if the command line is invalid."""
    return list(itertools.takewhile(lambda word: word not in COMMANDS, arguments))


def _described(error: BaseException) -> TritonstackError:
    """Return the error with a remedy."""
    if isinstance(error, TritonstackError):
        return error
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)  # None for errors before a command is known
        command = context.command_path if context is not None else "tritonstack"
        return CommandLineError(error.format_message(), remedy=f"run `{command} --help`")
    if isinstance(error, typer.Abort | KeyboardInterrupt):
        return CommandInterruptedError("interrupted", remedy="rerun the command; it resumes or starts again")
    if _is_of_aws(error):
        return AwsCallError(f"AWS error: {error}", remedy="rerun with --debug to see the call")
    return _local_error(error) or InternalError(
        f"internal error: {type(error).__name__}: {error}", remedy="rerun with --debug and report the output"
    )


def _is_of_aws(error: BaseException) -> bool:
    """Return whether botocore raised an error. botocore is imported only if something raised it."""
    exceptions = sys.modules.get("botocore.exceptions")
    return exceptions is not None and isinstance(error, exceptions.BotoCoreError | exceptions.ClientError)


def _local_error(error: BaseException) -> TritonstackError | None:
    """Return the error for a missing permission, full disk, or missing package."""
    if isinstance(error, OSError) and error.errno in _NOT_WRITABLE | _NO_FOLDER:
        file = f"{error.filename}: " if error.filename else ""
        remedy = "check the folder's permissions and the free disk space"
        if error.errno in _NO_FOLDER:
            remedy = "move what is there, or set TRITONSTACK_HOME to a folder"
        return StorageError(f"{file}{error.strerror}", remedy=remedy)
    if isinstance(error, ModuleNotFoundError):
        return MissingPackageError(
            f"{error.name} is not installed", remedy=f"run `{install_command(error.name or '')}`"
        )
    return None
