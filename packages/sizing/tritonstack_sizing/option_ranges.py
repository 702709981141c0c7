"""The numbers that options accept: on the command line, and in Python."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tritonstack.base.error_kinds import CommandLineError

TUNE = "tune "
"""Prefix of an option of `tune` that has another range there."""
RANGES: Mapping[str, tuple[float, float]] = {
    "--users": (1, 1_000),
    "--rate": (0.01, 10_000),
    "--speed": (0.01, 1_000),
    "--timeout": (1, 900),
    "--duration": (1, 86_400),
    f"{TUNE}--duration": (1, 600),
    "--runs": (2, 1_000),
    "--p99": (0.01, math.inf),
    "--budget": (0.1, math.inf),
    "--cores": (1, math.inf),
    "--factor": (0.001, 1_000),
    "--provisioning": (0, 3_600),
    "--loading": (0, 3_600),
    "--rollout-at": (0, math.inf),
    "--no-capacity": (0, math.inf),
    "--begin, year": (1970, 2199),
    "--seed": (0, math.inf),
}


def require_ranges(*options: tuple[str, float | None]) -> None:
    """Raise UsageError unless each number is in the range of its option; NaN and infinity are in none."""
    for option, value in options:
        require_range(option.removeprefix(TUNE), value, *RANGES[option])


def require_range(option: str, value: float | None, lowest: float, highest: float = math.inf) -> None:
    """Raise UsageError unless a number is in a range."""
    if value is None or (math.isfinite(value) and lowest <= value <= highest):
        return
    allowed = f"from {lowest:g} on" if math.isinf(highest) else f"from {lowest:g} to {highest:.10g}"
    raise CommandLineError(
        f"{option} {value:g}: expected a number {allowed}",
        remedy=f"write a number {allowed}",
    )
