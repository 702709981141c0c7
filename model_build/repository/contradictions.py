"""Find contradictions between a user's config.pbtxt and the graph or model.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from model_build.data import fits_shape
from model_build.repository.config import datatype_name, model_config_schema
from model_build.repository.existing import CHOICES, ExistingConfig, is_written
from tritonstack.base.errors import FileViolation, shown_path
from tritonstack.base.yaml import Document, FieldPath, field_text, suggest
from tritonstack.files.model.model import ModelSpec

PLATFORMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "onnxruntime": ("onnxruntime_onnx",),
        "pytorch": ("pytorch_libtorch", "libtorch"),
        "tensorrt": ("tensorrt_plan",),
    }
)
"""Legacy names of backends, with the names that Triton knows."""
_SCHEDULERS = {"dynamic_batching", "sequence_batching", "ensemble_scheduling"}
"""Schedulers; a model has at most one."""


def contradictions(existing: ExistingConfig, generated: Any) -> Iterator[FileViolation]:
    """Yield every contradiction; `generated` is the configuration the build would write."""
    yield from _check_identity(existing, generated)
    yield from _check_batch(existing, generated)
    yield from _check_tensors(existing, "input", generated.input)
    yield from _check_tensors(existing, "output", generated.output)
    yield from _check_scheduler(existing, generated)
    yield from _check_choices(existing, generated)
    yield from _check_cache(existing)
    yield from _check_files(existing, generated)
    yield from _check_parameters(existing, generated)
    yield from _check_devices(existing, generated)


def _check_identity(existing: ExistingConfig, generated: Any) -> Iterator[FileViolation]:
    actual = existing.message
    if actual.name and actual.name != generated.name:
        yield existing.violation(
            f"expected {generated.name!r}, got {actual.name!r}",
            f'set `name: "{generated.name}"` or remove it',
            "name",
        )
    if actual.backend and actual.backend != generated.backend:
        yield existing.violation(
            f"expected backend {generated.backend!r}, got {actual.backend!r}",
            f'set `backend: "{generated.backend}"` or remove it',
            "backend",
        )
    platforms = PLATFORMS.get(generated.backend, ())
    if actual.platform and actual.platform not in platforms:
        yield existing.violation(
            f"{actual.platform!r} is not the platform of the backend {generated.backend!r}",
            f'set `backend: "{generated.backend}"` instead',
            "platform",
        )


def _check_batch(existing: ExistingConfig, generated: Any) -> Iterator[FileViolation]:
    if ("max_batch_size",) not in existing.lines:
        return
    if existing.message.max_batch_size != generated.max_batch_size:
        place = ("batching", "max_batch")
        written = is_written(existing.model, place)
        yield existing.violation(
            f"it is {existing.message.max_batch_size} here, and "
            f"{_place(existing.model, place) if written else 'the default of model.yaml'} "
            f"{generated.max_batch_size}",
            f"set `batching: {{max_batch: {existing.message.max_batch_size}}}` in model.yaml",
            "max_batch_size",
        )


def _check_tensors(existing: ExistingConfig, field: str, generated: Sequence[Any]) -> Iterator[FileViolation]:
    graph = {tensor.name: tensor for tensor in generated}
    for index, tensor in enumerate(getattr(existing.message, field)):
        if tensor.name not in graph:
            yield existing.violation(
                f"the model has no {field} {tensor.name!r}",
                suggest(tensor.name, graph, f"allowed: {', '.join(graph)}"),
                *(field, index, "name"),
            )
            continue
        real = graph[tensor.name]
        if tensor.data_type != real.data_type:
            yield existing.violation(
                f"{tensor.name!r} is {_type(real.data_type)} in the model, got {_type(tensor.data_type)}",
                f"set `data_type: {_type(real.data_type)}`",
                *(field, index, "data_type"),
            )
        dims = list(tensor.reshape.shape) if tensor.HasField("reshape") else list(tensor.dims)
        expected = list(real.reshape.shape) if real.HasField("reshape") else list(real.dims)
        if not fits_shape(dims, expected):  # it may fix sizes that the graph leaves open
            yield existing.violation(
                f"{tensor.name!r} has dims {expected} in the model, without the batch dimension, got {dims}",
                f"set `dims: {expected}`",
                *(field, index, "dims"),
            )


def _check_choices(existing: ExistingConfig, generated: Any) -> Iterator[FileViolation]:
    for path, place in CHOICES:
        if place[0] not in existing.fields or not is_written(existing.model, path):
            continue
        if _value(existing.message, place) != _value(generated, place):
            yield existing.violation(
                f"{_place(existing.model, path)} has another value",
                "keep one of them",
                *place,
            )


def _check_scheduler(existing: ExistingConfig, generated: Any) -> Iterator[FileViolation]:
    scheduler = generated.WhichOneof("scheduling_choice")
    schedulers = {place[0] for path, place in CHOICES if is_written(existing.model, path)} & _SCHEDULERS
    for name in sorted(existing.fields & _SCHEDULERS):
        if name != scheduler and (schedulers or name == "sequence_batching"):
            yield existing.violation(
                "model.yaml sets another batching mode"
                if schedulers
                else "the build cannot test sequences that model.yaml does not declare",
                "set `batching` and `triton.sequences` of model.yaml accordingly",
                name,
            )
    yield from _check_decoupled(existing, generated.model_transaction_policy.decoupled)


def _check_decoupled(existing: ExistingConfig, expected: bool) -> Iterator[FileViolation]:
    place = "model_transaction_policy"
    actual = existing.message.model_transaction_policy.decoupled
    if place not in existing.fields or actual == expected:
        return
    if existing.model.record.recipe.kind != "python":
        yield existing.violation(
            "SageMaker's front end takes one answer per request; decoupled models return several",
            "remove it",
            place,
        )
        return
    yield existing.violation(
        f"{'decoupled' if actual else 'not decoupled'} here, and model.yaml, which endpoints follow, "
        f"{'does not say so' if actual else 'has `decoupled: true`'}",
        f"write `decoupled: {'true' if actual else 'false'}` in recipe of model.yaml, or remove it here",
        place,
    )


def _check_cache(existing: ExistingConfig) -> Iterator[FileViolation]:
    if existing.message.response_cache.enable and not existing.model.record.triton.response_cache:
        yield existing.violation(
            "the endpoint enables the cache only if model.yaml does",
            "set `triton: {response_cache: true}` in model.yaml",
            "response_cache",
        )


def _check_files(existing: ExistingConfig, generated: Any) -> Iterator[FileViolation]:
    """Check that the files named in the text are files that the build writes."""
    written = {tensor.name: tensor.label_filename for tensor in generated.output}
    for index, tensor in enumerate(existing.message.output):
        if tensor.label_filename and tensor.label_filename != written.get(tensor.name, tensor.label_filename):
            yield existing.violation(
                f"file not found: {tensor.label_filename}",
                f"remove it, and set `tensors: {{{tensor.name}: {{labels: [...]}}}}` in model.yaml",
                *("output", index, "label_filename"),
            )
    for index, sample in enumerate(existing.message.model_warmup):
        if any(meta.input_data_file for meta in sample.inputs.values()):
            yield existing.violation(
                "the build creates warm-up files from the test inputs",
                "remove it, and set `triton: {warm_up: true}` in model.yaml",
                *("model_warmup", index),
            )


def _check_parameters(existing: ExistingConfig, generated: Any) -> Iterator[FileViolation]:
    for key in sorted(set(existing.message.parameters) & set(generated.parameters)):
        if existing.message.parameters[key] != generated.parameters[key]:
            path = ("triton", "parameters", key)
            other = (
                _place(existing.model, path)
                if key in existing.model.record.triton.parameters
                else "the build"
            )
            yield existing.violation(
                f"{other} sets {key} to {generated.parameters[key].string_value!r}",
                "keep one of them",
                "parameters",
            )


def _check_devices(existing: ExistingConfig, generated: Any) -> Iterator[FileViolation]:
    kinds = model_config_schema().ModelInstanceGroup
    if any(group.kind == kinds.KIND_GPU for group in generated.instance_group):
        return
    for index, group in enumerate(existing.message.instance_group):
        if group.kind == kinds.KIND_GPU or group.gpus:
            yield existing.violation(
                "the model is built for a CPU, but these instances need a GPU",
                "set `kind: KIND_AUTO`, or serve the model on an instance type with a GPU",
                *("instance_group", index),
            )


def _value(message: Any, place: Sequence[str]) -> Any:
    """Return a field's value; for the dynamic batcher's block, whether it is present."""
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
