"""Measure how `cdk synth` scales: to 100 endpoints, and to 1,000 models behind one endpoint.

    python -m benchmarks.synthesis [--rounds 3]

Run the real CDK CLI in generated projects. Each figure is the best of its rounds, because other load on the
machine can only add to it; the ratio matters, and both of its sides come from the same run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.measuring import command, stopwatch
from tritonstack.base.paths import Project, find_project
from tritonstack.project.loading import load_workspace
from tritonstack.records.lock_writing import write_lock
from tritonstack.records.locks import Lock, LockedArtifact

ENVIRONMENT = "bench"
Content = tuple[list[str], dict[str, dict[str, object]]]
"""The models and the endpoints of a project."""
INSTANCE_TYPE, TARGET = "ml.g5.xlarge", "sm86-25.04"


def main() -> None:
    """Measure both and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="number of runs, of which the best is reported")
    rounds = parser.parse_args().rounds
    ten, hundred, one, thousand = best_times(
        [ensembles(10), ensembles(100), multi_model(1), multi_model(1000)], rounds
    )
    table = Table("what", "measured", "limit", title="cdk synth")
    table.add_row("10 endpoints", f"{ten:.1f} s", "")
    table.add_row("100 endpoints", f"{hundred:.1f} s = {hundred / ten:.1f} × as long", "5 ×")
    table.add_row("multi-model endpoint, 1 model", f"{one:.1f} s", "")
    table.add_row("multi-model endpoint, 1,000 models", f"{thousand:.1f} s = {thousand - one:+.1f} s", "+2 s")
    Console().print(table)


def ensembles(count: int) -> Content:
    """Return endpoints that share one model."""
    endpoint: dict[str, object] = {"kind": "ensemble", "model": "encoder", "instance_type": INSTANCE_TYPE}
    return ["encoder"], {f"search-{number}": endpoint for number in range(count)}


def multi_model(count: int) -> Content:
    """Return one endpoint with many models."""
    models = [f"encoder-{number}" for number in range(count)]
    return models, {"many": {"kind": "multi-model", "models": models, "instance_type": INSTANCE_TYPE}}


def best_times(contents: list[Content], rounds: int) -> list[float]:
    """Return the shortest synthesis of each project, in interleaved runs."""
    with tempfile.TemporaryDirectory() as folder:
        projects = [
            _write_project(Path(folder) / str(number), *content) for number, content in enumerate(contents)
        ]
        times = [[_synth(project) for project in projects] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def _synth(project: Project) -> float:
    with stopwatch() as elapsed:
        command("cdk", "synth", "--quiet", "-c", f"env={ENVIRONMENT}", folder=project.root)
    return elapsed[0]


def _write_project(folder: Path, models: Iterable[str], endpoints: dict[str, dict[str, object]]) -> Project:
    """Write a project whose models are all built."""
    project, here = Project(folder), find_project(Path(__file__).parent)
    folder.mkdir()
    for name in ("app.py", "cdk.json"):
        shutil.copy(here.root / name, folder)
    environment = {
        "name": ENVIRONMENT,
        "account": "111111111111",
        "region": "eu-west-1",
        "triton_release": "25.04",
        "endpoints": endpoints,
    }
    for model in models:
        recipe = {"kind": "text-embedding"}
        spec = {"name": model, "description": model, "source": "file://weights", "recipe": recipe}
        _write(project.model_file(model), {**spec, "test_inputs": ["a text"]})
    _write(project.environment_file(ENVIRONMENT), environment)
    hashes = load_workspace(project, ENVIRONMENT).hashes
    artifacts = {
        name: {
            TARGET: LockedArtifact(
                digest=spec_hash,
                spec_hash=spec_hash,
                archive_bytes=90_000_000,
                unpacked_bytes=180_000_000,
            ).sealed((ENVIRONMENT, name, TARGET))
        }
        for name, spec_hash in hashes.items()
    }
    write_lock(project.lock_file(ENVIRONMENT), Lock(models=artifacts))
    return project


def _write(file: Path, content: Mapping[str, object]) -> None:
    """Write JSON, which is valid YAML."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))


if __name__ == "__main__":
    main()
