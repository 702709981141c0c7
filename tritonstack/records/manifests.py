"""`manifest.json`: what an artifact is, how it was made, and the proof that it is right.

The manifest lies beside model.tar.gz and is written last: an artifact without a manifest does not exist.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from tritonstack.base.documents import Record
from tritonstack.base.naming import Name
from tritonstack.records.json_records import parse_record
from tritonstack.reference.datatypes import ELEMENT_BYTES, DatatypeName
from tritonstack.reference.targets import TargetText
from tritonstack.spec.models.tolerance import Precision

ARCHIVE_NAME = "model.tar.gz"
MANIFEST_NAME = "manifest.json"
DIGEST_NOTE = "sha256"
"""The archive's digest, as metadata in a bucket: a multipart object's checksum is not that of its bytes."""

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class TensorSpec(Record):
    """One input or output of the model that callers see."""

    name: str
    datatype: DatatypeName
    shape: tuple[int, ...]
    """-1 where the size varies; the batch dimension is not counted."""
    labels: tuple[str, ...] = ()
    """What its places mean, where the model says so."""

    @property
    def least_bytes(self) -> int:
        """What it takes on the wire in a batch of one, sizes that vary counted as 1."""
        return ELEMENT_BYTES[self.datatype] * math.prod(abs(size) for size in self.shape)


class FileEntry(Record):
    """One file of the archive."""

    path: str
    size_bytes: Annotated[int, Field(ge=0)]
    sha256: Digest


class ParityReport(Record):
    """How far one stage's answers are from the framework's, over all checked inputs."""

    stage: Literal["graph", "served"]
    """graph: the exported file in its runtime; served: the packed archive behind a real Triton."""
    cases: Annotated[int, Field(ge=1)]
    min_cosine: float
    max_absolute_error: float
    max_relative_error: float | None = None
    """As a share of the largest value of each row."""
    min_top1_agreement: float | None = None
    """Lowest share of rows whose largest value stands in the same place."""


class GenerationReport(Record):
    """That a model which makes up texts answers; there is no framework to compare its words with."""

    stage: Literal["served"] = "served"
    """The packed archive behind a real Triton, asked with `generate`."""
    cases: Annotated[int, Field(ge=1)]
    """Texts that were answered with text."""
    times: Annotated[int, Field(ge=2)]
    """How often each was asked, and answered the same, with nothing left to chance."""
    tokens: Annotated[int, Field(ge=1)]
    """How many were asked for, which `latency` is for."""


class CandidateReport(Record):
    """One graph that was tried: how accurate and how fast it was, and whether it is served."""

    name: str
    precision: Precision
    kept: bool
    reason: str
    """Why it was kept or not."""
    parity: ParityReport | None = None
    latency_ms: Mapping[str, float] = Field(default_factory=dict)
    """Shortest processor time of one run by shape, such as 1x16, on the machine that built it."""
    size_bytes: Annotated[int, Field(ge=0)]


class EnvironmentReport(Record):
    """An execution environment in the archive."""

    path: str
    sha256: Digest
    size_bytes: Annotated[int, Field(ge=1)]
    unpacked_bytes: Annotated[int, Field(ge=1)]
    packages: tuple[str, ...]
    """name==version of each."""
    pythons: tuple[str, ...] = ()
    """The Pythons that it is bound to, such as py310; none if it runs on any."""


class LatencyReport(Record):
    """How long a served request took on the machine that built the artifact."""

    batch: Annotated[int, Field(ge=1)]
    requests: Annotated[int, Field(ge=1)]
    p50_ms: float
    p99_ms: float


class ServedBy(Record):
    """The server that the archive was verified with."""

    kind: Literal["container", "embedded"]
    triton: str
    python: str


class Manifest(Record):
    """Everything that is known about an artifact."""

    format: Literal[1] = 1
    model: Name
    entry_model: Name
    """The directory that Triton is told to load."""
    digest: Digest
    """SHA-256 of the archive: the artifact's name."""
    target: TargetText
    spec_hash: Digest
    """Hash of all that the build depends on: model.yaml's record and the recipe's own version."""
    source: str
    source_revision: str
    """What was found at the source: a package version, a commit, an object version."""
    weights_sha256: Digest
    precision: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    archive_bytes: Annotated[int, Field(ge=1)]
    unpacked_bytes: Annotated[int, Field(ge=1)]
    files: tuple[FileEntry, ...]
    parity: tuple[ParityReport, ...]
    """What its answers were compared with the framework's for; none where there is no framework."""
    unverified: tuple[str, ...] = ()
    """Why nothing proves its answers right: a given graph without right answers in model.yaml is compared
    with itself only. Empty if a framework or right answers confirm them."""
    unused_weights: tuple[str, ...] = ()
    """Tensors of the source that the model does not use, in groups with their counts: heads of other tasks,
    and what `allow_unused_weights` allows."""
    generation: GenerationReport | None = None
    """In the place of it, for models that make up texts."""
    latency: tuple[LatencyReport, ...]
    served_by: ServedBy
    tensorrt: str | None = None
    """The TensorRT version its engines were built with, if it holds any."""
    candidates: tuple[CandidateReport, ...] = ()
    """The graphs that were tried, the one that is served among them."""
    choices: Mapping[Name, str] = Field(default_factory=dict)
    """The graph that `precision: auto` chose, by model: this one, or those that a pipeline is made of."""
    environments: tuple[EnvironmentReport, ...] = ()
    """The execution environments of its Python models."""
    max_batch: Annotated[int, Field(ge=0)] = 0
    """The largest batch it takes; 0 where its tensors have no batch dimension."""
    shared_memory_bytes: Annotated[int, Field(ge=0)] = 0
    """What its Python models need of shared memory for the largest batch that was checked."""
    tools: Mapping[str, str]
    """Versions of what took part in the build."""
    examples_sha256: Digest | None = None
    """SHA-256 of the examples.json beside it; None where an earlier version has built it, which wrote none.
    The only thing that a manifest may gain after it was written."""

    @property
    def item_bytes(self) -> int:
        """The least that a request or an answer weighs, whichever is heavier: a batch of one."""
        return max(sum(tensor.least_bytes for tensor in tensors) for tensors in (self.inputs, self.outputs))

    def to_json(self) -> str:
        """The text of manifest.json."""
        return self.model_dump_json(indent=2) + "\n"


def parse_manifest(text: str | bytes, *, origin: str | Path) -> Manifest:
    """The manifest in `text`; `origin` says in errors where it came from."""
    return parse_record(
        Manifest,
        text,
        origin=origin,
        fault="is not a manifest",
        remedy="build the model again with `tritonstack build`",
    )
