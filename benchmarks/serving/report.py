"""Rows, goals, and machine facts of a run: as tables, and as JSON."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.serving.goals import Outcome, Row

LIBRARIES = ("onnxruntime", "torch", "transformers", "tokenizers", "xgboost-cpu", "numpy")


def print_rows(title: str, rows: Sequence[Row]) -> None:
    """Print the medians, with the range of the rates."""
    table = Table(title=title, show_lines=True)
    for column in (
        "contestant",
        "backend",
        "users",
        "requests/s",
        "range",
        "p50 ms",
        "p99 ms",
        "CPU ms",
        "cosine",
        "errors",
    ):
        table.add_column(column, justify="left" if column in ("contestant", "backend") else "right")
    for row in rows:
        figures = row.to_json()
        table.add_row(
            f"{row.contestant}\n{row.form}".strip(),
            row.backend,
            str(row.users),
            f"{figures['rps']:.0f}",
            f"{figures['rps_min']:.0f}-{figures['rps_max']:.0f}",
            f"{figures['p50_ms']:.1f}",
            f"{figures['p99_ms']:.1f}",
            f"{figures['cpu_ms_per_request']:.2f}",
            f"{figures['cosine_min']:.4f}",
            str(row.errors + len(row.wrong)),
        )
    Console(width=170).print(table)


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """Print whether the goals are met."""
    table = Table(title="goals: the median of the ratios within each round")
    for column in ("contestant", "against", "users", "figure", "threshold", "ratio", "CPU ratio", ""):
        table.add_column(column, justify="left" if column in ("contestant", "against", "figure") else "right")
    for outcome in outcomes:
        sign = "at least" if outcome.figure == "throughput" else "at most"
        limit = f"{sign} {outcome.threshold:.2f}"
        ratios = (f"{outcome.ratio:.2f}", f"{outcome.processor:.2f}")
        result = "pass" if outcome.met else "MISS"
        table.add_row(
            outcome.goal.ours, outcome.goal.peer, str(outcome.users), outcome.figure, limit, *ratios, result
        )
    Console(width=170).print(table)


def failures(name: str, work: Mapping[str, Any]) -> Iterator[str]:
    """Yield the errors and wrong answers of a work."""
    if "failure" in work:
        yield f"{name}: {work['failure'].splitlines()[-1]}"
    for row in work.get("rows", ()):
        if row["errors"]:
            yield f"{name}: {row['contestant']}, {row['users']} users: {row['errors']} errors"
        for text in row["wrong_answers"]:
            yield f"{name}: {row['contestant']}, {row['users']} users: {text}"


def machine() -> dict[str, Any]:
    """Return facts of the machine and of the code."""
    processors = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "processor": processors[0] if processors else platform.processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
        "commit": commit.stdout.strip(),
        "load_average": os.getloadavg(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def write_json(file: Path, report: Mapping[str, Any]) -> None:
    """Write the report; each finished work replaces the previous version."""
    file.write_text(json.dumps(report, indent=2) + "\n")
