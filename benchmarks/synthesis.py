"""Measure how `cdk synth` scales: to 100 endpoints, and to 1,000 models behind one endpoint.

    python -m benchmarks.synthesis [--rounds 3]

Run the real CDK CLI in generated projects. Each figure is the best of its rounds, because other load on the
machine can only add to it; the ratio matters, and both of its sides come from the same run.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.growth.projects import (
    ENVIRONMENT,
    INSTANCE_TYPE,
    Content,
    many_models,
    write_growing_project,
)
from benchmarks.measuring import command, stopwatch
from tritonstack.base.paths import Project


def main() -> None:
    """Measure both and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="number of runs, of which the best is reported")
    rounds = parser.parse_args().rounds
    ten, hundred, single, thousand = best_times(
        [ensembles(10), ensembles(100), many_models(1), many_models(1000)], rounds
    )
    table = Table("what", "measured", "limit", title="cdk synth")
    table.add_row("10 endpoints", f"{ten:.1f} s", "")
    table.add_row("100 endpoints", f"{hundred:.1f} s = {hundred / ten:.1f} × as long", "5 ×")
    table.add_row("multi-model endpoint, 1 model", f"{single:.1f} s", "")
    table.add_row(
        "multi-model endpoint, 1,000 models", f"{thousand:.1f} s = {thousand - single:+.1f} s", "+2 s"
    )
    Console().print(table)


def ensembles(count: int) -> Content:
    """Return endpoints that share one model."""
    endpoint: dict[str, object] = {"kind": "ensemble", "model": "encoder", "instance_type": INSTANCE_TYPE}
    return ["encoder"], {f"search-{number}": endpoint for number in range(count)}


def best_times(contents: list[Content], rounds: int) -> list[float]:
    """Return the shortest synthesis of each project, in interleaved runs."""
    with tempfile.TemporaryDirectory() as folder:
        projects = [
            write_growing_project(Path(folder) / str(number), content)
            for number, content in enumerate(contents)
        ]
        times = [[_synth(project) for project in projects] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def _synth(project: Project) -> float:
    with stopwatch() as elapsed:
        command("cdk", "synth", "--quiet", "-c", f"env={ENVIRONMENT}", folder=project.root)
    return elapsed[0]


if __name__ == "__main__":
    main()
