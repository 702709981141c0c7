"""The commands `bench`, `tune`, and `simulate`."""

from __future__ import annotations

import math
from typing import Any

import typer

from tritonstack_sizing.option_ranges import RANGES


def number_option(name: str, summary: str, metavar: str | None = None) -> Any:
    """Return an option that accepts the numbers of its range."""
    lowest, highest = RANGES[name]
    return typer.Option(
        min=lowest, max=None if math.isinf(highest) else highest, help=summary, metavar=metavar
    )
