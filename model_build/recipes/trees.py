"""trees: models of XGBoost, LightGBM and scikit-learn for Triton's FIL backend, which runs on CPU and GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from model_build.checking.parity import compare_answers, describe_parity
from model_build.data import Array, BuildContext, Case, Recipe, ServableGraph, WrittenRepository
from model_build.errors import UnsupportedModelError
from model_build.inputs.narrowing import narrow_tensors
from model_build.inputs.rows import read_rows
from model_build.layouts.layout import unbatched
from model_build.progress import BuildSteps
from model_build.recipes.given import describe_cases, untrusted_pickle, write_graph
from tritonstack.base.error_kinds import EndpointMismatchError, ModelMismatchError
from tritonstack.base.errors import FileViolation, InvalidFilesError, reject
from tritonstack.base.yaml import Document
from tritonstack.facts.targets import Target, release_of
from tritonstack.files.checks.releases import CHECKPOINTS_SINCE
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import TreesRecipe
from tritonstack.files.records.manifests import TensorSpec

if TYPE_CHECKING:
    from model_build.exporters.trees import Trees

INPUT, OUTPUT, SHAP = "input__0", "output__0", "treeshap_output"
TRANSFERS = "transfer_threshold"
"""FIL's parameter: requests of fewer rows stay on the CPU, and get no SHAP values from a model on a GPU."""
EXPLAINED = "SHAP values need a model of XGBoost or LightGBM, whose own values they are compared with"
PICKLE_SUFFIXES = (".pkl", ".pickle", ".joblib")
THRESHOLD = 0.5


class TreesForFil(Recipe[TreesRecipe]):
    """The recipe for one model."""

    tools = ("treelite", "xgboost-cpu", "lightgbm", "scikit-learn")

    def __init__(self, model: Document[ModelSpec], recipe: TreesRecipe) -> None:
        super().__init__(model, recipe)
        is_pickle = recipe.library == "scikit-learn" or recipe.file.endswith(PICKLE_SUFFIXES)
        message = "the FIL backend always batches rows"
        violations = [*unbatched(model, message, "set the largest number of rows, such as 1024")]
        if is_pickle and self._spec.trust.pickle is None:
            violations.append(untrusted_pickle(model, recipe.file, otherwise="convert it with treelite"))
        if recipe.shap and is_pickle:
            violations.append(self._unexplained(EXPLAINED, "remove this key"))
        if recipe.shap and TRANSFERS in self._spec.triton.parameters:
            violations.append(
                model.violation(
                    UnsupportedModelError,
                    ("triton", "parameters", TRANSFERS),
                    "FIL returns no SHAP values for smaller requests to a GPU",
                    "remove it, or `shap` in recipe",
                )
            )
        reject(violations)

    def write_repository(self, context: BuildContext, steps: BuildSteps) -> WrittenRepository:
        """Load the trees, compute the library's answers, compare, and write the repository."""
        trees = steps.run("load", lambda: self._load(context), _describe)
        answer = self._answer(trees)
        if self._recipe.shap:
            self._prepare_shap(trees)
        inputs, outputs = self._tensors(trees, answer)
        cases = steps.run("answer", lambda: self._cases(trees, answer, inputs, outputs), describe_cases)
        folder = context.folder / "graph"
        form = trees.save(folder)
        _check_release(form, context.target)
        parity = steps.run(
            "compare graph",
            lambda: compare_answers(
                lambda request: {OUTPUT: _shaped(_run(trees, request[INPUT]), answer)},
                # Only the served FIL computes SHAP values, so they are compared when it does.
                [replace(case, expected={OUTPUT: case.expected[OUTPUT]}) for case in cases],
                self._model.record.accept,
                max_batch=self._model.record.batching.max_batch,
            ),
            describe_parity,
        )
        servable = ServableGraph(
            folder=folder,
            backend="fil",
            precision="fp32",
            inputs=inputs,
            outputs=outputs,
            parity=parity,
            parameters=_parameters(form, answer),
        )
        return write_graph(servable, cases, context, steps)

    def _load(self, context: BuildContext) -> Trees:
        # The libraries import slowly, and a reused artifact does not need them.
        from model_build.exporters.trees import library_of, load_trees  # noqa: PLC0415

        file: Path = (context.source.folder / self._recipe.file).resolve()
        library = library_of(file)
        if self._recipe.library not in (None, library):
            raise self._model.invalid(
                UnsupportedModelError,
                ("recipe", "library"),
                f"{file.name} is a {library} model; expected {self._recipe.library}",
                "remove or correct this key",
            )
        return load_trees(file, library, trusted=self._model.record.trust.pickle is not None)

    def _answer(self, trees: Trees) -> str:
        requested = self._recipe.answer
        answer = requested or ("probabilities" if trees.task else "value")
        violation = None
        if answer in ("class", "probabilities") and trees.task is None:
            violation = "this model is not a classifier", "set `answer: value`"
        elif answer == "probabilities" and not trees.gives_probabilities:
            violation = (
                "FIL computes this objective's probabilities differently from its library",
                "set `answer: class`",
            )
        elif answer == "value" and trees.task == "multi-class":
            violation = (
                "this model has several classes",
                "set `answer: class` or `answer: probabilities`",
            )
        if violation is not None:
            path = ("recipe", "answer") if requested else ("recipe",)
            raise self._model.invalid(ModelMismatchError, path, violation[0], violation[1])
        return answer

    def _prepare_shap(self, trees: Trees) -> None:
        from model_build.exporters.trees import (  # noqa: PLC0415 - as above
            missing_for_shap,
            share_base_scores,
        )

        missing = missing_for_shap(trees.model)
        if trees.contributions is None:
            missing = EXPLAINED, "remove this key"
        if missing is not None:
            raise InvalidFilesError([self._unexplained(*missing)])
        share_base_scores(trees.model)

    def _unexplained(self, message: str, remedy: str) -> FileViolation:
        return self._model.violation(UnsupportedModelError, ("recipe", "shap"), message, remedy)

    def _tensors(self, trees: Trees, answer: str) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
        width = max(2, trees.class_count) if answer == "probabilities" else 1
        labels = trees.classes if answer == "probabilities" and len(trees.classes) == width else ()
        outputs = [TensorSpec(name=OUTPUT, datatype="FP32", shape=(width,), labels=labels)]
        if self._recipe.shap:
            columns = (trees.features + 1,)
            shape = columns if trees.class_count == 1 else (trees.class_count, *columns)
            outputs.append(TensorSpec(name=SHAP, datatype="FP32", shape=shape))
        return narrow_tensors(
            self._model, [TensorSpec(name=INPUT, datatype="FP32", shape=(trees.features,))], outputs
        )

    def _cases(
        self,
        trees: Trees,
        answer: str,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
    ) -> list[Case]:
        cases = []
        for row in read_rows(self._model, inputs, outputs):
            rows = row.batch(row.inputs, batches=True)[INPUT]
            scores = trees.scores(rows)
            if trees.class_count == 1:
                scores = scores[:, -1:]  # the second of two, where the library returns both
            answers = {OUTPUT: _shaped(scores, answer)}
            if self._recipe.shap and trees.contributions is not None:
                values = trees.contributions(rows).astype(np.float32)
                answers[SHAP] = values if trees.class_count > 1 else values[:, 0]
            case = row.case(answers, batches=True)
            expected = case.expected[OUTPUT]
            flat = expected if answer == "probabilities" else expected.reshape(len(expected))
            cases.append(replace(case, expected={**case.expected, OUTPUT: flat}))
        return cases


def _run(trees: Trees, rows: Array) -> Array:
    """Return what FIL computes from the trees."""
    import treelite  # noqa: PLC0415 - as above

    answers = treelite.gtil.predict(trees.model, rows.astype(trees.model.input_type))
    return np.asarray(answers).reshape(len(rows), -1)


def _shaped(scores: Array, answer: str) -> Array:
    """Return scores in FIL's shape: one number per row has no dimension."""
    if answer == "probabilities":
        both = np.concatenate([1 - scores, scores], axis=1) if scores.shape[1] == 1 else scores
        return both.astype(np.float32)
    if answer == "class":
        chosen = scores.argmax(axis=1) if scores.shape[1] > 1 else scores[:, 0] > THRESHOLD
        return np.asarray(chosen).astype(np.float32)
    return scores[:, 0].astype(np.float32)


def _parameters(form: str, answer: str) -> Mapping[str, str]:
    """Return FIL's parameters. Releases before 25.09 use the older name of is_classifier."""
    is_classifier = "false" if answer == "value" else "true"
    parameters = {
        "model_type": form,
        "is_classifier": is_classifier,
        "output_class": is_classifier,
        "predict_proba": "true" if answer == "probabilities" else "false",
    }
    return parameters if answer == "value" else {**parameters, "threshold": str(THRESHOLD)}


def _check_release(form: str, target: Target) -> None:
    release = release_of(str(target))
    if form == "treelite_checkpoint" and release is not None and release < CHECKPOINTS_SINCE:
        raise EndpointMismatchError(
            f"FIL in Triton {release} cannot read the checkpoints of treelite 4",
            remedy=f"choose Triton {CHECKPOINTS_SINCE} or later for the endpoint, or a LightGBM model",
        )


def _describe(trees: Trees) -> str:
    kind = f"{trees.task} classifier" if trees.task else "values"
    return f"{trees.library}, {trees.model.num_tree} trees, {trees.features} features, {kind}"
