"""Write Triton repositories: the folders and configurations of an artifact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model_build.data import Array, ServableGraph
from model_build.environments.packing import ARCHIVE_NAME, ENV_PARAMETER, ENV_PARAMETER_VALUE
from model_build.repository import config
from model_build.repository.contradictions import contradictions
from model_build.repository.existing import complete_existing, read_existing
from model_build.repository.options import (
    add_warm_up,
    callers_inputs,
    choose_versions,
    control_violations,
    first_row,
    instance_violations,
    optimize,
    place_instances,
    schedule,
)
from tritonstack.base.error_kinds import ModelMismatchError, UnavailableOptionError
from tritonstack.base.errors import InvalidFilesError, reject
from tritonstack.base.files import folder_bytes
from tritonstack.base.source_files import copy_from
from tritonstack.base.yaml import Document, Violation, suggest
from tritonstack.facts.targets import Target
from tritonstack.facts.threads import graph_instances
from tritonstack.files.model.backend_rules import OPENVINO
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.triton_options import Batching, TritonOptions
from tritonstack.files.records.manifests import TensorSpec

VERSION = "1"
# In every ensemble's artifact: another text changes its digest, and the locks that name it.
ENSEMBLE_NOTE = """\
An ensemble has no files of its own. Triton wants its version folder to exist all the same, and this file
keeps the folder through packing.
"""


@dataclass(frozen=True)
class SchedulingStep:
    """A part of an ensemble; mappings go from the part's tensor names to the ensemble's."""

    model: str
    inputs: dict[str, str]
    outputs: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class ModelProperties:
    """Properties of a model beyond its tensors and code."""

    model: Document[ModelSpec] | None = None
    """The file of the entry model: source of positions in errors, and of its config.pbtxt."""
    example: Mapping[str, Array] | None = None
    """The first test input as this model's tensors, for warm-up requests."""
    environment: bool = True
    """Whether a Python model has packages."""
    graph: Path | None = None
    """Folder of a graph that a Python model runs; its files are moved next to the code."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameters of a Python model's configuration."""


DEFAULTS = ModelProperties()


def add_graph_model(
    repository: Path,
    *,
    name: str,
    graph: ServableGraph,
    batching: Batching,
    triton: TritonOptions,
    target: Target,
    properties: ModelProperties = DEFAULTS,
) -> None:
    """Write a graph for one of Triton's backends; its files are moved."""
    _raise_violations(_graph_violations(graph, batching, triton, target), properties)
    folder = repository / name
    folder.mkdir(parents=True)
    graph.folder.rename(folder / VERSION)
    message = _message(folder, graph.inputs, graph.outputs, batching, triton)
    message.backend = graph.backend
    inputs = graph.inputs
    if graph.backend == OPENVINO:
        (onnx_file,) = (folder / VERSION).glob("*.onnx")
        message.default_model_filename = onnx_file.name
        if graph.batches:
            # With a batch dimension, the backend accepts batches of max_batch_size only.
            config.remove_batching(message)
            inputs = tuple(_with_rows(tensor) for tensor in inputs)
    elif graph.engines:
        message.cc_model_filenames.update(graph.engines)
    elif (file := _unusual_file(folder / VERSION, graph.backend)) is not None:
        message.default_model_filename = file
    on_gpu = target.has_gpu
    # An instance of the openvino backend computes with all cores.
    one_instance = on_gpu or triton.sequences is not None or graph.backend == OPENVINO
    default = 1 if one_instance else graph_instances(folder_bytes(folder / VERSION))
    place_instances(message, triton, gpu=on_gpu, default=default)
    optimize(message, triton)
    for key, value in {**triton.parameters, **graph.parameters}.items():
        config.set_parameter(message, key, value)
    _finish(message, folder, inputs, triton, properties)


def _with_rows(tensor: TensorSpec) -> TensorSpec:
    return tensor.model_copy(update={"shape": (-1, *(tensor.shape or (1,)))})


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
    properties: ModelProperties = DEFAULTS,
) -> Path:
    """Write a Python model, which may have an execution environment; return its version folder.

    It runs on the CPU even if `target` has a GPU, unless `triton` places its instances. Without `triton`, it
    is a step beside the main model: same batch size, no queueing.
    """
    options = triton or TritonOptions()
    batching = batching if triton is not None else _without_waiting(batching)
    _raise_violations(_python_violations(inputs, batching, options, target), properties)
    folder = repository / name
    (folder / VERSION).mkdir(parents=True)
    copy_from(code.parent, code.name, folder / VERSION / "model.py")
    for file in sorted(properties.graph.iterdir()) if properties.graph else ():
        file.rename(folder / VERSION / file.name)
    default = graph_instances(folder_bytes(folder / VERSION)) if properties.graph else 1
    message = _message(folder, inputs, outputs, batching, options)
    message.backend = "python"
    if properties.model is not None and properties.model.record.streams:
        message.model_transaction_policy.decoupled = True
    for tensor in message.input:
        tensor.allow_ragged_batch = tensor.name in batching.ragged
    on_gpu = target is not None and target.has_gpu and bool(options.instances)
    place_instances(message, options, gpu=on_gpu, default=default)
    optimize(message, options)
    for key, value in {**options.parameters, **properties.parameters}.items():
        config.set_parameter(message, key, value)
    if properties.environment:
        config.set_parameter(message, ENV_PARAMETER, ENV_PARAMETER_VALUE)
    _finish(message, folder, inputs, options, properties)
    return folder / VERSION


def environment_file(repository: Path, name: str) -> Path:
    """Return the path of a Python model's execution environment."""
    return repository / name / ARCHIVE_NAME


def add_ensemble(
    repository: Path,
    *,
    name: str,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    steps: Sequence[SchedulingStep],
    max_batch: int,
    response_cache: bool = False,
) -> None:
    """Write an ensemble over models in the same repository."""
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
    """Build the configuration that every computing model has."""
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
    message: Any,
    folder: Path,
    inputs: Sequence[TensorSpec],
    triton: TritonOptions,
    properties: ModelProperties,
) -> None:
    if triton.warm_up:
        row = None if properties.example is None else first_row(properties.example, message.max_batch_size)
        add_warm_up(message, folder, inputs, row)
    write_model(message, folder, properties)


def write_model(message: Any, folder: Path, properties: ModelProperties) -> None:
    """Write the configuration: the user's own, completed, if there is one."""
    existing = None if properties.model is None else read_existing(properties.model)
    if existing is None:
        config.write_config(message, folder)
        return
    reject(contradictions(existing, message))
    (folder / config.CONFIG_NAME).write_bytes(complete_existing(existing, message).encode("utf-8"))


def _without_waiting(batching: Batching) -> Batching:
    """Return settings of a helper step: with batching of its own, requests would wait twice."""
    return batching.model_copy(
        update={"queue_delay_us": 0, "preferred_sizes": (), "ragged": (), "queue": None, "priorities": None}
    )


def _unusual_file(version: Path, backend: str) -> str | None:
    """Return a graph's file if its name is not the backend's default."""
    usual = config.MODEL_FILES.get(backend)
    if usual is None or (version / usual).exists():
        return None
    files = sorted(file.name for file in version.glob(f"*{Path(usual).suffix}"))
    return files[0] if files else None


def _graph_violations(
    graph: ServableGraph, batching: Batching, triton: TritonOptions, target: Target
) -> Iterator[Violation]:
    if graph.batches != (batching.max_batch > 0):
        yield ModelMismatchError.at(
            ("batching", "max_batch"),
            "the model's tensors have a batch dimension, but max_batch 0 means none"
            if graph.batches
            else f"the model's tensors have no batch dimension, but max_batch is {batching.max_batch}",
            "set `max_batch` to 1 or more" if graph.batches else "set `max_batch: 0`",
        )
    yield from instance_violations(triton, target, graph.profiles)
    yield from control_violations(graph.inputs, triton.sequences)
    for key in sorted(set(triton.parameters) & set(graph.parameters)):
        if triton.parameters[key] != graph.parameters[key]:
            yield UnavailableOptionError.at(
                ("triton", "parameters", key),
                f"the graph was checked with {key} = {graph.parameters[key]!r}",
                "remove it",
            )


def _python_violations(
    inputs: Sequence[TensorSpec], batching: Batching, triton: TritonOptions, target: Target | None
) -> Iterator[Violation]:
    names = [tensor.name for tensor in inputs]
    for index, name in enumerate(batching.ragged):
        if name not in names:
            yield ModelMismatchError.at(
                ("batching", "ragged", index),
                f"the model has no input {name!r}",
                suggest(name, names, f"allowed: {', '.join(names)}"),
            )
    if target is not None:
        yield from instance_violations(triton, target)
    yield from control_violations(inputs, triton.sequences)


def _raise_violations(violations: Iterable[Violation], properties: ModelProperties) -> None:
    """Report the violation in the file that has it."""
    listed = list(violations)
    if not listed:
        return
    if properties.model is not None:
        raise InvalidFilesError(properties.model.place(violation) for violation in listed)
    raise ModelMismatchError(
        "\n".join(f"{'.'.join(map(str, violation.path))}: {violation.message}" for violation in listed),
        remedy="; ".join(dict.fromkeys(str(violation.remedy) for violation in listed)),
    )
