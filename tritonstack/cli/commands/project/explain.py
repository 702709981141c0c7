"""`tritonstack explain`: describe an error code."""

from __future__ import annotations

from typing import Annotated

import typer

from tritonstack.cli.context import Context
from tritonstack.operate.project.error_codes import ErrorCodes, ExplainedCode, explain_code, list_codes


def explain(
    context: typer.Context,
    code: Annotated[
        str | None, typer.Argument(help="Code of an error, such as TS104; without it, list all codes.")
    ] = None,
) -> None:
    """Explain an error code: what causes the error, and how to fix it.

    Every error has a code. It is printed with the message, as in error[TS608], and is the field "code" of
    JSON output. Without a code, the command lists all codes.

    Example: tritonstack explain TS104
    """
    state: Context = context.obj
    if code is None:
        codes = list_codes()
        state.output.result(codes, text=_contents(codes))
        return
    explained = explain_code(code)
    state.output.result(explained, text=_text(explained, code))


def _contents(codes: ErrorCodes) -> str:
    return "\n\n".join(
        "\n".join([group, *(f"  {code}  {title}" for code, title in titles.items())])
        for group, titles in codes.groups.items()
    )


def _text(explained: ExplainedCode, code: str) -> str:
    requested = code.strip("[]").upper()
    parts = [
        f"{requested} is now {explained.code}." if requested != explained.code else "",
        f"{explained.code}: {explained.title}",
        explained.explanation,
        f"Example: {explained.example}",
        explained.message,
    ]
    return "\n\n".join(filter(None, parts))
