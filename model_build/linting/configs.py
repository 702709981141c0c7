"""Rules for one config.pbtxt: what Triton rejects when it loads the model, and what surprises later.

Errors follow ValidateModelConfig in Triton's core.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from model_build.errors import LayoutError, ModelConfigError, SurprisingSettingError
from model_build.linting.backends import (
    COMPLETED,
    OTHER_PLATFORMS,
    SHIPPED,
    TENSORFLOW_UNTIL,
    completed,
)
from model_build.linting.findings import Finding, LintOptions, ModelFolder
from model_build.repository.config import model_config_schema
from model_build.repository.contradictions import PLATFORMS
from model_build.repository.layout import is_ensemble
from tritonstack.base.error_kinds import EndpointMismatchError
from tritonstack.base.yaml import suggest
from tritonstack.reference.container_variables import INFERENCE_TYPE

_REJECTED, _MODE, _SURPRISE = ModelConfigError.code, EndpointMismatchError.code, SurprisingSettingError.code


def config_rules(model: ModelFolder, options: LintOptions) -> Iterator[Finding]:
    """Yield findings about one configuration."""
    yield from _backend(model, options)
    yield from _tensors(model)
    yield from _referenced_files(model)
    yield from _decoupled(model)
    if not is_ensemble(model.config):
        yield from _instances(model, options)
        yield from _missing_tensors(model)


def _backend(model: ModelFolder, options: LintOptions) -> Iterator[Finding]:
    config = model.config
    if is_ensemble(config):
        return
    backend = completed(config, model.versions).backend
    platforms = [*(name for names in PLATFORMS.values() for name in names), *OTHER_PLATFORMS]
    if not backend and config.platform:
        yield model.error(
            f"unknown platform {config.platform!r}",
            suggest(config.platform, [*platforms, *SHIPPED], f"set `backend`: {', '.join(sorted(SHIPPED))}"),
            "platform",
        )
    elif not backend:
        yield model.error(
            "no backend: neither `backend` nor a file that Triton recognizes",
            f"set `backend`: {', '.join(sorted(SHIPPED))}",
        )
    elif not _agree(config):
        yield model.error(
            f"{config.platform!r} is not the platform of the backend {config.backend!r}",
            "remove `platform`",
            "platform",
        )
    else:
        yield from _image(model, backend, options)


def _agree(config: Any) -> bool:
    """Return whether the platform, if given, belongs to the backend."""
    platforms = PLATFORMS.get(config.backend)
    return platforms is None or config.platform in ("", *platforms, *OTHER_PLATFORMS)


def _image(model: ModelFolder, backend: str, options: LintOptions) -> Iterator[Finding]:
    """Yield a backend that SageMaker's image of the release lacks."""
    place = "backend" if model.config.backend else "platform"
    if backend == "tensorflow":
        if options.release > TENSORFLOW_UNTIL:
            yield model.error(
                f"Triton {options.release} has no TensorFlow backend; {TENSORFLOW_UNTIL} has the last",
                "convert the model to ONNX, or choose an older release",
                place,
                code=_MODE,
            )
    elif backend not in SHIPPED and not any(model.folder.rglob(f"libtriton_{backend}.so")):
        yield model.error(
            f"SageMaker's Triton images have no backend {backend!r}",
            suggest(backend, SHIPPED, "serve it from an image that has the backend"),
            place,
            code=_MODE,
        )


def _tensors(model: ModelFolder) -> Iterator[Finding]:
    if model.config.max_batch_size < 0:
        yield model.error("max_batch_size is negative", "set it to 0 for no batching", "max_batch_size")
    for kind in ("input", "output"):
        names: set[str] = set()
        for index, tensor in enumerate(getattr(model.config, kind)):
            yield from _tensor(model, tensor, kind, index)
            if tensor.name in names:
                message = f"duplicate {kind} {tensor.name!r}: Triton accepts it and uses one"
                yield model.warning(message, "remove the other", kind, index, "name")
            names.add(tensor.name)
    yield from _repeated_batch(model)


def _tensor(model: ModelFolder, tensor: Any, kind: str, index: int) -> Iterator[Finding]:
    for missing, value, remedy in (
        ("name", tensor.name, "name the tensor"),
        ("data_type", tensor.data_type, "set `data_type`, such as TYPE_FP32"),
        ("dims", tensor.dims, "set `dims`, without the batch dimension if max_batch_size is not 0"),
    ):
        if not value:
            name = f" {tensor.name!r}" if tensor.name else ""
            yield model.error(f"the {kind}{name} has no {missing}", remedy, kind, index)
    if tensor.data_type not in model_config_schema().DataType.values():
        yield model.error(
            f"unknown data_type {tensor.data_type} of {tensor.name!r}",
            "set `data_type`, such as TYPE_FP32",
            *(kind, index, "data_type"),
        )
    for size in tensor.dims:
        if size == 0 or size < -1:
            yield model.error(
                f"dims of {tensor.name!r} contain {size}",
                "use sizes from 1, or -1 for a variable size",
                *(kind, index, "dims"),
            )


def _repeated_batch(model: ModelFolder) -> Iterator[Finding]:
    """Yield tensors whose dims look like they contain the batch, which Triton adds itself."""
    batch = model.config.max_batch_size
    for kind in ("input", "output"):
        for index, tensor in enumerate(getattr(model.config, kind)):
            dims = list(tensor.dims)
            image = len(dims) == 4 and dims[0] in (-1, 1)
            repeated = image or (batch > 1 and len(dims) > 1 and dims[0] == batch)
            if batch > 0 and repeated and not tensor.HasField("reshape"):
                yield model.warning(
                    f"dims {dims} of {tensor.name!r} seem to contain the batch: with max_batch_size "
                    f"{batch}, Triton expects {[-1, *dims]}",
                    f"set `dims: {dims[1:]}`, or `max_batch_size: 0`",
                    *(kind, index, "dims"),
                )


def _missing_tensors(model: ModelFolder) -> Iterator[Finding]:
    backend = completed(model.config, model.versions).backend
    missing = [kind for kind in ("input", "output") if not getattr(model.config, kind)]
    if not missing or not backend:
        return
    names = " and ".join(missing)
    if backend in COMPLETED:
        yield model.warning(
            f"no {names}: Triton must ask the {backend} backend at each load, and fails with "
            "--disable-auto-complete-config",
            "declare the tensors",
        )
    elif backend in SHIPPED:
        yield model.error(f"no {names}, which the {backend} backend cannot complete", "declare the tensors")


def _referenced_files(model: ModelFolder) -> Iterator[Finding]:
    config = model.config
    references: list[tuple[str, tuple[str | int, ...]]] = [
        (tensor.label_filename, ("output", index, "label_filename"))
        for index, tensor in enumerate(config.output)
    ]
    references += [
        (f"warmup/{meta.input_data_file}", ("model_warmup", index))
        for index, sample in enumerate(config.model_warmup)
        for meta in sample.inputs.values()
        if meta.input_data_file
    ]
    for name, place in references:
        if name and not (model.folder / name).is_file():
            yield model.error(
                f"file not found: {name}", "add it, or remove the field", *place, code=LayoutError.code
            )
    for capability, name in sorted(config.cc_model_filenames.items()):
        if not any((version / name).is_file() for version in model.versions):
            yield model.error(
                f"file not found: {name}, for compute capability {capability}",
                "add it to the version folder, or remove the entry",
                "cc_model_filenames",
                code=LayoutError.code,
            )


def _decoupled(model: ModelFolder) -> Iterator[Finding]:
    config = model.config
    if not config.model_transaction_policy.decoupled:
        return
    yield model.error(
        f"{model.name} is decoupled: InvokeEndpoint answers an error, because /invocations returns one "
        "answer per request",
        f"set {INFERENCE_TYPE}=generate_stream on a single-model endpoint (releases from 25.04) and send "
        "generate requests, or return one answer; multi-model endpoints cannot serve it",
        "model_transaction_policy",
        code=_MODE,
    )
    if config.response_cache.enable:
        yield model.error(
            "the response cache does not support decoupled models",
            "remove `response_cache`",
            "response_cache",
        )


def _instances(model: ModelFolder, options: LintOptions) -> Iterator[Finding]:
    kinds = model_config_schema().ModelInstanceGroup
    backend = completed(model.config, model.versions).backend
    for index, group in enumerate(model.config.instance_group):
        place = ("instance_group", index)
        if group.gpus and group.kind in (kinds.KIND_CPU, kinds.KIND_MODEL):
            yield model.error(
                f"{kinds.Kind.Name(group.kind)} with `gpus`", "remove `gpus`, or set `kind: KIND_GPU`", *place
            )
        elif group.kind == kinds.KIND_GPU:
            yield from _gpu_group(model, group, options, place)
        if group.profile and backend not in ("tensorrt", ""):
            yield model.error("`profile` is for TensorRT engines only", "remove it", *place, "profile")
    if not model.config.instance_group and backend == "onnxruntime" and not options.gpus:
        yield model.warning(
            "no instance_group: on a CPU, Triton loads an ONNX model twice",
            "set `instance_group [{ count: 1 kind: KIND_CPU }]`, or the count that you want",
        )


def _gpu_group(
    model: ModelFolder, group: Any, options: LintOptions, place: tuple[str | int, ...]
) -> Iterator[Finding]:
    if options.gpus is None:
        yield model.warning(
            "KIND_GPU: the load fails on instance types without a GPU",
            "pass --instance-type to check it, or use KIND_AUTO",
            *place,
            code=_MODE,
        )
    elif options.gpus == 0:
        yield model.error(
            "KIND_GPU, but the instance type has no GPU",
            "use KIND_CPU or KIND_AUTO, or an instance type with a GPU",
            *place,
            code=_MODE,
        )
    elif absent := [number for number in group.gpus if number >= (options.gpus or 0)]:
        yield model.error(
            f"GPU {absent[0]} does not exist: the instance type has {options.gpus}",
            "remove `gpus` to use all",
            *place,
            "gpus",
            code=_MODE,
        )
