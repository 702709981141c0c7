"""Compare what commands print with `--json` with the schemas of their results."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from jsonschema import Draft202012Validator

from tools.command_results import RESULTS
from tritonstack.base.results import document, schema
from tritonstack.cli import main
from tritonstack.cli.output import ErrorDocument, Output
from tritonstack.cli.registry import COMMANDS


@functools.cache
def validator(name: str) -> Draft202012Validator:
    """Return the validator of a command's result, or of `error`."""
    return Draft202012Validator(schema(RESULTS.get(name, ErrorDocument)))


def require_valid(command: str, document: Mapping[str, Any]) -> None:
    """Raise AssertionError if a document differs from its schema."""
    name = "error" if "error" in document and command != "dev" else command
    found = [f"{error.json_path}: {error.message}" for error in validator(name).iter_errors(document)]
    assert not found, f"`{command}` does not fit its schema:\n" + "\n".join(found)


@contextmanager
def checked_results() -> Iterator[list[str]]:
    """Compare the results of all commands that run in this process; yields the names of those that ran."""
    ran: list[str] = []
    app, result, json_lines = main.app, Output.result, Output.json_lines

    def recorded_app(*, args: list[str], **options: Any) -> Any:
        ran.extend([word for word in args if word in COMMANDS][:1])
        return app(args=args, **options)

    def checked_result(output: Output, data: object, *, text: Any, **more: Any) -> None:
        if ran:  # tests also print results without a command
            require_valid(ran[-1], document(data))
        result(output, data, text=text, **more)

    def checked_lines(output: Output, items: Any) -> None:
        documents = list(items)
        for item in documents if ran else ():
            require_valid(ran[-1], document(item))
        json_lines(output, documents)

    with (
        patch.object(main, "app", recorded_app),
        patch.object(Output, "result", checked_result),
        patch.object(Output, "json_lines", checked_lines),
    ):
        yield ran
