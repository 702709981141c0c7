"""ensemble: several models as one pipeline in one archive, checked against its own steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from model_build.checking.archive_checks import served_repository
from model_build.data import Array, BuildContext, Case, Recipe, WrittenRepository
from model_build.errors import ServingError
from model_build.inputs.rows import read_rows
from model_build.progress import BuildSteps
from model_build.recipes.members import (
    Member,
    build_members,
    common_facts,
    common_target,
    environment_reports,
    members_targets,
)
from model_build.recipes.pipeline import Pipeline, Wiring
from model_build.repository.flattening import (
    MemberFolder,
    copy_parts,
    flat_steps,
    needed_steps,
    share_environments,
)
from model_build.repository.parts import SchedulingStep, add_ensemble
from tritonstack.base.error_kinds import CompositionError, UnusableNameError
from tritonstack.base.errors import InvalidFilesError, reject
from tritonstack.files.model.inputs import TestInput
from tritonstack.files.model.recipes import EnsembleRecipe
from tritonstack.files.records.manifests import EnvironmentReport, Manifest, ParityReport, TensorSpec
from tritonstack.triton import TritonInstallation

# Compute the expected answers of an ensemble by calling its models' own artifacts in order. Each verified
# artifact is served alone by the real server, and its tensors are passed on outside Triton. An ensemble with
# the same answers is composed correctly.


def chain_answers(
    pipeline: Pipeline,
    members: Mapping[str, MemberFolder],
    requests: Sequence[tuple[str, Mapping[str, Array]]],
    *,
    installation: TritonInstallation,
    work: Path,
) -> list[Case]:
    """Return the requests as cases, with the models' chained answers."""
    tensors = [dict(inputs) for _, inputs in requests]
    for index, step in enumerate(pipeline.steps):
        member = members[step.model]
        with served_repository(
            member.folder, member.entry, installation=installation, state_dir=work / f"step-{index + 1}"
        ) as client:
            for values in tensors:
                try:
                    answers = client.ask({own: values[name] for own, name in step.inputs.items()})
                except ServingError as error:
                    raise ServingError(
                        f"{step.model!r} rejects the output of earlier steps: {error.message}",
                        remedy=f"make the inputs of {step.model!r} match the outputs of the steps before it",
                    ) from error
                values.update({name: answers[own] for own, name in step.outputs.items()})
    return [
        Case(name, inputs, {tensor.name: values[tensor.name] for tensor in pipeline.outputs}, origin="served")
        for (name, inputs), values in zip(requests, tensors, strict=True)
    ]


Requests = Sequence[tuple[str, Mapping[str, Array]]]
SENT_AS: Mapping[str, tuple[str, ...]] = {
    "texts": ("TEXT",),
    "pairs": ("TEXT", "TEXT_PAIR"),
    "questions": ("QUESTION", "CONTEXT"),
    "images": ("IMAGE",),
}
"""Tensors for inputs that callers do not send as tensors."""


class Ensemble(Recipe[EnsembleRecipe]):
    """The recipe for one ensemble."""

    def write_repository(self, context: BuildContext, steps: BuildSteps) -> WrittenRepository:
        """Build the member models, compose them, and compute the expected answers."""
        members = build_members(self._recipe.members, context)
        pipeline = steps.run("compose", lambda: self._wire(members), _describe_pipeline)
        requests = self._requests(pipeline)
        folders = {name: member.unpacked for name, member in members.items()}
        cases = steps.run(
            "run the steps",
            lambda: chain_answers(
                pipeline,
                folders,
                requests,
                installation=context.installation,
                work=context.folder / "chain",
            ),
            lambda results: f"{len(results)} cases",
        )
        repository = context.folder / "repository"
        environments = steps.run(
            "repository",
            lambda: self._write(repository, pipeline, folders),
            lambda used: _describe_repository(repository, used),
        )
        manifests = [member.manifest for member in members.values()]
        return WrittenRepository(
            folder=repository,
            entry=self._spec.name,
            target=common_target(members_targets(members.values())),
            inputs=pipeline.inputs,
            outputs=pipeline.outputs,
            parity=tuple(_members_parity(manifests)),
            cases=cases,
            environments=tuple(environment_reports(_reports(members.values()), environments)),
            max_batch=pipeline.max_batch,
            unverified=tuple(
                f"{manifest.model}: {reason}" for manifest in manifests for reason in manifest.unverified
            ),
            **common_facts(members.values()),
        )

    def _wire(self, members: Mapping[str, Member]) -> Pipeline:
        wiring = Wiring(
            self._model, self._recipe, {name: member.manifest for name, member in members.items()}
        )
        pipeline = wiring.run()
        if pipeline is None:
            raise InvalidFilesError(wiring.violations)
        return pipeline

    def _requests(self, pipeline: Pipeline) -> Requests:
        """Yield each test input as a request of one row."""
        kind = self._spec.test_inputs[0].kind
        batches = pipeline.max_batch > 0
        if kind == "tensors":
            rows = read_rows(self._model, pipeline.inputs, pipeline.outputs)
            return [(row.name, row.batch(row.inputs, batches=batches)) for row in rows]
        self._check_sent_as(kind, pipeline.inputs)
        return [
            (f"test input {number}", {name: _one(value, batches) for name, value in self._sent(test_input)})
            for number, test_input in enumerate(self._spec.test_inputs, start=1)
        ]

    def _check_sent_as(self, kind: str, inputs: Sequence[TensorSpec]) -> None:
        expected, names = set(SENT_AS[kind]), {tensor.name for tensor in inputs}
        if expected != names:
            raise self._model.invalid(
                CompositionError,
                ("test_inputs", 0),
                f"the pipeline takes {', '.join(sorted(names))}; {kind} need "
                f"{' and '.join(sorted(expected))}",
                "set `inputs: {...}` with every tensor, or map the step's inputs",
            )

    def _sent(self, test_input: TestInput) -> list[tuple[str, str | bytes]]:
        if test_input.image is not None:
            return [("IMAGE", (self._model.file.parent / test_input.image).read_bytes())]
        return list(zip(SENT_AS[test_input.kind], test_input.texts, strict=True))

    def _write(
        self, repository: Path, pipeline: Pipeline, folders: Mapping[str, MemberFolder]
    ) -> dict[str, str]:
        flat: list[SchedulingStep] = []
        for index, step in enumerate(pipeline.steps):
            flat += flat_steps(folders[step.model], index, step.inputs, step.outputs)
        needed = needed_steps(flat, [tensor.name for tensor in pipeline.outputs])
        self._check_names(folders.values())
        repository.mkdir()
        for member in folders.values():
            copy_parts(member, repository, {step.model for step in needed})
        environments = share_environments(repository)
        add_ensemble(
            repository,
            name=self._spec.name,
            inputs=pipeline.inputs,
            outputs=pipeline.outputs,
            steps=needed,
            max_batch=pipeline.max_batch,
            response_cache=self._spec.triton.response_cache,
        )
        return environments

    def _check_names(self, members: Iterable[MemberFolder]) -> None:
        """Reject duplicate part names."""
        names = {self._spec.name: "the ensemble itself"}
        violations = []
        for member in members:
            for part in sorted(entry.name for entry in member.folder.iterdir() if entry.is_dir()):
                name = member.part_name(part)
                if part == member.entry and member.config.ensemble_scheduling.step:
                    continue  # it is replaced by its own steps
                if names.setdefault(name, f"a part of {member.name!r}") != f"a part of {member.name!r}":
                    violations.append(
                        self._model.violation(
                            UnusableNameError,
                            ("recipe", "steps"),
                            f"a part of {member.name!r} would be named {name!r}, like {names[name]}",
                            "rename one of the models",
                        )
                    )
        reject(violations)


def _one(value: str | bytes, batches: bool) -> Array:
    array = np.array([value], dtype=np.object_)
    return array[None] if batches else array


def _members_parity(manifests: Sequence[Manifest]) -> Iterator[ParityReport]:
    """Yield the worst of the members' reports; none if no member was compared with anything.

    The serving check covers the composition.
    """
    reports = [report for manifest in manifests for report in manifest.parity if report.stage == "served"]
    if not reports:
        return
    relative = [report.max_relative_error for report in reports if report.max_relative_error is not None]
    top1 = [report.min_top1_agreement for report in reports if report.min_top1_agreement is not None]
    yield ParityReport(
        stage="graph",
        cases=sum(report.cases for report in reports),
        min_cosine=min(report.min_cosine for report in reports),
        max_absolute_error=max(report.max_absolute_error for report in reports),
        max_relative_error=max(relative, default=None),
        min_top1_agreement=min(top1, default=None),
        worst_case=min(reports, key=lambda report: report.min_cosine).worst_case,
    )


def _reports(members: Iterable[Member]) -> Iterator[tuple[MemberFolder, EnvironmentReport]]:
    return ((member.unpacked, report) for member in members for report in member.manifest.environments)


def _describe_pipeline(pipeline: Pipeline) -> str:
    takes = ", ".join(tensor.name for tensor in pipeline.inputs)
    gives = ", ".join(tensor.name for tensor in pipeline.outputs)
    return f"{takes} -> {' -> '.join(step.model for step in pipeline.steps)} -> {gives}"


def _describe_repository(repository: Path, used: Mapping[str, str]) -> str:
    shared = sum(name != target for name, target in used.items())
    parts = ", ".join(sorted(entry.name for entry in repository.iterdir()))
    return f"{parts}; {shared} environments shared" if shared else parts
