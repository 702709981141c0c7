"""`manifest.json`: what an artifact is, how it was built, and the proof of its correctness.

It is stored beside model.tar.gz and written last: an artifact without a manifest is incomplete.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field, ValidationError

from tritonstack.base.error_kinds import DamagedArtifactError
from tritonstack.base.naming import Name
from tritonstack.base.yaml import Record
from tritonstack.facts.datatypes import ELEMENT_BYTES, DatatypeName
from tritonstack.facts.targets import TargetText
from tritonstack.files.model.tolerance import Precision, Tolerance

RecordT = TypeVar("RecordT", bound=Record)


def parse_record(
    record_type: type[RecordT], text: str | bytes, *, origin: str | Path, failure: str, remedy: str
) -> RecordT:
    """Parse a record; errors combine `origin`, `failure`, and the reason."""
    try:
        return record_type.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise DamagedArtifactError(
            f"{origin} {failure} of this version: {field}: {first['msg']}", remedy=remedy
        ) from None


ARCHIVE_NAME = "model.tar.gz"
MANIFEST_NAME = "manifest.json"
DIGEST_NOTE = "sha256"
"""S3 metadata key of the archive's digest: a multipart object's checksum is not the hash of its bytes."""

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class TensorSpec(Record):
    """An input or output of the model for callers."""

    name: str
    datatype: DatatypeName
    shape: tuple[int, ...]
    """Shape without the batch dimension; -1 for variable dimensions."""
    labels: tuple[str, ...] = ()
    """Labels of the output's values, if the model has them."""

    @property
    def least_bytes(self) -> int:
        """Minimum size on the wire for batch size 1, variable dimensions counted as 1."""
        return ELEMENT_BYTES[self.datatype] * math.prod(abs(size) for size in self.shape)


class FileEntry(Record):
    """One file of the archive."""

    path: str
    size_bytes: Annotated[int, Field(ge=0)]
    sha256: Digest


class ParityReport(Record):
    """Maximum difference from the framework in one stage, over all test inputs."""

    stage: Literal["graph", "served"]
    """graph: the exported file in its runtime; served: the packed archive in a real Triton."""
    cases: Annotated[int, Field(ge=1)]
    min_cosine: float
    max_absolute_error: float
    max_relative_error: float | None = None
    """Relative to the largest value of each row."""
    min_top1_agreement: float | None = None
    """Minimum share of rows whose largest value is at the same index."""
    worst_case: str | None = None
    """Name of the test input with the lowest cosine; None if an early version built the artifact."""
    accepted: Mapping[str, Tolerance] = Field(default_factory=dict)
    """Output -> the bounds that its values met; empty if an early version built the artifact."""


class GenerationReport(Record):
    """Check that a generative model responds, and as its framework does if there is one."""

    stage: Literal["served"] = "served"
    """The packed archive in a real Triton, called with `generate`."""
    cases: Annotated[int, Field(ge=1)]
    """Number of prompts with a response."""
    times: Annotated[int, Field(ge=2)]
    """Number of identical calls per prompt, all with the same response."""
    tokens: Annotated[int, Field(ge=1)]
    """Number of requested tokens, for `latency`."""
    compared: Annotated[int, Field(ge=0)] = 0
    """Number of completions that are equal to the framework's; 0 without a framework."""


RECORDED = "chosen by an earlier build of the same files"
"""The reason of a candidate that was not compared with others."""
_CHOICE_SEPARATOR = "; "


def join_choice(names: Iterable[str]) -> str:
    """Return the choice of `precision: auto` from the graph, and the layout if it is recorded."""
    return _CHOICE_SEPARATOR.join(names)


def split_choice(choice: str) -> tuple[str, str]:
    """Return the graph and the layout of a recorded choice; an empty layout if it is not recorded."""
    graph, _, layout = choice.partition(_CHOICE_SEPARATOR)
    return graph, layout


class CandidateReport(Record):
    """One candidate graph: its accuracy and latency, and whether it is served."""

    name: str
    precision: Precision
    kept: bool
    reason: str
    """Why it was kept or rejected."""
    parity: ParityReport | None = None
    latency_ms: Mapping[str, float] = Field(default_factory=dict)
    """Minimum CPU time per run by shape, such as 1x16, on the build machine."""
    size_bytes: Annotated[int, Field(ge=0)]


class EnvironmentReport(Record):
    """A Python execution environment in the archive."""

    path: str
    sha256: Digest
    size_bytes: Annotated[int, Field(ge=1)]
    unpacked_bytes: Annotated[int, Field(ge=1)]
    packages: tuple[str, ...]
    """Each as name==version."""
    pythons: tuple[str, ...] = ()
    """Python versions it is bound to, such as py310; empty if any."""


class LatencyReport(Record):
    """Latency of a served request on the build machine."""

    batch: Annotated[int, Field(ge=1)]
    requests: Annotated[int, Field(ge=1)]
    p50_ms: float
    p99_ms: float


class ServedBy(Record):
    """The server that verified the archive."""

    kind: Literal["container", "embedded"]
    triton: str
    python: str


class Manifest(Record):
    """All facts about an artifact."""

    format: Literal[1] = 1
    model: Name
    entry_model: Name
    """The model that Triton loads."""
    digest: Digest
    """SHA-256 of the archive, which identifies the artifact."""
    target: TargetText
    spec_hash: Digest
    """Hash of all build inputs: model.yaml's record and the recipe's version."""
    source: str
    source_revision: str
    """Resolved source: a package version, a commit, or an object version."""
    weights_sha256: Digest
    precision: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    archive_bytes: Annotated[int, Field(ge=1)]
    unpacked_bytes: Annotated[int, Field(ge=1)]
    files: tuple[FileEntry, ...]
    parity: tuple[ParityReport, ...]
    """Comparisons with the framework; empty if there is no framework."""
    unverified: tuple[str, ...] = ()
    """Why nothing proves its outputs correct: a given graph without expected outputs in model.yaml is only
    compared with itself. Empty if a framework or expected outputs confirm them."""
    unused_weights: tuple[str, ...] = ()
    """Source tensors that the model does not use, grouped with counts: heads of other tasks, and those that
    `allow_unused_weights` allows."""
    generation: GenerationReport | None = None
    """Replaces `parity` for generative models."""
    latency: tuple[LatencyReport, ...]
    served_by: ServedBy
    processor: tuple[str, ...] = ()
    """Features of the build machine's processor, such as avx512_vnni, which its latencies depend on; empty if
    an early version built it."""
    tensorrt: str | None = None
    """TensorRT version of its engines, if any."""
    candidates: tuple[CandidateReport, ...] = ()
    """The candidate graphs, including the served one."""
    choices: Mapping[Name, str] = Field(default_factory=dict)
    """Graph that `precision: auto` chose, by model: of this model, or of an ensemble's members."""
    environments: tuple[EnvironmentReport, ...] = ()
    """Execution environments of its Python models."""
    max_batch: Annotated[int, Field(ge=0)] = 0
    """Maximum batch size; 0 if the tensors have no batch dimension."""
    shared_memory_bytes: Annotated[int, Field(ge=0)] = 0
    """Shared memory that its Python models need for the largest tested batch."""
    instances: Annotated[int, Field(ge=1)] = 1
    """The most instances that one of its models has on a CPU; the endpoint's threads depend on it."""
    copies_bytes: Annotated[int, Field(ge=0)] = 0
    """Size of the graphs that CPU instances beyond the first of each model load again."""
    graphs_decide_threads: bool = False
    """Whether an ONNX model sets the threads of its session."""
    least_threads: Annotated[int, Field(ge=0)] = 0
    """The most threads that a tree model asks for; OpenMP must allow that many."""
    tools: Mapping[str, str]
    """Versions of the build tools."""
    examples_sha256: Digest | None = None
    """SHA-256 of the examples.json beside it; None if an early version built it without one. The only field
    that may be added to an existing manifest."""

    @property
    def item_bytes(self) -> int:
        """Minimum size of a request or response, whichever is larger, for batch size 1."""
        return max(sum(tensor.least_bytes for tensor in tensors) for tensors in (self.inputs, self.outputs))

    def to_json(self) -> str:
        """Serialize the manifest."""
        return self.model_dump_json(indent=2) + "\n"


def parse_manifest(text: str | bytes, *, origin: str | Path) -> Manifest:
    """Parse a manifest; `origin` names its source in errors."""
    return parse_record(
        Manifest,
        text,
        origin=origin,
        failure="is not a manifest",
        remedy="rebuild the model with `tritonstack build`",
    )
