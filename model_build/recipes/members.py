"""The other models in an artifact: the steps of an ensemble, and the models that Python code calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from model_build.data import BuildContext, WrittenRepository
from model_build.errors import LayoutError
from model_build.progress import BuildSteps
from model_build.repository.flattening import MemberFolder, add_called_models, called_folders
from model_build.store.archive import most_members, unpack
from model_build.store.artifacts import read_manifest
from tritonstack.base.error_kinds import ModelMismatchError
from tritonstack.base.errors import reject
from tritonstack.base.yaml import Document
from tritonstack.facts.targets import Target, parse_target
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.tolerance import Precision
from tritonstack.files.records.manifests import ARCHIVE_NAME, EnvironmentReport, Manifest

COARSENESS: tuple[Precision, ...] = ("fp32", "fp16", "bf16", "int8")
"""From most to least precise: an artifact is as precise as its least precise model."""


@dataclass(frozen=True)
class Member:
    """A member model, as built."""

    manifest: Manifest
    unpacked: MemberFolder


def build_members(names: Iterable[str], context: BuildContext) -> dict[str, Member]:
    """Build models and unpack their artifacts."""
    return {name: _build_member(name, context) for name in names}


def _build_member(name: str, context: BuildContext) -> Member:
    artifact = context.build_member(name)
    manifest = read_manifest(artifact)
    folder = context.folder / "members" / name
    unpack(
        artifact / ARCHIVE_NAME,
        folder,
        limit_bytes=manifest.unpacked_bytes,
        limit_members=most_members(manifest.files),
    )
    return Member(manifest, MemberFolder(name, manifest.entry_model, folder))


def add_calls(
    alone: WrittenRepository, model: Document[ModelSpec], members: Mapping[str, Member], steps: BuildSteps
) -> WrittenRepository:
    """Add the models that Python code calls to its repository."""
    name, max_batch = model.record.name, model.record.batching.max_batch
    reject(
        [
            model.violation(
                ModelMismatchError,
                ("test_inputs",),
                f"{tensor.name} has one value per row; a model with `recipe.calls` needs a dimension",
                "write a list in the test inputs, and shape [1] in `tensors` if it is there",
            )
            for tensor in (*alone.inputs, *alone.outputs)
            if not tensor.shape
        ]
    )
    unpacked = {called_name: member.unpacked for called_name, member in members.items()}
    digests = {called_name: member.manifest.digest for called_name, member in members.items()}
    called = called_folders(alone.folder, unpacked, digests)
    used = steps.run(
        "calls",
        lambda: add_called_models(
            alone.folder, called, name=name, inputs=alone.inputs, outputs=alone.outputs, max_batch=max_batch
        ),
        lambda _: ", ".join(folder.name for folder in called.values()),
    )
    own_reports = [
        report for report in alone.environments if used[report.path.partition("/")[0]] in report.path
    ]
    reports = (
        (called[called_name], report)
        for called_name, member in members.items()
        for report in member.manifest.environments
    )
    return replace(
        alone,
        target=common_target([(name, alone.target), *members_targets(members.values())]),
        environments=(*own_reports, *environment_reports(reports, used)),
        **common_facts(members.values()),
    )


def common_facts(members: Iterable[Member]) -> dict[str, Any]:
    """Return the fields of a repository that follow from its members: precision, TensorRT, and choices."""
    manifests = [member.manifest for member in members]
    return {
        "precision": max((manifest.precision for manifest in manifests), key=COARSENESS.index),
        "tensorrt": next((manifest.tensorrt for manifest in manifests if manifest.tensorrt), None),
        "choices": {name: choice for manifest in manifests for name, choice in manifest.choices.items()},
    }


def common_target(targets: Sequence[tuple[str, Target]]) -> Target:
    """Return the common target of named models: bound to a Python if any of them is."""
    pythons = {target.python for _, target in targets if target.python}
    hardware = {target.hardware for _, target in targets}
    if len(pythons) > 1 or len(hardware) > 1:
        listing = ", ".join(f"{model}: {target}" for model, target in targets)
        raise LayoutError(
            f"the models have different targets ({listing})",
            remedy="build all models of the artifact for the same hardware and Python version",
        )
    return Target(hardware.pop(), pythons.pop() if pythons else None)


def members_targets(members: Iterable[Member]) -> list[tuple[str, Target]]:
    """Return the members' names and targets."""
    return [(member.manifest.model, parse_target(member.manifest.target)) for member in members]


def environment_reports(
    reports: Iterable[tuple[MemberFolder, EnvironmentReport]], used: Mapping[str, str]
) -> list[EnvironmentReport]:
    """Return the environments that remain after sharing, under their new paths."""
    remaining = []
    for folder, report in reports:
        part, _, file = report.path.partition("/")
        name = folder.part_name(part)
        if used.get(name) == name:
            remaining.append(report.model_copy(update={"path": f"{name}/{file}"}))
    return remaining
