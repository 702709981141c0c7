"""Read how a repository has to be served and tested from its configurations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_build.repository.config import CONFIG_NAME, model_config_schema, read_config
from tritonstack.facts.threads import GRAPH_THREADS, TREE_THREADS

GRAPH_FILES = "model.onnx*"
"""Files that every instance of a Python model loads again: its graph and the graph's weights."""


@dataclass(frozen=True)
class RepositoryProperties:
    """Properties of all models in a repository."""

    keeps_answers: bool
    """Whether any model uses the response cache."""
    keeps_state: bool
    """Whether any model takes sequences."""


@dataclass(frozen=True)
class CpuInstances:
    """What endpoints need to know about the instances of an artifact's models on the CPU."""

    most: int
    """The most instances of one model; 1 if all run on a GPU."""
    copies_bytes: int
    """Size of the graphs that instances beyond the first of each model load again."""
    graphs_decide_threads: bool
    """Whether an ONNX model sets the threads of its session."""
    least_threads: int
    """The most threads that a tree model asks for; its backend fails if OpenMP allows fewer."""


def read_instances(repository: Path, *, gpu: bool) -> CpuInstances:
    """Count the CPU instances of every model; `gpu`: instances without a device run on a GPU."""
    configs = {file.parent: read_config(file) for file in sorted(repository.glob(f"*/{CONFIG_NAME}"))}
    counts = {folder: _on_cpu(config, gpu=gpu) for folder, config in configs.items()}
    return CpuInstances(
        most=max((1, *counts.values())),
        copies_bytes=sum(
            (count - 1) * _weight(folder, "*" if configs[folder].backend != "python" else GRAPH_FILES)
            for folder, count in counts.items()
            if count > 1
        ),
        graphs_decide_threads=any(
            config.backend == "onnxruntime" and GRAPH_THREADS & config.parameters.keys()
            for config in configs.values()
        ),
        least_threads=max(map(_tree_threads, configs.values()), default=0),
    )


def _weight(model: Path, pattern: str) -> int:
    """Return the size of the files of a model's versions that match."""
    versions = (version for version in model.iterdir() if version.name.isdecimal())
    return sum(
        file.stat().st_size for version in versions for file in version.rglob(pattern) if file.is_file()
    )


def _tree_threads(config: Any) -> int:
    value = config.parameters[TREE_THREADS].string_value if TREE_THREADS in config.parameters else ""
    return int(value) if config.backend == "fil" and value.isdecimal() else 0


def _on_cpu(config: Any, *, gpu: bool) -> int:
    """Return the number of CPU instances; Triton starts one if the configuration names none."""
    kinds = model_config_schema().ModelInstanceGroup
    cpu = {kinds.KIND_CPU} if gpu else {kinds.KIND_CPU, kinds.KIND_AUTO}
    if config.platform == "ensemble" or config.ensemble_scheduling.step:
        return 0
    if not config.instance_group:
        return 0 if gpu else 1
    return sum(max(1, group.count) for group in config.instance_group if group.kind in cpu)


def read_properties(repository: Path) -> RepositoryProperties:
    """Read every configuration of a repository whose layout has been checked."""
    configs = [read_config(file) for file in sorted(repository.glob(f"*/{CONFIG_NAME}"))]
    return RepositoryProperties(
        keeps_answers=any(config.response_cache.enable for config in configs),
        keeps_state=any(config.HasField("sequence_batching") for config in configs),
    )
