"""Run one example as `make examples` does."""

from __future__ import annotations

from pathlib import Path

from tools.examples import ExampleResult, run_example
from tritonstack.base.paths import Project
from tritonstack.workflows.local_cloud import read_address

SLOWEST_MS = 1000.0


def passed(name: str, folder: Path) -> ExampleResult:
    """Run an example's README, and check what it shows."""
    result = run_example(name, folder / name, log=folder / "log.txt")
    assert result.models
    assert result.yaml_lines
    for model in result.models:
        assert model.size_bytes > 0
        assert model.p50_ms is None or 0 < model.p50_ms < SLOWEST_MS, model
    assert read_address(Project(folder / name).cloud_dir()) is None
    return result
