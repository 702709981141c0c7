"""How Triton gathers the requests of one model: the dynamic batcher, or the sequence batcher."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from model_build.repository.config import data_type, model_config_schema
from tritonstack.base.documents import Fault, closest
from tritonstack.records.manifests import TensorSpec
from tritonstack.spec.models.triton_options import Batching, QueuePolicy, Sequences

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
"""The types that a yes or no can have, and what it then reads."""
CORRELATION_TYPES = ("UINT64", "INT64", "UINT32", "INT32")
"""Of sequences that are named by texts, releases before 25.02 hand models more than the text, and refuse it
themselves."""


def schedule(config: Any, batching: Batching, sequences: Sequences | None, types: Mapping[str, str]) -> None:
    """Say how requests are gathered; `types` are the datatypes of the inputs that tell of a sequence."""
    if sequences is not None:
        _batch_sequences(config.sequence_batching, batching, sequences, types)
    elif _has_queue(batching):
        _batch_dynamically(config.dynamic_batching, batching)


def control_inputs(sequences: Sequences | None) -> dict[str, str]:
    """Inputs that Triton fills in itself, by what they tell: `start`, `end`, `ready`, `correlation_id`."""
    if sequences is None:
        return {}
    named = {name: getattr(sequences, name) for name in (*BOOLEAN_CONTROLS, "correlation_id")}
    return {name: tensor for name, tensor in named.items() if tensor is not None}


def callers_inputs(inputs: Sequence[TensorSpec], sequences: Sequences | None) -> tuple[TensorSpec, ...]:
    """The inputs that callers send: all but those that Triton fills in."""
    filled_in = set(control_inputs(sequences).values())
    return tuple(tensor for tensor in inputs if tensor.name not in filled_in)


def with_controls(
    inputs: Sequence[TensorSpec], sequences: Sequences | None, types: Mapping[str, str]
) -> tuple[TensorSpec, ...]:
    """A Python model's inputs and those that Triton fills in, which no test input has to bring.

    `types` are those that model.yaml gives to tensors.
    """
    known = {tensor.name for tensor in inputs}
    usual = {"correlation_id": "UINT64"}
    return (
        *inputs,
        *(
            TensorSpec(name=name, datatype=types.get(name, usual.get(role, "INT32")), shape=(1,))
            for role, name in control_inputs(sequences).items()
            if name not in known
        ),
    )


def control_faults(inputs: Sequence[TensorSpec], sequences: Sequences | None) -> Iterator[Fault]:
    """Inputs that are to tell of a sequence and that the model does not have, or not in a type that can."""
    known = {tensor.name: tensor for tensor in inputs}
    for role, name in control_inputs(sequences).items():
        place = ("triton", "sequences", role)
        allowed = CORRELATION_TYPES if role == "correlation_id" else tuple(FALSE_TRUE)
        if name not in known:
            suggestion = closest(name, known)
            yield Fault(
                place,
                f"the model has no input {name!r}",
                f"did you mean '{suggestion}'?" if suggestion else f"it has: {', '.join(known)}",
            )
        elif known[name].datatype not in allowed:
            yield Fault(
                place,
                f"the input {name!r} is {known[name].datatype}, and Triton tells this in "
                f"{' or '.join(allowed)}",
                "change the input's type in the model",
            )


def _has_queue(batching: Batching) -> bool:
    """Whether the dynamic batcher holds the requests; without a batch dimension it is a queue and no more."""
    if batching.max_batch > 0:
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
    if batching.queue is not None:
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
