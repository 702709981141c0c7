"""Changing `environments/<env>.lock.yaml`: whole or not at all, one writer at a time, every entry sealed.

Several builds and promotions may write one lock at once, in one checkout or in several: each puts in its own
entries and no others, and none over something that it has not seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Generic

import yaml

from tritonstack.base import files
from tritonstack.base.errors import TritonstackError, shown_path
from tritonstack.base.revisions import is_committed, is_hashed
from tritonstack.records.locks import (
    Built,
    EntryT,
    ImageKind,
    Lock,
    LockedArtifact,
    LockedImage,
    Place,
    entry_of,
    load_lock,
    locked_environment,
)
from tritonstack.records.manifests import Manifest

_HEADER = "# Which artifact runs where. Written by `tritonstack`; review it, do not edit it.\n"


_PROVENANCE = frozenset({"built", "figures", "promoted", "rolled_back"})
"""What an entry says of how it came to be, beside what its digest stands for."""


class LockChangedError(TritonstackError):
    """An entry is no longer what it was when somebody decided what is to take its place."""


@dataclass(frozen=True)
class Replacement(Generic[EntryT]):
    """An entry that is to stand in a lock, and what stood in its place when that was decided."""

    name: str
    """The model, or the folder of containers/."""
    key: str
    """The target, or the kind of machine."""
    entry: EntryT
    seen: EntryT | None
    rivals: Mapping[str, EntryT] = field(default_factory=dict)
    """What else it takes the place of, by target: artifacts that the same machines look for."""


def add_to_lock(
    file: Path,
    manifests: Iterable[Manifest],
    parts: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    *,
    built: Built | None = None,
    begun: Lock | None = None,
) -> bool:
    """Put artifacts into a lock as it is now: another build may have written it meanwhile.

    `parts` are those of each model's hash; `built` says who builds. An artifact that the lock names already
    keeps its provenance: to build it again changes nothing. Where something has become of one that the lock
    named in its place when the build began (`begun`), that stays: nothing newer has been built for it.
    """
    with files.only_writer(file.parent):
        lock, environment = load_lock(file).record, locked_environment(file)
        for manifest in manifests:
            place = (environment, manifest.model, manifest.target)
            before = lock.models.get(manifest.model, {}).get(manifest.target)
            if begun is not None and _is_overtaken(begun, lock, manifest):
                continue
            entry = _with_provenance(entry_of(manifest, parts.get(manifest.model)), before, built, place)
            lock = lock.with_entry(manifest.model, manifest.target, entry)
        return write_lock(file, lock)


def add_image_to_lock(
    file: Path,
    folder: str,
    kind: ImageKind,
    image: LockedImage,
    *,
    built: Built | None = None,
    begun: Lock | None = None,
) -> bool:
    """Put an image into a lock as it is now, by the rules that hold of artifacts."""
    with files.only_writer(file.parent):
        lock, place = load_lock(file).record, (locked_environment(file), folder, kind)
        before = lock.images.get(folder, {}).get(kind)
        was = begun.images.get(folder, {}).get(kind) if begun else None
        if was and before and was.digest == image.digest != before.digest:
            return False
        entry = _with_provenance(image, before, built, place)
        return write_lock(file, lock.with_image(folder, kind, entry))


def attest_builds(
    file: Path, built: Built, *, hashes: Mapping[str, str], rebuilt: Collection[str] = ()
) -> bool:
    """Name the commit of artifacts that were built before their files were committed.

    `hashes` are those of the models' files now. An entry qualifies if its model's files are the same and its
    build used no other uncommitted files, or if it is among the digests that `built` has just `rebuilt`.
    """
    if not is_committed(built.commit):
        return False
    with files.only_writer(file.parent):
        lock, environment = load_lock(file).record, locked_environment(file)
        for model, targets in lock.models.items():
            for target, entry in targets.items():
                place = (environment, model, target)
                if entry.spec_hash != hashes.get(model) or not entry.is_sealed(place):
                    continue
                if record := attested(entry.built, built, is_rebuilt=entry.digest in rebuilt):
                    renewed = entry.model_copy(update={"built": record}).sealed(place)
                    lock = lock.with_entry(model, target, renewed)
        return write_lock(file, lock)


def attested(known: Built | None, built: Built, *, is_rebuilt: bool = False) -> Built | None:
    """Return a build's record with the commit of `built`, made from the same files; None if not proven."""
    if known is None or is_committed(known.commit):
        return None
    if is_rebuilt:
        return built
    listed = known.uncommitted or ()
    is_covered = bool(listed) and all(is_hashed(name) for name in listed)
    return known.model_copy(update={"commit": built.commit, "uncommitted": None}) if is_covered else None


def replace_entries(
    file: Path,
    *,
    artifacts: Iterable[Replacement[LockedArtifact]] = (),
    images: Iterable[Replacement[LockedImage]] = (),
) -> bool:
    """Put entries into a lock, all or none, unless one of those that they replace has changed meanwhile."""
    with files.only_writer(file.parent):
        lock, environment = load_lock(file).record, locked_environment(file)
        for artifact in artifacts:
            _require_unchanged(file, artifact, lock.models.get(artifact.name, {}).get(artifact.key))
            rivals = lock.rivals(artifact.name, artifact.key)
            for key in sorted({*rivals, *artifact.rivals}):
                rival = replace(artifact, key=key, seen=artifact.rivals.get(key))
                _require_unchanged(file, rival, rivals.get(key))
            entry = artifact.entry.sealed((environment, artifact.name, artifact.key))
            lock = lock.with_entry(artifact.name, artifact.key, entry)
        for image in images:
            kind: ImageKind = "gpu" if image.key == "gpu" else "cpu"
            _require_unchanged(file, image, lock.images.get(image.name, {}).get(kind))
            lock = lock.with_image(image.name, kind, image.entry.sealed((environment, image.name, kind)))
        return write_lock(file, lock)


def write_lock(file: Path, lock: Lock) -> bool:
    """Write a lock, sorted and whole or not at all; tells whether the file changed."""
    return files.write_text_atomically(file, lock_text(lock))


def lock_text(lock: Lock) -> str:
    """What the file of a lock holds."""
    held = lock.model_dump(mode="json", exclude_none=True)
    if not lock.images:
        del held["images"]
    return _HEADER + yaml.safe_dump(held, sort_keys=True, default_flow_style=False)


def _is_overtaken(begun: Lock, now: Lock, manifest: Manifest) -> bool:
    """Whether something else stands in the place that an artifact had in an earlier lock."""
    was = begun.models.get(manifest.model, {}).get(manifest.target)
    if was is None or was.digest != manifest.digest:
        return False
    found = now.models.get(manifest.model, {}).get(manifest.target)
    return bool(now.rivals(manifest.model, manifest.target)) if found is None else found.digest != was.digest


def _with_provenance(entry: EntryT, before: EntryT | None, built: Built | None, place: Place) -> EntryT:
    """An entry sealed at its place, with what is known of that digest already, unless its seal is broken."""
    kept: dict[str, object] = {"built": built}
    if before is not None and before.digest == entry.digest and before.is_sealed(place):
        known = _PROVENANCE & set(type(before).model_fields)
        kept |= {name: value for name in known if (value := getattr(before, name)) is not None}
        if (
            isinstance(entry, LockedImage)
            and isinstance(before, LockedImage)
            and entry.tag == before.tag
            and built
        ):
            kept["built"] = attested(before.built, built) or kept["built"]
    return entry.model_copy(update=kept).sealed(place)


def _require_unchanged(file: Path, item: Replacement[EntryT], found: EntryT | None) -> None:
    if found == item.seen:
        return
    what = f"{item.name} for {item.key}"
    if found is None:
        message = f"{what} has been taken out of {shown_path(file)} meanwhile"
    else:
        who = found.promoted or found.built
        by = f", by {who.by} at {who.at}" if who else ""
        message = f"another {what} has come into {shown_path(file)} meanwhile: {found.digest[:19]}{by}"
    raise LockChangedError(
        f"{message}; nothing was written",
        remedy="look at the lock, and run the same command again if it is to be",
    )
