"""Check locks against the project's files, local manifests, and each other.

No network calls. Earlier versions of locks from git are passed in (`Held`). Buckets and registries are
compared in tritonstack.operate.locks.checks.

A violation is a wrong statement. A note is information: an entry that no endpoint uses, or a check that needs
access to AWS.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tritonstack.base.error_kinds import LockEntryError, MissingReferenceError, OutdatedArtifactError
from tritonstack.base.errors import FileViolation, TritonstackError, shown_path
from tritonstack.base.files import short_digest
from tritonstack.base.naming import artifact_prefix
from tritonstack.base.paths import Project
from tritonstack.base.yaml import Document, FieldPath, closest, suggest
from tritonstack.facts.targets import parse_target
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.locks import (
    Figures,
    Lock,
    LockedArtifact,
    PlacedEntry,
    entries_of,
    entry_of,
    figures_of,
)
from tritonstack.files.records.manifests import MANIFEST_NAME, Manifest, parse_manifest

_DECIDED_BY_DIGEST = ("archive_bytes", "unpacked_bytes", "tensorrt", "item_bytes")
"""Figures that depend only on the archive's bytes, and so are equal in all builds of them."""
_OF_INSTANCES = ("instances", "copies_bytes", "graphs_decide_threads", "least_threads")
"""The same, but manifests and locks of early versions lack them."""
_COSINES_ALIKE = 1e-4
_ERRORS_ALIKE = 10.0
"""How much answers of one archive may differ between machines: a cosine difference, an error ratio."""


@dataclass(frozen=True)
class LockDigests:
    """The digests that an environment's lock names or has named."""

    digests: frozenset[str]
    gap: str | None = None
    """Why the list may be incomplete; None if it is complete."""


@dataclass
class Findings:
    """The findings about locks."""

    violations: list[FileViolation] = field(default_factory=list)
    notes: list[FileViolation] = field(default_factory=list)


@dataclass(frozen=True)
class Mismatch:
    """A value that differs between a lock and a manifest."""

    fact: str
    locked: object
    found: object
    untrue: bool
    """Whether one of the two must be wrong; otherwise the same bytes were built twice."""

    @property
    def description(self) -> str:
        """Return both values."""
        return f"the lock says {self.locked}, its manifest says {self.found}"


def check_catalog(workspace: Workspace, models: Collection[str]) -> Findings:
    """Check a lock against the project's files; `models` are all model names."""
    findings = Findings()
    needed, names = set(_asked_for(workspace)), set(models)
    for placed in entries_of(workspace.lock):
        kind, name, key = placed.path
        if kind == "models" and name not in names:
            suggestion = closest(str(name), models)
            remedy = "restore models/" + str(name) + ", or remove this entry"
            findings.violations.append(
                placed.violation(
                    MissingReferenceError,
                    f"unknown model {name!r}" + (f" (did you mean {suggestion!r}?)" if suggestion else ""),
                    remedy=remedy,
                )
            )
        elif placed.path not in needed:
            findings.notes.append(
                placed.violation(
                    LockEntryError,
                    f"no endpoint of {workspace.spec.name} uses {name} for {key}",
                    remedy="no action is needed; the entry may be removed",
                )
            )
        elif hiding := _preferred_target(workspace, placed, needed):
            findings.notes.append(
                placed.violation(
                    LockEntryError,
                    f"never used: the entry for {hiding} takes precedence",
                    remedy=f"the next build or promotion of {name} replaces both",
                )
            )
        elif _is_kept_outdated(workspace, placed):
            findings.notes.append(
                placed.violation(
                    OutdatedArtifactError,
                    f"{short_digest(placed.entry.digest)} is from an earlier version of {name}; "
                    f"{_promotion_note(placed)}",
                    remedy=f"no action is needed; `{workspace.lock_command} {name}` "
                    f"{'promotes' if workspace.promotion_source else 'builds'} the new version",
                )
            )
    return findings


def check_manifests(project: Project, document: Document[Lock]) -> list[FileViolation]:
    """Check a lock against the manifests of its local artifacts.

    A manifest from another build of the same bytes is not reported.
    """
    findings = Findings()
    for placed in entries_of(document):
        _, model, target = placed.path
        if not isinstance(placed.entry, LockedArtifact):
            continue
        file = project.artifacts_dir / artifact_prefix(str(model), placed.entry.digest) / MANIFEST_NAME
        manifest = _manifest_in(file)
        if manifest is not None:
            compare_manifest(findings, placed, manifest, str(target), origin=shown_path(file))
    return findings.violations


def compare_manifest(
    findings: Findings, placed: PlacedEntry, manifest: Manifest, target: str, *, origin: str
) -> None:
    """Add the differences between an entry and a manifest with the same digest."""
    if not isinstance(placed.entry, LockedArtifact):
        return
    for unlike in mismatches(placed.entry, manifest, target=target):
        file_violation = placed.violation(
            LockEntryError,
            f"{unlike.description} ({origin})",
            at=unlike.fact,
            remedy="rebuild it to update the lock" if unlike.untrue else None,
        )
        (findings.violations if unlike.untrue else findings.notes).append(file_violation)


def mismatches(entry: LockedArtifact, manifest: Manifest, *, target: str) -> Iterator[Mismatch]:
    """Yield the differences between an entry and a manifest with the same digest.

    The same bytes may have been built twice: from files that differ without effect on them, and on machines
    of different speed. Then both the lock and the manifest are right.
    """
    if manifest.digest != entry.digest:
        yield Mismatch("digest", entry.digest, manifest.digest, untrue=True)
        return
    if manifest.target != target:
        yield Mismatch("digest", f"target {target}", f"target {manifest.target}", untrue=True)
    recorded = _OF_INSTANCES if "instances" in manifest.model_fields_set else ()
    derived = entry_of(manifest)
    for fact in (*_DECIDED_BY_DIGEST, *recorded):
        locked, actual = getattr(entry, fact), getattr(derived, fact)
        if locked != actual:
            yield Mismatch(fact, locked, actual, untrue=True)
    same_build = manifest.spec_hash == entry.spec_hash
    if not same_build:
        yield Mismatch(
            "spec_hash", short_digest(entry.spec_hash), short_digest(manifest.spec_hash), untrue=False
        )
    unverified = "; ".join(manifest.unverified) or None
    if entry.unverified != unverified:
        yield Mismatch("unverified", entry.unverified, unverified, untrue=same_build)
    if entry.accepted and derived.accepted and entry.accepted != derived.accepted:
        yield Mismatch("accepted", entry.accepted, derived.accepted, untrue=same_build)
    yield from _figure_mismatches(entry.figures, figures_of(manifest), same_build=same_build)


def check_locks(locks: Mapping[str, Document[Lock]]) -> Iterator[FileViolation]:
    """Check that equal digests have equal facts in all locks."""
    first: dict[str, tuple[PlacedEntry, tuple[object, ...]]] = {}
    for document in locks.values():
        for placed in entries_of(document):
            entry = placed.entry
            if not isinstance(entry, LockedArtifact):
                continue
            facts = (placed.path[1], *(getattr(entry, fact) for fact in _DECIDED_BY_DIGEST))
            first_entry, first_facts = first.setdefault(entry.digest, (placed, facts))
            for fact, value, first_value in zip(
                ("model", *_DECIDED_BY_DIGEST), facts, first_facts, strict=True
            ):
                if value != first_value:
                    first_document = first_entry.document
                    location = f"{shown_path(first_document.file)}:{first_document.line_of(first_entry.path)}"
                    yield placed.violation(
                        LockEntryError,
                        f"{short_digest(entry.digest)} has {fact} {value} here "
                        f"and {first_value} in {location}",
                        at=None if fact == "model" else fact,
                        remedy="one of the two was not written by `tritonstack`: restore it from git, or "
                        "rebuild it",
                    )


def check_promotions(
    document: Document[Lock], environments: Iterable[str], lock_digests: Callable[[str], LockDigests]
) -> Findings:
    """Check that promoted entries are or were in the lock of their source environment."""
    findings, names = Findings(), list(environments)
    for placed in entries_of(document):
        if placed.entry.promoted is None:
            continue
        source, digest = placed.entry.promoted.source, placed.entry.digest
        digests = lock_digests(source)
        if digest in digests.digests:
            continue
        if source not in names and not digests.digests:
            findings.violations.append(
                placed.violation(
                    LockEntryError,
                    f"promoted from unknown environment {source!r}",
                    at="promoted",
                    remedy=suggest(source, names, f"available: {', '.join(names)}"),
                )
            )
            continue
        file_violation = placed.violation(
            LockEntryError,
            f"promoted from {source!r}, whose lock does not name {digest[:19]}"
            + (f"; its history is incomplete: {digests.gap}" if digests.gap else " and never has"),
            at="promoted",
            remedy=None if digests.gap else f"promote an artifact that the lock of {source} names",
        )
        (findings.notes if digests.gap else findings.violations).append(file_violation)
    return findings


def _asked_for(workspace: Workspace) -> Iterator[FieldPath]:
    """Yield the lock entries that the environment's endpoints use."""
    for name, endpoint in workspace.spec.endpoints.items():
        for served in workspace.serves(name):
            for target in workspace.spec.acceptable_targets(served.instance):
                yield ("models", served.model, target)
        if endpoint.image is not None:
            for variant in endpoint.variants:
                yield ("images", endpoint.image, "gpu" if variant.instance.gpus else "cpu")


def _preferred_target(workspace: Workspace, placed: PlacedEntry, needed: Collection[FieldPath]) -> str | None:
    """Return the target that takes precedence on every machine; current builds never leave both."""
    _, name, key = map(str, placed.path)
    conflicting = (
        workspace.lock.record.conflicting(name, key) if isinstance(placed.entry, LockedArtifact) else {}
    )
    used = (target for target in conflicting if ("models", name, target) in needed)
    return next((target for target in used if parse_target(target).python), None)


def _is_kept_outdated(workspace: Workspace, placed: PlacedEntry) -> bool:
    """Return whether an artifact is kept on purpose although its model has changed."""
    entry, now = placed.entry, workspace.hashes.get(str(placed.path[1]))
    return (
        isinstance(entry, LockedArtifact)
        and now is not None
        and entry.spec_hash != now
        and entry.serves_for(now)
    )


def _promotion_note(placed: PlacedEntry) -> str:
    back, promoted = placed.entry.rolled_back, placed.entry.promoted
    if back is not None:
        return f"{back.by} restored it in place of {short_digest(back.instead_of)} at {back.at}"
    return f"promote a later one from {promoted.source if promoted else ''} when it is ready"


def _manifest_in(file: Path) -> Manifest | None:
    """Return the manifest in a file; None if there is none or it is from another version."""
    try:
        return parse_manifest(file.read_bytes(), origin=file)
    except (FileNotFoundError, TritonstackError):
        return None


def _figure_mismatches(
    locked: Figures | None, actual: Figures | None, *, same_build: bool
) -> Iterator[Mismatch]:
    locked_figures, found_figures = locked or Figures(), actual or Figures()
    for name in Figures.model_fields:
        values = getattr(locked_figures, name), getattr(found_figures, name)
        if values[0] != values[1]:
            untrue = same_build and _far(name, *values)
            yield Mismatch("figures", f"{name} {values[0]}", f"{name} {values[1]}", untrue)


def _far(name: str, value: float | None, other: float | None) -> bool:
    """Return whether figures of one archive differ more than machines explain."""
    if value is None or other is None:
        return True
    if name == "min_cosine":
        return abs(value - other) > _COSINES_ALIKE
    if name == "max_absolute_error":
        least, most = sorted((value, other))
        return most > max(least, 1e-9) * _ERRORS_ALIKE
    return False  # speed depends on the machine
