"""Text of other people, models, and logs cannot control the terminal."""

from __future__ import annotations

import io
import json
from functools import partial
from typing import Any

import pytest
from rich.console import Group
from rich.table import Table
from rich.text import Text

from tests.cli.operate.test_status import NOW, event
from tritonstack.base.errors import TritonstackError
from tritonstack.cli.commands.operate.status import environment_view
from tritonstack.cli.output import Output
from tritonstack.cli.rendering.tables import Column, FittedTable
from tritonstack.cli.rendering.text import HangingText, PrintableConsole
from tritonstack.operate.status.status import EndpointStatus, EnvironmentStatus

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b2J\u202e"
SHOWN = r"\x1b]0;owned\x07\x1b[2J\x9b2J\u202e"
RAW = ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\u202e")


@pytest.fixture(params=[False, True], ids=["pipe", "terminal"])
def output(request):
    stream = io.StringIO()
    console = PrintableConsole(
        file=stream, force_terminal=request.param, soft_wrap=True, highlight=False, width=100
    )
    return Output(results=console, notes=console), stream


def step(output: Output) -> None:
    with output.step(f"build {HOSTILE}") as step:
        step.update(HOSTILE)
        step.log(HOSTILE)
        step.detail = HOSTILE


def plain_table() -> Table:
    table = Table(box=None)
    table.add_column("")
    table.add_row(HOSTILE)
    return table


def status() -> Group:
    """Return the status of an endpoint with a hostile author, model answer, and alarm."""
    environment = EnvironmentStatus(
        "dev",
        endpoints=(
            EndpointStatus(
                name="search",
                endpoint="t-dev-search",
                status="InService",
                deployed=event(by=HOSTILE),
                verdict=event("refuted", note=HOSTILE),
                firing_alarms=(HOSTILE,),
            ),
        ),
    )
    return Group(*environment_view(environment, now=NOW))


VIEWS = {
    "table": plain_table(),
    "cells": FittedTable((Column("name"), Column("text")), [[HOSTILE, Text(f"a {HOSTILE}", "bold")]]),
    "hanging": HangingText(Text(f"  {HOSTILE}")),
    "status": status(),
}


@pytest.mark.parametrize(
    "show",
    [
        pytest.param(lambda output: output.note(HOSTILE), id="note"),
        pytest.param(lambda output: output.error(TritonstackError(HOSTILE, remedy=None)), id="error"),
        pytest.param(lambda output: output.error(TritonstackError("x", remedy=HOSTILE)), id="remedy"),
        pytest.param(lambda output: output.result({}, text=HOSTILE), id="text"),
        pytest.param(lambda output: output.result({}, text=HOSTILE, wrap=True), id="wrapped"),
        pytest.param(lambda output: output.result({}, text=Text(HOSTILE, "bold")), id="styled"),
        *(pytest.param(partial(Output.result, data={}, text=view), id=name) for name, view in VIEWS.items()),
        pytest.param(lambda output: output.log_lines([("now", HOSTILE)]), id="log"),
        pytest.param(lambda output: output.piece(HOSTILE), id="piece"),
        pytest.param(step, id="step"),
        pytest.param(lambda output: output.results.print(f"\n{HOSTILE}", markup=False), id="print"),
    ],
)
def test_control_characters_are_escaped(output, show):
    show(output[0])
    printed = output[1].getvalue()
    assert [sequence for sequence in RAW if sequence in printed] == []
    # Rich removes some control characters, such as the bell, from text that it gets unescaped.
    assert SHOWN.replace(r"\x07", "") in printed.replace(r"\x07", "")


@pytest.mark.parametrize("is_error", [False, True])
def test_json_has_its_own_escapes(is_error):
    stream = io.StringIO()
    console = PrintableConsole(file=stream)
    output = Output(as_json=True, results=console, notes=PrintableConsole(file=io.StringIO()))
    if is_error:
        output.error(TritonstackError(HOSTILE, remedy=None))
    else:
        output.result({"text": HOSTILE}, text="")
    printed: Any = stream.getvalue()
    assert [sequence for sequence in RAW if sequence in printed] == []
    document = json.loads(printed)
    assert (document["error"]["message"] if is_error else document["text"]) == HOSTILE


def test_text_of_other_languages_stays():
    stream = io.StringIO()
    Output(as_json=True, results=PrintableConsole(file=stream)).result({"text": "café 日本"}, text="")
    Output(results=PrintableConsole(file=stream)).result({}, text="café\t日本\n")
    assert "café 日本" in stream.getvalue()
    assert "\\" not in stream.getvalue()
