"""What happened to artifacts in an environment: built, promoted, deployed, verified; one small file an event.

They lie in the environment's artifact bucket, are written once and never changed; their keys sort by time.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

from pydantic import Field

from tritonstack.base.documents import Record
from tritonstack.base.naming import EVENTS, Name
from tritonstack.base.revisions import UncommittedFiles
from tritonstack.records.manifests import Digest
from tritonstack.reference.targets import TargetText

EventKind = Literal["built", "promoted", "deployed", "verified", "refuted", "rolled-back"]
"""promoted: into this environment. refuted: what runs is not what was asked for, or answers wrongly.
rolled-back: by a person, to an earlier lock."""

Moment = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$")]
"""A time in UTC, such as 2026-11-22T08:30:00Z."""


class TouchedArtifact(Record):
    """An artifact that an event is about."""

    model: Name
    target: TargetText
    digest: Digest


class TouchedImage(Record):
    """An image of the project's own that an event is about."""

    folder: Name
    """What it is made from, a folder of containers/."""
    kind: Literal["cpu", "gpu"]
    digest: str


class Event(Record):
    """One thing that happened in one environment."""

    kind: EventKind
    environment: Name
    at: Moment
    by: str
    """Who did it, as git or the CI that ran it knows them."""
    commit: str | None = None
    """The commit that it was done from; `+uncommitted` at its end if files differed from it."""
    uncommitted: UncommittedFiles = None
    """The files that differed."""
    endpoints: tuple[Name, ...] = ()
    """The endpoints concerned, by their names in the environment's file."""
    artifacts: tuple[TouchedArtifact, ...] = ()
    """Of a deploy and of a verdict: all that those endpoints serve; of all else, what has changed."""
    images: tuple[TouchedImage, ...] = ()
    """Of a deploy and of a verdict: those of the project's own that those endpoints run; of a promotion or a
    rollback: one that came in by it."""
    note: str = ""
    """What there is to know beside that: where it was promoted from, what was wrong."""

    @property
    def key(self) -> str:
        """Where it lies in the bucket; the same event has the same key."""
        body = self.to_json().encode()
        return f"{EVENTS}{self.at}-{self.kind}-{hashlib.sha256(body).hexdigest()[:8]}.json"

    def to_json(self) -> str:
        """The text of its file."""
        return self.model_dump_json(exclude_none=True) + "\n"
