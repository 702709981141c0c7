"""`tritonstack explain`: describe an error code."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tritonstack.base.errors import UsageError
from tritonstack.cli.context import Context
from tritonstack.reference.error_codes import EXAMPLES, GROUPS, KINDS, RETIRED


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
        titles = {code: kind.title for code, kind in KINDS.items()}
        state.output.result({"codes": titles}, text=_contents())
        return
    requested = code.strip("[]").upper()
    kind = KINDS.get(requested)
    if kind is None:
        raise _unknown(requested)
    found = json.loads(EXAMPLES.read_text(encoding="utf-8"))[requested]
    parts = [f"{requested}: {kind.title}", kind.explanation, f"Example: {found['example']}", found["message"]]
    state.output.result(
        {"code": requested, "title": kind.title, "explanation": kind.explanation, **found},
        text="\n\n".join(filter(None, parts)),
    )


def _contents() -> str:
    lines: list[str] = []
    for title, kinds in GROUPS.items():
        lines += ["", title, *(f"  {code}  {kind.title}" for code, kind in kinds.items())]
    return "\n".join(lines[1:])


def _unknown(code: str) -> UsageError:
    if code in RETIRED:
        return UsageError(
            f"{code} ({RETIRED[code]}) is no longer used",
            remedy="see the changelog for the version that removed it",
            code="TS903",
        )
    return UsageError(
        f"unknown error code {code!r}",
        remedy="write a code such as TS104; `tritonstack explain` lists all",
        code="TS903",
    )
