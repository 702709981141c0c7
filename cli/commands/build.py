"""`tritonstack build`: make, prove, publish and lock the artifacts that an environment needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from catalog.documents import closest
from catalog.errors import UsageError, shown_path
from catalog.loading import load_workspace
from catalog.locks import add_to_lock
from catalog.manifests import Manifest
from catalog.targets import acceptable_targets
from catalog.workspace import Workspace
from cli.artifacts import publish_artifact, put_on_shelves
from cli.context import Context
from cli.output import Step
from model_build.build import BuildFolders, BuildResult, build_model
from model_build.progress import Progress
from operations.aws import Cloud
from operations.shelf import shelf_copies

Targets = tuple[str, ...]


def build(
    context: typer.Context,
    environment: Annotated[str, typer.Argument(help="The environment to build for.")],
    models: Annotated[list[str] | None, typer.Argument(help="Models; by default all it serves.")] = None,
    upload: Annotated[
        bool, typer.Option("--publish/--no-publish", help="Upload to the environment's artifact bucket.")
    ] = True,
) -> None:
    """Build an environment's models, check them against the framework, and write its lock.

    Example: tritonstack build local --no-publish
    """
    state: Context = context.obj
    workspace = load_workspace(state.project, environment)
    cloud = state.cloud(workspace.spec) if upload else None
    results = []
    for model, targets in _wanted(workspace, models):
        result = _build_one(state, workspace, model, targets)
        results.append(result)
        if cloud is not None:
            publish_artifact(state, workspace, cloud, result.artifact_dir)
    if cloud is not None:
        _fill_shelves(state, workspace, cloud, results)
    changed = add_to_lock(workspace.lock.file, [result.manifest for result in results])
    state.output.note(f"{shown_path(workspace.lock.file)} {'written' if changed else 'is up to date'}")
    state.output.result(
        {
            "lock": str(workspace.lock.file),
            "changed": changed,
            "artifacts": [_facts(result) for result in results],
        },
        text="\n".join(_summary(result.manifest) for result in results),
    )


def _fill_shelves(state: Context, workspace: Workspace, cloud: Cloud, results: Sequence[BuildResult]) -> None:
    """Give multi-model endpoints what was built, before the lock tells of it: the CDK can deploy then."""
    lock = workspace.lock.record
    for result in results:
        lock = lock.with_artifact(result.manifest)
    built = {result.manifest.model for result in results}
    locked = replace(workspace, lock=replace(workspace.lock, record=lock))
    put_on_shelves(state, workspace, cloud, shelf_copies(locked, models=built))


def _wanted(workspace: Workspace, names: list[str] | None) -> Iterator[tuple[str, Targets]]:
    """Each model to build, once for each kind of machine that its endpoints run on."""
    for name in names or []:
        if name not in workspace.models:
            suggestion = closest(name, workspace.models)
            raise UsageError(
                f"environment {workspace.spec.name!r} serves no model {name!r}",
                remedy=f"did you mean '{suggestion}'?"
                if suggestion
                else f"it serves: {', '.join(workspace.models)}",
            )
    needed = {
        (served.model, acceptable_targets(served.instance, workspace.spec.release))
        for name in workspace.spec.endpoints
        for served in workspace.serves(name)
        if not names or served.model in names
    }
    yield from sorted(needed)


def _build_one(state: Context, workspace: Workspace, model: str, targets: Targets) -> BuildResult:
    with state.output.step(f"building {model}") as step:
        result = build_model(
            model=workspace.models[model],
            members=workspace.models,
            folders=BuildFolders.of(state.project),
            targets=targets,
            on_progress=lambda progress: _show(step, progress),
        )
        step.detail = "already built" if result.reused else f"digest {result.manifest.digest[:12]}"
    return result


def _show(step: Step, progress: Progress) -> None:
    if progress.state == "started":
        step.update(progress.step)
        return
    # What went wrong is said once, by the error that ends the command; a damaged artifact ends nothing.
    detail = progress.detail.splitlines()[0] if progress.detail else ""
    mark = "failed: " if progress.state == "failed" else ""
    step.log(f"{progress.step}: {mark}{detail} ({progress.seconds:.1f} s)")


def _facts(result: BuildResult) -> dict[str, object]:
    return {
        "model": result.manifest.model,
        "digest": result.manifest.digest,
        "target": result.manifest.target,
        "reused": result.reused,
        "directory": str(result.artifact_dir),
    }


def _summary(manifest: Manifest) -> str:
    worst = min(report.min_cosine for report in manifest.parity)
    latency = ", ".join(f"batch {report.batch} p50 {report.p50_ms:.1f} ms" for report in manifest.latency)
    return (
        f"{manifest.model} {manifest.digest[:12]} for {manifest.target}: "
        f"{manifest.archive_bytes / 1e6:.1f} MB, cosine to the framework ≥ {worst:.6f}, {latency}"
    )
