"""How long this process has been running, for commands that account for their whole time."""

from __future__ import annotations

import os
import time
from pathlib import Path

_IMPORTED = time.monotonic()


def process_seconds() -> float:
    """Return the seconds since this process started; without /proc, since the import of this module."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return time.monotonic() - _IMPORTED
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # field 22, counted from 1
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started
