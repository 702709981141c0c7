"""Inspect a model: what its builds have made, and what model.yaml asks for. Calls no AWS service."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from model_build.store.artifacts import ArtifactStore, read_manifest
from tritonstack.base.error_kinds import UnknownNameError
from tritonstack.base.errors import TritonstackError
from tritonstack.base.files import short_digest
from tritonstack.base.results import Internal, Shown, public
from tritonstack.files.loading import chosen_model, load_models
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.project.names import environment_names
from tritonstack.files.records.locks import LockedArtifact, load_lock
from tritonstack.files.records.manifests import ARCHIVE_NAME, Manifest
from tritonstack.files.sources.model_hashes import model_hash
from tritonstack.operate.shared.session import Session


@dataclass(frozen=True)
class KnownArtifact:
    """An artifact on this machine, in locks, or both."""

    digest: str
    target: str
    current: bool
    """Whether it was built from the present files."""
    local: bool
    environments: tuple[str, ...]
    """The environments whose locks name it."""


@dataclass(frozen=True)
class GraphStep:
    """A model in an artifact: the entry model, or a step of an ensemble.

    The steps of an ensemble follow it, one level deeper.
    """

    model: str
    kind: str
    """Its backend, or `ensemble`."""
    inputs: tuple[str, ...]
    """Tensors of the ensemble that it reads; for the entry model, those of callers."""
    outputs: tuple[str, ...]
    depth: int = 0

    @property
    def line(self) -> str:
        """Return the step in one line, indented by its depth."""
        tensors = f"{', '.join(self.inputs)} -> {', '.join(self.outputs)}"
        return f"{'  ' * self.depth}{self.model} ({self.kind}): {tensors}"


class _LockedUse(NamedTuple):
    target: str
    entry: LockedArtifact
    environments: list[str]


def _digest_of(artifact: KnownArtifact | None) -> str | None:
    return artifact.digest if artifact else None


@dataclass(frozen=True)
class Inspection:
    """A model, its artifacts, and the contents of one of them."""

    spec: Internal[ModelSpec]
    artifacts: tuple[KnownArtifact, ...]
    shown: Annotated[KnownArtifact | None, Shown(_digest_of)]
    """The artifact that `manifest` or `locked` describes; None if the model was never built."""
    manifest: Manifest | None = None
    """None unless the artifact is on this machine."""
    locked: LockedArtifact | None = None
    """What the lock tells of an artifact that is not on this machine."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """The text of each config.pbtxt by model, the entry model first."""
    steps: Internal[tuple[GraphStep, ...]] = ()
    """The entry model, and the steps of ensembles below them."""
    undecided: tuple[str, ...] = ()
    """What the build decides; empty if an artifact is shown."""

    @public
    def graph(self) -> tuple[str, ...]:
        """One line per step: model, backend, inputs, and outputs."""
        return tuple(step.line for step in self.steps)

    @public
    def model(self) -> str:
        """The name of the model."""
        return self.spec.name

    @public
    def asks(self) -> dict[str, Any]:
        """What model.yaml asks for."""
        return requested(self.spec)


def requested(spec: ModelSpec) -> dict[str, Any]:
    """Return what model.yaml asks for, defaults of the main options included."""
    written = spec.model_dump(mode="json", exclude_defaults=True, exclude={"test_inputs"})
    return {
        **written,
        "precision": spec.precision,
        "batching": {**written.get("batching", {}), "max_batch": spec.batching.max_batch},
        "test_inputs": len(spec.test_inputs),
    }


def inspect(
    session: Session,
    model: str | None,
    *,
    digest: str | None = None,
    unread_environments: Collection[str] = (),
) -> Inspection:
    """Return a model's artifacts and the contents of one: that of `digest`, or else of the present files.

    Without a name, it is the project's only model.

    The locks of `unread_environments` are not read.
    """
    model = chosen_model(session.project, model)
    models = load_models(session.project, model)
    local = _local_manifests(session, model)
    locked = _locked(session, model, unread_environments)
    artifacts = tuple(_known(local, locked, model_hash(model, models)))
    shown = _choose(model, artifacts, digest)
    spec = models[model].record
    if shown is None:
        return Inspection(spec, artifacts, None, undecided=tuple(_undecided(spec)))
    if not shown.local:
        return Inspection(spec, artifacts, shown, locked=locked[shown.digest].entry)
    manifest = local[shown.digest]
    configs = _configs(session, manifest)
    return Inspection(
        spec, artifacts, shown, manifest=manifest, configs=configs, steps=tuple(_steps(manifest, configs))
    )


def _local_manifests(session: Session, model: str) -> dict[str, Manifest]:
    """Return the manifests on this machine, latest first. Damaged ones are reported, and skipped."""
    folders = ArtifactStore(artifacts_dir=session.project.artifacts_dir, model=model).folders()
    manifests = {}
    for folder in sorted(folders, key=lambda folder: folder.stat().st_mtime, reverse=True):
        try:
            manifests[folder.name] = read_manifest(folder)
        except TritonstackError as error:
            session.reporter.note(f"skipped: {error.message}")
    return manifests


def _locked(session: Session, model: str, unread_environments: Collection[str]) -> dict[str, _LockedUse]:
    """Return target, entry, and environments by digest."""
    locked: dict[str, _LockedUse] = {}
    for environment in environment_names(session.project):
        if environment in unread_environments:
            continue
        file = session.project.lock_file(environment)
        entries = load_lock(file).record.models.get(model, {}) if file.is_file() else {}
        for target, entry in entries.items():
            locked.setdefault(entry.digest, _LockedUse(target, entry, [])).environments.append(environment)
    return locked


def _known(
    local: Mapping[str, Manifest], locked: Mapping[str, _LockedUse], spec_hash: str
) -> Iterator[KnownArtifact]:
    for digest in dict.fromkeys((*local, *locked)):
        target, entry, environments = locked.get(digest, ("", None, []))
        manifest = local.get(digest)
        facts = manifest or entry
        current = facts is not None and facts.spec_hash == spec_hash
        target = manifest.target if manifest else target
        yield KnownArtifact(digest, target, current, manifest is not None, tuple(environments))


def _choose(model: str, artifacts: Sequence[KnownArtifact], digest: str | None) -> KnownArtifact | None:
    if digest is None:
        return max(artifacts, key=_rank, default=None)  # the first, and so the latest, of equals
    matching = [artifact for artifact in artifacts if artifact.digest.startswith(digest.lower())]
    if len(matching) == 1:
        return matching[0]
    digests = ", ".join(short_digest(artifact.digest) for artifact in matching or artifacts) or "none"
    raise UnknownNameError(
        f"digest {digest!r} matches {len(matching)} artifacts of {model!r}",
        remedy=f"write more of it; matching artifacts: {digests}"
        if matching
        else f"its artifacts: {digests}",
    )


def _rank(artifact: KnownArtifact) -> tuple[bool, bool, bool]:
    return artifact.current, artifact.local, bool(artifact.environments)


def _configs(session: Session, manifest: Manifest) -> dict[str, str]:
    """Read every config.pbtxt from the archive, the entry model's first."""
    # Installations that only deploy lack protobuf and isal, and have no archive.
    from model_build.repository.config import CONFIG_NAME  # noqa: PLC0415
    from model_build.store.archive import read_members  # noqa: PLC0415

    store = session.project.artifacts_dir / "models" / manifest.model / manifest.digest
    entries = [entry for entry in manifest.files if entry.path.endswith(f"/{CONFIG_NAME}")]
    texts = read_members(store / ARCHIVE_NAME, entries)
    configs = {path.rpartition("/")[0]: text.decode() for path, text in texts.items()}
    return dict(sorted(configs.items(), key=lambda item: (item[0] != manifest.entry_model, item[0])))


def _steps(manifest: Manifest, configs: Mapping[str, str]) -> Iterator[GraphStep]:
    """Yield the steps in the order of the ensembles, nested ones below their step."""
    from model_build.repository.config import parse_config  # noqa: PLC0415 - as above

    parsed = {name: parse_config(text) for name, text in configs.items()}

    def below(name: str, inputs: Iterable[str], outputs: Iterable[str], depth: int) -> Iterator[GraphStep]:
        config = parsed.get(name)
        kind = (config.backend or config.platform) if config else "of another artifact"
        yield GraphStep(name, kind, tuple(inputs), tuple(outputs), depth)
        for step in config.ensemble_scheduling.step if config else ():
            inputs, outputs = sorted(step.input_map.values()), sorted(step.output_map.values())
            yield from below(step.model_name, inputs, outputs, depth + 1)

    names = [[tensor.name for tensor in tensors] for tensors in (manifest.inputs, manifest.outputs)]
    yield from below(manifest.entry_model, names[0], names[1], 0)


def _undecided(spec: ModelSpec) -> Iterator[str]:
    """Yield what only a build can tell."""
    yield "target: cpu, or the GPU of each endpoint's instance type with the Triton release"
    if spec.precision == "auto":
        yield "precision: the fastest candidate within the tolerance (`accept`)"
    declared = ", ".join(spec.tensors) or "none"
    yield f"tensors: names, datatypes, and shapes come from the exported graph; declared: {declared}"
    if not spec.triton.instances:
        yield "instances: depend on the kind and the size of the graph"
    yield "Python environments: packages, sizes, and Python versions"
    yield "parity and latency: measured on the packed archive in a real Triton"
