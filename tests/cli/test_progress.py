"""Progress: a person always sees what a command waits for, and pipes and files get no live lines."""

from __future__ import annotations

import io
import json
import re
import threading

import pytest
from rich.console import Console, Group

from tritonstack.cli import progress
from tritonstack.cli.main import run
from tritonstack.cli.output import Output

ESCAPE = "\x1b"


class Clock:
    """Time that passes when a test says so."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def piped() -> tuple[Output, io.StringIO]:
    stream = io.StringIO()
    return Output(notes=Console(file=stream, soft_wrap=True, highlight=False)), stream


def test_short_steps_with_something_to_report_leave_their_lines(clock):
    output, stream = piped()
    with output.steps() as steps:
        with steps.step("building", label="minilm") as building:
            building.log("half")
        with steps.step("testing") as two:
            two.failed = True
        with steps.step("synthesizing") as three:
            three.detail = "unchanged"
    assert stream.getvalue().splitlines() == [
        "  minilm: half",
        "✓ building (0.0 s)",
        "✗ testing (0.0 s)",
        "✓ synthesizing  unchanged (0.0 s)",
    ]


def test_a_terminal_shows_each_running_step_its_time_and_its_state(clock):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=60)
    steps = progress.ConsoleSteps(console)
    with steps.step("deploying") as outer, steps.step("copying the model") as inner:
        clock.now += 75
        outer.update("3/12 UPDATE_IN_PROGRESS AWS::SageMaker::Endpoint Endpoint")
        shown = io.StringIO()
        Console(file=shown, width=60).print(Group(outer.progress("*"), inner.progress("*")))
    lines = shown.getvalue().splitlines()
    assert lines[0].startswith("* deploying  1 min 15 s  3/12 UPDATE_IN_PROGRESS")
    assert lines[1].endswith("the model  1 min 15 s")
    assert max(map(len, lines)) <= 60
    assert "✓" in stream.getvalue()


def test_steps_in_threads_share_one_live_display(clock):
    stream = io.StringIO()
    steps = progress.ConsoleSteps(Console(file=stream, force_terminal=True))
    together = threading.Barrier(4)

    def work(number: int) -> None:
        with steps.step(f"step {number}") as step:
            together.wait()
            step.detail = "done"

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(re.findall(r"step \d  done", re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()))) == [
        f"step {number}  done" for number in range(4)
    ]


@pytest.mark.parametrize(
    "console",
    [
        lambda stream: Console(file=stream),
        lambda stream: Console(file=stream, force_terminal=True, _environ={"TERM": "dumb"}),
    ],
    ids=["pipe", "dumb"],
)
def test_only_a_terminal_that_can_move_its_cursor_gets_live_lines(console, clock):
    stream = io.StringIO()
    steps = progress.ConsoleSteps(console(stream))
    with steps.step("deploying") as step:
        assert not step.interactive
        step.update("half")
        clock.now += 2
    assert ESCAPE not in stream.getvalue()


@pytest.mark.parametrize(
    ("terminal", "as_json", "shown"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_the_next_command_is_suggested_to_people_only(*, terminal, as_json, shown):
    notes, results = io.StringIO(), io.StringIO()
    output = Output(
        as_json=as_json,
        results=Console(file=results, force_terminal=terminal),
        notes=Console(file=notes, no_color=True),
    )
    output.suggest("tritonstack diff dev", "tritonstack deploy dev")
    output.suggest()
    assert notes.getvalue().endswith("deploy dev\n") is shown
    assert results.getvalue() == ""


@pytest.mark.parametrize(
    "command",
    [
        "status",
        "status dev",
        "diff dev",
        "verify dev",
        "deploy dev",
        "audit dev",
        "audit",
        "history minilm",
        "logs dev search",
        "invoke dev search text",
        "snippet dev search",
        "reap --dry-run",
    ],
)
def test_every_aws_call_is_made_within_a_step(command, built, aws_calls, capsys):
    """The fixture fails the test if a call is made while no step says what the command waits for."""
    code = run(["--project", str(built.root), "--json", *command.split()])
    printed = capsys.readouterr().out
    assert json.loads(printed), code
    assert aws_calls
