"""Convert a Merlin Systems export into an ensemble that Triton's scheduler runs.

Merlin exports an `executor_model`, a Python model that calls the numbered steps. Multi-model endpoints do not
load such steps; those of an ensemble they do. The steps stay as they are; only their config.pbtxt files are
read. An ensemble connects tensors by name and converts nothing, so exports that rely on the executor's own
logic are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from model_build.environments.packing import ENV_PARAMETER
from model_build.errors import ModelImportError
from model_build.importing.records import SOURCE_FOLDER, ImportedModel, ImportRequest
from model_build.importing.repository import Models, check_copy, copy_models, finish
from model_build.importing.wiring import CODE, SPLIT, ColumnWiring, violation_at
from model_build.linting.findings import Finding, ModelFolder, in_file
from model_build.model_files import names_in_pickle
from model_build.repository.config import CONFIG_NAME
from model_build.repository.layout import is_ensemble
from model_build.repository.parts import add_ensemble
from tritonstack.base.errors import FileViolation, reject

EXECUTOR = "merlin_executor"
STEP = re.compile(r"(\d+)_([a-z0-9]+)")
STEP_KINDS = ("transformworkflowtriton", "predictpytorchtriton", "predicttensorflowtriton", "filtriton")
GRAPH = "ensemble/ensemble.pkl"
GRAPH_FILES = {GRAPH, "ensemble/metadata.json", "model.py"}
"""Files of an executor without logic of its own."""
_OPERATOR = re.compile(r"merlin\.systems\.dag\.(?:runtimes\.triton\.)?ops\.(\w+)")
WITH_FOLDER = frozenset({"workflow", "pytorch", "tensorflow", "fil", "operator", "compat", "base"})
"""Modules of operators that Merlin exports as a step, and of their base classes."""
OWNCODE = frozenset({"_make_skeleton_class", "_make_class"})
"""Functions with which cloudpickle stores a class by value: an operator from a script or notebook."""
LIBRARIES = ("merlin", "nvtabular", "transformers4rec", "cudf")


@dataclass(frozen=True)
class MerlinImport:
    """The models of an export."""

    models: Models
    shown: Path
    name: str

    def write(self, folder: Path, name: str, request: ImportRequest) -> ImportedModel:
        """Copy the steps, and write the ensemble."""
        steps = steps_of(self.models)
        executor = next((model for model in self.models.values() if _is_executor(model)), None)
        reject(_unfit(self.models, steps, executor))
        wiring = ColumnWiring(steps, executor, self.shown)
        inputs, outputs, scheduled = wiring.run()
        repository = folder / SOURCE_FOLDER
        used = [step.model for step in scheduled]
        changes = [
            *(
                [f"replaced {executor.name}, a Python model that calls the steps, with an ensemble"]
                if executor
                else []
            ),
            *copy_models(self.models, used, repository),
            *(f"left out {step.name}: nothing uses its outputs" for step in steps if step.name not in used),
            *wiring.renamed(),
        ]
        add_ensemble(repository, name=name, inputs=inputs, outputs=outputs, steps=scheduled, max_batch=0)
        findings = [*check_copy(repository, self.shown, request), *_library_findings(self.models, used)]
        return finish(folder, name, request, "Merlin export", changes, findings)


def is_merlin(models: Models) -> bool:
    """Return whether a repository was exported by Merlin Systems, and has no ensemble of the steps yet."""
    if any(is_ensemble(model.config) for model in models.values()):
        return False
    return any(_is_executor(model) for model in models.values()) or bool(steps_of(models))


def steps_of(models: Models) -> list[ModelFolder]:
    """Return the steps in their order: folders such as 0_transformworkflowtriton."""
    numbered = [
        (int(match[1]), name) for name in models if (match := STEP.fullmatch(name)) and match[2] in STEP_KINDS
    ]
    return [models[name] for _, name in sorted(numbered)]


def _is_executor(model: ModelFolder) -> bool:
    graphs = (version / GRAPH for version in model.versions)
    return bool(model.config.platform == EXECUTOR) or any(graph.is_file() for graph in graphs)


def _unfit(
    models: Models, steps: Sequence[ModelFolder], executor: ModelFolder | None
) -> Iterator[FileViolation]:
    """Yield what an ensemble cannot do, before any tensor is connected."""
    others = sorted(name for name, model in models.items() if model not in steps and not _is_executor(model))
    if not steps and executor is not None:
        yield violation_at(executor, "the export has no steps such as 0_transformworkflowtriton", SPLIT)
        return
    for name in others:
        yield violation_at(
            models[name],
            "neither the executor nor a step of the export",
            "remove the folder, or import it by itself",
        )
    numbers = [int(step.name.partition("_")[0]) for step in steps]
    if numbers != list(range(len(numbers))):
        missing = sorted(set(range(max(numbers))) - set(numbers))
        text = f"step {missing[0]} is missing" if missing else f"two steps have one number: {numbers}"
        yield violation_at(steps[-1], text, "export again, and keep all folders")
    for step in steps:
        if step.config.backend == "fil" or step.name.endswith("_filtriton"):
            yield violation_at(
                step,
                "a forest: the executor packs columns into input__0, and an ensemble cannot",
                "serve the forest by itself with `recipe: {kind: trees, file: ...}`, and send it "
                "packed features; or "
                "call it from a Python model",
                "backend",
            )
    if executor is not None:
        yield from _logic(executor)


def _logic(executor: ModelFolder) -> Iterator[FileViolation]:
    """Yield operators that exist in the executor alone."""
    for version in executor.versions:
        files = {file.relative_to(version).as_posix() for file in version.rglob("*") if file.is_file()}
        extra = sorted(name for name in files - GRAPH_FILES if "__pycache__" not in name)
        if extra:
            yield violation_at(
                executor, f"an operator without a step of its own has the file {extra[0]}", SPLIT
            )
        if GRAPH not in files:
            continue
        shown = executor.shown / version.name / GRAPH
        names = names_in_pickle(version / GRAPH, shown=shown)
        modules = {match[1] for name in names if (match := _OPERATOR.match(name))}
        for module in sorted(modules - WITH_FOLDER):
            text = f"the operator {module} runs in the executor, without a step of its own"
            yield FileViolation(shown, None, "", text, SPLIT, code=CODE)
        if names & OWNCODE:
            text = "an operator that was defined in a script or notebook runs in the executor"
            yield FileViolation(shown, None, "", text, SPLIT, code=CODE)


def _library_findings(models: Models, used: Sequence[str]) -> Iterator[Finding]:
    """Yield steps that import Merlin's libraries, which SageMaker's images lack."""
    for name in used:
        model = models[name]
        if model.config.backend != "python" or ENV_PARAMETER in model.config.parameters:
            continue
        for file in sorted(model.folder.glob("[0-9]*/model.py")):
            text = file.read_text(encoding="utf-8", errors="replace")
            needed = [
                library
                for library in LIBRARIES
                if re.search(rf"^\s*(?:import|from)\s+{library}\b", text, re.MULTILINE)
            ]
            if needed:
                yield in_file(
                    "warning",
                    ModelImportError.code,
                    model.shown / file.relative_to(model.folder),
                    f"imports {', '.join(needed)}, which SageMaker's Triton images lack",
                    f"pack them with conda-pack, and set the parameter {ENV_PARAMETER} in the step's "
                    f"{CONFIG_NAME}; or use an image of your own",
                )
