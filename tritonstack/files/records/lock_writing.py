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
from tritonstack.files.records.locks import (
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
from tritonstack.files.records.manifests import Manifest

_HEADER = "# Which artifact runs where. Written by `tritonstack`; review it, do not edit it.\n"
_PROVENANCE = frozenset({"built", "figures", "promoted", "rolled_back"})
"""Fields that say where an artifact comes from; a rebuild of the same digest keeps them."""


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
    """The entry it replaces; None if it adds one."""
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
        """Whether the entry is for an image rather than an artifact."""
        return isinstance(self.entry, LockedImage)

    def describe(self) -> str:
        """Return the name, key, and shortened digest."""
        image = "image " if self.is_image else ""
        return f"{image}{self.name} for {self.key} ({short_digest(self.entry.digest)})"

    def describe_conflicting(self) -> list[str]:
        """Return one line per entry that this one replaces because it serves the same machines."""
        return [
            f"{self.name} for {self.key} replaces the entry for {key} ({short_digest(entry.digest)})"
            for key, entry in sorted(self.conflicting.items())
        ]

    def describe_bounds(self) -> list[str]:
        """Return one line per output whose accepted bounds differ from the replaced entry's."""
        replaced = self.seen or next(iter(self.conflicting.values()), None)
        if not isinstance(self.entry, LockedArtifact) or not isinstance(replaced, LockedArtifact):
            return []
        return [
            f"{self.name} for {self.key}: accepted bounds changed: {line}"
            for line in changed_bounds(replaced, self.entry)
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

    `parts` has the components of each model's hash, by model. An artifact that the lock already names keeps
    its provenance: rebuilding it changes nothing. If another command replaced the entry of this very artifact
    since the build began (`initial_lock`), the other command's entry stays.
    """
    with files.only_writer(file.parent):
        lock = load_lock(file).record
        for manifest in manifests:
            current = lock.models.get(manifest.model, {}).get(manifest.target)
            if initial_lock is not None and _was_replaced(initial_lock, lock, manifest):
                continue
            entry = _with_provenance(entry_of(manifest, parts.get(manifest.model)), current, built)
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
        current = lock.images.get(folder, {}).get(kind)
        initial = initial_lock.images.get(folder, {}).get(kind) if initial_lock else None
        if initial and current and initial.digest == image.digest != current.digest:
            return False  # another command replaced this very image since the build began
        entry = _with_provenance(image, current, built)
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
    """Return a build's record with the commit of `built`; None if it has a commit, or files may differ."""
    if earlier is None or is_committed(earlier.commit):
        return None
    if is_rebuilt:
        return built
    # Callers have compared the hashes, which cover these files.
    if earlier.uncommitted and all(is_hashed(name) for name in earlier.uncommitted):
        return earlier.model_copy(update={"commit": built.commit, "uncommitted": None})
    return None


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


def _was_replaced(initial_lock: Lock, lock: Lock, manifest: Manifest) -> bool:
    """Check whether the initial lock named the artifact, and another one has replaced it since."""
    initial = initial_lock.models.get(manifest.model, {}).get(manifest.target)
    if initial is None or initial.digest != manifest.digest:
        return False
    current = lock.models.get(manifest.model, {}).get(manifest.target)
    if current is None:
        return bool(lock.conflicting(manifest.model, manifest.target))
    return current.digest != manifest.digest


def _with_provenance(entry: EntryT, current: EntryT | None, built: Built | None) -> EntryT:
    """Return an entry with the provenance of the current one if that has the same digest."""
    update: dict[str, object] = {"built": built}
    if current is not None and current.digest == entry.digest:
        names = _PROVENANCE & set(type(current).model_fields)
        if isinstance(entry, LockedArtifact) and isinstance(current, LockedArtifact):
            # Equal bytes, but other test inputs or bounds: the measurements are those of this build.
            names -= {"figures"} if entry.spec_hash != current.spec_hash else set()
        update |= {name: value for name in names if (value := getattr(current, name)) is not None}
        if isinstance(entry, LockedImage) and isinstance(current, LockedImage) and entry.tag == current.tag:
            update["built"] = (attested(current.built, built) if built else None) or update["built"]
    return entry.model_copy(update=update)


def _require_unchanged(file: Path, change: LockChange, current: Entry | None) -> None:
    if current == change.seen:
        return
    subject = f"{change.name} for {change.key}"
    if current is None:
        message = f"{subject} was removed from {shown_path(file)} in the meantime"
    else:
        author = current.promoted or current.built
        origin = f", by {author.by} at {author.at}" if author else ""
        message = (
            f"another {subject} was written to {shown_path(file)} in the meantime: "
            f"{current.digest[:19]}{origin}"
        )
    raise LockChangedError(
        f"{message}; nothing was written",
        remedy="review the lock, and rerun the command if the change is still wanted",
    )
