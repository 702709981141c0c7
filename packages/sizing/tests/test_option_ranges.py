"""Numbers among the options of load tests, searches, and simulations."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from tritonstack.base.errors import UsageError
from tritonstack.cli.main import run
from tritonstack.cli.registry import command_module
from tritonstack_sizing.loads.bench import LoadOptions
from tritonstack_sizing.option_ranges import require_range

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
