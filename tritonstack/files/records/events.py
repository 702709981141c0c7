"""Artifact events of an environment: built, promoted, deployed, verified, load-tested; one small file each.

Events are in the environment's artifact bucket and are immutable; their keys sort by time.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

from pydantic import Field

from tritonstack.base.naming import EVENTS, Name
from tritonstack.base.revisions import UncommittedFiles
from tritonstack.base.yaml import Record
from tritonstack.facts.targets import TargetText
from tritonstack.files.records.manifests import Digest

Measured = Annotated[float, Field(ge=0)]


class RecordedLevel(Record):
    """One level of load."""

    load: str
    """What was sent, such as `open loop, 40 per second at random`."""
    offered_per_s: Measured | None = None
    """Requests that were due per second; None for closed loops, which slow down with the endpoint."""
    is_trace: bool
    """Whether the rate changed during the level; `offered_per_s` is then the mean."""
    lowest_instances: Annotated[int, Field(ge=0)]
    """The lowest number of instances that answered; 0 if the endpoint started from none."""
    highest_instances: Annotated[int, Field(ge=1)]
    answered_per_s: Measured
    answers: Annotated[int, Field(ge=0)]
    """Answered requests after the warm-up."""
    failed_percent: Measured
    p50_ms: Measured | None = None
    p99_ms: Measured | None = None
    """None if there were too few answers for a 99th percentile."""
    steady: bool
    """Whether latency neither rose nor fell after the warm-up."""


class LoadTest(Record):
    """A load test of one artifact on one instance type."""

    instance_type: str
    real_instances: bool
    """Whether that type answered, on AWS; instances of the local cloud are processes of one machine."""
    levels: tuple[RecordedLevel, ...]


EventKind = Literal["built", "promoted", "deployed", "verified", "refuted", "rolled-back", "load-tested"]
"""promoted: into this environment. refuted: the deployed state or the outputs are wrong. rolled-back:
manually, to an earlier lock. load-tested: measured by `tritonstack bench --record`."""

Moment = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$")]
"""A UTC time, such as 2026-11-22T08:30:00Z."""


class TouchedArtifact(Record):
    """An artifact that an event refers to."""

    model: Name
    target: TargetText
    digest: Digest


class TouchedImage(Record):
    """A custom image that an event refers to."""

    folder: Name
    """Its folder in containers/."""
    kind: Literal["cpu", "gpu"]
    digest: str


class Event(Record):
    """An event in one environment."""

    kind: EventKind
    environment: Name
    at: Moment
    by: str
    """Author, as git or CI reports it."""
    commit: str | None = None
    """Commit of the working tree, with the suffix `+uncommitted` if files differed from it."""
    uncommitted: UncommittedFiles = None
    """Files that differed."""
    endpoints: tuple[Name, ...] = ()
    """Endpoints, by their names in the environment file."""
    artifacts: tuple[TouchedArtifact, ...] = ()
    """For deployments and verdicts: all artifacts of those endpoints; otherwise: the changed ones."""
    images: tuple[TouchedImage, ...] = ()
    """For deployments and verdicts: the custom images of those endpoints; for promotions and rollbacks: the
    changed ones."""
    note: str = ""
    """Details: the source of a promotion, the reason of a failure."""
    load_test: LoadTest | None = None
    """What a load test measured, of the one artifact that the event names."""

    @property
    def key(self) -> str:
        """Key in the bucket; equal events have equal keys."""
        body = self.to_json().encode()
        return f"{EVENTS}{self.at}-{self.kind}-{hashlib.sha256(body).hexdigest()[:8]}.json"

    def to_json(self) -> str:
        """Serialize the event."""
        return self.model_dump_json(exclude_none=True) + "\n"
