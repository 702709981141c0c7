"""Check whether a process is alive by its id and start time, and end with the parent process (Linux)."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def start_ticks(pid: int) -> int | None:
    """Return the start time of a process in kernel ticks; None if it does not exist or is dead.

    An id alone does not identify a process: ids are reused.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name, in parentheses, may contain blanks and parentheses.
    fields = stat.rpartition(")")[2].split()
    state, ticks = fields[0], int(fields[19])
    return None if state in {"Z", "X"} else ticks


def is_running(pid: int, ticks: int | None) -> bool:
    """Return whether the process that started at `ticks` is alive."""
    return ticks is not None and start_ticks(pid) == ticks


def die_with_parent() -> None:
    """Make the kernel send SIGTERM to this process when its parent ends."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        # The parent ended before prctl took effect.
        os.kill(os.getpid(), signal.SIGTERM)
