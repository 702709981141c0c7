"""What `batching` and `triton` of a model's file cannot say together.

The rules are those of Triton's own validation of a configuration and of its documentation, said before
anything is built. What only the built graph can tell (its tensors, its target) model_build checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tritonstack.base.documents import Fault

if TYPE_CHECKING:
    from tritonstack.spec.models.model import ModelSpec

ONLY_VERSION = 1
"""Every artifact holds one version of its model; another version is another artifact."""
_QUEUEING = ("queue_delay_us", "preferred_sizes", "keep_order", "priorities", "queue")
"""What the dynamic batcher does with the requests that wait."""
_SET_BY_THE_BUILD = ("EXECUTION_ENV_PATH",)


def triton_faults(spec: ModelSpec) -> Iterator[Fault]:
    """Everything in both blocks that does not go together."""
    if spec.recipe.kind == "ensemble":
        yield from _pipeline_faults(spec)
        return
    yield from _size_faults(spec)
    yield from _queue_faults(spec)
    yield from _ragged_faults(spec)
    yield from _instance_faults(spec)
    yield from _sequence_faults(spec)
    yield from _cache_faults(spec)
    yield from _option_faults(spec)


def _pipeline_faults(spec: ModelSpec) -> Iterator[Fault]:
    """A pipeline only passes tensors on; each of its models is configured in its own file."""
    for block, allowed in (("batching", {"max_batch"}), ("triton", {"response_cache"})):
        for name in sorted(getattr(spec, block).model_fields_set - allowed):
            yield Fault(
                (block, name),
                "an ensemble only passes tensors on, and Triton takes this from its steps' models",
                "write it in the model.yaml of the step that it is meant for",
            )


def _size_faults(spec: ModelSpec) -> Iterator[Fault]:
    batching = spec.batching
    for index, size in enumerate(batching.preferred_sizes):
        if size > batching.max_batch:
            yield Fault(
                ("batching", "preferred_sizes", index),
                f"no batch is larger than max_batch, which is {batching.max_batch}",
                f"write sizes up to {batching.max_batch}" if batching.max_batch else "remove it",
            )
        if batching.preferred_sizes.index(size) != index:
            yield Fault(("batching", "preferred_sizes", index), f"{size} stands twice", "keep one of the two")
    if batching.max_batch == 0:
        for name in ("queue_delay_us", "ragged"):
            if getattr(batching, name):
                yield Fault(
                    ("batching", name),
                    "requests of a model without a batch dimension (max_batch: 0) are never gathered",
                    "remove it, or give max_batch",
                )


def _queue_faults(spec: ModelSpec) -> Iterator[Fault]:
    batching, queue, priorities = spec.batching, spec.batching.queue, spec.batching.priorities
    if not batching.dynamic and spec.triton.sequences is None:
        for name in (*_QUEUEING, "ragged"):
            if getattr(batching, name):
                yield Fault(
                    ("batching", name),
                    "it is the dynamic batcher's, and `dynamic: false` turns that off",
                    "remove one of the two",
                )
    if priorities is not None and priorities.default > priorities.levels:
        yield Fault(
            ("batching", "priorities", "default"),
            f"there are {priorities.levels} levels, and {priorities.default} is none of them",
            f"write a level from 1 to {priorities.levels}",
        )
    if batching.keep_order and priorities is not None and priorities.levels > 1:
        yield Fault(
            ("batching", "keep_order"),
            "priorities let requests overtake each other, and this forbids it",
            "keep one of the two",
        )
    if queue is not None and queue.on_timeout == "delay" and queue.timeout_us == 0:
        yield Fault(
            ("batching", "queue", "on_timeout"),
            "no request waits too long while timeout_us is 0",
            "give timeout_us, or remove on_timeout",
        )
    if queue is not None and queue.on_timeout == "delay" and batching.keep_order:
        yield Fault(
            ("batching", "queue", "on_timeout"),
            "a delayed request is overtaken, and keep_order forbids it",
            "write `on_timeout: reject`, or remove keep_order",
        )


def _ragged_faults(spec: ModelSpec) -> Iterator[Fault]:
    ragged = spec.batching.ragged
    if ragged and spec.recipe.kind != "python":
        # ONNX Runtime, TensorRT and PyTorch get such inputs glued together into one dimension, and would
        # need further inputs that tell where each request begins: a graph that was made for that alone.
        yield Fault(
            ("batching", "ragged"),
            "only models in Python get requests of different sizes one by one",
            "remove it; requests of the same sizes are still batched",
        )
    for index, name in enumerate(ragged):
        if ragged.index(name) != index:
            yield Fault(("batching", "ragged", index), f"{name!r} stands twice", "keep one of the two")


def _instance_faults(spec: ModelSpec) -> Iterator[Fault]:
    for index, group in enumerate(spec.triton.instances):
        place = ("triton", "instances", index)
        if group.gpus and group.device == "cpu":
            yield Fault((*place, "gpus"), "these copies run on the processor", "remove it, or `device: cpu`")
        if group.gpus and spec.builds_for == ("cpu",):
            yield Fault((*place, "gpus"), "this model is built for processors only", "remove it")
        if group.device == "gpu" and spec.builds_for == ("cpu",):
            yield Fault((*place, "device"), "this model is built for processors only", "write `device: auto`")
        if group.device == "cpu" and spec.format == "tensorrt":
            yield Fault((*place, "device"), "TensorRT runs on GPUs only", "write `device: auto`")
        if len(set(group.gpus)) != len(group.gpus):
            yield Fault((*place, "gpus"), "a GPU stands twice", "raise `count` for more copies on each")
        yield from _profile_faults(spec, index)


def _profile_faults(spec: ModelSpec, index: int) -> Iterator[Fault]:
    profiles = spec.triton.instances[index].profiles
    place = ("triton", "instances", index, "profiles")
    if profiles and spec.format != "tensorrt":
        yield Fault(place, "only engines of TensorRT have profiles", "remove it")
        return
    count = len(spec.tensorrt.profiles) if spec.tensorrt else 1
    for number, name in enumerate(profiles):
        if not (name.isdecimal() and int(name) < count):
            yield Fault(
                (*place, number),
                f"{name!r} is none of its {count} profiles; they are counted from 0",
                f'write "0"{f" to {chr(34)}{count - 1}{chr(34)}" if count > 1 else ""}',
            )


def _sequence_faults(spec: ModelSpec) -> Iterator[Fault]:
    sequences, batching = spec.triton.sequences, spec.batching
    if sequences is None:
        return
    place = ("triton", "sequences")
    if spec.recipe.takes != "tensors":
        yield Fault(place, f"a model of the recipe {spec.recipe.kind} keeps no state", "remove it")
    if batching.dynamic and "dynamic" in batching.model_fields_set:
        yield Fault(
            ("batching", "dynamic"),
            "a model has one way of batching, and `triton.sequences` is it here",
            "remove one of the two",
        )
    not_here = ("priorities", "queue", "ragged")
    for name in not_here if sequences.strategy == "oldest" else (*not_here, "preferred_sizes", "keep_order"):
        if getattr(batching, name):
            yield Fault(
                ("batching", name),
                f"requests of sequences with `strategy: {sequences.strategy}` are not queued like that",
                "remove it",
            )
    if sequences.max_candidates is not None and sequences.strategy == "direct":
        yield Fault(
            (*place, "max_candidates"),
            "with `strategy: direct` there are as many as max_batch and the copies give places",
            "remove it, or write `strategy: oldest`",
        )
    controls = [sequences.start, sequences.end, sequences.ready, sequences.correlation_id]
    for index, name in enumerate(("start", "end", "ready", "correlation_id")):
        if controls[index] is not None and controls[index] in controls[:index]:
            yield Fault(
                (*place, name), f"the input {controls[index]!r} tells something else already", "name another"
            )
    if spec.triton.warm_up:
        yield Fault(("triton", "warm_up"), "a warm-up request belongs to no sequence", "remove it")


def _cache_faults(spec: ModelSpec) -> Iterator[Fault]:
    if not spec.triton.response_cache:
        return
    place = ("triton", "response_cache")
    if spec.triton.sequences is not None:
        yield Fault(place, "an answer within a sequence depends on what came before it", "remove one of both")
    if spec.generates:
        yield Fault(place, "Triton keeps no answers that come in several parts", "remove it")


def _option_faults(spec: ModelSpec) -> Iterator[Fault]:
    versions, optimization = spec.triton.versions, spec.triton.optimization
    if versions is not None:
        chosen = [name for name in ("latest", "all", "specific") if getattr(versions, name)]
        if len(chosen) != 1:
            yield Fault(
                ("triton", "versions"),
                f"{' and '.join(chosen)} exclude each other" if chosen else "it chooses none",
                "write one of latest, all and specific",
            )
        for index, version in enumerate(versions.specific):
            if version != ONLY_VERSION:
                yield Fault(
                    ("triton", "versions", "specific", index),
                    f"there is no version {version}: an artifact holds version {ONLY_VERSION} alone",
                    f"write {ONLY_VERSION}, or remove it; an endpoint changes versions by its lock",
                )
    if optimization.graph_level is not None and spec.format != "onnx":
        yield Fault(
            ("triton", "optimization", "graph_level"), "only ONNX Runtime knows such levels", "remove it"
        )
    if optimization.cuda_graphs and spec.format != "tensorrt":
        yield Fault(
            ("triton", "optimization", "cuda_graphs"), "only TensorRT records a GPU's work", "remove it"
        )
    for name in _SET_BY_THE_BUILD:
        if name in spec.triton.parameters:
            yield Fault(
                ("triton", "parameters", name),
                "the build says where a model's packages lie",
                "remove it; `recipe.requirements` or `recipe.environment` names the packages",
            )
