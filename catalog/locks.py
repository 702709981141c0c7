"""`environments/<env>.lock.yaml`: the artifacts and images an environment runs, by digest.

Written by machines, reviewed by people; the only thing a promotion changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

import yaml
from pydantic import Field

from catalog import files
from catalog.documents import Document, Record, load_document
from catalog.events import Moment
from catalog.manifests import Digest, Manifest
from catalog.naming import Name
from catalog.targets import TargetText

_HEADER = "# Which artifact runs where. Written by `tritonstack build`; review it, do not edit it.\n"


ImageKind = Literal["cpu", "gpu"]
"""The kinds of machine that images are made for."""


class Built(Record):
    """Who built an artifact, when and from what."""

    by: str
    at: Moment
    commit: str | None = None
    """`+` at its end where files differed from it."""


class Promoted(Record):
    """Who brought an artifact from another environment into this one."""

    source: Name
    """The environment that it came from."""
    by: str
    at: Moment
    commit: str | None = None


class Figures(Record):
    """What the check of the packed archive behind a real Triton measured, the worst of it."""

    min_cosine: float | None = None
    """None for models that no framework gives answers for."""
    max_absolute_error: float | None = None
    p99_ms: float | None = None
    """One request of batch 1."""


class LockedArtifact(Record):
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
    built: Built | None = None
    figures: Figures | None = None
    promoted: Promoted | None = None
    """None where it was built for this very environment."""


class LockedImage(Record):
    """An image of the project's own that endpoints run."""

    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    tag: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")]
    """It changes with all that the image is made from."""


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
        entry = LockedArtifact(
            digest=manifest.digest,
            spec_hash=manifest.spec_hash,
            archive_bytes=manifest.archive_bytes,
            unpacked_bytes=manifest.unpacked_bytes,
            tensorrt=manifest.tensorrt,
            item_bytes=manifest.item_bytes or None,
            shared_memory_bytes=manifest.shared_memory_bytes or None,
            built_from=parts,
        )
        targets = {**self.models.get(manifest.model, {}), manifest.target: entry}
        return Lock(models={**self.models, manifest.model: targets}, images=self.images)

    def with_image(self, folder: str, kind: ImageKind, image: LockedImage) -> Lock:
        """This lock with one image put in its place."""
        kinds: dict[ImageKind, LockedImage] = {**self.images.get(folder, {}), kind: image}
        return Lock(models=self.models, images={**self.images, folder: kinds})


def load_lock(file: Path) -> Document[Lock]:
    """The lock in `file`; one that was never written is empty."""
    if not file.exists():
        return Document(Lock(), file, {})
    return load_document(file, Lock)


def add_to_lock(
    file: Path, manifests: Iterable[Manifest], parts: Mapping[str, Mapping[str, str]] = MappingProxyType({})
) -> bool:
    """Put artifacts into a lock as it is now: another build may have written it meanwhile.

    `parts` are those of each model's hash.
    """
    with files.only_writer(file.parent):
        lock = load_lock(file).record
        for manifest in manifests:
            lock = lock.with_artifact(manifest, parts.get(manifest.model))
        return write_lock(file, lock)


def add_image_to_lock(file: Path, folder: str, kind: ImageKind, image: LockedImage) -> bool:
    """Put an image into a lock as it is now."""
    with files.only_writer(file.parent):
        return write_lock(file, load_lock(file).record.with_image(folder, kind, image))


def write_lock(file: Path, lock: Lock) -> bool:
    """Write a lock, sorted and whole or not at all; tells whether the file changed."""
    held = lock.model_dump(mode="json", exclude_none=True)
    if not lock.images:
        del held["images"]
    body = yaml.safe_dump(held, sort_keys=True, default_flow_style=False)
    return files.write_text_atomically(file, _HEADER + body)
