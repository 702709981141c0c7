"""Triton repositories: the folders and configurations that an artifact is packed from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from model_build.environments.packing import ARCHIVE_NAME, PARAMETER, PARAMETER_VALUE
from model_build.graphs.records import ServableGraph
from model_build.repository import config
from model_build.repository.contradictions import contradictions
from model_build.repository.existing import complete_existing, read_existing
from model_build.repository.instances import (
    PROCESSOR,
    choose_versions,
    instance_faults,
    optimize,
    place_instances,
)
from model_build.repository.scheduling import callers_inputs, control_faults, schedule
from model_build.repository.warm_up import add_warm_up, first_row
from tritonstack.base.documents import Document, Fault, closest
from tritonstack.base.errors import InvalidFilesError, UsageError
from tritonstack.base.source_files import copy_from
from tritonstack.records.manifests import TensorSpec
from tritonstack.reference.targets import Target
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.triton_options import Batching, TritonOptions

Array = NDArray[Any]

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


@dataclass(frozen=True, kw_only=True)
class Around:
    """What belongs to a model beyond its tensors and its code."""

    model: Document[ModelSpec] | None = None
    """The file that asks for the model that computes: its lines stand in errors, its config.pbtxt is used."""
    example: Mapping[str, Array] | None = None
    """The first test input as this model's own tensors, for warm-up requests."""
    environment: bool = True
    """Whether packages lie beside a model in Python."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What a model in Python is told by its configuration."""


ALONE = Around()


def add_graph_model(
    repository: Path,
    *,
    name: str,
    graph: ServableGraph,
    batching: Batching,
    triton: TritonOptions,
    target: Target,
    around: Around = ALONE,
) -> None:
    """A graph that one of Triton's backends runs; moves its files into the repository."""
    _refuse(_graph_faults(graph, batching, triton, target), around)
    folder = repository / name
    folder.mkdir(parents=True)
    graph.folder.rename(folder / VERSION)
    message = _message(folder, graph.inputs, graph.outputs, batching, triton)
    message.backend = graph.backend
    if graph.engines:
        message.cc_model_filenames.update(graph.engines)
    elif (file := _unusual_file(folder / VERSION, graph.backend)) is not None:
        message.default_model_filename = file
    place_instances(message, triton, gpu=target.hardware != PROCESSOR)
    optimize(message, triton)
    for key, value in {**triton.parameters, **graph.parameters}.items():
        config.set_parameter(message, key, value)
    _finish(message, folder, graph.inputs, triton, around)


def add_python_model(  # noqa: PLR0913 - what a model has; the last three differ for models that people wrote
    repository: Path,
    *,
    name: str,
    code: Path,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    batching: Batching,
    triton: TritonOptions | None = None,
    target: Target | None = None,
    around: Around = ALONE,
) -> Path:
    """A model in Python, which may have an execution environment beside it; returns its version folder.

    It runs on the processor, even where `target` has a GPU, unless `triton` places its copies. Without
    `triton` it stands beside the model that computes: it takes as large batches, and lets no request wait.
    """
    options = triton or TritonOptions()
    batching = batching if triton is not None else _without_waiting(batching)
    _refuse(_python_faults(inputs, batching, options, target), around)
    folder = repository / name
    (folder / VERSION).mkdir(parents=True)
    copy_from(code.parent, code.name, folder / VERSION / "model.py")
    message = _message(folder, inputs, outputs, batching, options)
    message.backend = "python"
    for tensor in message.input:
        tensor.allow_ragged_batch = tensor.name in batching.ragged
    on_gpu = target is not None and target.hardware != PROCESSOR and bool(options.instances)
    place_instances(message, options, gpu=on_gpu)
    optimize(message, options)
    for key, value in {**options.parameters, **around.parameters}.items():
        config.set_parameter(message, key, value)
    if around.environment:
        config.set_parameter(message, PARAMETER, PARAMETER_VALUE)
    _finish(message, folder, inputs, options, around)
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
    response_cache: bool = False,
) -> None:
    """An ensemble over models that lie beside it."""
    version = repository / name / VERSION
    version.mkdir(parents=True)
    (version / "README.txt").write_text(ENSEMBLE_NOTE)
    message = config.model_config(name=name, inputs=inputs, outputs=outputs, max_batch=max_batch)
    message.platform = "ensemble"
    for step in steps:
        config.add_ensemble_step(message, model=step.model, inputs=step.inputs, outputs=step.outputs)
    if response_cache:
        message.response_cache.enable = True
    config.add_labels(message, version.parent, outputs)
    config.write_config(message, version.parent)


def _message(
    folder: Path,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    batching: Batching,
    triton: TritonOptions,
) -> Any:
    """What every model has that computes."""
    message = config.model_config(
        name=folder.name,
        inputs=callers_inputs(inputs, triton.sequences),
        outputs=outputs,
        max_batch=batching.max_batch,
    )
    schedule(message, batching, triton.sequences, {tensor.name: tensor.datatype for tensor in inputs})
    choose_versions(message, triton)
    if triton.response_cache:
        message.response_cache.enable = True
    config.add_labels(message, folder, outputs)
    return message


def _finish(
    message: Any, folder: Path, inputs: Sequence[TensorSpec], triton: TritonOptions, around: Around
) -> None:
    if triton.warm_up:
        row = None if around.example is None else first_row(around.example, message.max_batch_size)
        add_warm_up(message, folder, inputs, row)
    write_model(message, folder, around)


def write_model(message: Any, folder: Path, around: Around) -> None:
    """Write the configuration: the author's own, completed, if there is one."""
    existing = None if around.model is None else read_existing(around.model)
    if existing is None:
        config.write_config(message, folder)
        return
    problems = list(contradictions(existing, message))
    if problems:
        raise InvalidFilesError(problems)
    (folder / config.CONFIG_NAME).write_bytes(complete_existing(existing, message).encode("utf-8"))


def _without_waiting(batching: Batching) -> Batching:
    """What a step beside the model that computes gets: requests would otherwise wait, and time out, twice."""
    return batching.model_copy(
        update={"queue_delay_us": 0, "preferred_sizes": (), "ragged": (), "queue": None}
    )


def _unusual_file(version: Path, backend: str) -> str | None:
    """The file of a graph whose name is not the one that its backend looks for."""
    usual = config.MODEL_FILES.get(backend)
    if usual is None or (version / usual).exists():
        return None
    files = sorted(file.name for file in version.glob(f"*{Path(usual).suffix}"))
    return files[0] if files else None


def _graph_faults(
    graph: ServableGraph, batching: Batching, triton: TritonOptions, target: Target
) -> Iterator[Fault]:
    if graph.batches != (batching.max_batch > 0):
        yield Fault(
            ("batching", "max_batch"),
            "the model's tensors have a batch dimension, and 0 says that they have none"
            if graph.batches
            else f"the model's tensors have no batch dimension, and {batching.max_batch} says that they have",
            "write `max_batch: 1`, or more" if graph.batches else "write `max_batch: 0`",
        )
    yield from instance_faults(triton, target, graph.profiles or None)
    yield from control_faults(graph.inputs, triton.sequences)
    for key in sorted(set(triton.parameters) & set(graph.parameters)):
        if triton.parameters[key] != graph.parameters[key]:
            yield Fault(
                ("triton", "parameters", key),
                f"the graph was checked with {key} = {graph.parameters[key]!r}",
                "remove it",
            )


def _python_faults(
    inputs: Sequence[TensorSpec], batching: Batching, triton: TritonOptions, target: Target | None
) -> Iterator[Fault]:
    known = [tensor.name for tensor in inputs]
    for index, name in enumerate(batching.ragged):
        if name not in known:
            suggestion = closest(name, known)
            yield Fault(
                ("batching", "ragged", index),
                f"the model has no input {name!r}",
                f"did you mean '{suggestion}'?" if suggestion else f"it has: {', '.join(known)}",
            )
    if target is not None:
        yield from instance_faults(triton, target)
    yield from control_faults(inputs, triton.sequences)


def _refuse(faults: Iterable[Fault], around: Around) -> None:
    """Say what is wrong in the file that asked for it."""
    found = list(faults)
    if not found:
        return
    if around.model is not None:
        raise InvalidFilesError(
            around.model.problem(fault.path, fault.message, remedy=fault.remedy) for fault in found
        )
    raise UsageError("\n".join(f"{'.'.join(map(str, fault.path))}: {fault.message}" for fault in found))
