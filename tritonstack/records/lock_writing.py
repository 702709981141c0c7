"""Update `environments/<env>.lock.yaml` atomically, one writer at a time.

Several builds and promotions may write one lock at the same time, in one working tree or in several. Each
changes only its own entries and never overwrites an entry that it has not seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import yaml

from tritonstack.base import files
from tritonstack.base.errors import TritonstackError, shown_path
from tritonstack.base.files import short_digest
from tritonstack.base.revisions import is_committed, is_hashed
from tritonstack.base.yaml import TextualDumper
from tritonstack.records.locks import (
    Built,
    Entry,
    EntryT,
    ImageKind,
    Lock,
    LockedArtifact,
    LockedImage,
    changed_bounds,
    entry_of,
    load_lock,
)
from tritonstack.records.manifests import Manifest

_HEADER = "# Which artifact runs where. Written by `tritonstack`; review it, do not edit it.\n"


_PROVENANCE = frozenset({"built", "figures", "promoted", "rolled_back"})
"""Provenance fields of an entry."""


class LockChangedError(TritonstackError):
    """Another command changed the lock after this one had read it. Nothing was written. Review the lock, and
    rerun the command.
    """

    code = "TS408"
    title = "Lock changed meanwhile"


@dataclass(frozen=True)
class LockChange:
    """A new lock entry, and the entries it replaces."""

    name: str
    """The model, or the folder in containers/."""
    key: str
    """The target, or the kind of machine."""
    entry: Entry
    seen: Entry | None
    conflicting: Mapping[str, LockedArtifact] = field(default_factory=dict)
    """Other entries it replaces, by target: artifacts that the same machines would select."""

    @classmethod
    def of(cls, lock: Lock, name: str, key: str, entry: Entry) -> LockChange:
        """Return the change that sets an entry of a lock."""
        is_image = isinstance(entry, LockedImage)
        conflicting = {} if is_image else lock.conflicting(name, key)
        return cls(name, key, entry, lock.entry(name, key, image=is_image), conflicting)

    @property
    def is_image(self) -> bool:
        """Whether it is the entry of an image."""
        return isinstance(self.entry, LockedImage)

    def describe(self) -> str:
        """Return the name, key, and shortened digest."""
        image = "image " if self.is_image else ""
        return f"{image}{self.name} for {self.key} ({short_digest(self.entry.digest)})"

    def describe_rivals(self) -> list[str]:
        """Return one line per entry that this one replaces because it serves the same machines."""
        return [
            f"{self.name} for {self.key} replaces the entry for {key} ({short_digest(rival.digest)})"
            for key, rival in sorted(self.conflicting.items())
        ]

    def describe_bounds(self) -> list[str]:
        """Return one line per output whose accepted bounds differ from the replaced entry's."""
        before = self.seen or next(iter(self.conflicting.values()), None)
        if not isinstance(self.entry, LockedArtifact) or not isinstance(before, LockedArtifact):
            return []
        return [
            f"{self.name} for {self.key}: accepted bounds changed: {line}"
            for line in changed_bounds(before, self.entry)
        ]


def add_to_lock(
    file: Path,
    manifests: Iterable[Manifest],
    parts: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    *,
    built: Built | None = None,
    initial_lock: Lock | None = None,
) -> bool:
    """Add artifacts to the lock in its current state: another build may have written it in the meantime.

    `parts` are the parts of each model's hash; `built` describes the build. An artifact that the lock already
    names keeps its provenance: rebuilding it changes nothing. If another command replaced the entry since the
    build began (`initial_lock`), its entry stays.
    """
    with files.only_writer(file.parent):
        lock = load_lock(file).record
        for manifest in manifests:
            before = lock.models.get(manifest.model, {}).get(manifest.target)
            if initial_lock is not None and _was_replaced(initial_lock, lock, manifest):
                continue
            entry = _with_provenance(entry_of(manifest, parts.get(manifest.model)), before, built)
            lock = lock.with_entry(manifest.model, manifest.target, entry)
        return write_lock(file, lock)


def add_image_to_lock(
    file: Path,
    folder: str,
    kind: ImageKind,
    image: LockedImage,
    *,
    built: Built | None = None,
    initial_lock: Lock | None = None,
) -> bool:
    """Add an image to the lock in its current state, by the same rules as artifacts."""
    with files.only_writer(file.parent):
        lock = load_lock(file).record
        before = lock.images.get(folder, {}).get(kind)
        was = initial_lock.images.get(folder, {}).get(kind) if initial_lock else None
        if was and before and was.digest == image.digest != before.digest:
            return False
        entry = _with_provenance(image, before, built)
        return write_lock(file, lock.with_image(folder, kind, entry))


def attest_builds(
    file: Path, built: Built, *, hashes: Mapping[str, str], rebuilt: Collection[str] = ()
) -> bool:
    """Record the commit of artifacts that were built before their files were committed.

    `hashes` are the current hashes of the models' files. An entry qualifies if its model's files are
    unchanged and its build used no other uncommitted files, or if `built` has just `rebuilt` its digest.
    """
    if not is_committed(built.commit):
        return False
    with files.only_writer(file.parent):
        lock = load_lock(file).record
        for model, targets in lock.models.items():
            for target, entry in targets.items():
                if entry.spec_hash != hashes.get(model):
                    continue
                if record := attested(entry.built, built, is_rebuilt=entry.digest in rebuilt):
                    lock = lock.with_entry(model, target, entry.model_copy(update={"built": record}))
        return write_lock(file, lock)


def attested(earlier: Built | None, built: Built, *, is_rebuilt: bool = False) -> Built | None:
    """Return a build's record with the commit of `built`, made from the same files; None if not proven."""
    if earlier is None or is_committed(earlier.commit):
        return None
    if is_rebuilt:
        return built
    listed = earlier.uncommitted or ()
    is_covered = bool(listed) and all(is_hashed(name) for name in listed)
    return earlier.model_copy(update={"commit": built.commit, "uncommitted": None}) if is_covered else None


def replace_entries(file: Path, changes: Iterable[LockChange]) -> bool:
    """Write all entries or none; fail if an entry to replace has changed in the meantime."""
    with files.only_writer(file.parent):
        lock = load_lock(file).record
        for change in changes:
            current = LockChange.of(lock, change.name, change.key, change.entry)
            _require_unchanged(file, change, current.seen)
            for key in sorted({*current.conflicting, *change.conflicting}):
                replaced = replace(change, key=key, seen=change.conflicting.get(key))
                _require_unchanged(file, replaced, current.conflicting.get(key))
            lock = lock.with_entry(change.name, change.key, change.entry)
        return write_lock(file, lock)


def write_lock(file: Path, lock: Lock) -> bool:
    """Write a sorted lock atomically; return True if the file changed."""
    return files.write_text_atomically(file, lock_text(lock))


def lock_text(lock: Lock) -> str:
    """Serialize a lock."""
    data = lock.model_dump(mode="json", exclude_none=True)
    if not lock.images:
        del data["images"]
    return _HEADER + yaml.dump(data, Dumper=TextualDumper, sort_keys=True, default_flow_style=False)


def _was_replaced(initial_lock: Lock, now: Lock, manifest: Manifest) -> bool:
    """Check whether another entry has replaced the artifact that the earlier lock named."""
    was = initial_lock.models.get(manifest.model, {}).get(manifest.target)
    if was is None or was.digest != manifest.digest:
        return False
    entry = now.models.get(manifest.model, {}).get(manifest.target)
    return (
        bool(now.conflicting(manifest.model, manifest.target))
        if entry is None
        else entry.digest != was.digest
    )


def _with_provenance(entry: EntryT, before: EntryT | None, built: Built | None) -> EntryT:
    """Return an entry with the known provenance of its digest."""
    update: dict[str, object] = {"built": built}
    if before is not None and before.digest == entry.digest:
        facts = _PROVENANCE & set(type(before).model_fields)
        if isinstance(entry, LockedArtifact) and isinstance(before, LockedArtifact):
            # Equal bytes, but other test inputs or bounds: the measurements are those of this build.
            facts -= {"figures"} if entry.spec_hash != before.spec_hash else set()
        update |= {name: value for name in facts if (value := getattr(before, name)) is not None}
        if (
            isinstance(entry, LockedImage)
            and isinstance(before, LockedImage)
            and entry.tag == before.tag
            and built
        ):
            update["built"] = attested(before.built, built) or update["built"]
    return entry.model_copy(update=update)


def _require_unchanged(file: Path, item: LockChange, current: Entry | None) -> None:
    if current == item.seen:
        return
    subject = f"{item.name} for {item.key}"
    if current is None:
        message = f"{subject} was removed from {shown_path(file)} in the meantime"
    else:
        author = current.promoted or current.built
        by = f", by {author.by} at {author.at}" if author else ""
        message = (
            f"another {subject} was written to {shown_path(file)} in the meantime: {current.digest[:19]}{by}"
        )
    raise LockChangedError(
        f"{message}; nothing was written",
        remedy="review the lock, and rerun the command if the change is still wanted",
    )
