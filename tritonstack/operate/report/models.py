"""Report on models: the artifact of the present files, its graph, and its worst example."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from model_build.store.artifacts import ArtifactStore
from tritonstack.base.errors import TritonstackError
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import EnsembleRecipe
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.examples import EXAMPLES_NAME, Example, parse_examples
from tritonstack.files.records.manifests import Manifest
from tritonstack.operate.project.inspection import GraphStep, inspect
from tritonstack.operate.report.live_state import LiveState, load_tests_of
from tritonstack.operate.report.report_data import (
    Gaps,
    MissingData,
    ReportedModel,
    describe_error,
    missing_data,
)
from tritonstack.operate.shared.artifacts import published_manifest
from tritonstack.operate.shared.aws import AWS_ERRORS
from tritonstack.operate.shared.session import Session

_LONGEST_EXAMPLE = 200
_BUILD = "run `tritonstack build <env>`"


def describe_model(
    session: Session,
    name: str,
    live: Sequence[tuple[Workspace, LiveState]],
    gaps: Gaps,
    *,
    unread_environments: Collection[str] = (),
) -> ReportedModel:
    """Return a model with its artifact: from this machine, or from an environment that was read.

    The locks of `unread_environments` are not read.
    """
    inspection = gaps.attempt(
        f"model {name}", lambda: inspect(session, name, unread_environments=unread_environments)
    )
    if inspection is None:
        return ReportedModel(name, "", "")
    spec, digest = inspection.spec, inspection.shown.digest if inspection.shown else None
    manifest, failures = inspection.manifest, list[str]()
    if manifest is None and digest:
        manifest, failures = _published(name, digest, live)
    events = [event for _, state in live for event in state.events]
    reported = ReportedModel(
        name=name,
        description=spec.description,
        precision=spec.precision,
        digest=digest,
        manifest=manifest,
        steps=inspection.steps or tuple(_declared_steps(spec)),
        load_tests=load_tests_of(events, name),
        unread={
            workspace.spec.name: state.events_unread
            for workspace, state in live
            if state.events_unread and name in workspace.models
        },
    )
    if manifest is None:
        reason = "its artifact is not on this machine" if digest else "it was never built"
        remedy = "" if failures else _BUILD
        gaps.append(MissingData(f"measurements of {name}", "; ".join((reason, *failures)), remedy))
        return reported
    try:
        reported = replace(reported, worst_example=_worst_example(session, manifest))
    except TritonstackError as error:
        gaps.append(missing_data(f"worst example of {name}", error))
    if reported.steps:
        return reported
    if spec.layout == "single":
        inputs, outputs = (
            tuple(tensor.name for tensor in tensors) for tensors in (manifest.inputs, manifest.outputs)
        )
        return replace(reported, steps=(GraphStep(manifest.entry_model, "", inputs, outputs),))
    gaps.append(MissingData(f"graph of {name}", "its artifact is not on this machine", _BUILD))
    return reported


def _published(
    name: str, digest: str, live: Sequence[tuple[Workspace, LiveState]]
) -> tuple[Manifest | None, list[str]]:
    """Return the manifest from the first environment that has it, or why it could not be read."""
    failures = []
    for workspace, state in live:
        if state.cloud is not None:
            s3, bucket = state.cloud.client("s3"), workspace.spec.artifact_bucket
            try:
                manifest = published_manifest(s3, bucket=bucket, model=name, digest=digest)
            except (TritonstackError, *AWS_ERRORS) as error:
                failures.append(f"{workspace.spec.name}: {describe_error(error)}")
                continue  # another environment may have it
            if manifest is not None:
                return manifest, []
    return None, failures


def _declared_steps(spec: ModelSpec) -> list[GraphStep]:
    """Return the steps in model.yaml, for an ensemble whose artifact is not on this machine."""
    recipe = spec.recipe
    if not isinstance(recipe, EnsembleRecipe):
        return []
    steps = [
        GraphStep(step.model, "step", tuple(step.inputs.values()), tuple(step.outputs.values()), 1)
        for step in recipe.steps
    ]
    produced = {tensor for step in steps for tensor in step.outputs}
    used = {tensor for step in steps for tensor in step.inputs}
    inputs = tuple(dict.fromkeys(name for step in steps for name in step.inputs if name not in produced))
    unused = (name for step in steps for name in step.outputs if name not in used)
    outputs = recipe.outputs or tuple(dict.fromkeys(unused))
    return [GraphStep(spec.name, "ensemble", inputs, outputs), *steps]


def _worst_example(session: Session, manifest: Manifest) -> str:
    """Return the test input with the lowest cosine, with its values if they are texts."""
    served = [report for report in manifest.parity if report.stage == "served" and report.worst_case]
    if not served:
        return ""
    name = min(served, key=lambda report: report.min_cosine).worst_case or ""
    store = ArtifactStore(artifacts_dir=session.project.artifacts_dir, model=manifest.model)
    for folder in store.folders():
        file = folder / EXAMPLES_NAME
        if folder.name == manifest.digest and file.is_file():
            examples = parse_examples(file.read_bytes(), origin=file)
            # The check sends each input alone and in batches, and says which before the input's name.
            names = (name, name.partition(": ")[2])
            example = next((request for request in examples.requests if request.name in names), None)
            return f"{name}: {_shown(example)}" if example else name
    return name


def _shown(example: Example) -> str:
    parts = []
    for tensor in example.inputs:
        if tensor.datatype == "BYTES" and tensor.values:
            parts.append(", ".join(str(value) for value in tensor.values))
        else:
            parts.append(f"{tensor.name} {tensor.datatype}{list(tensor.shape)}")
    text = "; ".join(parts)
    return text if len(text) <= _LONGEST_EXAMPLE else f"{text[:_LONGEST_EXAMPLE]}…"
