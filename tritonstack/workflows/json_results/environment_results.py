"""Results of commands that read or change deployed environments."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tritonstack.workflows.json_results.shape import Shape


class GateJson(Shape):
    """A promotion gate."""

    gate: str
    subject: str
    """The artifact; empty if the gate applies to all."""
    required: str
    measured: str
    passed: bool
    reason: str
    """Why it failed; empty if it passed."""
    remedy: str
    """How to pass it; empty if it passed."""
    overridden: str | None
    """The reason, if it failed and is overridden."""


class EntryJson(Shape):
    """An artifact (model, target, bytes), or an image (image, kind, tag)."""

    model: str = ""
    target: str = ""
    bytes: int = 0
    image: str = ""
    kind: str = ""
    tag: str = ""
    digest: str


class PromotedEntryJson(EntryJson):
    """An entry that is promoted."""

    replaces: str | None


class CopiedEntryJson(EntryJson):
    """An entry that was copied."""

    summary: str


class PromoteOutlineJson(Shape):
    """What a promotion copies and changes."""

    source: str
    target: str
    lock: str
    changed: bool
    promoted: list[PromotedEntryJson]
    up_to_date: list[EntryJson]
    target_builds: list[str]
    """Models of which the target uses its own build."""
    rolled_back: list[EntryJson]
    to_copy: list[EntryJson]
    gates: list[GateJson]


class PromotePlanJson(PromoteOutlineJson):
    """A promotion with `--dry-run`."""

    dry_run: Literal[True]
    bytes: int
    lock_diff: str


class PromoteJson(PromoteOutlineJson):
    """A finished promotion."""

    dry_run: Literal[False]
    copied: list[CopiedEntryJson]


class RollbackStepJson(Shape):
    """A lock entry that is rolled back."""

    name: str
    key: str
    origin: str = Field(alias="from")
    to: str


class RollbackJson(Shape):
    """A rollback that was planned or made."""

    endpoint: str
    origin: str
    changed: bool
    also_rolled_back: list[str]
    """Other endpoints with the same models."""
    steps: list[RollbackStepJson]
