"""Check the numbers among the options of load tests, searches, and simulations."""

from __future__ import annotations

import math

from tritonstack.base.error_kinds import CommandLineError

USERS = (1, 1_000)
RATES = (0.01, 10_000)
SPEEDS = (0.01, 1_000)
TIMEOUTS_S = (1, 900)
LEVEL_S = (1, 86_400)
"""Time of one level of a load test."""
RUN_S = (1, 600)
"""Time of one run of a search."""
RUNS = (2, 1_000)
LEAST_P99_MS = 0.01
LEAST_MINUTES = 0.1
"""Of the budget of a search."""
FACTORS = (0.001, 1_000)
"""How many times as many requests."""
STARTS_S = (0, 3_600)
"""Provisioning, and loading of a model."""
YEARS = (1970, 2199)
"""Those of schedules."""


def require_range(option: str, value: float | None, lowest: float, highest: float = math.inf) -> None:
    """Raise UsageError unless a number is in a range; NaN and infinity are in none."""
    if value is None or (math.isfinite(value) and lowest <= value <= highest):
        return
    allowed = f"from {lowest:g} on" if math.isinf(highest) else f"from {lowest:g} to {highest:.10g}"
    raise CommandLineError(
        f"{option} {value:g}: expected a number {allowed}",
        remedy=f"write a number {allowed}",
    )


def require_seed(seed: int) -> None:
    """Raise UsageError unless random numbers can start from a number."""
    require_range("--seed", seed, 0)
