"""Results of promotions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import model_serializer

from tritonstack.base.results import Internal, public
from tritonstack.operations.promotion.gates import Gate, GateResult
from tritonstack.operations.promotion.plans import Decision, Entry
from tritonstack.records.locks import LockedArtifact
from tritonstack.workflows.artifacts.copying import Copied

__all__ = ["Entry", "GateResult", "Promotion", "PromotionOutline", "PromotionPlan"]


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
class JudgedGate(GateResult):
    """A gate, and the reason if it failed and is overridden."""

    overridden: str | None

    @public
    def passed(self) -> bool:
        """Return whether the artifact may pass."""
        return not self.reason


@dataclass(frozen=True, kw_only=True)
class _PromotionFacts:
    source: str
    target: str
    lock: Path
    changed: bool
    promoted: Sequence[PromotedEntry]
    up_to_date: Sequence[LockEntry]
    target_builds: Sequence[str]
    """Models of which the target uses its own build."""
    rolled_back: Sequence[LockEntry]
    to_copy: Sequence[LockEntry]
    gates: Sequence[JudgedGate]


@dataclass(frozen=True, kw_only=True)
class PromotionPlanDocument(_PromotionFacts):
    """What `promote --dry-run` prints with `--json`."""

    dry_run: Literal[True] = True
    bytes: int
    lock_diff: str


@dataclass(frozen=True, kw_only=True)
class PromotionDocument(_PromotionFacts):
    """What `promote` prints with `--json`."""

    dry_run: Literal[False] = False
    copied: Sequence[CopiedEntry]


@dataclass(frozen=True)
class PromotionOutline:
    """What a promotion is about: entries, gates, and the lock."""

    source: str
    target: str
    lock_file: Path
    decision: Decision
    missing: tuple[Entry, ...]
    """Entries to copy, including those that the lock names already."""
    gates: tuple[GateResult, ...]
    overrides: Mapping[Gate, str]
    """Gates to pass even if they fail, with the reason."""

    @property
    def failed(self) -> list[GateResult]:
        """Gates that fail and are not overridden."""
        return [gate for gate in self.gates if not gate.passed and gate.gate not in self.overrides]

    @property
    def overridden(self) -> list[GateResult]:
        """Gates that fail and are overridden."""
        return [gate for gate in self.gates if not gate.passed and gate.gate in self.overrides]

    def entries(self) -> dict[str, Any]:
        """Return the facts of both documents."""
        return {
            "source": self.source,
            "target": self.target,
            "lock": self.lock_file,
            "promoted": [
                PromotedEntry(**_facts(item), replaces=item.seen.digest if item.seen else None)
                for item in self.decision.entries
            ],
            "up_to_date": [LockEntry(**_facts(item)) for item in self.decision.same],
            "target_builds": self.decision.built_in_target,
            "rolled_back": [LockEntry(**_facts(item)) for item in self.decision.rolled_back],
            "to_copy": [LockEntry(**_facts(item)) for item in self.missing],
            "gates": [
                JudgedGate(**vars(gate), overridden=None if gate.passed else self.overrides.get(gate.gate))
                for gate in self.gates
            ],
        }


@dataclass(frozen=True)
class PromotionPlan:
    """A promotion that is not made yet."""

    outline: Internal[PromotionOutline]
    sizes: Internal[tuple[tuple[Entry, int], ...]]
    """Bytes to copy per entry."""
    needs_foundation: Internal[bool]
    """True if the foundation of the target has to be deployed first."""
    lock_diff: Internal[tuple[str, ...]]
    command: Internal[str]
    """The command that makes the promotion."""

    @property
    def possible(self) -> bool:
        """True if no gate fails, except overridden ones."""
        return not self.outline.failed

    @model_serializer
    def _document(self) -> PromotionPlanDocument:
        return PromotionPlanDocument(
            **self.outline.entries(),
            changed=False,
            bytes=sum(size for _, size in self.sizes),
            lock_diff="\n".join(self.lock_diff),
        )


@dataclass(frozen=True)
class Promotion:
    """A finished promotion."""

    outline: Internal[PromotionOutline]
    copied: Internal[tuple[Copied, ...]]

    @model_serializer
    def _document(self) -> PromotionDocument:
        return PromotionDocument(
            **self.outline.entries(),
            changed=bool(self.outline.decision.entries),
            copied=[CopiedEntry(**_facts(one.item), summary=one.summary) for one in self.copied],
        )


def _facts(item: Entry) -> dict[str, Any]:
    if isinstance(item.entry, LockedArtifact):
        facts = {"model": item.name, "target": item.key, "digest": item.entry.digest}
        return {**facts, "bytes": item.entry.archive_bytes}
    return {"image": item.name, "kind": item.key, "digest": item.entry.digest, "tag": item.entry.tag}
