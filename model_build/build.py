"""Build one model: all steps, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from model_build.checking.archive_checks import ServingCheck, StreamCheck
from model_build.checking.examples import examples_of, examples_of_texts
from model_build.checking.generate_check import GenerateCheck
from model_build.checking.parity import describe_parity
from model_build.checking.served_model import ServingReport, keeping_log
from model_build.data import BuildContext, WrittenRepository
from model_build.engines import machine
from model_build.errors import LayoutError
from model_build.layouts.layout import DEFAULT_LAYOUT
from model_build.library_errors import as_build_error
from model_build.needs import require_backends, require_python, server_arguments_of, tools_of
from model_build.progress import BuildSteps, OnProgress, ignore_progress
from model_build.recipes import recipe_for
from model_build.recipes.vllm import require_generate
from model_build.repository.layout import check_layout
from model_build.repository.properties import read_instances, read_properties
from model_build.resources import processor_features, require_memory, require_space, shortages_explained
from model_build.sources import FetchedSource, fetch_source, file_selection
from model_build.sources.base import hash_files
from model_build.store.archive import PackedArchive, pack
from model_build.store.artifacts import ArtifactStore, BuildKey, find_artifact, fits, has_artifact_of
from tritonstack.base.errors import reject
from tritonstack.base.files import folder_bytes, short_digest
from tritonstack.base.paths import Project
from tritonstack.base.source_files import require_same
from tritonstack.base.yaml import Document
from tritonstack.facts.targets import Target, parse_target
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.examples import Examples
from tritonstack.files.records.manifests import ARCHIVE_NAME, Manifest, join_choice
from tritonstack.files.sources.model_files import model_files
from tritonstack.files.sources.model_hashes import model_hash
from tritonstack.files.sources.unread_parts import unread_violations
from tritonstack.triton import TritonInstallation, find_installation, require_isolation

COPIES_IN_MEMORY = 3
"""Peak number of copies of the weights during export: in the framework, the graph, and its runtime."""
Result = TypeVar("Result")
NO_DIGEST = "0" * 64
"""Digest of a repository that is not packed."""
SERVED_AS_GIVEN = frozenset({"python", "vllm", "ensemble", "triton"})
"""Recipes that load no framework."""


@dataclass(frozen=True)
class BuildFolders:
    """Folders of a build, and the server that checks its archive."""

    artifacts: Path
    cache: Path
    server: Path
    shared_cache: str | None = None
    """`s3://bucket/prefix` shared by builds on several machines."""

    @classmethod
    def of(cls, project: Project) -> BuildFolders:
        """Return the folders of a project."""
        return cls(project.artifacts_dir, project.cache_dir, project.server_dir)


@dataclass(frozen=True)
class BuiltArtifact:
    """An artifact in the local store."""

    manifest: Manifest
    artifact_dir: Path
    reused: bool
    """Whether it was built before."""


def build_model(
    *,
    model: Document[ModelSpec],
    members: Mapping[str, Document[ModelSpec]] = MappingProxyType({}),
    folders: BuildFolders,
    targets: Sequence[str] = ("cpu",),
    choices: Mapping[str, str] = MappingProxyType({}),
    on_progress: OnProgress = ignore_progress,
) -> BuiltArtifact:
    """Build a model for the first of `targets` it supports, or reuse the artifact in the local store.

    `members` are the models in the ensemble, at any depth; extra models are ignored. `choices` maps models to
    the graphs that `precision: auto` chose in earlier builds of the same files.

    Raises UsageError if the model cannot be built, and ModelBuildError if the build fails. A failed build
    adds nothing to the store.
    """
    models = {**members, model.record.name: model}
    requested = [parse_target(text) for text in targets]
    return _Build(model.record.name, models, folders, requested, choices, BuildSteps(on_progress)).run()


@dataclass(frozen=True)
class WrittenModel:
    """A Triton repository that no server has checked."""

    repository: Path
    entry: str
    examples: Examples
    arguments: tuple[str, ...]
    """Triton arguments that its models need."""
    choices: Mapping[str, str]
    """What `precision: auto` chose, by model."""


def write_model(
    *,
    model: Document[ModelSpec],
    members: Mapping[str, Document[ModelSpec]],
    folders: BuildFolders,
    targets: Sequence[str],
    choices: Mapping[str, str],
    folder: Path,
    on_progress: OnProgress = ignore_progress,
) -> WrittenModel:
    """Export a model, compare its graph, and write its repository below an empty folder.

    Nothing is packed, served, or stored; only the members of an ensemble are built completely, and reused.
    Errors are those of `build_model`.
    """
    models = {**members, model.record.name: model}
    requested = [parse_target(text) for text in targets]
    build = _Build(model.record.name, models, folders, requested, choices, BuildSteps(on_progress))
    return build.guard(lambda: build.write(folder))


class _Build:
    """One run."""

    def __init__(
        self,
        name: str,
        models: Mapping[str, Document[ModelSpec]],
        folders: BuildFolders,
        targets: list[Target],
        choices: Mapping[str, str],
        steps: BuildSteps,
    ) -> None:
        self._models = models
        self._choices = choices
        self._model = models[name]
        self._spec = self._model.record
        self._folders = folders
        self._targets = targets
        self._steps = steps
        self._recipe = recipe_for(self._model)
        machine.require_hardware(self._spec, targets)
        self._store = ArtifactStore(artifacts_dir=folders.artifacts, model=self._spec.name)

    def run(self) -> BuiltArtifact:
        """Reuse or build."""
        return self.guard(self._run)

    def guard(self, action: Callable[[], Result]) -> Result:
        """Turn any exception into an error that names the model and the step."""
        try:
            return action()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failure = as_build_error(error)
            step = f", step {self._steps.failed!r}" if self._steps.failed else ""
            failure.where = failure.where or f"{self._spec.name}{step}"
            if failure is error:
                raise
            raise failure from error

    def _run(self) -> BuiltArtifact:
        self._files = model_files(self._model)
        spec_hash = model_hash(self._spec.name, self._models)
        if not has_artifact_of(self._store, spec_hash):
            self._find_server()  # fail before the source is fetched
        source = self._steps.run("source", self._fetch, lambda fetched: f"revision {fetched.revision}")
        key = BuildKey(
            spec_hash, source.revision, source.weights_sha256, tools_of(self._spec.name, self._models)
        )
        waiting = f"waiting for another build of {self._spec.name}"
        with (
            self._store.exclusive(on_wait=lambda: self._steps.announce(waiting)) as work,
            shortages_explained(work),
        ):
            existing = self._find(key)
            return existing or self._make(source, key, work)

    def write(self, folder: Path) -> WrittenModel:
        """Write the repository only."""
        installation = self._find_server()
        source = self._steps.run("source", self._fetch, lambda fetched: f"revision {fetched.revision}")
        self._require_memory(source)
        with shortages_explained(folder):
            written = self._recipe.write_repository(self._context(source, folder, installation), self._steps)
        self._check_target(written)
        self._check_layout(written)
        return WrittenModel(
            repository=written.folder,
            entry=written.entry,
            examples=self._examples(NO_DIGEST, written),
            arguments=server_arguments_of(self._spec.name, self._models),
            choices={**written.choices, **self._own_choice(written, container=False)},
        )

    def _find_server(self) -> TritonInstallation:
        """Return the server that checks the archive."""
        installation = find_installation(home=self._folders.server)
        require_isolation(installation)
        require_backends(self._spec, installation)
        require_python(self._model, installation)
        if self._spec.decoupled:
            require_generate(self._targets)
        return installation

    def _fetch(self) -> FetchedSource:
        if self._spec.source is None:
            return FetchedSource(self._model.file.parent, "beside model.yaml", hash_files([]))
        source = fetch_source(
            self._spec.source,
            model_folder=self._model.file.parent,
            cache_dir=self._folders.cache,
            selection=file_selection(self._spec),
            external=self._spec.trust.external_source is not None,
        )
        reject(
            unread_violations(
                self._model,
                {*source.files, *(source.others or ())},
                source.folder,
                complete=source.others is not None,
            )
        )
        return source

    def _find(self, key: BuildKey) -> BuiltArtifact | None:
        artifact = find_artifact(self._store, key, self._targets, self._steps, choices=self._choices)
        return (
            BuiltArtifact(artifact_dir=artifact[0], manifest=artifact[1], reused=True) if artifact else None
        )

    def _make(self, source: FetchedSource, key: BuildKey, work: Path) -> BuiltArtifact:
        installation = self._find_server()
        self._require_memory(source)
        context = self._context(source, work, installation)
        written = self._recipe.write_repository(context, self._steps)
        self._check_target(written)
        packed = self._steps.run("pack", lambda: self._pack(written, work, source), _describe_archive)
        check = self._serving_check(installation, packed, written, work / "serving")
        with keeping_log(work / "serving"):
            served = self._steps.run("serve", check.run, _describe_served)
        examples = self._examples(packed.digest, written)
        manifest = self._manifest(source, key, written, packed, served).model_copy(
            update={"examples_sha256": examples.sha256}
        )
        folder = self._steps.run(
            "keep",
            lambda: self._store.keep(packed.file, examples, manifest),
            lambda artifact: short_digest(artifact.name),
        )
        return BuiltArtifact(manifest, folder, reused=False)

    def _context(self, source: FetchedSource, work: Path, installation: TritonInstallation) -> BuildContext:
        return BuildContext(
            model=self._model,
            source=source,
            folder=work,
            cache_dir=self._folders.cache,
            target=self._targets[0],
            installation=installation,
            build_member=self._build_member,
            shared_cache=self._folders.shared_cache,
            recorded_choice=self._choices.get(self._spec.name),
        )

    def _serving_check(
        self, installation: TritonInstallation, packed: PackedArchive, written: WrittenRepository, work: Path
    ) -> ServingCheck | GenerateCheck | StreamCheck:
        common: dict[str, Any] = {
            "installation": installation,
            "packed": packed,
            "entry": written.entry,
            "cases": written.cases,
            "accept": self._spec.accept,
            "precision": self._spec.tolerated(written.precision),
            "work": work,
            "arguments": server_arguments_of(self._spec.name, self._models),
            "notify": partial(self._steps.note, "serve"),
        }
        if self._spec.generates:
            return GenerateCheck(texts=self._spec.test_texts, **common)
        if self._spec.streams:
            return StreamCheck(**common)
        return ServingCheck(max_batch=self._max_batch(written), compared=written.compared, **common)

    def _examples(self, digest: str, written: WrittenRepository) -> Examples:
        """Return the requests that checked the archive, for smoke tests of endpoints."""
        name = self._spec.name
        if self._spec.generates:
            return examples_of_texts(self._spec.test_texts, model=name, digest=digest)
        return examples_of(
            written.cases,
            self._spec.accept,
            model=name,
            digest=digest,
            precision=self._spec.tolerated(written.precision),
            keeps_state=read_properties(written.folder).keeps_state,
        )

    def _require_unchanged(self) -> None:
        now = model_files(self._model)
        for before, after in (
            (self._files.own, now.own),
            (self._files.helpers, now.helpers),
            (self._files.source, now.source),
        ):
            require_same(before, after)

    def _require_memory(self, source: FetchedSource) -> None:
        """Fail early if the framework would run out of memory."""
        if self._spec.source is not None and self._spec.recipe.kind not in SERVED_AS_GIVEN:
            files = file_selection(self._spec).weights_among(source.folder)
            weights = sum(file.stat().st_size for file in files)
            require_memory(weights * COPIES_IN_MEMORY, purpose=f"loading and exporting {self._spec.name!r}")

    def _build_member(self, name: str) -> Path:
        """Build a model that this ensemble contains; return its artifact."""
        member = _Build(name, self._models, self._folders, self._targets, self._choices, self._steps)
        return member.run().artifact_dir

    def _check_target(self, written: WrittenRepository) -> None:
        if not fits(written.target, self._targets):
            expected = " or ".join(str(target) for target in self._targets)
            raise LayoutError(
                f"the repository targets {written.target}; expected {expected}",
                remedy="correct the endpoint's instance_type or triton_release, or the targets of its models",
            )

    def _check_layout(self, written: WrittenRepository) -> None:
        chosen = check_layout(written.folder, decoupled=self._spec.decoupled)
        if chosen != written.entry:
            raise LayoutError(
                f"multi-model hosting loads {chosen!r}, single-model {written.entry!r}",
                remedy=f"name the model {chosen!r}, or rename the other folders of the repository",
            )

    def _pack(self, written: WrittenRepository, work: Path, source: FetchedSource) -> PackedArchive:
        self._check_layout(written)
        size = folder_bytes(written.folder)
        # The archive plus its unpacked copy for serving.
        require_space(work, 2 * size, purpose=f"packing and serving {self._spec.name!r}")
        packed = pack(written.folder, work / ARCHIVE_NAME)
        # Pack exactly the files that were hashed: none may have changed in between.
        source.require_unchanged()
        self._require_unchanged()
        return packed

    def _manifest(
        self,
        source: FetchedSource,
        key: BuildKey,
        written: WrittenRepository,
        packed: PackedArchive,
        served: ServingReport,
    ) -> Manifest:
        instances = read_instances(written.folder, gpu=written.target.has_gpu)
        return Manifest(
            model=self._spec.name,
            entry_model=written.entry,
            digest=packed.digest,
            target=str(written.target),
            spec_hash=key.spec_hash,
            source=self._spec.source or "",
            source_revision=source.revision,
            weights_sha256=source.weights_sha256,
            precision=written.precision,
            inputs=written.inputs,
            outputs=written.outputs,
            archive_bytes=packed.size_bytes,
            unpacked_bytes=packed.unpacked_bytes,
            files=packed.files,
            parity=(*written.parity, *([served.parity] if served.parity else [])),
            unverified=written.unverified,
            unused_weights=written.unused_weights,
            generation=served.generation,
            latency=served.latency,
            served_by=served.served_by,
            processor=processor_features(),
            tensorrt=written.tensorrt,
            candidates=written.candidates,
            choices={
                **written.choices,
                **self._own_choice(written, container=served.served_by.kind == "container"),
            },
            environments=written.environments,
            max_batch=self._max_batch(written),
            shared_memory_bytes=served.shared_memory_bytes,
            instances=instances.most,
            copies_bytes=instances.copies_bytes,
            graphs_decide_threads=instances.graphs_decide_threads,
            least_threads=instances.least_threads,
            tools=key.tools,
        )

    def _own_choice(self, written: WrittenRepository, *, container: bool) -> dict[str, str]:
        """Return the choice of `precision: auto`; the local server's stand-ins say little about a layout."""
        if self._spec.precision != "auto":
            return {}
        kept = [candidate.name for candidate in written.candidates if candidate.kept]
        implied = () if container else (DEFAULT_LAYOUT,)
        return {self._spec.name: join_choice(name for name in kept if name not in implied)}

    def _max_batch(self, written: WrittenRepository) -> int:
        return self._spec.batching.max_batch if written.max_batch is None else written.max_batch


def _describe_archive(packed: PackedArchive) -> str:
    return (
        f"{packed.size_bytes / 1e6:.1f} MB, {packed.unpacked_bytes / 1e6:.1f} MB unpacked, "
        f"digest {short_digest(packed.digest)}"
    )


def _describe_served(check: ServingReport) -> str:
    latency = ", ".join(f"batch {report.batch}: p50 {report.p50_ms} ms" for report in check.latency)
    if check.generation is not None:
        generation = check.generation
        equal = ", equal to the framework's" if generation.compared else ""
        return f"{generation.cases} texts, {generation.times} identical answers each{equal}; {latency}"
    if check.parity is None:
        return f"{check.repeated} answers served only, the same in both hosting modes; {latency}"
    return f"{describe_parity(check.parity)}; {latency}"
