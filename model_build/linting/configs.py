"""Rules for one config.pbtxt: what images and instance types of SageMaker lack, and what surprises later.

What Triton itself rejects at load has no rule: every build loads its archive in a real Triton, and reports
what that says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from model_build.errors import LayoutError, UnsupportedModelError
from model_build.linting.backends import COMPLETED, SHIPPED, TENSORFLOW_UNTIL, completed
from model_build.linting.findings import Finding, LintOptions, ModelFolder, in_file
from model_build.repository.config import model_config_schema
from model_build.repository.layout import is_ensemble
from tritonstack.base.error_kinds import EndpointMismatchError
from tritonstack.base.files import read_json
from tritonstack.base.yaml import suggest
from tritonstack.facts.container_variables import CACHE, INFERENCE_TYPE

_MODE = EndpointMismatchError.code
LARGEST_TREES = 64 << 20
"""Larger files of trees are not read: parsing them takes seconds."""


def config_rules(model: ModelFolder, options: LintOptions) -> Iterator[Finding]:
    """Yield findings about one configuration."""
    whole = completed(model.config, model.versions)
    yield from _tensors(model)
    yield from _referenced_files(model)
    yield from _answers(model)
    yield from _waiting(model, whole.backend)
    if not is_ensemble(model.config):
        yield from _backend(model, whole.backend, options)
        yield from _instances(model, whole.backend, options)
        yield from _trees(model, whole)


def _backend(model: ModelFolder, backend: str, options: LintOptions) -> Iterator[Finding]:
    """Yield a backend that SageMaker's image of the release lacks, and tensors that it must complete."""
    place = "backend" if model.config.backend else "platform"
    if backend == "tensorflow":
        if options.release > TENSORFLOW_UNTIL:
            yield model.error(
                f"Triton {options.release} has no TensorFlow backend; {TENSORFLOW_UNTIL} has the last",
                "convert the model to ONNX, or choose an older release",
                place,
                code=_MODE,
            )
    elif backend and backend not in SHIPPED and not any(model.folder.rglob(f"libtriton_{backend}.so")):
        yield model.error(
            f"SageMaker's Triton images have no backend {backend!r}",
            suggest(backend, SHIPPED, "serve it from an image that has the backend"),
            place,
            code=_MODE,
        )
    missing = [kind for kind in ("input", "output") if not getattr(model.config, kind)]
    if missing and backend in COMPLETED:
        yield model.warning(
            f"no {' and '.join(missing)}: Triton must ask the {backend} backend at each load, and fails with "
            "--disable-auto-complete-config",
            "declare the tensors",
        )


def _tensors(model: ModelFolder) -> Iterator[Finding]:
    """Yield duplicate names, and dims that look like they contain the batch, which Triton adds itself."""
    batch = model.config.max_batch_size
    for kind in ("input", "output"):
        names: set[str] = set()
        for index, tensor in enumerate(getattr(model.config, kind)):
            if tensor.name in names:
                message = f"duplicate {kind} {tensor.name!r}: Triton accepts it and uses one"
                yield model.warning(message, "remove the other", kind, index, "name")
            names.add(tensor.name)
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


def _answers(model: ModelFolder) -> Iterator[Finding]:
    """Yield what SageMaker does not pass on: several answers to a request, sequences, and cached answers."""
    config = model.config
    if config.model_transaction_policy.decoupled:
        yield model.error(
            f"{model.name} is decoupled: InvokeEndpoint answers an error, because /invocations returns one "
            "answer per request",
            f"set {INFERENCE_TYPE}=generate_stream on a single-model endpoint (releases from 25.04) and send "
            "generate requests, or return one answer; multi-model endpoints cannot serve it",
            "model_transaction_policy",
            code=_MODE,
        )
    elif config.response_cache.enable:
        yield model.warning(
            "the response cache works only if the server has one",
            f"set SAGEMAKER_TRITON_ADDITIONAL_ARGS={CACHE}=local,size=67108864",
            "response_cache",
        )
    if config.HasField("sequence_batching"):
        yield model.warning(
            "sequences: SageMaker may send the requests of one sequence to different instances",
            "use one instance, or sticky sessions (SessionId of InvokeEndpoint)",
            "sequence_batching",
        )


def _waiting(model: ModelFolder, backend: str) -> Iterator[Finding]:
    """Yield what the limits of a queue cost: Triton prepares no next batch while one runs."""
    if not model.config.HasField("dynamic_batching"):
        return
    dynamic, place = model.config.dynamic_batching, "dynamic_batching"
    policy = dynamic.default_queue_policy
    limits = policy.default_timeout_microseconds or policy.allow_timeout_override or policy.max_queue_size
    # Without a batch dimension, the batcher is only a queue.
    queues = dynamic.HasField("default_queue_policy") or dynamic.priority_queue_policy
    if model.config.max_batch_size == 0 and not (
        queues or dynamic.priority_levels or dynamic.preserve_ordering or dynamic.preferred_batch_size
    ):
        yield model.warning(
            "batching has no effect: max_batch_size is 0",
            "set max_batch_size, and remove the batch from `dims`",
            place,
        )
    if not limits and not dynamic.priority_levels:
        return
    field = "default_queue_policy" if limits else "priority_levels"
    if dynamic.max_queue_delay_microseconds:
        yield model.warning(
            "a queue policy with max_queue_delay_microseconds: releases up to 26.05 can lose throughput "
            "under load until the model is reloaded (triton-inference-server/server#8870)",
            "remove max_queue_delay_microseconds, or the limits",
            *(place, field),
        )
    elif _instance_count(model.config, backend) == 1:
        yield model.warning(
            "a queue policy disables prefetching of batches: a single instance can idle up to 500 ms "
            "between batches",
            "use at least 2 instances, or remove the limits",
            *(place, field),
        )


def _instance_count(config: Any, backend: str) -> int:
    """Return the number of instances; GPUs multiply it."""
    if not config.instance_group:
        return 2 if backend == "onnxruntime" else 1
    return sum(max(1, group.count) for group in config.instance_group)


def _instances(model: ModelFolder, backend: str, options: LintOptions) -> Iterator[Finding]:
    """Yield GPUs that an instance type may lack, and an ONNX model that Triton loads twice."""
    for index, group in enumerate(model.config.instance_group):
        if group.kind != model_config_schema().ModelInstanceGroup.KIND_GPU:
            continue
        place = ("instance_group", index)
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
        elif absent := [number for number in group.gpus if number >= options.gpus]:
            yield model.error(
                f"GPU {absent[0]} does not exist: the instance type has {options.gpus}",
                "remove `gpus` to use all",
                *(*place, "gpus"),
                code=_MODE,
            )
    if not model.config.instance_group and backend == "onnxruntime" and not options.gpus:
        yield model.warning(
            "no instance_group: on a CPU, Triton loads an ONNX model twice",
            "set `instance_group [{ count: 1 kind: KIND_CPU }]`, or the count that you want",
        )


def _trees(model: ModelFolder, whole: Any) -> Iterator[Finding]:
    """Yield a wrong number of features of an XGBoost model, with which it answers something else."""
    file = model.versions[-1] / whole.default_model_filename if model.versions else model.folder
    if whole.backend != "fil" or file.suffix != ".json" or not file.is_file():
        return
    if file.stat().st_size > LARGEST_TREES:
        return
    try:
        features = int(read_json(file)["learner"]["learner_model_param"]["num_feature"])
    except (OSError, ValueError, KeyError, TypeError):
        shown, message = model.shown / file.relative_to(model.folder), "not an XGBoost model in JSON"
        yield in_file("error", UnsupportedModelError.code, shown, message, "save it with save_model")
        return
    for index, entry in enumerate(model.config.input):
        if len(entry.dims) == 1 and entry.dims[0] not in (-1, features):
            yield model.error(
                f"{entry.name!r} has {entry.dims[0]} values here, and the trees have {features} features",
                f"set `dims: [ {features} ]`",
                *("input", index, "dims"),
            )
