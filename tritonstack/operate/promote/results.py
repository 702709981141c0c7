"""Results of promotions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tritonstack.base.results import Internal, public
from tritonstack.files.records.lock_writing import LockChange
from tritonstack.files.records.locks import LockedArtifact
from tritonstack.operate.artifacts.copying import Copied
from tritonstack.operate.promote.gates import GateResult
from tritonstack.operate.promote.plans import Decision


@dataclass(frozen=True, kw_only=True)
class LockEntry:
    """An artifact (model, target, bytes), or an image (image, kind, tag); the other keys are empty."""

    model: str = ""
    target: str = ""
    bytes: int = 0
    image: str = ""
    kind: str = ""
    tag: str = ""
    digest: str


@dataclass(frozen=True, kw_only=True)
class PromotedEntry(LockEntry):
    """An entry that is promoted."""

    replaces: str | None
    """The digest that the target had."""


@dataclass(frozen=True, kw_only=True)
class CopiedEntry(LockEntry):
    """An entry that was copied."""

    summary: str


@dataclass(frozen=True, kw_only=True)
class PromotionFacts:
    """What a promotion is about, made or not: entries, gates, and the lock."""

    source: str
    target: str
    lock: Path
    gates: tuple[GateResult, ...]
    decision: Internal[Decision]
    missing: Internal[tuple[LockChange, ...]]
    """Entries to copy, including those that the lock names already."""

    @property
    def failed(self) -> list[GateResult]:
        """Gates that fail and are not overridden."""
        return [gate for gate in self.gates if not gate.passed and gate.overridden is None]

    @public
    def promoted(self) -> list[PromotedEntry]:
        """The entries that change the lock."""
        return [
            PromotedEntry(**vars(_shown(item)), replaces=item.seen.digest if item.seen else None)
            for item in self.decision.entries
        ]

    @public
    def up_to_date(self) -> list[LockEntry]:
        """The entries that the target's lock already has."""
        return [_shown(item) for item in self.decision.same]

    @public
    def target_builds(self) -> Sequence[str]:
        """Models of which the target uses its own build."""
        return self.decision.built_in_target

    @public
    def rolled_back(self) -> list[LockEntry]:
        """The entries that are skipped, because the target has rolled them back."""
        return [_shown(item) for item in self.decision.rolled_back]

    @public
    def to_copy(self) -> list[LockEntry]:
        """The entries that the target's account lacks."""
        return [_shown(item) for item in self.missing]


@dataclass(frozen=True, kw_only=True)
class PromotionPlan(PromotionFacts):
    """A promotion that is not made yet."""

    dry_run: Literal[True] = True
    changed: Literal[False] = False
    sizes: Internal[tuple[tuple[LockChange, int], ...]]
    """Bytes to copy per entry."""
    needs_foundation: Internal[bool]
    """True if the foundation of the target has to be deployed first."""
    lock_diff: str
    command: Internal[str]
    """The command that makes the promotion."""

    @public
    def bytes(self) -> int:
        """The bytes to copy."""
        return sum(size for _, size in self.sizes)


@dataclass(frozen=True, kw_only=True)
class Promotion(PromotionFacts):
    """A finished promotion."""

    dry_run: Literal[False] = False
    copies: Internal[tuple[Copied, ...]]

    @public
    def changed(self) -> bool:
        """Whether the lock was changed."""
        return bool(self.decision.entries)

    @public
    def copied(self) -> list[CopiedEntry]:
        """The entries that were copied."""
        return [CopiedEntry(**vars(_shown(copy.item)), summary=copy.summary) for copy in self.copies]


def _shown(item: LockChange) -> LockEntry:
    entry = item.entry
    if isinstance(entry, LockedArtifact):
        return LockEntry(model=item.name, target=item.key, digest=entry.digest, bytes=entry.archive_bytes)
    return LockEntry(image=item.name, kind=item.key, digest=entry.digest, tag=entry.tag)
