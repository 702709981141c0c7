"""How Triton runs a model beyond what follows from it: the parts of config.pbtxt that people choose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from tritonstack.base.documents import Record
from tritonstack.spec.models.recipes import OwnFile

PositiveInt = Annotated[int, Field(ge=1)]
Microseconds = Annotated[int, Field(ge=0, le=60_000_000)]


class QueuePolicy(Record):
    """What becomes of requests that wait."""

    timeout_us: Microseconds = 0
    """How long one may wait; 0 is for ever."""
    on_timeout: Literal["reject", "delay"] = "reject"
    """What happens then: an error, or a place behind those that have not waited too long."""
    max_waiting: Annotated[int, Field(ge=0)] = 0
    """More than this are refused at once; 0 is no limit."""


class Priorities(Record):
    """Requests that go before others."""

    levels: Annotated[int, Field(ge=1, le=64)]
    """How many levels there are; 1 is the highest."""
    default: PositiveInt
    """That of a request which names none."""


class Batching(Record):
    """How Triton gathers requests."""

    max_batch: Annotated[int, Field(ge=0, le=4096)] = 32
    """Largest batch the model is run with; 0 where its tensors have no batch dimension."""
    dynamic: bool = True
    """Gather requests that wait at the same time into one batch."""
    queue_delay_us: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """How long a request may wait for company; 0 gathers only what waits already."""
    preferred_sizes: tuple[PositiveInt, ...] = ()
    """Sizes at which a batch goes off at once; for engines that are fastest there."""
    keep_order: bool = False
    """Answer in the order in which requests came."""
    ragged: tuple[str, ...] = ()
    """Inputs whose sizes may differ between the requests of a batch; models in Python get them one by one."""
    priorities: Priorities | None = None
    """Requests that go before others."""
    queue: QueuePolicy | None = None
    """What becomes of requests that wait."""


class InstanceGroup(Record):
    """Copies of the model that run at the same time."""

    count: Annotated[int, Field(ge=1, le=128)] = 1
    """How many, on each of its devices."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """auto: the GPU where the artifact is built for one."""
    gpus: tuple[Annotated[int, Field(ge=0, le=15)], ...] = ()
    """Which GPUs; all if not given."""
    profiles: tuple[str, ...] = ()
    """Optimisation profiles of a TensorRT engine that these copies use, counted from "0"."""


class Sequences(Record):
    """Requests that belong together and have to meet the same copy of the model."""

    max_idle_us: Annotated[int, Field(ge=1)] = 1_000_000
    """A sequence that is silent for longer is over."""
    strategy: Literal["direct", "oldest"] = "direct"
    """direct: a place in the batch for each sequence; oldest: requests of several sequences are batched."""
    max_candidates: PositiveInt | None = None
    """With oldest: how many sequences are open at a time."""
    start: str | None = None
    """The model's input that tells the first request."""
    end: str | None = None
    """The model's input that tells the last request."""
    ready: str | None = None
    """The model's input that tells a request from an empty place; with direct, empty ones come, too."""
    correlation_id: str | None = None
    """The model's input that names the sequence."""


class VersionPolicy(Record):
    """Which versions of the model are served."""

    latest: PositiveInt | None = None
    """The newest so many."""
    all: bool = False
    """Every one there is."""
    specific: tuple[PositiveInt, ...] = ()
    """These."""


class Optimization(Record):
    """What the backend may do with the graph."""

    graph_level: Annotated[int, Field(ge=-1, le=2)] | None = None
    """-1 basic, 0 all, 1 extended, 2 none, for ONNX Runtime."""
    cuda_graphs: bool = False
    """Record a GPU's work once and replay it; TensorRT only."""
    pinned_memory: bool | None = None
    """Whether inputs and outputs pass through page-locked memory on their way to a GPU."""


class TritonOptions(Record):
    """The parts of config.pbtxt that people choose, for the model that computes, not for a tokenizer."""

    config: OwnFile | None = None
    """A config.pbtxt beside model.yaml, which is checked, completed and kept."""
    instances: tuple[InstanceGroup, ...] = ()
    """Copies of the model; one if not given."""
    sequences: Sequences | None = None
    """For models that keep a state between requests."""
    response_cache: bool = False
    """Answer a request that was answered before from memory; the endpoint's server has to have a cache."""
    warm_up: bool = False
    """Ask with the first test input, alone and at the largest batch, before the model counts as ready; zeros
    stand for it in a model that gets its tensors from another."""
    versions: VersionPolicy | None = None
    """Which versions are served; the newest if not given."""
    optimization: Optimization = Optimization()
    """What the backend may do with the graph."""
    parameters: Mapping[str, str] = Field(default_factory=dict)
    """Parameters of the backend, by the names in its documentation."""
