"""Results of promotions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tritonstack.operations.promotion.gates import Gate, GateResult
from tritonstack.operations.promotion.plans import Decision, Entry
from tritonstack.records.locks import LockedArtifact
from tritonstack.workflows.artifacts.copying import Copied

__all__ = ["Entry", "GateResult", "Promotion", "PromotionOutline", "PromotionPlan"]


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

    def to_json(self) -> dict[str, Any]:
        """Return the outline as JSON data."""
        return {
            "source": self.source,
            "target": self.target,
            "lock": str(self.lock_file),
            "changed": False,
            "promoted": [
                {**_entry_json(item), "replaces": item.seen.digest if item.seen else None}
                for item in self.decision.entries
            ],
            "up_to_date": [_entry_json(item) for item in self.decision.same],
            "target_builds": list(self.decision.built_in_target),
            "rolled_back": [_entry_json(item) for item in self.decision.rolled_back],
            "to_copy": [_entry_json(item) for item in self.missing],
            "gates": [
                {
                    **asdict(gate),
                    "passed": gate.passed,
                    "overridden": None if gate.passed else self.overrides.get(gate.gate),
                }
                for gate in self.gates
            ],
        }


@dataclass(frozen=True)
class PromotionPlan:
    """A promotion that is not made yet."""

    outline: PromotionOutline
    sizes: tuple[tuple[Entry, int], ...]
    """Bytes to copy per entry."""
    needs_foundation: bool
    """True if the foundation of the target has to be deployed first."""
    lock_diff: tuple[str, ...]
    command: str
    """The command that makes the promotion."""

    @property
    def possible(self) -> bool:
        """True if no gate fails, except overridden ones."""
        return not self.outline.failed

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON data."""
        return self.outline.to_json() | {
            "dry_run": True,
            "bytes": sum(size for _, size in self.sizes),
            "lock_diff": "\n".join(self.lock_diff),
        }


@dataclass(frozen=True)
class Promotion:
    """A finished promotion."""

    outline: PromotionOutline
    copied: tuple[Copied, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the promotion as JSON data."""
        copied = [{**_entry_json(one.item), "summary": one.summary} for one in self.copied]
        changed = bool(self.outline.decision.entries)
        return self.outline.to_json() | {"changed": changed, "dry_run": False, "copied": copied}


def _entry_json(item: Entry) -> dict[str, Any]:
    if isinstance(item.entry, LockedArtifact):
        facts = {"model": item.name, "target": item.key, "digest": item.entry.digest}
        return {**facts, "bytes": item.entry.archive_bytes}
    return {"image": item.name, "kind": item.key, "digest": item.entry.digest, "tag": item.entry.tag}
