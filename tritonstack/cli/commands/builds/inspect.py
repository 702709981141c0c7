"""`tritonstack inspect`: show a model's artifacts and the contents of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
import yaml

from tritonstack.base.files import short_digest
from tritonstack.cli.context import Context
from tritonstack.cli.selection import ModelArgument
from tritonstack.files.records.locks import LockedArtifact
from tritonstack.files.records.manifests import CandidateReport, Manifest, TensorSpec
from tritonstack.operate.project.inspection import Inspection, KnownArtifact, requested
from tritonstack.operate.project.inspection import inspect as run


def inspect(
    context: typer.Context,
    model: ModelArgument = None,
    digest: Annotated[
        str | None,
        typer.Option(help="The artifact, by the start of its digest (default: of the present files)."),
    ] = None,
) -> None:
    """Show what model.yaml asks for, which artifacts exist, and the contents of one of them.

    An artifact on this machine is shown in full: tensors, the graph of an ensemble, each config.pbtxt,
    packages of Python environments, candidates, accuracy, and latency. Of others, shows what the lock
    records; of a model that was never built, what its build will decide. Calls no AWS service.

    Example: tritonstack inspect minilm-embedding
    """
    state: Context = context.obj
    inspection = run(state, model, digest=digest)
    state.output.result(inspection, text="\n".join(_lines(inspection)))


def _lines(inspection: Inspection) -> Iterator[str]:
    yield "model.yaml:"
    yield from _indented(
        yaml.safe_dump(requested(inspection.spec), sort_keys=False, allow_unicode=True, width=110)
    )
    yield from ("", "artifacts:", *(f"  {_artifact(artifact)}" for artifact in inspection.artifacts))
    if inspection.shown is None:
        yield "  none; `tritonstack build <environment>` decides:"
        yield from (f"    {text}" for text in inspection.undecided)
        return
    yield from ("", f"{short_digest(inspection.shown.digest)}:")
    if inspection.manifest is not None:
        yield from _manifest(inspection.manifest)
        yield from ("  graph:", *(f"    {line}" for line in inspection.graph))
        for name, text in inspection.configs.items():
            yield from ("", f"{name}/config.pbtxt:", *_indented(text))
    elif inspection.locked is not None:
        yield from _locked(inspection.locked)


def _artifact(artifact: KnownArtifact) -> str:
    locked = f"locked in {', '.join(artifact.environments)}" if artifact.environments else "in no lock"
    place = "on this machine" if artifact.local else "not on this machine"
    age = "up to date" if artifact.current else "of other files or an earlier version"
    return f"{short_digest(artifact.digest)}  {artifact.target}  {age}, {place}, {locked}"


def _manifest(manifest: Manifest) -> Iterator[str]:
    # A model in the project's own files has no other source.
    revision = f"{manifest.source}, revision {manifest.source_revision}"
    yield f"  source: {revision if manifest.source else 'the files beside model.yaml'}"
    yield f"  target: {manifest.target}{f', TensorRT {manifest.tensorrt}' if manifest.tensorrt else ''}"
    yield f"  precision: {manifest.precision}"
    yield from (f"    {_candidate(report)}" for report in manifest.candidates)
    yield f"  archive: {_megabytes(manifest.archive_bytes)}, unpacked {_megabytes(manifest.unpacked_bytes)}"
    yield f"  {_instances(manifest.instances)} on a CPU; maximum batch {manifest.max_batch}"
    yield from (f"  input {_tensor(report)}" for report in manifest.inputs)
    yield from (f"  output {_tensor(report)}" for report in manifest.outputs)
    for parity in manifest.parity:
        yield (
            f"  parity ({parity.stage}, {parity.cases} cases): cosine ≥ {parity.min_cosine:.6f}, "
            f"error ≤ {parity.max_absolute_error:.1e}"
        )
    yield from (f"  not verified: {reason}" for reason in manifest.unverified)
    for report in manifest.latency:
        yield f"  latency, batch {report.batch}: p50 {report.p50_ms:g} ms, p99 {report.p99_ms:g} ms"
    for environment in manifest.environments:
        pythons = f" for {', '.join(environment.pythons)}" if environment.pythons else ""
        yield f"  {environment.path}: {_megabytes(environment.unpacked_bytes)} unpacked{pythons}"
        yield from (f"    {package}" for package in environment.packages)


def _locked(locked: LockedArtifact) -> Iterator[str]:
    yield f"  archive: {_megabytes(locked.archive_bytes)}, unpacked {_megabytes(locked.unpacked_bytes)}"
    yield f"  {_instances(locked.instances or 1)} on a CPU"
    if locked.figures is not None:
        figures = locked.figures.model_dump(exclude_none=True)
        yield f"  figures: {', '.join(f'{name} {value:g}' for name, value in figures.items())}"
    if locked.built is not None:
        yield f"  built by {locked.built.by} at {locked.built.at}"
    yield "  its tensors and config.pbtxt are in the archive; build it on this machine to see them"


def _instances(most: int) -> str:
    return "1 instance" if most == 1 else f"at most {most} instances"


def _candidate(candidate: CandidateReport) -> str:
    latency = ", ".join(f"{shape} {value:g} ms" for shape, value in candidate.latency_ms.items())
    mark = "served" if candidate.kept else "rejected"
    return ", ".join(
        filter(
            None, (f"{candidate.name}: {mark}: {candidate.reason}", _megabytes(candidate.size_bytes), latency)
        )
    )


def _tensor(tensor: TensorSpec) -> str:
    labels = f", labels {', '.join(tensor.labels[:10])}" if tensor.labels else ""
    return f"{tensor.name}: {tensor.datatype} {list(tensor.shape)}{labels}"


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
