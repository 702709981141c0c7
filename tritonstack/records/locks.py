"""`environments/<env>.lock.yaml`: the artifacts and images an environment runs, by digest.

Written by machines, reviewed by people; the only thing a promotion changes.

Each entry is self-contained: who built it, when, and from what; its measurements; where it was promoted from;
and a seal over all of that and its place (tritonstack.records.lock_seals). So git can merge locks entry by
entry, and manual edits are detected. Only tritonstack.records.lock_writing changes locks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field

from tritonstack.base.documents import Document, Record, load_document, parse_document
from tritonstack.base.naming import Name
from tritonstack.base.revisions import UncommittedFiles
from tritonstack.records.events import Moment
from tritonstack.records.manifests import Digest, Manifest
from tritonstack.reference.targets import TargetText, are_rivals

ImageKind = Literal["cpu", "gpu"]
"""The kinds of machine that images are made for."""

Place = tuple[str, str, str]
"""Where an entry stands: environment, model, target; of images environment, folder, kind of machine."""


class Built(Record):
    """Who built an artifact, when and from what."""

    by: str
    at: Moment
    commit: str | None = None
    """`+uncommitted` at its end if files that the build depends on differed from it."""
    uncommitted: UncommittedFiles = None
    """The files that differed."""


class Promoted(Record):
    """Who brought an artifact from another environment into this one."""

    source: Name
    """The environment that it came from."""
    by: str
    at: Moment
    commit: str | None = None
    uncommitted: UncommittedFiles = None
    """Files other than locks that differed from the commit."""
    note: str | None = None
    """Which gates a person has overridden, and why."""


class RolledBack(Record):
    """Who took an entry back to an earlier one, and from what."""

    instead_of: str
    """The digest that was given up."""
    as_of: str
    """The model's hash, or the image's tag, at that time: until it is another, there is nothing to build."""
    by: str
    at: Moment
    commit: str | None = None
    uncommitted: UncommittedFiles = None
    """Files other than locks that differed from the commit."""


class Figures(Record):
    """What the check of the packed archive behind a real Triton measured, the worst of it."""

    min_cosine: float | None = None
    """None for models that no framework gives answers for."""
    max_absolute_error: float | None = None
    p99_ms: float | None = None
    """One request of batch 1."""


class LockedEntry(Record):
    """What artifacts and images have in common in a lock."""

    digest: str
    built: Built | None = None
    promoted: Promoted | None = None
    """None where it was built for this very environment."""
    rolled_back: RolledBack | None = None
    """None where it came after what had stood there before."""
    seal: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")] | None = None
    """What `tritonstack` makes of all else in this entry and of its place; it shows changes by hand."""

    def sealed(self, place: Place) -> Self:
        """This entry with the seal that it has at a place."""
        return self.model_copy(update={"seal": self._seal_at(place)})

    def is_sealed(self, place: Place) -> bool:
        """Whether it was put there as it is."""
        return self.seal == self._seal_at(place)

    def is_held(self, now: str) -> bool:
        """Whether somebody went back to it, and there is nothing newer than what was given up.

        `now` is the hash of the model, or the tag of the image, as files are now.
        """
        return self.rolled_back is not None and self.rolled_back.as_of == now

    def _seal_at(self, place: Place) -> str:
        facts = self.model_dump(mode="json", exclude_none=True, exclude={"seal"})
        body = json.dumps([*place, facts], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(body.encode()).hexdigest()[:12]


EntryT = TypeVar("EntryT", bound=LockedEntry)


class LockedArtifact(LockedEntry):
    """What a deploy has to know of an artifact without fetching it."""

    digest: Digest
    spec_hash: Digest
    archive_bytes: Annotated[int, Field(ge=1)]
    unpacked_bytes: Annotated[int, Field(ge=1)]
    tensorrt: str | None = None
    """The TensorRT version its engines were built with, if it holds any."""
    item_bytes: Annotated[int, Field(ge=1)] | None = None
    """The least that one request or one answer weighs: a batch of one, sizes that vary counted as 1."""
    shared_memory_bytes: Annotated[int, Field(ge=1)] | None = None
    """What its Python models need of shared memory, where they need any."""
    built_from: Mapping[str, str] | None = None
    """What `spec_hash` is made of, shortened: model.yaml, files, members and the builder's version."""
    choices: Mapping[Name, str] | None = None
    """The graph that `precision: auto` chose, by model; a build of the same files uses it again."""
    figures: Figures | None = None
    unverified: str | None = None
    """Why nothing proves its answers right; None if a framework or right answers in model.yaml do."""

    def serves_for(self, spec_hash: str) -> bool:
        """Whether an environment is to run it, now that this is the hash of its model.

        What was promoted stays until something else is promoted, whatever is built elsewhere meanwhile.
        """
        return self.spec_hash == spec_hash or self.promoted is not None or self.is_held(spec_hash)


class LockedImage(LockedEntry):
    """An image of the project's own that endpoints run."""

    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    tag: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")]
    """It changes with all that the image is made from."""

    def serves_for(self, tag: str) -> bool:
        """Whether an environment is to run it, now that its folder makes an image of this tag."""
        return self.tag == tag or self.promoted is not None or self.is_held(tag)


class Lock(Record):
    """What one environment runs."""

    models: Mapping[Name, Mapping[TargetText, LockedArtifact]] = Field(default_factory=dict)
    """model -> target -> artifact"""
    images: Mapping[Name, Mapping[ImageKind, LockedImage]] = Field(default_factory=dict)
    """folder of containers/ -> kind of machine -> image"""

    def find(self, model: str, targets: Iterable[str]) -> LockedArtifact | None:
        """The artifact of a model for the first of `targets` that has one."""
        target = self.find_target(model, targets)
        return self.models[model][target] if target else None

    def find_target(self, model: str, targets: Iterable[str]) -> str | None:
        """The first of `targets` that a model has an artifact for."""
        built = self.models.get(model, {})
        return next((target for target in targets if target in built), None)

    def with_artifact(self, manifest: Manifest, parts: Mapping[str, str] | None = None) -> Lock:
        """This lock with one artifact put in its place, and the parts of its hash where they are known."""
        return self.with_entry(manifest.model, manifest.target, entry_of(manifest, parts))

    def rivals(self, model: str, target: str) -> dict[str, LockedArtifact]:
        """The artifacts of a model that the machines which take one for `target` might run in its stead."""
        held = self.models.get(model, {})
        return {other: entry for other, entry in held.items() if are_rivals(other, target)}

    def with_entry(self, model: str, target: str, entry: LockedArtifact) -> Lock:
        """This lock with one artifact's entry put in its place; what it takes the place of is taken out.

        A model that is no longer bound to a Python, or is from now on, is built for another target than
        before. Left there, the entry of before would be chosen over the new one for ever.
        """
        others, rivals = self.models.get(model, {}), self.rivals(model, target)
        targets = {key: held for key, held in others.items() if key not in rivals} | {target: entry}
        return Lock(models={**self.models, model: targets}, images=self.images)

    def with_image(self, folder: str, kind: ImageKind, image: LockedImage) -> Lock:
        """This lock with one image put in its place."""
        kinds: dict[ImageKind, LockedImage] = {**self.images.get(folder, {}), kind: image}
        return Lock(models=self.models, images={**self.images, folder: kinds})


def load_lock(file: Path) -> Document[Lock]:
    """The lock in `file`; one that was never written is empty."""
    if not file.exists():
        return Document(Lock(), file, {})
    return load_document(file, Lock)


def parse_lock(text: str, file: Path) -> Document[Lock]:
    """The lock that `file` was at some time, by its text."""
    return parse_document(text, file, Lock)


def locked_environment(file: Path) -> str:
    """The environment whose lock a file is."""
    return file.name.partition(".")[0]


def entry_of(manifest: Manifest, parts: Mapping[str, str] | None = None) -> LockedArtifact:
    """What a lock says of an artifact, without provenance; `parts` are those of its hash."""
    return LockedArtifact(
        digest=manifest.digest,
        spec_hash=manifest.spec_hash,
        archive_bytes=manifest.archive_bytes,
        unpacked_bytes=manifest.unpacked_bytes,
        tensorrt=manifest.tensorrt,
        item_bytes=manifest.item_bytes or None,
        shared_memory_bytes=manifest.shared_memory_bytes or None,
        built_from=parts,
        choices=manifest.choices or None,
        figures=figures_of(manifest),
        unverified="; ".join(manifest.unverified) or None,
    )


def figures_of(manifest: Manifest) -> Figures | None:
    """The worst that was measured of an artifact, None where nothing was."""
    served = [report for report in manifest.parity if report.stage == "served"]
    figures = Figures(
        min_cosine=min((report.min_cosine for report in served), default=None),
        max_absolute_error=max((report.max_absolute_error for report in served), default=None),
        p99_ms=max((report.p99_ms for report in manifest.latency if report.batch == 1), default=None),
    )
    return figures if figures != Figures() else None
