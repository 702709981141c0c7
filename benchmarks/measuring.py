"""Helpers of the benchmarks: a stopwatch, percentiles, and commands that print output on failure."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

WARM_UP = 20


def command(*argv: str, folder: Path | None = None) -> None:
    """Run a command; its output is shown only if it fails."""
    result = subprocess.run(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=folder
    )
    if result.returncode:
        sys.exit(f"{' '.join(argv)} failed:\n{result.stdout}")


def seconds(action: Callable[[], object]) -> str:
    """Return the duration of one action."""
    with stopwatch() as elapsed:
        action()
    return f"{elapsed[0]:.1f} s"


def percentiles(action: Callable[[int], object], count: int) -> str:
    """Return the median and the 99th percentile of many actions, after a warm-up."""
    for index in range(WARM_UP):
        action(index)
    times = []
    for index in range(count):
        with stopwatch() as elapsed:
            action(index)
        times.append(elapsed[0] * 1000)
    return f"p50 {statistics.median(times):.1f} ms, p99 {np.percentile(times, 99):.1f} ms, {count} requests"


@contextmanager
def stopwatch() -> Iterator[list[float]]:
    """Yield a list that contains the elapsed seconds once the block has ended."""
    elapsed: list[float] = []
    started = time.perf_counter()
    yield elapsed
    elapsed.append(time.perf_counter() - started)
