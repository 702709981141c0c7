"""Options of config.pbtxt that people choose: batching, instances, sequences, queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tritonstack.base.yaml import Choice, Record
from tritonstack.files.model.recipes import OwnFile

PositiveInt = Annotated[int, Field(ge=1)]
Microseconds = Annotated[int, Field(ge=0, le=60_000_000)]


class QueuePolicy(Record):
    """What happens to queued requests."""

    timeout_us: Microseconds = 0
    """How long a request may wait in the queue; 0 means no limit."""
    on_timeout: Literal["reject", "delay"] = "reject"
    """Action on timeout: reject the request, or delay it behind requests that have not timed out."""
    max_waiting: Annotated[int, Field(ge=0)] = 0
    """Maximum queue length; further requests are rejected. 0 means no limit."""


class Priorities(Record):
    """Request priorities."""

    levels: Annotated[int, Field(ge=1, le=64)]
    """Number of levels; 1 is the highest."""
    default: PositiveInt
    """Level of requests that do not set one."""


class Batching(Record):
    """How Triton batches requests."""

    max_batch: Annotated[int, Field(ge=0, le=4096)] = 32
    """Maximum batch size; 0 if the tensors have no batch dimension."""
    dynamic: bool = True
    """Combine queued requests into one batch."""
    queue_delay_us: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Wait up to this long to fill a batch; 0 batches only requests that are already queued."""
    preferred_sizes: tuple[PositiveInt, ...] = ()
    """Batch sizes to execute immediately; for engines that are fastest at these sizes."""
    keep_order: bool = False
    """Return responses in the order of the requests."""
    ragged: tuple[str, ...] = ()
    """Inputs whose shapes may differ within a batch; Python models receive them one by one."""
    priorities: Priorities | None = None
    """Request priorities."""
    queue: QueuePolicy | None = None
    """Limits of the queue. Default: none, because limits slow the scheduler down."""


class InstanceGroup(Record):
    """Instances of the model that run concurrently."""

    count: Annotated[int, Field(ge=1, le=128)] = 1
    """Number of instances per device."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """auto: the GPU if the artifact is built for one."""
    gpus: tuple[Annotated[int, Field(ge=0, le=15)], ...] = ()
    """GPU ids; all GPUs if not given."""
    profiles: tuple[str, ...] = ()
    """Optimization profiles of a TensorRT engine for these instances, counted from "0"."""


class Sequences(Record):
    """Stateful models: requests of one sequence go to the same instance."""

    max_idle_us: Annotated[int, Field(ge=1)] = 1_000_000
    """A sequence ends after this long without a request."""
    strategy: Literal["direct", "oldest"] = "direct"
    """direct: one batch slot per sequence; oldest: batch requests of several sequences."""
    max_candidates: PositiveInt | None = None
    """With oldest: maximum number of concurrent sequences."""
    start: str | None = None
    """Input that marks the first request."""
    end: str | None = None
    """Input that marks the last request."""
    ready: str | None = None
    """Input that marks a slot with a request; with direct, batches may have empty slots."""
    correlation_id: str | None = None
    """Input that holds the sequence id."""


class VersionPolicy(Record):
    """Which versions of the model Triton serves."""

    alternatives: ClassVar = (Choice(("latest", "all", "specific")),)

    latest: PositiveInt | None = None
    """Serve this many of the newest versions."""
    all: bool = False
    """Serve all versions."""
    specific: tuple[PositiveInt, ...] = ()
    """Serve these versions."""


class Optimization(Record):
    """Graph optimizations of the backend."""

    graph_level: Annotated[int, Field(ge=-1, le=2)] | None = None
    """ONNX Runtime optimization level: -1 basic, 0 all, 1 extended, 2 none."""
    cuda_graphs: bool = False
    """Use CUDA graphs; TensorRT only."""
    pinned_memory: bool | None = None
    """Whether to use pinned memory for transfers to the GPU."""


class TritonOptions(Record):
    """Options of config.pbtxt for the main model, not for the tokenizer."""

    config: OwnFile | None = None
    """A config.pbtxt beside model.yaml; the build checks and completes it."""
    instances: tuple[InstanceGroup, ...] = ()
    """Instances of the model. Default: two for a graph below 1 GiB on a CPU (bf16: one), else one."""
    sequences: Sequences | None = None
    """For stateful models."""
    response_cache: bool = False
    """Answer repeated requests from the response cache; the endpoint's server needs a cache."""
    warm_up: bool = False
    """Run the first test input, alone and at the maximum batch size, before the model is ready; for models
    that get their tensors from another model, zeros are used instead."""
    versions: VersionPolicy | None = None
    """Which versions to serve; the newest if not given."""
    optimization: Optimization = Optimization()
    """Graph optimizations of the backend."""
    parameters: Mapping[str, str] = Field(default_factory=dict)
    """Parameters of the backend, named as in its documentation."""
