"""Consistency rules between the parts of a model.yaml file."""

from __future__ import annotations

from collections.abc import Iterator

from tritonstack.base.error_kinds import (
    InvalidValueError,
    MissingKeyError,
    UnavailableOptionError,
    UnreadableFileError,
)
from tritonstack.base.source_files import TRUST_EXTERNAL, leaves_folder
from tritonstack.base.yaml import Violation
from tritonstack.files.model.backend_rules import openvino_violations
from tritonstack.files.model.fields import ModelFields
from tritonstack.files.model.recipes import HuggingFaceRecipe
from tritonstack.files.model.triton_options import QueuePolicy

# Contradictions in `batching` and `triton` of a model's file: options that Triton would ignore, or that only
# the build's own files contradict. What Triton rejects itself when the build loads the model, such as a
# default priority above the highest level, has no rule here. model_build checks what only the graph shows.


ONLY_VERSION = 1
"""Each artifact holds one version of its model; a new version is a new artifact."""
_QUEUEING = ("queue_delay_us", "preferred_sizes", "keep_order", "priorities", "queue")
"""Options of the dynamic batcher for queued requests."""
_SET_BY_THE_BUILD = ("EXECUTION_ENV_PATH",)


def triton_violations(spec: ModelFields) -> Iterator[Violation]:
    """Yield all contradictions in both blocks."""
    if spec.recipe.kind == "ensemble":
        yield from _pipeline_violations(spec)
        return
    if spec.recipe.kind == "triton":
        yield from _repository_violations(spec)
        return
    yield from _size_violations(spec)
    yield from _queue_violations(spec)
    yield from _ragged_violations(spec)
    yield from _instance_violations(spec)
    yield from _sequence_violations(spec)
    yield from _cache_violations(spec)
    yield from _call_violations(spec)
    yield from _stream_violations(spec)
    yield from _option_violations(spec)


def _pipeline_violations(spec: ModelFields) -> Iterator[Violation]:
    """Yield options that an ensemble cannot have; its member models have their own files."""
    for block, allowed in (("batching", {"max_batch"}), ("triton", {"response_cache"})):
        for name in sorted(getattr(spec, block).model_fields_set - allowed):
            yield UnavailableOptionError.at(
                (block, name),
                "an ensemble only routes tensors; Triton takes this option from its member models",
                "write it in the model.yaml of the step that needs it",
            )


def _repository_violations(spec: ModelFields) -> Iterator[Violation]:
    """Yield options that the repository's own config.pbtxt files have."""
    for block in ("batching", "triton", "tensors"):
        if block in spec.model_fields_set:
            yield UnavailableOptionError.at(
                (block,),
                "the recipe triton takes this from the repository's config.pbtxt, which stays as it is",
                "remove it, and edit config.pbtxt",
            )


def _size_violations(spec: ModelFields) -> Iterator[Violation]:
    batching = spec.batching
    for index, size in enumerate(batching.preferred_sizes):
        if batching.preferred_sizes.index(size) != index:
            yield InvalidValueError.at(
                ("batching", "preferred_sizes", index), f"duplicate {size}", "keep one of the two"
            )
    if batching.max_batch == 0:
        for name in ("queue_delay_us", "ragged"):
            if getattr(batching, name):
                yield UnavailableOptionError.at(
                    ("batching", name),
                    "models without a batch dimension (max_batch: 0) are not batched",
                    "remove it, or set max_batch",
                )


def _queue_violations(spec: ModelFields) -> Iterator[Violation]:
    batching, queue, priorities = spec.batching, spec.batching.queue, spec.batching.priorities
    if not batching.dynamic and spec.triton.sequences is None:
        for name in (*_QUEUEING, "ragged"):
            if getattr(batching, name):
                yield UnavailableOptionError.at(
                    ("batching", name),
                    "it requires the dynamic batcher, but `dynamic: false` disables that",
                    "remove one of the two",
                )
    limited = [
        name
        for name, is_set in (("queue", queue not in (None, QueuePolicy())), ("priorities", priorities))
        if is_set
    ]
    if batching.queue_delay_us and limited and spec.triton.sequences is None:
        yield UnavailableOptionError.at(
            ("batching", "queue_delay_us"),
            f"with `{limited[0]}`, Triton's dynamic batcher loses throughput until the model is loaded again "
            "(triton-inference-server/server#8870)",
            f"remove it, or remove `{limited[0]}`",
        )
    if queue is not None and queue.on_timeout == "delay" and queue.timeout_us == 0:
        yield UnavailableOptionError.at(
            ("batching", "queue", "on_timeout"),
            "on_timeout has no effect while timeout_us is 0",
            "set timeout_us, or remove on_timeout",
        )


def _ragged_violations(spec: ModelFields) -> Iterator[Violation]:
    ragged = spec.batching.ragged
    if ragged and spec.recipe.kind != "python":
        # ONNX Runtime, TensorRT, and PyTorch receive such inputs concatenated into one dimension, and would
        # need extra inputs with each request's offset: only a graph made for that can use them.
        yield UnavailableOptionError.at(
            ("batching", "ragged"),
            "only Python models support requests with different shapes in one batch",
            "remove it; requests with equal shapes are still batched",
        )
    for index, name in enumerate(ragged):
        if ragged.index(name) != index:
            yield InvalidValueError.at(
                ("batching", "ragged", index), f"duplicate input {name!r}", "keep one of the two"
            )


def _instance_violations(spec: ModelFields) -> Iterator[Violation]:
    for index, group in enumerate(spec.triton.instances):
        place = ("triton", "instances", index)
        if group.gpus and spec.builds_for == ("cpu",):
            yield UnavailableOptionError.at(
                (*place, "gpus"), "this model is built for CPUs only", "remove it"
            )
        if group.device == "gpu" and spec.builds_for == ("cpu",):
            yield UnavailableOptionError.at(
                (*place, "device"), "this model is built for CPUs only", "write `device: auto`"
            )
        if group.device == "cpu" and spec.format == "tensorrt":
            yield UnavailableOptionError.at(
                (*place, "device"), "TensorRT runs on GPUs only", "write `device: auto`"
            )
        if len(set(group.gpus)) != len(group.gpus):
            yield InvalidValueError.at(
                (*place, "gpus"), "duplicate GPU", "raise `count` for more instances per GPU"
            )
        yield from _profile_values(spec, index)


def _profile_values(spec: ModelFields, index: int) -> Iterator[Violation]:
    profiles = spec.triton.instances[index].profiles
    place = ("triton", "instances", index, "profiles")
    if profiles and spec.format != "tensorrt":
        yield UnavailableOptionError.at(place, "only TensorRT engines have profiles", "remove it")
        return
    count = len(spec.tensorrt.profiles) if spec.tensorrt else 1
    for number, name in enumerate(profiles):
        if not (name.isdecimal() and int(name) < count):
            yield InvalidValueError.at(
                (*place, number),
                f"expected a profile from 0 to {count - 1}, got {name!r}",
                f'write "0"{f" to {chr(34)}{count - 1}{chr(34)}" if count > 1 else ""}',
            )


def _sequence_violations(spec: ModelFields) -> Iterator[Violation]:
    sequences, batching = spec.triton.sequences, spec.batching
    if sequences is None:
        return
    place = ("triton", "sequences")
    if spec.recipe.takes != "tensors":
        yield UnavailableOptionError.at(
            place, f"models of the recipe {spec.recipe.kind} are stateless", "remove it"
        )
    if batching.dynamic and "dynamic" in batching.model_fields_set:
        yield UnavailableOptionError.at(
            ("batching", "dynamic"),
            "`batching` options and `triton.sequences` exclude each other",
            "remove one of the two",
        )
    incompatible = ("priorities", "queue", "ragged")
    for name in (
        incompatible if sequences.strategy == "oldest" else (*incompatible, "preferred_sizes", "keep_order")
    ):
        if getattr(batching, name):
            yield UnavailableOptionError.at(
                ("batching", name),
                f"the queue does not apply to sequences with `strategy: {sequences.strategy}`",
                "remove it",
            )
    if sequences.max_candidates is not None and sequences.strategy == "direct":
        yield UnavailableOptionError.at(
            (*place, "max_candidates"),
            "with `strategy: direct`, max_batch and the instance count determine the number of slots",
            "remove it, or write `strategy: oldest`",
        )
    controls = [sequences.start, sequences.end, sequences.ready, sequences.correlation_id]
    for index, name in enumerate(("start", "end", "ready", "correlation_id")):
        if controls[index] is not None and controls[index] in controls[:index]:
            yield InvalidValueError.at(
                (*place, name), f"the input {controls[index]!r} already has another role", "name another"
            )
    if spec.triton.warm_up:
        yield UnavailableOptionError.at(
            ("triton", "warm_up"), "warm-up requests cannot belong to a sequence", "remove it"
        )


def _cache_violations(spec: ModelFields) -> Iterator[Violation]:
    if not spec.triton.response_cache:
        return
    place = ("triton", "response_cache")
    if spec.triton.sequences is not None:
        yield UnavailableOptionError.at(
            place, "responses of a stateful model cannot be cached", "remove one of the two"
        )
    if spec.decoupled:
        yield UnavailableOptionError.at(place, "Triton does not cache streamed responses", "remove it")


def _call_violations(spec: ModelFields) -> Iterator[Violation]:
    """Yield options that a model cannot have if its code calls others."""
    for name, is_set, reason in (
        (
            "warm_up",
            spec.triton.warm_up,
            "Triton warms the model up before the models that it calls are loaded",
        ),
        ("sequences", spec.triton.sequences is not None, "a model that calls others cannot keep state"),
    ):
        if is_set and spec.members:
            yield UnavailableOptionError.at(("triton", name), reason, "remove it, or `recipe.calls`")


def _stream_violations(spec: ModelFields) -> Iterator[Violation]:
    """Yield options that a decoupled model with tensors of its own cannot have."""
    if not spec.streams:
        return
    for name, is_set, reason in (
        ("warm_up", spec.triton.warm_up, "responses of warm-up requests would never be compared"),
        ("sequences", spec.triton.sequences is not None, "requests of a sequence get one response each"),
    ):
        if is_set:
            yield UnavailableOptionError.at(
                ("triton", name), f"{reason}, and the model is decoupled", "remove it"
            )
    if spec.members:
        yield UnavailableOptionError.at(
            ("recipe", "calls"),
            "a model that calls others is served as an ensemble, which returns one response",
            "remove it, or `decoupled`",
        )


def _option_violations(spec: ModelFields) -> Iterator[Violation]:
    versions, optimization = spec.triton.versions, spec.triton.optimization
    if versions is not None:
        for index, version in enumerate(versions.specific):
            if version != ONLY_VERSION:
                yield InvalidValueError.at(
                    ("triton", "versions", "specific", index),
                    f"version {version} does not exist: an artifact holds only version {ONLY_VERSION}",
                    f"write {ONLY_VERSION}, or remove it; the lock selects an endpoint's artifact",
                )
    if optimization.graph_level is not None and spec.format != "onnx":
        yield UnavailableOptionError.at(
            ("triton", "optimization", "graph_level"), "only ONNX Runtime supports graph levels", "remove it"
        )
    if optimization.cuda_graphs and spec.format != "tensorrt":
        yield UnavailableOptionError.at(
            ("triton", "optimization", "cuda_graphs"), "only TensorRT supports CUDA graphs", "remove it"
        )
    for name in _SET_BY_THE_BUILD:
        if name in spec.triton.parameters:
            yield UnavailableOptionError.at(
                ("triton", "parameters", name),
                "the build sets this parameter",
                "remove it; name packages in `recipe.requirements` or `recipe.environment`",
            )


_WRITE = {
    "texts": "write texts",
    "pairs": "write `text: ...` and `text_pair: ...`",
    "questions": "write `question: ...` and `context: ...`",
    "images": "write `image: <file>`",
    "tensors": "write `inputs: {...}`, `file: <file>.npz` or `random: {}`",
}
_SOURCELESS = ("python", "ensemble", "torchscript")
"""Recipes that need no source: the model can be in the folder of model.yaml."""


def model_violations(spec: ModelFields) -> Iterator[Violation]:
    """Yield all contradictions in a model's file."""
    yield from _source_violations(spec)
    yield from _weights_violations(spec)
    yield from _input_violations(spec)
    yield from _precision_violations(spec)
    yield from _tensorrt_violations(spec)
    yield from triton_violations(spec)
    yield from _profile_violations(spec)


def _source_violations(spec: ModelFields) -> Iterator[Violation]:
    kind = spec.recipe.kind
    if spec.source is None and kind not in _SOURCELESS:
        yield MissingKeyError.at(("source",), f"the recipe {kind} needs a source", "add `source:`")
    if spec.source is not None and kind == "ensemble":
        yield UnavailableOptionError.at(
            ("source",), "an ensemble consists of its steps' models and has no source", "remove it"
        )
    scheme, _, text = (spec.source or "").partition("://")
    if scheme == "file" and leaves_folder(text) and spec.trust.external_source is None:
        yield UnreadableFileError.at(
            ("source",), f"{spec.source} is outside the model's folder", TRUST_EXTERNAL
        )


def _weights_violations(spec: ModelFields) -> Iterator[Violation]:
    if spec.allow_unused_weights and not isinstance(spec.recipe, HuggingFaceRecipe):
        yield UnavailableOptionError.at(
            ("allow_unused_weights",),
            f"the recipe {spec.recipe.kind} does not load tensors by name",
            "remove it",
        )


def _input_violations(spec: ModelFields) -> Iterator[Violation]:
    # An ensemble's inputs are those of its first steps, checked by tritonstack/files/checks/ensembles.py.
    takes = spec.test_inputs[0].kind if spec.recipe.kind == "ensemble" else spec.recipe.takes
    for index, test_input in enumerate(spec.test_inputs):
        if takes is not None and test_input.kind != takes:
            yield UnavailableOptionError.at(
                ("test_inputs", index),
                f"the recipe {spec.recipe.kind} does not accept this kind of test input"
                if spec.recipe.kind != "ensemble"
                else "all test inputs of an ensemble must be of the same kind",
                _WRITE[takes],
            )
    has_framework = isinstance(spec.recipe, HuggingFaceRecipe) or spec.generates
    for index, test_input in enumerate(spec.test_inputs):
        if test_input.outputs is not None and has_framework:
            yield UnavailableOptionError.at(
                ("test_inputs", index, "outputs"),
                f"the recipe {spec.recipe.kind} compares with the framework's answers",
                "remove it",
            )
        if spec.streams and test_input.outputs is not None:
            yield UnavailableOptionError.at(
                ("test_inputs", index, "outputs"),
                "a decoupled model sends several responses",
                "write `responses: [{...}, ...]` instead",
            )
        if test_input.responses is not None and not spec.streams:
            yield UnavailableOptionError.at(
                ("test_inputs", index, "responses"),
                "only decoupled Python models send several responses",
                "write `outputs: {...}`, or add `decoupled: true` to recipe",
            )
        if spec.test_inputs.index(test_input) != index:
            yield InvalidValueError.at(("test_inputs", index), "duplicate test input", "keep one of the two")


def _precision_violations(spec: ModelFields) -> Iterator[Violation]:
    if spec.precision == "bf16" and spec.format == "onnx":
        yield from openvino_violations(spec)
    if spec.precision == "fp32" or spec.format in ("onnx", "tensorrt"):
        return
    yield UnavailableOptionError.at(
        ("precision",),
        f"{spec.precision} requires an ONNX graph, which this model does not have",
        "write `precision: fp32`",
    )


def _tensorrt_violations(spec: ModelFields) -> Iterator[Violation]:
    if spec.tensorrt is not None and spec.format != "tensorrt":
        yield UnavailableOptionError.at(
            ("tensorrt",), "this model does not use TensorRT", "add `format: tensorrt` to recipe"
        )
    if spec.format == "tensorrt" and spec.precision == "auto":
        yield UnavailableOptionError.at(
            ("precision",),
            "auto selects among CPU graphs, but TensorRT runs on GPUs",
            "choose one of fp32, fp16, bf16, and int8",
        )


def _profile_violations(spec: ModelFields) -> Iterator[Violation]:
    """Yield profiles with larger batches than Triton forms: such engines are needlessly slow."""
    max_batch = spec.batching.max_batch
    for index, profile in enumerate(spec.tensorrt.profiles if spec.tensorrt else ()):
        if profile.batch is not None and profile.batch.max > max_batch:
            yield InvalidValueError.at(
                ("tensorrt", "profiles", index, "batch"),
                f"profile batches go up to {profile.batch.max}, but batching.max_batch is {max_batch}",
                "raise `batching.max_batch`, or lower `max`"
                if max_batch
                else "remove it: the model has no batch dimension",
            )
