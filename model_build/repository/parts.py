"""Triton repositories: the folders and configurations that an artifact is packed from."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from catalog.manifests import TensorSpec
from catalog.targets import Target
from catalog.triton_options import Batching, TritonOptions
from model_build.execution_environment import ARCHIVE_NAME, PARAMETER, PARAMETER_VALUE
from model_build.graphs.records import SettledGraph
from model_build.repository import config

VERSION = "1"
ENSEMBLE_NOTE = """\
An ensemble has no files of its own. Triton wants its version folder to exist all the same, and this file
keeps the folder through packing.
"""


@dataclass(frozen=True)
class EnsembleStep:
    """A part of an ensemble; the mappings go from the part's tensor names to the ensemble's."""

    model: str
    inputs: dict[str, str]
    outputs: dict[str, str]


def add_graph_model(
    repository: Path,
    *,
    name: str,
    graph: SettledGraph,
    batching: Batching,
    triton: TritonOptions,
    target: Target,
) -> None:
    """A graph that one of Triton's backends runs; moves its files into the repository."""
    del triton, target
    folder = repository / name
    folder.mkdir(parents=True)
    graph.folder.rename(folder / VERSION)
    message = config.model_config(
        name=name, inputs=graph.inputs, outputs=graph.outputs, max_batch=batching.max_batch
    )
    message.backend = graph.backend
    config.batch_dynamically(message, batching)
    config.run_on_cpu(message)
    config.write_config(message, folder)


def add_python_model(
    repository: Path,
    *,
    name: str,
    code: Path,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    batching: Batching,
) -> Path:
    """A model in Python, with its execution environment beside it; returns its version folder."""
    folder = repository / name
    (folder / VERSION).mkdir(parents=True)
    shutil.copyfile(code, folder / VERSION / "model.py")
    message = config.model_config(name=name, inputs=inputs, outputs=outputs, max_batch=batching.max_batch)
    message.backend = "python"
    config.batch_dynamically(message, batching)
    config.run_on_cpu(message)
    config.set_parameter(message, PARAMETER, PARAMETER_VALUE)
    config.write_config(message, folder)
    return folder / VERSION


def environment_file(repository: Path, name: str) -> Path:
    """Where the execution environment of a Python model lies."""
    return repository / name / ARCHIVE_NAME


def add_ensemble(
    repository: Path,
    *,
    name: str,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    steps: Sequence[EnsembleStep],
    max_batch: int,
) -> None:
    """An ensemble over models that lie beside it."""
    version = repository / name / VERSION
    version.mkdir(parents=True)
    (version / "README.txt").write_text(ENSEMBLE_NOTE)
    message = config.model_config(name=name, inputs=inputs, outputs=outputs, max_batch=max_batch)
    message.platform = "ensemble"
    for step in steps:
        config.add_ensemble_step(message, model=step.model, inputs=step.inputs, outputs=step.outputs)
    config.write_config(message, version.parent)
