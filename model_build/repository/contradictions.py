"""Where an author's config.pbtxt contradicts the graph or model.yaml, with both places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from model_build.repository.config import datatype_name, model_config_schema
from model_build.repository.existing import CHOICES, ExistingConfig, is_written
from tritonstack.base.documents import Document, FieldPath, closest
from tritonstack.base.errors import FileProblem, shown_path
from tritonstack.base.yaml_reading import field_text
from tritonstack.spec.models.model import ModelSpec

PLATFORMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "onnxruntime": ("onnxruntime_onnx",),
        "pytorch": ("pytorch_libtorch", "libtorch"),
        "tensorrt": ("tensorrt_plan",),
    }
)
"""The older names of backends, each with those that Triton knows."""
_SCHEDULERS = {"dynamic_batching", "sequence_batching", "ensemble_scheduling"}
"""A model has one of them."""


def contradictions(existing: ExistingConfig, wanted: Any) -> Iterator[FileProblem]:
    """Every one; `wanted` is what the build would write."""
    yield from _check_identity(existing, wanted)
    yield from _check_batch(existing, wanted)
    yield from _check_tensors(existing, "input", wanted.input)
    yield from _check_tensors(existing, "output", wanted.output)
    yield from _check_scheduler(existing, wanted)
    yield from _check_choices(existing, wanted)
    yield from _check_cache(existing)
    yield from _check_files(existing, wanted)
    yield from _check_parameters(existing, wanted)
    yield from _check_devices(existing, wanted)


def _check_identity(existing: ExistingConfig, wanted: Any) -> Iterator[FileProblem]:
    theirs = existing.message
    if theirs.name and theirs.name != wanted.name:
        yield existing.problem(
            f"the model is {wanted.name!r} here, not {theirs.name!r}",
            f'write `name: "{wanted.name}"`, or remove it',
            "name",
        )
    if theirs.backend and theirs.backend != wanted.backend:
        yield existing.problem(
            f"the model is run by {wanted.backend!r}, not {theirs.backend!r}",
            f'write `backend: "{wanted.backend}"`, or remove it',
            "backend",
        )
    platforms = PLATFORMS.get(wanted.backend, ())
    if theirs.platform and theirs.platform not in platforms:
        yield existing.problem(
            f"{theirs.platform!r} is not the platform of the backend {wanted.backend!r}",
            f'write `backend: "{wanted.backend}"` instead',
            "platform",
        )


def _check_batch(existing: ExistingConfig, wanted: Any) -> Iterator[FileProblem]:
    if ("max_batch_size",) not in existing.lines:
        return
    if existing.message.max_batch_size != wanted.max_batch_size:
        place = ("batching", "max_batch")
        written = is_written(existing.model, place)
        yield existing.problem(
            f"it is {existing.message.max_batch_size} here, and "
            f"{_place(existing.model, place) if written else 'without a word in model.yaml'} "
            f"{wanted.max_batch_size}",
            f"write `batching: {{max_batch: {existing.message.max_batch_size}}}` in model.yaml",
            "max_batch_size",
        )


def _check_tensors(existing: ExistingConfig, field: str, wanted: Sequence[Any]) -> Iterator[FileProblem]:
    graph = {tensor.name: tensor for tensor in wanted}
    for index, tensor in enumerate(getattr(existing.message, field)):
        if tensor.name not in graph:
            suggestion = closest(tensor.name, graph)
            yield existing.problem(
                f"the model has no {field} {tensor.name!r}",
                f"did you mean '{suggestion}'?" if suggestion else f"it has: {', '.join(graph)}",
                *(field, index, "name"),
            )
            continue
        real = graph[tensor.name]
        if tensor.data_type != real.data_type:
            yield existing.problem(
                f"{tensor.name!r} is {_type(real.data_type)} in the model, not {_type(tensor.data_type)}",
                f"write `data_type: {_type(real.data_type)}`",
                *(field, index, "data_type"),
            )
        dims = list(tensor.reshape.shape) if tensor.HasField("reshape") else list(tensor.dims)
        expected = list(real.reshape.shape) if real.HasField("reshape") else list(real.dims)
        if not _narrows(dims, expected):
            yield existing.problem(
                f"{tensor.name!r} has the sizes {expected} in the model, batch dimension aside, not {dims}",
                f"write `dims: {expected}`",
                *(field, index, "dims"),
            )


def _narrows(dims: list[int], expected: list[int]) -> bool:
    """Whether these sizes are the graph's, or say one where the graph leaves it open."""
    return len(dims) == len(expected) and all(
        real in (-1, size) for size, real in zip(dims, expected, strict=True)
    )


def _check_choices(existing: ExistingConfig, wanted: Any) -> Iterator[FileProblem]:
    for path, place in CHOICES:
        if place[0] not in existing.said or not is_written(existing.model, path):
            continue
        if _value(existing.message, place) != _value(wanted, place):
            yield existing.problem(
                f"{_place(existing.model, path)} says otherwise",
                "keep one of the two",
                *place,
            )


def _check_scheduler(existing: ExistingConfig, wanted: Any) -> Iterator[FileProblem]:
    ours = wanted.WhichOneof("scheduling_choice")
    asked = {place[0] for path, place in CHOICES if is_written(existing.model, path)} & _SCHEDULERS
    for name in sorted(existing.said & _SCHEDULERS):
        if name != ours and (asked or name == "sequence_batching"):
            yield existing.problem(
                "model.yaml asks for another way of batching"
                if asked
                else "the build has to know of sequences to send them",
                "say the same in `batching` and `triton.sequences` of model.yaml",
                name,
            )
    theirs = existing.message.model_transaction_policy.decoupled
    if theirs != wanted.model_transaction_policy.decoupled and "model_transaction_policy" in existing.said:
        yield existing.problem(
            "SageMaker's front end takes one answer for each request, and decoupled models give several",
            "remove it",
            "model_transaction_policy",
        )


def _check_cache(existing: ExistingConfig) -> Iterator[FileProblem]:
    if existing.message.response_cache.enable and not existing.model.record.triton.response_cache:
        yield existing.problem(
            "the endpoint's server has a cache where model.yaml asks for one",
            "write `triton: {response_cache: true}` in model.yaml",
            "response_cache",
        )


def _check_files(existing: ExistingConfig, wanted: Any) -> Iterator[FileProblem]:
    """Files that the text names are those that the build writes."""
    written = {tensor.name: tensor.label_filename for tensor in wanted.output}
    for index, tensor in enumerate(existing.message.output):
        if tensor.label_filename and tensor.label_filename != written.get(tensor.name, tensor.label_filename):
            yield existing.problem(
                f"there is no file {tensor.label_filename}",
                f"remove it, and give `tensors: {{{tensor.name}: {{labels: [...]}}}}` in model.yaml",
                *("output", index, "label_filename"),
            )
    for index, sample in enumerate(existing.message.model_warmup):
        if any(meta.input_data_file for meta in sample.inputs.values()):
            yield existing.problem(
                "files of warm-up requests are made from the test inputs",
                "remove it, and write `triton: {warm_up: true}` in model.yaml",
                *("model_warmup", index),
            )


def _check_parameters(existing: ExistingConfig, wanted: Any) -> Iterator[FileProblem]:
    for key in sorted(set(existing.message.parameters) & set(wanted.parameters)):
        if existing.message.parameters[key] != wanted.parameters[key]:
            path = ("triton", "parameters", key)
            other = (
                _place(existing.model, path)
                if key in existing.model.record.triton.parameters
                else "the build"
            )
            yield existing.problem(
                f"{other} gives {key} the value {wanted.parameters[key].string_value!r}",
                "keep one of the two",
                "parameters",
            )


def _check_devices(existing: ExistingConfig, wanted: Any) -> Iterator[FileProblem]:
    kinds = model_config_schema().ModelInstanceGroup
    if any(group.kind == kinds.KIND_GPU for group in wanted.instance_group):
        return
    for index, group in enumerate(existing.message.instance_group):
        if group.kind == kinds.KIND_GPU or group.gpus:
            yield existing.problem(
                "the model is built for a processor, and these copies ask for a GPU",
                "write `kind: KIND_AUTO`, or serve the model on an instance type with a GPU",
                *("instance_group", index),
            )


def _value(message: Any, place: Sequence[str]) -> Any:
    """What a field holds; of the block that turns the dynamic batcher on, whether it is there."""
    if place == ("dynamic_batching",):
        return message.HasField("dynamic_batching")
    for name in place:
        message = getattr(message, name)
    return list(message) if isinstance(message, Sequence) and not isinstance(message, str) else message


def _place(model: Document[ModelSpec], path: FieldPath) -> str:
    return f"{shown_path(model.file)}:{model.line_of(path)} ({field_text(path)})"


def _type(number: int) -> str:
    name = datatype_name(number)
    return f"TYPE_{'STRING' if name == 'BYTES' else name}"
