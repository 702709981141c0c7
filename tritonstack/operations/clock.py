"""Time as a run sees it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """What waits, waits by it; tests let it pass faster."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
