"""`python -m model_build`: the job. CodeBuild's buildspec runs it, and so does `tritonstack build --local`.

    python -m model_build --model minilm --targets "cpu-py312 cpu" --publish my-bucket --json-progress

Exit codes: 0 built, 1 failed, 2 wrong usage or an invalid file. SIGTERM ends it as Ctrl-C does: nothing is
kept.
"""

from __future__ import annotations

import argparse
import atexit
import faulthandler
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

from pydantic import TypeAdapter, ValidationError

from model_build.job import BuildOrder, Notify, run_order
from tritonstack.base.error_kinds import CommandInterruptedError
from tritonstack.base.errors import heading
from tritonstack.base.files import short_digest
from tritonstack.base.paths import Project, find_project

_INTERRUPTED = 1
_COLLECT_AFTER = (100_000, 50, 100)
"""Thresholds of Python's garbage collector. Exporters make millions of objects and hardly any cycles: with
the default thresholds, the collector takes a tenth of the time of a build."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one build."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    faulthandler.enable()  # a crash in a library leaves a traceback in the log
    out = _reserved_stdout()
    notify = _notifier(out, as_json=options.json_progress)
    order = BuildOrder(
        model=options.model,
        targets=options.targets.split(),
        choices=options.choices,
        bucket=options.publish,
        cache=options.cache,
        job=options.job,
        write=options.write,
    )
    try:
        if options.token_secret:
            _take_token(options.token_secret)
        # With --json-progress, standard error is a log. Without it, people see only the error.
        log = sys.stderr if options.json_progress else None
        return run_order(options.project or find_project(), order, notify, log)
    except KeyboardInterrupt:
        stopped = {
            "message": "stopped",
            "remedy": "rerun the build",
            "code": CommandInterruptedError.code,
            "exit_code": _INTERRUPTED,
        }
        notify({"event": "failed", "model": order.model, **stopped})
        return _INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m model_build", description="Build one model.")
    parser.add_argument(
        "--project", type=_project, help="project folder (default: found from the current folder)"
    )
    parser.add_argument("--model", required=True, help="model name")
    parser.add_argument("--targets", default="cpu", help="targets to build for, most specific first")
    parser.add_argument("--publish", metavar="BUCKET", help="upload the artifact to this bucket")
    parser.add_argument(
        "--cache", metavar="URL", help="s3://bucket/prefix shared by builds on several machines"
    )
    parser.add_argument(
        "--choices",
        type=_choices,
        default={},
        metavar="JSON",
        help="graphs that `precision: auto` chose before, by model",
    )
    parser.add_argument("--job", help="name of the build record to write to the bucket")
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FOLDER",
        help="write the repository to this empty folder, and no artifact",
    )
    parser.add_argument("--token-secret", metavar="NAME", help="secret with the Hugging Face token")
    parser.add_argument("--json-progress", action="store_true", help="report progress as lines of JSON")
    return parser


def _choices(text: str) -> dict[str, str]:
    try:
        return TypeAdapter(dict[str, str]).validate_json(text or "{}")
    except ValidationError:
        raise argparse.ArgumentTypeError(f"expected a JSON object of strings, got {text!r}") from None


def _project(text: str) -> Project:
    return Project(Path(text).resolve())


def _reserved_stdout() -> TextIO:
    """Reserve standard output for events; send what libraries print to standard error."""
    stdout = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    sys.stdout.flush()
    os.dup2(2, 1)
    return stdout


def _notifier(out: TextIO, *, as_json: bool) -> Notify:
    render: Callable[[dict[str, Any]], str] = json.dumps if as_json else _event_text

    def notify(event: dict[str, Any]) -> None:
        print(render(event), file=out, flush=True)

    return notify


def _event_text(event: dict[str, Any]) -> str:
    match event["event"]:
        case "built":
            digest = short_digest(event["digest"])
            return f"{event['model']} {digest} for {event['target']}: {event['directory']}"
        case "written":
            return f"{event['model']}: {event['repository']}"
        case "failed":
            remedy = f"\n  help: {event['remedy']}" if event.get("remedy") else ""
            location = f"{event['where']}: " if event.get("where") else ""
            return f"{heading(event['code'])}: {location}{event['message']}{remedy}"
    detail = f" {event['detail']}" if event["detail"] else ""
    return f"{event['step']}: {event['state']}{detail}"


def _take_token(secret: str) -> None:
    """Read the token inside this process, for jobs whose service does not inject it."""
    import boto3  # noqa: PLC0415 - takes time to import, and most builds need no secret

    value = boto3.client("secretsmanager").get_secret_value(SecretId=secret)
    os.environ["HF_TOKEN"] = value["SecretString"].strip()


def _end(exit_code: int) -> NoReturn:
    """Run the exit handlers and end. Python would free the framework's objects one by one, for seconds."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


if __name__ == "__main__":
    gc.set_threshold(*_COLLECT_AFTER)
    _end(main())
