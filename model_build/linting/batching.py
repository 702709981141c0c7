"""Rules for the schedulers in a config.pbtxt: dynamic batching, queues, sequences, and the response cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from model_build.errors import ModelConfigError, SurprisingSettingError
from model_build.linting.backends import completed
from model_build.linting.findings import Finding, ModelFolder
from model_build.repository.config import model_config_schema
from tritonstack.reference.container_variables import CACHE

_REJECTED, _SURPRISE = ModelConfigError.code, SurprisingSettingError.code
_DYNAMIC = "dynamic_batching"


def batching_rules(model: ModelFolder) -> Iterator[Finding]:
    """Yield findings about batching, queues, sequences, and the cache."""
    config = model.config
    if config.HasField("dynamic_batching"):
        yield from _sizes(model, config.dynamic_batching.preferred_batch_size, (_DYNAMIC,))
        yield from _priorities(model)
        yield from _order(model)
        yield from _queue(model)
    if config.HasField("sequence_batching"):
        yield from _sequences(model)
    if config.response_cache.enable and not config.model_transaction_policy.decoupled:
        yield model.warning(
            "the response cache works only if the server has one",
            f"set SAGEMAKER_TRITON_ADDITIONAL_ARGS={CACHE}=local,size=67108864",
            "response_cache",
        )


def _sizes(model: ModelFolder, sizes: Any, place: tuple[str, ...]) -> Iterator[Finding]:
    most = model.config.max_batch_size
    wrong = [size for size in sizes if not 0 < size <= most]
    if wrong:
        yield model.error(
            f"preferred batch size {wrong[0]} is not between 1 and max_batch_size {most}",
            "correct the size, or raise max_batch_size",
            *place,
            "preferred_batch_size",
        )
    elif most == 0 and not _only_queues(model.config.dynamic_batching):
        yield model.warning(
            "batching has no effect: max_batch_size is 0",
            "set max_batch_size, and remove the batch from `dims`",
            *place,
        )


def _only_queues(dynamic: Any) -> bool:
    """Return whether the dynamic batcher is used for its queue, which needs no batch."""
    limited = dynamic.HasField("default_queue_policy") or dynamic.priority_queue_policy
    return bool(limited or dynamic.priority_levels or dynamic.preserve_ordering)


def _priorities(model: ModelFolder) -> Iterator[Finding]:
    dynamic = model.config.dynamic_batching
    levels = dynamic.priority_levels
    if levels and not 0 < dynamic.default_priority_level <= levels:
        yield model.error(
            f"default_priority_level {dynamic.default_priority_level} is not between 1 and {levels}",
            "correct the level",
            *(_DYNAMIC, "priority_levels"),
        )
    unknown = [level for level in sorted(dynamic.priority_queue_policy) if levels and not 0 < level <= levels]
    if unknown:
        yield model.error(
            f"a queue policy is for priority {unknown[0]}, expected 1 to {levels}",
            "remove it, or raise priority_levels",
            *(_DYNAMIC, "priority_queue_policy"),
        )


def _order(model: ModelFolder) -> Iterator[Finding]:
    dynamic = model.config.dynamic_batching
    if not dynamic.preserve_ordering:
        return
    place = (_DYNAMIC, "preserve_ordering")
    if dynamic.priority_levels > 1:
        yield model.error("preserve_ordering allows one priority level only", "remove one of the two", *place)
    delay = model_config_schema().ModelQueuePolicy.DELAY
    policies = [dynamic.default_queue_policy, *dynamic.priority_queue_policy.values()]
    if any(policy.default_timeout_microseconds and policy.timeout_action == delay for policy in policies):
        yield model.error(
            "preserve_ordering does not allow the timeout action DELAY",
            "set `timeout_action: REJECT`, or remove preserve_ordering",
            *place,
        )


def _queue(model: ModelFolder) -> Iterator[Finding]:
    """Yield what the limits of a queue cost: Triton prepares no next batch while one runs."""
    dynamic = model.config.dynamic_batching
    policy = dynamic.default_queue_policy
    limits = policy.default_timeout_microseconds or policy.allow_timeout_override or policy.max_queue_size
    if not limits and not dynamic.priority_levels:
        return
    place = (_DYNAMIC, "default_queue_policy" if limits else "priority_levels")
    if dynamic.max_queue_delay_microseconds:
        yield model.warning(
            "a queue policy with max_queue_delay_microseconds: releases up to 26.05 can lose throughput "
            "under load until the model is reloaded (triton-inference-server/server#8870)",
            "remove max_queue_delay_microseconds, or the limits",
            *place,
        )
    elif _instances(model) == 1:
        yield model.warning(
            "a queue policy disables prefetching of batches: a single instance can idle up to 500 ms "
            "between batches",
            "use at least 2 instances, or remove the limits",
            *place,
        )


def _instances(model: ModelFolder) -> int:
    """Return the number of instances; GPUs multiply it."""
    groups = model.config.instance_group
    if not groups:
        return 2 if completed(model.config, model.versions).backend == "onnxruntime" else 1
    return sum(max(1, group.count) for group in groups)


def _sequences(model: ModelFolder) -> Iterator[Finding]:
    sequences = model.config.sequence_batching
    if sequences.HasField("oldest"):
        yield from _sizes(model, sequences.oldest.preferred_batch_size, ("sequence_batching", "oldest"))
    if model.config.response_cache.enable:
        yield model.error(
            "the response cache does not support sequences", "remove `response_cache`", "response_cache"
        )
    yield model.warning(
        "sequences: SageMaker may send the requests of one sequence to different instances",
        "use one instance, or sticky sessions (SessionId of InvokeEndpoint)",
        "sequence_batching",
    )
