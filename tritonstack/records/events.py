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
from tritonstack.records.load_tests import LoadTest
from tritonstack.records.manifests import Digest

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
