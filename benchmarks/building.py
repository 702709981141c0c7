"""Measure where the time of a build goes, from the start of the command to its end.

    python -m benchmarks.building [--environment local] [--model minilm-embedding] [--rounds 5] [--warm]

Run `tritonstack build ENVIRONMENT MODEL --no-publish` without the artifact and the packed execution
environments of earlier builds, in a state folder of its own; wheels and packages stay downloaded. Print the
median of each printed step, the command's wall time and CPU time, and the share of the wall time that the
steps account for. With --warm, execution environments stay too.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.measuring import stopwatch
from tritonstack.base.paths import Project, find_project

STEP = re.compile(r"^(?P<name>.+?)(?:: .*)? \((?P<seconds>\d+\.\d) s\)$")
LIMIT_S = 20


@dataclass(frozen=True)
class Build:
    """One measured build."""

    wall: float
    cpu: float
    steps: dict[str, float]
    """Seconds by step, as printed."""


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--environment", default="local")
    parser.add_argument("--model", default="minilm-embedding")
    parser.add_argument("--rounds", type=int, default=5, help="number of builds")
    parser.add_argument("--warm", action="store_true", help="keep packed execution environments")
    options = parser.parse_args()
    project = find_project()
    with tempfile.TemporaryDirectory() as temporary:
        home = _state_folder(project, Path(temporary))
        _build(home, options.environment, options.model)  # downloads what is missing
        builds = []
        for _ in range(options.rounds):
            shutil.rmtree(home / "artifacts")
            if not options.warm:
                shutil.rmtree(home / "cache" / "environments", ignore_errors=True)
            builds.append(_build(home, options.environment, options.model))
    Console(width=110).print(_table(options.model, builds))


def _state_folder(project: Project, folder: Path) -> Path:
    """Return a state folder with this project's server and downloads."""
    (folder / "cache").mkdir()
    (folder / "server").symlink_to(project.server_dir)
    for name in ("packages", "wheels"):
        (project.cache_dir / name).mkdir(parents=True, exist_ok=True)
        (folder / "cache" / name).symlink_to(project.cache_dir / name)
    return folder


def _build(home: Path, environment: str, model: str) -> Build:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with stopwatch() as elapsed:
        done = subprocess.run(
            [Path(sys.executable).with_name("tritonstack"), "build", environment, model, "--no-publish"],
            env={**os.environ, "TRITONSTACK_HOME": str(home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stdout)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Build(elapsed[0], cpu, _steps(done.stdout, model))


def _steps(output: str, model: str) -> dict[str, float]:
    """Return the seconds of each printed step; the model's own total line is none."""
    seconds: dict[str, float] = {}
    for line in output.splitlines():
        step = STEP.match(line.strip().removeprefix(f"{model}: "))
        if step and not line.startswith("✓"):
            name = "lock" if step["name"].startswith("environments/") else step["name"]
            seconds[name] = seconds.get(name, 0.0) + float(step["seconds"])
    return seconds


def _table(model: str, builds: list[Build]) -> Table:
    table = Table("step", "median s", "lowest-highest", title=f"build of {model}, {len(builds)} times")
    for name in builds[0].steps:
        _add(table, name, [build.steps.get(name, 0.0) for build in builds], places=1)
    table.add_section()
    _add(table, f"wall (limit: {LIMIT_S} s)", [build.wall for build in builds])
    _add(table, "CPU, without Triton", [build.cpu for build in builds])
    _add(table, "steps / wall", [sum(build.steps.values()) / build.wall for build in builds])
    return table


def _add(table: Table, name: str, values: list[float], places: int = 2) -> None:
    spread = f"{min(values):.{places}f}-{max(values):.{places}f}"
    table.add_row(name, f"{median(values):.{places}f}", spread)


if __name__ == "__main__":
    main()
