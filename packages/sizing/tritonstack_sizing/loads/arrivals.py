"""When requests are due: at random, evenly, or as a trace says."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tritonstack_sizing.errors import NoMeasurementsError

Offsets = NDArray[np.float64]
"""Seconds from the start of a run, in order."""
MAX_REQUESTS = 5_000_000
_LONGEST_S = 366 * 86_400.0
_COLUMNS = (["seconds", "rate"], ["at"])


@dataclass(frozen=True)
class Trace:
    """When requests arrive."""

    offsets: Offsets
    seconds: float


def poisson(rate: float, seconds: float, *, seed: int) -> Trace:
    """Return arrivals at random, independent of each other: many users who know nothing of each other."""
    generator = np.random.default_rng(seed)
    count = generator.poisson(rate * seconds)
    return Trace(np.sort(generator.uniform(0, seconds, count)), seconds)


def constant(rate: float, seconds: float) -> Trace:
    """Return arrivals at even distances."""
    return Trace(np.arange(math.floor(rate * seconds)) / rate, seconds)


def read_trace(file: Path, *, seed: int) -> Trace:
    """Return the arrivals in a CSV file.

    Its columns are `seconds,rate` (so many seconds with so many requests per second, at random), or `at` (the
    second at which each request is due).
    """
    header, numbers = _read_rows(file)
    if header == ["at"]:
        return _at(file, [row[0] for row in numbers])
    return _at_rates(file, [(row[0], row[1]) for row in numbers], seed)


def _read_rows(file: Path) -> tuple[list[str], list[list[float]]]:
    try:
        with file.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.reader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(file, 1, str(getattr(error, "strerror", None) or error)) from error
    header = [name.strip() for name in rows[0]] if rows else []
    if header not in _COLUMNS:
        raise _unreadable(file, 1, "the first line is neither `seconds,rate` nor `at`")
    return header, list(_numbers(file, rows, len(header)))


def read_counts(file: Path, *, step_s: float, seed: int) -> NDArray[np.int64]:
    """Return how many requests of a CSV file arrive per step of time, for loads of any size."""
    header, numbers = _read_rows(file)
    if header == ["at"]:
        return count_arrivals(_at(file, [row[0] for row in numbers]), step_s=step_s)
    parts = [(row[0], row[1]) for row in numbers]
    _require_short(file, sum(seconds for seconds, _ in parts))
    if not any(seconds * rate for seconds, rate in parts):
        raise _unreadable(file, 2, "there are no requests")
    ends = np.cumsum([0.0, *(seconds for seconds, _ in parts)])
    sums = np.cumsum([0.0, *(seconds * rate for seconds, rate in parts)])
    steps = np.arange(math.ceil(ends[-1] / step_s) + 1) * step_s
    expected = np.diff(np.interp(steps, ends, sums))
    counts: NDArray[np.int64] = np.random.default_rng(seed).poisson(expected)
    return counts


def count_arrivals(trace: Trace, *, step_s: float) -> NDArray[np.int64]:
    """Return how many requests arrive per step of time."""
    steps = max(1, math.ceil(trace.seconds / step_s), math.floor(trace.offsets.max(initial=0.0) / step_s) + 1)
    return np.bincount((trace.offsets / step_s).astype(np.int64), minlength=steps)


def _numbers(file: Path, rows: list[list[str]], columns: int) -> Iterator[list[float]]:
    for line, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        try:
            values = [float(cell) for cell in row]
        except ValueError as error:
            raise _unreadable(file, line, str(error)) from error
        if len(values) != columns or not all(math.isfinite(value) and value >= 0 for value in values):
            raise _unreadable(file, line, f"expected {columns} numbers from 0 on, got {','.join(row)!r}")
        yield values


def _at(file: Path, offsets: list[float]) -> Trace:
    for line, (earlier, later) in enumerate(pairwise(offsets), start=3):
        if later < earlier:
            raise _unreadable(file, line, f"{later:g} comes after {earlier:g}; sort the lines")
    _require_sound(file, len(offsets))
    _require_short(file, offsets[-1])
    return Trace(np.array(offsets, dtype=np.float64), offsets[-1])


def _at_rates(file: Path, parts: list[tuple[float, float]], seed: int) -> Trace:
    _require_sound(file, sum(seconds * rate for seconds, rate in parts))
    _require_short(file, sum(seconds for seconds, _ in parts))
    pieces, start = [], 0.0
    for number, (seconds, rate) in enumerate(parts):
        pieces.append(start + poisson(rate, seconds, seed=seed + number).offsets)
        start += seconds
    return Trace(np.concatenate(pieces), start)


def _require_sound(file: Path, requests: float) -> None:
    if not requests:
        raise _unreadable(file, 2, "there are no requests")
    if requests > MAX_REQUESTS:
        raise _unreadable(file, 2, f"there are {requests:,.0f} requests, more than {MAX_REQUESTS:,}")


def _require_short(file: Path, seconds: float) -> None:
    if seconds > _LONGEST_S:
        raise _unreadable(file, 2, f"the load lasts {seconds / 86_400:,.0f} days, more than a year")


def _unreadable(file: Path, line: int, message: str) -> NoMeasurementsError:
    return NoMeasurementsError(
        f"{file}:{line}: {message}",
        remedy="write the line `seconds,rate` and below it, for example, `60,20` for a minute with 20 "
        "requests per second; or the line `at` and below it the second of each request",
    )
