"""Measure how commands grow from 1 to 1,000 models and from 1 to 200 endpoints.

    python -m benchmarks.growth [--models 1,10,100,1000] [--endpoints 1,10,50,100,200]
        [--deployed-models 1,10] [--deployed-endpoints 1,10] [--rounds 3]

Commands run in generated projects. Those that need an account reach a local cloud whose endpoints start no
Triton server. Durations are CPU seconds of the command and its children: they vary less than wall time if the
machine is busy. The seconds of the local cloud meanwhile are listed beside them. They include its work for
each running endpoint, which AWS does elsewhere. A deploy counts once; other commands count with the best of
their rounds. Exits with 1 if a command grows faster than linearly.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.growth.cloud import growth_cloud
from benchmarks.growth.exponents import TOLERANCE, Growth
from benchmarks.growth.projects import (
    ENVIRONMENT,
    TARGET_ENVIRONMENT,
    Content,
    many_endpoints,
    many_models,
    write_growing_project,
)
from benchmarks.measuring import command
from tritonstack.base.paths import Project
from tritonstack.triton.processor_time import processor_seconds

Row = tuple[str, float]
"""A command, and its CPU seconds."""
Sizes = dict[str, dict[int, float]]
"""The CPU seconds of each command by size."""
_IN_CLOUD = ", local cloud"


@dataclass(frozen=True)
class Axis:
    """What grows."""

    name: str
    sizes: Sequence[int]
    deployed: Sequence[int]
    content: Callable[[int], Content]


def main() -> None:
    """Measure, print a table per axis, and fail if something grows faster than linearly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", type=_numbers, default=[1, 10, 100, 1000])
    parser.add_argument("--endpoints", type=_numbers, default=[1, 10, 50, 100, 200])
    parser.add_argument("--deployed-models", type=_numbers, default=[1, 10, 100, 1000])
    parser.add_argument("--deployed-endpoints", type=_numbers, default=[1, 10, 50])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for name in ("TRITONSTACK_HOME", "TRITONSTACK_CLOUD"):  # each project has its own
        os.environ.pop(name, None)
    axes = [
        Axis("models", options.models, options.deployed_models, many_models),
        Axis("endpoints", options.endpoints, options.deployed_endpoints, many_endpoints),
    ]
    measured = {axis.name: measure(axis, options.rounds) for axis in axes if axis.sizes}
    for name, sizes in measured.items():
        Console().print(_table(name, sizes))
    failed = [
        f"{what} with {name}"
        for name, sizes in measured.items()
        for what, by_size in sizes.items()
        if not what.endswith(_IN_CLOUD) and not _growth(by_size).is_linear
    ]
    if failed:
        sys.exit(f"faster than linear (exponent above {TOLERANCE:g}): {', '.join(failed)}")


def measure(axis: Axis, rounds: int) -> Sizes:
    """Measure all commands at all sizes."""
    sizes: Sizes = defaultdict(dict)
    for size in axis.sizes:
        with tempfile.TemporaryDirectory() as folder:
            project = write_growing_project(Path(folder) / "project", axis.content(size))
            rows = [*_offline(project, rounds)]
            if size in axis.deployed:
                with growth_cloud(project.cloud_dir()) as cloud:
                    rows += _deployed(project, cloud, rounds)
        for what, seconds in rows:
            sizes[what][size] = seconds
            print(f"{axis.name} {size}: {what}: {seconds:.2f} s", file=sys.stderr, flush=True)
    return sizes


def _offline(project: Project, rounds: int) -> Iterator[Row]:
    """Measure what needs no account."""
    cache = project.state_dir / "cache"

    def forget() -> None:
        shutil.rmtree(cache, ignore_errors=True)

    tool = ("tritonstack", "--project", str(project.root))
    yield "--help", _best(rounds, lambda: command(*tool, "--help"))
    yield "validate, cold", _best(rounds, lambda: command(*tool, "validate"), before=forget)
    yield "validate, cached", _best(rounds, lambda: command(*tool, "validate"))
    synth = ("cdk", "synth", "--quiet", "-c", f"env={ENVIRONMENT}")
    yield "cdk synth", _best(rounds, lambda: command(*synth, folder=project.root), before=forget)


def _deployed(project: Project, cloud: int, rounds: int) -> Iterator[Row]:
    """Measure what needs an account, in the order of use."""

    def tool(*arguments: str) -> Callable[[], None]:
        return lambda: command("tritonstack", "--project", str(project.root), *arguments)

    deploy = tool("deploy", ENVIRONMENT, "--bootstrap")
    yield from _with_cloud("deploy, first", cloud, 1, deploy)
    yield from _with_cloud("deploy, nothing changed", cloud, rounds, deploy)
    yield from _with_cloud("diff", cloud, rounds, tool("diff", ENVIRONMENT))
    yield from _with_cloud("status", cloud, rounds, tool("status", ENVIRONMENT))
    promotion = tool("promote", ENVIRONMENT, TARGET_ENVIRONMENT, "--dry-run")
    yield from _with_cloud("promote --dry-run", cloud, rounds, promotion)


def _with_cloud(what: str, cloud: int, rounds: int, action: Callable[[], object]) -> Iterator[Row]:
    began = processor_seconds(cloud)
    yield what, _best(rounds, action)
    yield f"{what}{_IN_CLOUD}", (processor_seconds(cloud) - began) / rounds


def _best(rounds: int, action: Callable[[], object], *, before: Callable[[], object] = lambda: None) -> float:
    """Return the fewest CPU seconds of several rounds."""
    times = []
    for _ in range(rounds):
        before()
        began = _processor_s()
        action()
        times.append(_processor_s() - began)
    return min(times)


def _processor_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _table(name: str, sizes: Sizes) -> Table:
    columns = sorted({size for by_size in sizes.values() for size in by_size})
    table = Table(
        "command", *(f"{size:,}" for size in columns), "ratio", "exponent", title=f"CPU s by {name}"
    )
    for what, by_size in sizes.items():
        growth = _growth(by_size)
        exponent = growth.exponent
        cells = [f"{by_size[size]:.2f}" if size in by_size else "" for size in columns]
        table.add_row(what, *cells, f"{growth.ratio:.1f}", "0" if exponent is None else f"{exponent:.2f}")
    return table


def _growth(by_size: dict[int, float]) -> Growth:
    return Growth(sorted(by_size), [by_size[size] for size in sorted(by_size)])


def _numbers(text: str) -> list[int]:
    return sorted(int(part) for part in text.split(",") if part)


if __name__ == "__main__":
    main()
