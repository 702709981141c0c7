"""Provide the time, replaceable in tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """Time source for code that waits; tests speed it up."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
