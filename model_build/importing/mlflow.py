"""Import an MLflow model: the file MLmodel names its flavors, each mapped to a recipe."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from model_build.errors import ModelBuildError, ModelImportError
from model_build.importing.mlflow_inputs import (
    InputExample,
    UnusableExampleError,
    column_inputs,
    read_example,
    row_inputs,
    tensor_inputs,
)
from model_build.importing.records import (
    SOURCE_FOLDER,
    ImportedModel,
    ImportRequest,
    example_inputs,
    given_inputs,
)
from model_build.linting.findings import is_small
from model_build.model_files import TENSORFLOW, THEN, TO_ONNX, names_in_pickle
from tritonstack.base.error_kinds import CommandLineError, UntrustedPickleError
from tritonstack.base.errors import UsageError
from tritonstack.base.source_files import copy_file, find_file, list_files
from tritonstack.base.yaml import load_yaml
from tritonstack.files.records.manifests import TensorSpec

MLMODEL = "MLmodel"
TestInputs = list[Any]
UseExample = Callable[[InputExample], TestInputs]
REMEDIES: Mapping[str, str] = MappingProxyType(
    {
        "pytorch": "it is a pickle of the whole module: load it in a sandbox, and save it with "
        "torch.jit.trace(...).save(file) or torch.onnx.export; then `tritonstack new model NAME --recipe "
        "torchscript --from FILE`",
        "tensorflow": f"convert it: {TENSORFLOW.format(file='FOLDER')}{THEN}",
        "keras": f"convert it: {TO_ONNX.format(file='data/model.keras')}{THEN}",
        "catboost": "save it with save_model(file, format='onnx'); then `tritonstack new model "
        "NAME --recipe onnx --from FILE`",
        "sentence_transformers": "use the model's folder: `tritonstack new model NAME --recipe "
        "text-embedding --from FOLDER`",
        "python_function": "put its code into a Triton model: `tritonstack new model NAME --recipe python`",
    }
)
OTHERWISE = (
    "save the model as ONNX if its library can, or call it from `tritonstack new model NAME --recipe python`"
)
TREES = re.compile(r"sklearn\.(ensemble|tree)\b|xgboost\.sklearn|lightgbm\.sklearn")
NOT_TREES = re.compile(r"sklearn\.(?!ensemble|tree|utils|_loss|base|metrics)\w")
"""Modules of other estimators, in a pickle of a pipeline for example."""
TASKS: Mapping[str, str] = MappingProxyType(
    {
        "text-classification": "text-classification",
        "sentiment-analysis": "text-classification",
        "feature-extraction": "feature-extraction",
        "token-classification": "token-classification",
        "ner": "token-classification",
        "question-answering": "question-answering",
    }
)
"""Recipes by the task of a transformers pipeline."""
TEXTS = ("A man is eating food.", "Replace this with texts that your users send.")
QUESTIONS = ({"question": "Who eats?", "context": "A man is eating food."},)


@dataclass(frozen=True)
class MlflowImport:
    """An MLflow model folder and its flavors."""

    root: Path
    shown: Path
    flavors: Mapping[str, Mapping[str, Any]]
    example: Mapping[str, Any]
    """What MLmodel says about the saved input example."""

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.shown.resolve().name.removesuffix(".tar.gz").removesuffix(".tgz")

    def write(self, folder: Path, name: str, request: ImportRequest) -> ImportedModel:
        """Copy the files of the first supported flavor."""
        flavor = next((candidate for candidate in _WRITERS if candidate in self.flavors), None)
        if flavor is None:
            raise self._unsupported()
        values = _WRITERS[flavor](self, folder, request)
        trust = {"trust": {"pickle": request.trust_pickle}} if request.trust_pickle else {}
        common = {
            "name": name,
            "description": f"{name}: describe what it does.",
            "source": f"file://{SOURCE_FOLDER}",
        }
        inputs, changes = values.pop("test_inputs")
        others = sorted(self.flavors.keys() - {flavor, "python_function"})
        if others:
            changes = (f"left out the flavors {', '.join(others)}", *changes)
        return ImportedModel(
            f"MLflow model, flavor {flavor}", {**common, **values, **trust, "test_inputs": inputs}, changes
        )

    def inputs(
        self, folder: Path, request: ImportRequest, use: UseExample, otherwise: Callable[[], TestInputs]
    ) -> tuple[TestInputs, tuple[str, ...]]:
        """Return test inputs (the user's, the saved example, or others), and what to tell about them."""
        if request.inputs is not None:
            return given_inputs(request.inputs, folder), ()
        try:
            example = read_example(self.root, self.example)
            if example is not None:
                return use(example), (f"took the test inputs from {example.file}",)
        except UnusableExampleError as error:
            return otherwise(), (f"left out the saved input example: {error}",)
        return otherwise(), ()

    def _unsupported(self) -> UsageError:
        flavors = [name for name in self.flavors if name != "python_function"] or list(self.flavors)
        name = next((flavor for flavor in flavors if flavor in REMEDIES), flavors[0] if flavors else "")
        return ModelImportError(
            f"{self.shown / MLMODEL}: the flavor {', '.join(flavors) or 'none'} cannot be imported; "
            f"supported: {', '.join(sorted(_WRITERS))}",
            remedy=REMEDIES.get(name, OTHERWISE),
        )

    def copy(self, flavor: str, key: str, folder: Path, target: str | None = None) -> Path:
        """Copy the file or folder that a flavor names; return it in the source folder."""
        path_in_model = self.flavors[flavor].get(key)
        if not isinstance(path_in_model, str) or not path_in_model:
            raise self.wrong(f"flavors.{flavor}.{key}: expected a file name, got {path_in_model!r}")
        source = folder / SOURCE_FOLDER
        source.mkdir(exist_ok=True)
        path = self.root / path_in_model
        if path.is_dir() and not path.is_symlink():
            for file in list_files(self.root, path_in_model).values():
                inner = source / Path(file.name).relative_to(path_in_model)
                inner.parent.mkdir(parents=True, exist_ok=True)
                copy_file(file, inner)
            return source
        source_file = find_file(self.root, path_in_model) if path.exists() else None
        if source_file is None:
            raise self.wrong(f"flavors.{flavor}.{key}: file not found: {path_in_model}")
        copy_file(source_file, source / (target or Path(path_in_model).name))
        return source / (target or Path(path_in_model).name)

    def wrong(self, message: str) -> UsageError:
        """Return an error about the MLmodel file."""
        return ModelImportError(f"{self.shown / MLMODEL}: {message}", remedy="save the model again")

    def require_trust(self, file: Path, request: ImportRequest) -> None:
        """Raise UsageError for a pickle without a reason to trust it."""
        if request.trust_pickle is None:
            raise UntrustedPickleError(
                f"{self.shown / file.name} is a pickle, which can run code when loaded",
                remedy="if you trust its author, add --trust-pickle REASON; it is written to model.yaml",
            )


def read_mlmodel(root: Path, shown: Path) -> MlflowImport:
    """Read the MLmodel file of a folder."""
    file = root / MLMODEL
    problem = "not a text file of at most 1 MiB"
    if is_small(file):
        try:
            content = load_yaml(file.read_text(encoding="utf-8"))
            flavors = content.get("flavors") if isinstance(content, dict) else None
            if isinstance(flavors, dict) and all(isinstance(flavor, dict) for flavor in flavors.values()):
                example = content.get("saved_input_example_info")
                names = {str(name): flavor for name, flavor in flavors.items()}
                return MlflowImport(root, shown, names, example if isinstance(example, dict) else {})
            problem = "no mapping `flavors`"
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            problem = f"line {line}: invalid YAML ({error.problem})"
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            problem = str(error).splitlines()[0]
    raise ModelImportError(f"{shown / MLMODEL}: {problem}", remedy="save the model again with mlflow")


def _is_trees(file: Path, shown: Path) -> bool:
    """Return whether a pickle holds trees alone; its names are read, and nothing is loaded."""
    names = names_in_pickle(file, shown=shown)
    return any(map(TREES.match, names)) and not any(map(NOT_TREES.match, names))


def _onnx(model: MlflowImport, folder: Path, request: ImportRequest) -> dict[str, Any]:
    from model_build.graphs.onnx_files import graph_tensors  # noqa: PLC0415 - onnx imports slowly

    file = model.copy("onnx", "data", folder)
    try:
        tensors = graph_tensors(file)
    except ModelBuildError as error:
        raise UsageError(
            f"{model.shown / file.name}: {error.message}", remedy=error.remedy, code=error.code
        ) from error
    _copy_beside(model, folder, file.name)
    batches = all(tensor.shape[:1] == (-1,) for tensor in (*tensors[0], *tensors[1]))
    inputs = [_without_batch(tensor, batches) for tensor in tensors[0]]
    return {
        "recipe": {"kind": "onnx", "file": file.name},
        **({} if batches else {"batching": {"max_batch": 0}}),
        "test_inputs": model.inputs(
            folder,
            request,
            lambda example: tensor_inputs(example, inputs, folder, batches=batches),
            lambda: example_inputs(inputs, 32 if batches else 0, folder),
        ),
    }


def _copy_beside(model: MlflowImport, folder: Path, graph: str) -> None:
    """Copy the weight files of a graph, which lie beside it."""
    data = str(model.flavors["onnx"]["data"])
    above = data.rpartition("/")[0] if not (model.root / data).is_dir() else data
    for name, file in list_files(model.root, above).items():
        last = name.rpartition("/")[2]
        if last.startswith(graph) and last != graph:
            copy_file(file, folder / SOURCE_FOLDER / last)


def _without_batch(tensor: TensorSpec, batches: bool) -> TensorSpec:
    return tensor.model_copy(update={"shape": tensor.shape[1:]}) if batches else tensor


def _xgboost(model: MlflowImport, folder: Path, request: ImportRequest) -> dict[str, Any]:
    form = str(model.flavors["xgboost"].get("model_format", "xgb"))
    file = model.copy("xgboost", "data", folder, target="model.json" if form == "json" else "model.ubj")
    return _trees(model, folder, request, {"file": file.name})


def _lightgbm(model: MlflowImport, folder: Path, request: ImportRequest) -> dict[str, Any]:
    file = model.copy("lightgbm", "data", folder)
    if is_pickle := file.suffix == ".pkl":
        model.require_trust(file, request)
    library = {} if is_pickle else {"library": "lightgbm"}
    return _trees(model, folder, request, {"file": file.name, **library})


def _sklearn(model: MlflowImport, folder: Path, request: ImportRequest) -> dict[str, Any]:
    file = model.copy("sklearn", "pickled_model", folder)
    model.require_trust(file, request)
    if _is_trees(file, model.shown / file.name):
        return _trees(model, folder, request, {"file": file.name})
    inputs = model.inputs(folder, request, lambda example: column_inputs(example, "X", folder), _random_rows)
    return {"recipe": {"kind": "scikit-learn", "file": file.name}, "test_inputs": inputs}


def _trees(
    model: MlflowImport, folder: Path, request: ImportRequest, recipe: Mapping[str, Any]
) -> dict[str, Any]:
    inputs = model.inputs(
        folder, request, lambda example: row_inputs(example, "input__0", folder), _random_rows
    )
    return {"recipe": {"kind": "trees", **recipe}, "test_inputs": inputs}


def _random_rows() -> TestInputs:
    return [{"random": {"rows": 16}}]


def _transformers(model: MlflowImport, folder: Path, request: ImportRequest) -> dict[str, Any]:
    flavor = model.flavors["transformers"]
    task = str(flavor.get("task", ""))
    if task not in TASKS:
        raise ModelImportError(
            f"{model.shown / MLMODEL}: the transformers task {task or 'none'!r} has no recipe; supported: "
            f"{', '.join(sorted(TASKS))}",
            remedy=OTHERWISE,
        )
    model.copy("transformers", "model_binary", folder)
    tokenizer = model.root / "components" / "tokenizer"
    if not tokenizer.is_dir():
        raise model.wrong("the folder components/tokenizer is missing")
    for name, file in list_files(model.root, "components/tokenizer").items():
        copy_file(file, folder / SOURCE_FOLDER / name.rpartition("/")[2])
    if request.inputs is not None:
        raise CommandLineError("--inputs is for models that take tensors", remedy="omit it")
    kind = TASKS[task]
    questions = kind == "question-answering"
    inputs = model.inputs(
        folder,
        request,
        lambda example: example.questions() if questions else example.texts(),
        lambda: list(QUESTIONS if questions else TEXTS),
    )
    return {"recipe": {"kind": kind}, "test_inputs": inputs}


_WRITERS: Mapping[str, Callable[[MlflowImport, Path, ImportRequest], dict[str, Any]]] = MappingProxyType(
    {
        "onnx": _onnx,
        "xgboost": _xgboost,
        "lightgbm": _lightgbm,
        "sklearn": _sklearn,
        "transformers": _transformers,
    }
)
"""Supported flavors, in the order of preference."""
