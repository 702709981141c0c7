"""Numbers among the options of load tests, searches, and simulations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from tritonstack.base.errors import UsageError
from tritonstack.cli.main import run
from tritonstack.cli.registry import command_module
from tritonstack.operations.scaling_simulation.fleet import TimeWindow
from tritonstack.operations.tuning.objectives import Objective
from tritonstack.workflows.sizing.bench import LoadOptions
from tritonstack.workflows.sizing.option_ranges import require_range
from tritonstack.workflows.sizing.simulation_options import SimulationOptions
from tritonstack.workflows.sizing.tune_options import TuneOptions

ARGUMENTS = {
    "bench": ("dev", "search"),
    "simulate": ("dev", "search", "--trace", "load.csv"),
    "tune": ("minilm",),
}
TRACE = Path("load.csv")
WRONG = ("nan", "-1")


def numeric_options() -> Iterator[tuple[str, str]]:
    """Yield each command with each of its options that takes a number."""
    for command in ARGUMENTS:
        function = getattr(import_module(command_module(command)), command)
        for name, hint in get_type_hints(function, include_extras=True).items():
            kinds, metavar = set(get_args(hint)), ""
            for part in get_args(hint):
                kinds |= set(get_args(part))
                metavar = getattr(part, "metavar", None) or metavar
            if kinds & {int, float} or metavar in {"NUMBERS", "TIME", "BEGIN/LENGTH"}:
                yield command, f"--{name.replace('_', '-')}"


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize(("command", "option"), list(numeric_options()))
def test_every_number_of_a_command_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, option: str, wrong: str
) -> None:
    (tmp_path / "cdk.json").write_text("{}")
    (tmp_path / "environments").mkdir()
    assert run(["--project", str(tmp_path), command, *ARGUMENTS[command], f"{option}={wrong}"]) == 2
    assert option in capsys.readouterr().err


def test_the_options_that_are_checked() -> None:
    options = set(numeric_options())
    assert {("bench", "--speed"), ("simulate", "--factor"), ("simulate", "--rollout-at")} <= options
    assert {command for command, option in options if option == "--seed"} == set(ARGUMENTS)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1, -0.5])
@pytest.mark.parametrize(
    ("options", "field", "is_list"),
    [
        *(("load", name, False) for name in ("seconds", "speed", "timeout_s", "seed")),
        *(("load", name, True) for name in ("users", "rates")),
        *(("tune", name, False) for name in ("users", "seconds", "most_runs", "budget_s", "cores", "seed")),
        *(("objective", name, False) for name in ("p99_ms", "rate")),
        *(("simulation", name, False) for name in ("factor", "provisioning_s", "loading_s", "seed")),
        ("simulation", "rollouts", True),
    ],
)
def test_numbers_that_are_passed_from_python_are_checked(
    options: str, field: str, is_list: bool, value: Any
) -> None:
    fields: dict[str, Any] = {field: [value] if is_list else value}
    makers = {
        "load": lambda: LoadOptions(**fields),
        "tune": lambda: TuneOptions(**fields),
        "objective": lambda: TuneOptions(objective=Objective(**fields)),
        "simulation": lambda: SimulationOptions(trace=TRACE, **fields),
    }
    with pytest.raises(UsageError, match="expected a number") as caught:
        makers[options]()
    assert caught.value.code == "TS901"


@pytest.mark.parametrize("window", [TimeWindow(-1, 1), TimeWindow(0, math.inf), TimeWindow(math.nan, 1)])
def test_windows_that_are_passed_from_python_are_checked(window: TimeWindow) -> None:
    with pytest.raises(UsageError, match="--no-capacity"):
        SimulationOptions(trace=TRACE, no_capacity=[window])


def test_a_range_includes_its_bounds() -> None:
    for value in (None, 1, 2, 2.5, 10):
        require_range("--x", value, 1, 10)
    for value in (0.999, 10.001):
        with pytest.raises(UsageError, match=rf"--x {value}: .* 1 to 10"):
            require_range("--x", value, 1, 10)
    with pytest.raises(UsageError, match="--x 0: "):
        require_range("--x", 0, 1)


def test_a_level_has_a_limited_number_of_requests() -> None:
    with pytest.raises(UsageError, match=r"--rate 10000 .*10,000,000"):
        LoadOptions(rates=(1, 10_000), seconds=1000)
    LoadOptions(rates=(1, 5_000), seconds=1000)
