"""`environments/<env>.lock.yaml`: the artifacts and images an environment runs, by digest.

Written by programs, reviewed by people, and the only file that a promotion changes.

Each entry is self-contained: who built it, when, and from what; its measurements; where it was promoted from.
So git can merge locks entry by entry. Only tritonstack.files.records.lock_writing changes locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from tritonstack.base.errors import ErrorKind, FileViolation
from tritonstack.base.naming import Name
from tritonstack.base.revisions import UncommittedFiles
from tritonstack.base.yaml import Document, FieldPath, Record, check_data, parse_yaml, read_text
from tritonstack.facts.targets import TargetText, compete
from tritonstack.files.records.events import Moment
from tritonstack.files.records.manifests import Digest, Manifest

ImageKind = Literal["cpu", "gpu"]
"""Kinds of machines that images are built for."""


class Built(Record):
    """Who built an artifact, when, and from what."""

    by: str
    """Who built it."""
    at: Moment
    """Time of the build, in UTC."""
    commit: str | None = None
    """With the suffix `+uncommitted` if files that the build depends on differed from the commit."""
    uncommitted: UncommittedFiles = None
    """Files that differed."""


class Promoted(Record):
    """Who promoted an artifact from another environment."""

    source: Name
    """The source environment."""
    by: str
    """Who promoted it."""
    at: Moment
    """Time of the promotion, in UTC."""
    commit: str | None = None
    """Commit of the checkout that promoted it."""
    uncommitted: UncommittedFiles = None
    """Files other than locks that differed from the commit."""
    note: str | None = None
    """Overridden promotion gates, and the reason."""


class RolledBack(Record):
    """Who rolled back an entry, and from what."""

    instead_of: str
    """Digest of the replaced entry."""
    as_of: str
    """Model hash or image tag at that time: until it changes, there is nothing to build."""
    by: str
    """Who rolled it back."""
    at: Moment
    """Time of the rollback, in UTC."""
    commit: str | None = None
    """Commit of the checkout that rolled it back."""
    uncommitted: UncommittedFiles = None
    """Files other than locks that differed from the commit."""


class Figures(Record):
    """Worst measurements of the packed archive in a real Triton."""

    min_cosine: float | None = None
    """None for models without a reference framework."""
    max_absolute_error: float | None = None
    """Largest difference from the framework or the expected outputs; None without either."""
    p99_ms: float | None = None
    """99th percentile latency of one request at a time with batch size 1, on the machine of the build."""


class LockedEntry(Record):
    """Common fields of lock entries."""

    digest: str
    """SHA-256 of the archive or image; this is what runs."""
    built: Built | None = None
    """Who built it, when, and from what."""
    promoted: Promoted | None = None
    """None if it was built for this environment."""
    rolled_back: RolledBack | None = None
    """None unless the entry is the result of a rollback."""

    def is_held(self, now: str) -> bool:
        """Check whether a rollback still applies, because nothing newer than the replaced entry exists.

        `now` is the current hash of the model or tag of the image.
        """
        return self.rolled_back is not None and self.rolled_back.as_of == now


EntryT = TypeVar("EntryT", bound=LockedEntry)


class LockedArtifact(LockedEntry):
    """Properties of an artifact that deployments need."""

    digest: Digest
    """SHA-256 of the archive; this is what runs."""
    spec_hash: Digest
    """Hash of model.yaml, all files of the build, and the version of the build tooling."""
    archive_bytes: Annotated[int, Field(ge=1)]
    """Size of the archive."""
    unpacked_bytes: Annotated[int, Field(ge=1)]
    """Size of the unpacked archive."""
    tensorrt: str | None = None
    """TensorRT version of its engines, if any."""
    item_bytes: Annotated[int, Field(ge=1)] | None = None
    """Minimum size of a request or response: batch size 1, variable dimensions counted as 1."""
    shared_memory_bytes: Annotated[int, Field(ge=1)] | None = None
    """Shared memory that its Python models need, if any."""
    instances: Annotated[int, Field(ge=1)] | None = None
    """The most instances that one of its models has on a CPU; one if absent."""
    copies_bytes: Annotated[int, Field(ge=1)] | None = None
    """Size of the graphs that further CPU instances load again, if any."""
    graphs_decide_threads: bool | None = None
    """True if an ONNX model sets the threads of its session."""
    least_threads: Annotated[int, Field(ge=1)] | None = None
    """The most threads that a tree model asks for, if any."""
    built_from: Mapping[str, str] | None = None
    """Parts of `spec_hash`, shortened: model.yaml, files, members, and the builder's version."""
    choices: Mapping[Name, str] | None = None
    """Graph that `precision: auto` chose, by model; builds of the same files reuse it."""
    accepted: Mapping[str, str] | None = None
    """Output -> the bounds that the build checked: those of `accept`, completed by the defaults."""
    figures: Figures | None = None
    """Accuracy and latency that the build measured; None if nothing was measured."""
    unverified: str | None = None
    """Why nothing proves its outputs correct; None if a framework or expected outputs do."""

    def serves_for(self, spec_hash: str) -> bool:
        """Check whether an environment should run it, given the current hash of its model.

        Promoted artifacts stay until another promotion, regardless of builds.
        """
        return self.spec_hash == spec_hash or self.promoted is not None or self.is_held(spec_hash)


class LockedImage(LockedEntry):
    """A custom image that endpoints run."""

    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    """SHA-256 of the image; this is what runs."""
    tag: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")]
    """It changes with every input of the image."""

    def serves_for(self, tag: str) -> bool:
        """Check whether an environment should run it, given the current tag of its folder's image."""
        return self.tag == tag or self.promoted is not None or self.is_held(tag)


Entry = LockedArtifact | LockedImage
"""What a lock names: an artifact of a model for a target, or an image of a folder for a kind of machine."""


def image_kind(key: str) -> ImageKind:
    """Return the kind of machine that an image's key in a lock names."""
    return "gpu" if key == "gpu" else "cpu"


class Lock(Record):
    """A lock file."""

    models: Mapping[Name, Mapping[TargetText, LockedArtifact]] = Field(default_factory=dict)
    """model -> target -> artifact"""
    images: Mapping[Name, Mapping[ImageKind, LockedImage]] = Field(default_factory=dict)
    """folder of containers/ -> kind of machine -> image"""

    def find(self, model: str, targets: Iterable[str]) -> LockedArtifact | None:
        """Return the artifact of a model for the first of `targets` that has one."""
        target = self.find_target(model, targets)
        return self.models[model][target] if target else None

    def find_target(self, model: str, targets: Iterable[str]) -> str | None:
        """Return the first of `targets` that has an artifact of the model."""
        artifacts = self.models.get(model, {})
        return next((target for target in targets if target in artifacts), None)

    def with_artifact(self, manifest: Manifest, parts: Mapping[str, str] | None = None) -> Lock:
        """Return this lock with one artifact set, with the parts of its hash if known."""
        return self.with_entry(manifest.model, manifest.target, entry_of(manifest, parts))

    def conflicting(self, model: str, target: str) -> dict[str, LockedArtifact]:
        """Return artifacts of other targets that machines for `target` might select instead."""
        entries = self.models.get(model, {})
        return {other: entry for other, entry in entries.items() if compete(other, target)}

    def entry(self, name: str, key: str, *, image: bool) -> Entry | None:
        """Return the entry of a model for a target, or of an image's folder for a kind of machine."""
        if image:
            return self.images.get(name, {}).get(image_kind(key))
        return self.models.get(name, {}).get(key)

    def with_entry(self, model: str, target: str, entry: Entry) -> Lock:
        """Return this lock with one entry set, and conflicting entries of artifacts removed.

        A model that becomes bound to a Python version, or stops being bound, gets a new target. If the old
        entry remained, machines would still select it.
        """
        if isinstance(entry, LockedImage):
            return self.with_image(model, image_kind(target), entry)
        others, conflicting = self.models.get(model, {}), self.conflicting(model, target)
        targets = {key: artifact for key, artifact in others.items() if key not in conflicting} | {
            target: entry
        }
        # Only what changes is validated: a promotion of 1,000 models makes 1,000 changes.
        changed = Lock(models={model: targets})
        return self.model_copy(update={"models": {**self.models, **changed.models}})

    def with_image(self, folder: str, kind: ImageKind, image: LockedImage) -> Lock:
        """Return this lock with one image set."""
        kinds: dict[ImageKind, LockedImage] = {**self.images.get(folder, {}), kind: image}
        changed = Lock(images={folder: kinds})
        return self.model_copy(update={"images": {**self.images, **changed.images}})


@dataclass(frozen=True)
class PlacedEntry:
    """A lock entry and its position."""

    document: Document[Lock]
    path: FieldPath
    entry: LockedEntry

    @property
    def environment(self) -> str:
        """The environment of the lock."""
        return locked_environment(self.document.file)

    def violation(
        self, kind: ErrorKind, message: str, *, at: str | None = None, remedy: str | None
    ) -> FileViolation:
        """Describe a problem of the entry or of one of its fields."""
        path = (*self.path, at) if at else self.path
        return self.document.violation(kind, path, message, remedy)


def entries_of(document: Document[Lock]) -> Iterator[PlacedEntry]:
    """Yield all entries of a lock."""
    for model, targets in document.record.models.items():
        for target, artifact in targets.items():
            yield PlacedEntry(document, ("models", model, target), artifact)
    for folder, kinds in document.record.images.items():
        for kind, image in kinds.items():
            yield PlacedEntry(document, ("images", folder, kind), image)


def load_lock(file: Path) -> Document[Lock]:
    """Load a lock; a missing file is an empty lock."""
    if not file.exists():
        return Document(Lock(), file, {})
    return parse_lock(read_text(file), file)


def parse_lock(text: str, file: Path) -> Document[Lock]:
    """Parse the text of a lock, for example from an earlier commit."""
    data, lines = parse_yaml(text, file)
    # Version 0.1.0 wrote a checksum into each entry. The key has no meaning, and no write keeps it.
    for group in _mappings_in(data):
        for entries in _mappings_in(group):
            for entry in _mappings_in(entries):
                entry.pop("seal", None)
    return check_data(file, data, lines, Lock)


def _mappings_in(data: Any) -> list[dict[str, Any]]:
    """Return the values that are mappings, of data that is not checked yet."""
    return [value for value in data.values() if isinstance(value, dict)] if isinstance(data, dict) else []


def locked_environment(file: Path) -> str:
    """Return the environment of a lock file."""
    return file.name.partition(".")[0]


def entry_of(manifest: Manifest, parts: Mapping[str, str] | None = None) -> LockedArtifact:
    """Return the lock entry of an artifact, without provenance; `parts` are the parts of its hash."""
    return LockedArtifact(
        digest=manifest.digest,
        spec_hash=manifest.spec_hash,
        archive_bytes=manifest.archive_bytes,
        unpacked_bytes=manifest.unpacked_bytes,
        tensorrt=manifest.tensorrt,
        item_bytes=manifest.item_bytes or None,
        shared_memory_bytes=manifest.shared_memory_bytes or None,
        instances=manifest.instances if manifest.instances > 1 else None,
        copies_bytes=manifest.copies_bytes or None,
        graphs_decide_threads=manifest.graphs_decide_threads or None,
        least_threads=manifest.least_threads or None,
        built_from=parts,
        choices=manifest.choices or None,
        accepted=_accepted(manifest) or None,
        figures=figures_of(manifest),
        unverified="; ".join(manifest.unverified) or None,
    )


def changed_bounds(before: LockedArtifact, after: LockedArtifact) -> list[str]:
    """Return the accepted bounds that differ, one line per output; nothing if one is unknown."""
    old, new = before.accepted, after.accepted
    if old and not new and after.unverified:
        return [f"{output}: {bounds} → not checked" for output, bounds in sorted(old.items())]
    if not old or not new:
        return []
    return [
        f"{output}: {old.get(output, 'no output')} → {new.get(output, 'no output')}"
        for output in sorted({*old, *new})
        if old.get(output) != new.get(output)
    ]


def _accepted(manifest: Manifest) -> dict[str, str]:
    served = (report for report in manifest.parity if report.stage == "served")
    return {
        output: str(tolerance) for report in served for output, tolerance in sorted(report.accepted.items())
    }


def figures_of(manifest: Manifest) -> Figures | None:
    """Return the worst measurements of an artifact; None if there are none."""
    served = [report for report in manifest.parity if report.stage == "served"]
    figures = Figures(
        min_cosine=min((report.min_cosine for report in served), default=None),
        max_absolute_error=max((report.max_absolute_error for report in served), default=None),
        p99_ms=max((report.p99_ms for report in manifest.latency if report.batch == 1), default=None),
    )
    return figures if figures != Figures() else None
