"""Write instances, batching, and warm-up requests into a configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from model_build.data import Array
from model_build.repository.config import data_type, model_config_schema
from tritonstack.base.byte_tensors import BYTES, raw_bytes
from tritonstack.base.error_kinds import InvalidValueError, ModelMismatchError, UnavailableOptionError
from tritonstack.base.yaml import Violation, suggest
from tritonstack.facts.targets import Target
from tritonstack.files.model.triton_options import (
    Batching,
    InstanceGroup,
    QueuePolicy,
    Sequences,
    TritonOptions,
)
from tritonstack.files.records.manifests import TensorSpec


def place_instances(config: Any, triton: TritonOptions, *, gpu: bool, default: int = 1) -> None:
    """Add the instance groups; by default one group, on the GPU if the model is built for one."""
    kinds = model_config_schema().ModelInstanceGroup
    for group in triton.instances or (InstanceGroup(count=default),):
        on_gpu = gpu and group.device != "cpu"
        config.instance_group.add(
            count=group.count,
            kind=kinds.KIND_GPU if on_gpu else kinds.KIND_CPU,
            gpus=group.gpus,
            profile=group.profiles,
        )


def instance_violations(triton: TritonOptions, target: Target, profiles: int = 0) -> Iterator[Violation]:
    """Report groups that the target or the engine cannot run; `profiles` is how many the engine has."""
    for index, group in enumerate(triton.instances):
        path = ("triton", "instances", index)
        if not target.has_gpu and (group.gpus or group.device == "gpu"):
            yield UnavailableOptionError.at(
                (*path, "gpus" if group.gpus else "device"),
                "the model is built for a CPU and cannot use a GPU",
                "remove it, or serve the model on an instance type with a GPU",
            )
        for position, profile in enumerate(group.profiles if profiles else ()):
            if int(profile) >= profiles:
                yield InvalidValueError.at(
                    (*path, "profiles", position),
                    f"the engine has {profiles} profiles, numbered from 0",
                    f"use a number from 0 to {profiles - 1}",
                )


def optimize(config: Any, triton: TritonOptions) -> None:
    """Set the backend's optimization."""
    options, optimization = triton.optimization, config.optimization
    if options.graph_level is not None:
        optimization.graph.SetInParent()
        optimization.graph.level = options.graph_level
    if options.cuda_graphs:
        optimization.cuda.graphs = True
    if options.pinned_memory is not None:
        for pinned in (optimization.input_pinned_memory, optimization.output_pinned_memory):
            pinned.SetInParent()
            pinned.enable = options.pinned_memory


def choose_versions(config: Any, triton: TritonOptions) -> None:
    """Set the version policy; Triton's default, the latest, is omitted."""
    versions = triton.versions
    if versions is None:
        return
    policy = config.version_policy
    if versions.all:
        policy.all.SetInParent()
    elif versions.specific:
        policy.specific.versions.extend(sorted(set(versions.specific)))
    else:
        policy.latest.num_versions = versions.latest or 1


BOOLEAN_CONTROLS: Mapping[str, str] = MappingProxyType(
    {
        "start": "CONTROL_SEQUENCE_START",
        "end": "CONTROL_SEQUENCE_END",
        "ready": "CONTROL_SEQUENCE_READY",
    }
)
FALSE_TRUE: Mapping[str, tuple[str, tuple[Any, Any]]] = MappingProxyType(
    {
        "INT32": ("int32_false_true", (0, 1)),
        "FP32": ("fp32_false_true", (0.0, 1.0)),
        "BOOL": ("bool_false_true", (False, True)),
    }
)
"""Types of boolean control inputs, with the config field of each."""
CORRELATION_TYPES = ("UINT64", "INT64", "UINT32", "INT32")
"""Releases before 25.02 pass models wrong data for string sequence ids, and reject it themselves."""
UNLIMITED = QueuePolicy()


def schedule(config: Any, batching: Batching, sequences: Sequences | None, types: Mapping[str, str]) -> None:
    """Set the scheduler; `types` are the datatypes of the control inputs."""
    if sequences is not None:
        _batch_sequences(config.sequence_batching, batching, sequences, types)
    elif _has_queue(batching):
        _batch_dynamically(config.dynamic_batching, batching)


def control_inputs(sequences: Sequences | None) -> dict[str, str]:
    """Return the inputs that Triton fills in, by control: `start`, `end`, `ready`, `correlation_id`."""
    if sequences is None:
        return {}
    controls = {name: getattr(sequences, name) for name in (*BOOLEAN_CONTROLS, "correlation_id")}
    return {name: tensor for name, tensor in controls.items() if tensor is not None}


def callers_inputs(inputs: Sequence[TensorSpec], sequences: Sequences | None) -> tuple[TensorSpec, ...]:
    """Return the inputs that callers send, without control inputs."""
    filled_in = set(control_inputs(sequences).values())
    return tuple(tensor for tensor in inputs if tensor.name not in filled_in)


def with_controls(
    inputs: Sequence[TensorSpec], sequences: Sequences | None, types: Mapping[str, str]
) -> tuple[TensorSpec, ...]:
    """Add the control inputs to a Python model's inputs; test inputs omit them.

    `types` are the tensor datatypes of model.yaml.
    """
    names = {tensor.name for tensor in inputs}
    usual = {"correlation_id": "UINT64"}
    return (
        *inputs,
        *(
            TensorSpec(name=name, datatype=types.get(name, usual.get(role, "INT32")), shape=(1,))
            for role, name in control_inputs(sequences).items()
            if name not in names
        ),
    )


def control_violations(inputs: Sequence[TensorSpec], sequences: Sequences | None) -> Iterator[Violation]:
    """Report control inputs that the model lacks, or has in an unsupported type."""
    specs = {tensor.name: tensor for tensor in inputs}
    for role, name in control_inputs(sequences).items():
        place = ("triton", "sequences", role)
        allowed = CORRELATION_TYPES if role == "correlation_id" else tuple(FALSE_TRUE)
        if name not in specs:
            yield ModelMismatchError.at(
                place,
                f"the model has no input {name!r}",
                suggest(name, specs, f"allowed: {', '.join(specs)}"),
            )
        elif specs[name].datatype not in allowed:
            yield ModelMismatchError.at(
                place,
                f"the input {name!r} is {specs[name].datatype}; Triton needs {' or '.join(allowed)}",
                "change the input's type in the model",
            )


def _has_queue(batching: Batching) -> bool:
    """Return whether the dynamic batcher is used; without a batch dimension it is only a queue."""
    if batching.max_batch > 0 or batching.dynamic:
        return batching.dynamic
    return batching.queue is not None or batching.priorities is not None or batching.keep_order


def _batch_dynamically(dynamic: Any, batching: Batching) -> None:
    dynamic.SetInParent()
    dynamic.max_queue_delay_microseconds = batching.queue_delay_us
    dynamic.preferred_batch_size.extend(sorted(batching.preferred_sizes))
    dynamic.preserve_ordering = batching.keep_order
    if batching.priorities is not None:
        dynamic.priority_levels = batching.priorities.levels
        dynamic.default_priority_level = batching.priorities.default
    if batching.queue not in (None, UNLIMITED):
        _set_policy(dynamic.default_queue_policy, batching.queue)


def _set_policy(policy: Any, queue: QueuePolicy) -> None:
    actions = model_config_schema().ModelQueuePolicy
    policy.timeout_action = actions.DELAY if queue.on_timeout == "delay" else actions.REJECT
    policy.default_timeout_microseconds = queue.timeout_us
    policy.max_queue_size = queue.max_waiting
    policy.SetInParent()


def _batch_sequences(
    message: Any, batching: Batching, sequences: Sequences, types: Mapping[str, str]
) -> None:
    message.max_sequence_idle_microseconds = sequences.max_idle_us
    if sequences.strategy == "direct":
        message.direct.SetInParent()
        message.direct.max_queue_delay_microseconds = batching.queue_delay_us
    else:
        message.oldest.SetInParent()
        message.oldest.max_candidate_sequences = sequences.max_candidates or 0
        message.oldest.preferred_batch_size.extend(sorted(batching.preferred_sizes))
        message.oldest.max_queue_delay_microseconds = batching.queue_delay_us
        message.oldest.preserve_ordering = batching.keep_order
    controls = model_config_schema().ModelSequenceBatching.Control
    for role, name in control_inputs(sequences).items():
        control = message.control_input.add(name=name).control.add()
        if role == "correlation_id":
            control.kind = controls.CONTROL_SEQUENCE_CORRID
            control.data_type = data_type(types[name])
        else:
            control.kind = controls.Kind.Value(BOOLEAN_CONTROLS[role])
            field, values = FALSE_TRUE[types[name]]
            getattr(control, field).extend(values)


# Triton repeats the one-row tensors of a warm-up request up to its batch size. They are files in the
# protocol's raw form: numbers in row-major order, strings with a length prefix.
FOLDER = "warmup"
"""Folder that Triton requires."""


def add_warm_up(
    config: Any, folder: Path, inputs: Sequence[TensorSpec], row: Mapping[str, Array] | None
) -> None:
    """Configure one request alone and one at the largest batch before the model is ready.

    `row` is the first test input as this model's tensors, without the batch dimension. Inputs that it lacks
    get zeros of the smallest shape.
    """
    files = [f"input-{number}" for number in range(len(inputs))]
    if row is not None:
        (folder / FOLDER).mkdir()
        for tensor, file in zip(inputs, files, strict=True):
            (folder / FOLDER / file).write_bytes(_raw(row[tensor.name], tensor.datatype))
    for name, batch in _samples(config.max_batch_size):
        sample = config.model_warmup.add(name=name, batch_size=batch)
        for tensor, file in zip(inputs, files, strict=True):
            meta = sample.inputs[tensor.name]
            meta.data_type = data_type(tensor.datatype)
            if row is None:
                meta.dims.extend(max(size, 1) for size in tensor.shape)
                meta.zero_data = True
            else:
                meta.dims.extend(row[tensor.name].shape)
                meta.input_data_file = file


def first_row(inputs: Mapping[str, Array], max_batch: int) -> dict[str, Array]:
    """Return the first row of a request, without any batch dimension."""
    return {name: np.asarray(array)[0] if max_batch else np.asarray(array) for name, array in inputs.items()}


def _samples(max_batch: int) -> list[tuple[str, int]]:
    return [("alone", 1), ("largest batch", max_batch)] if max_batch > 1 else [("alone", 1)]


def _raw(array: Array, datatype: str) -> bytes:
    dtype = np.object_ if datatype == BYTES else None
    return raw_bytes(np.asarray(array, dtype=dtype)).tobytes()
