"""Load scikit-learn models, convert them to ONNX, and compute the answers to compare with."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from model_build.data import Array
from model_build.errors import ExportError, UnsupportedModelError
from model_build.graphs.onnx_files import OPSET, save_foreign
from model_build.library_errors import brief, known_help
from tritonstack.files.records.manifests import TensorSpec


def load_pickle(file: Path, *, code: str) -> Any:
    """Load a model of scikit-learn saved by the version of this build."""
    import joblib  # noqa: PLC0415 - imports slowly, and only some models need it
    from sklearn.exceptions import InconsistentVersionWarning  # noqa: PLC0415 - as above

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", InconsistentVersionWarning)
            # joblib reads plain pickles too.
            estimator = joblib.load(file)
    except InconsistentVersionWarning as error:
        raise ExportError(
            f"{file.name} was saved by scikit-learn {error.original_sklearn_version}; the build has "
            f"{error.current_sklearn_version}, which may load it wrongly",
            remedy="save it again with this version, or convert it with treelite in the training environment",
            code=code,
        ) from error
    except Exception as error:
        raise ExportError(
            f"{file.name} cannot be unpickled: {type(error).__name__}: {brief(error)}",
            remedy=known_help(error) or "save it again with joblib.dump and the build's scikit-learn version",
            code=code,
        ) from error
    if not type(estimator).__module__.startswith("sklearn."):
        raise ExportError(
            f"{file.name} holds a {type(estimator).__module__}.{type(estimator).__name__}, "
            "not a scikit-learn model",
            remedy="save the fitted estimator alone with joblib.dump; XGBoost and LightGBM models with their "
            "own save_model",
            code=code,
        )
    return estimator


WHOLE = "X"
"""The input of models that take all features as one tensor."""
LABEL, PROBABILITIES, PREDICTION, TRANSFORMED = "label", "probabilities", "prediction", "transformed"
OPSETS = {"": OPSET, "ai.onnx.ml": 3}
LOCALE = "C.UTF-8"
"""Lowercases as Python does, and exists in Triton's images; ONNX's default, en_US.UTF-8, does not."""
WORDS, UNICODE_WORDS = r"(?u)\b\w\w+\b", r"[\p{L}\p{N}_]{2,}"
"""The default token_pattern of text vectorizers, for Python and for RE2. skl2onnx would take ASCII words."""
TYPES = {
    "FP32": "FloatTensorType",
    "FP64": "DoubleTensorType",
    "INT64": "Int64TensorType",
    "INT32": "Int32TensorType",
    "BOOL": "BooleanTensorType",
    "BYTES": "StringTensorType",
}
"""skl2onnx's types of the inputs."""
ROUNDED = (
    "ONNX stores the thresholds of HistGradientBoosting in 32 bits, so rows at a threshold, such as training "
    "rows, get other answers: "
)
ALONE = "use `recipe: {kind: trees, file: ...}`, which keeps them"
IN_A_PIPELINE = (
    "preprocess rows before they are sent, and serve it alone with a recipe of kind `trees`; or train "
    "GradientBoosting or a random forest"
)
OTHERWISE = "use a recipe of kind python, or of kind trees for a single tree model"


@dataclass(frozen=True)
class ScikitModel:
    """A fitted estimator or pipeline."""

    estimator: Any

    @property
    def description(self) -> str:
        """Its steps, and the number of features."""
        steps = [step for _, step in getattr(self.estimator, "steps", [("", self.estimator)])]
        return f"{', '.join(type(step).__name__ for step in steps)}; {self.features} features"

    @property
    def features(self) -> int:
        """Number of features per row."""
        return int(self.estimator.n_features_in_)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features, if it was fitted on a data frame."""
        return tuple(str(name) for name in getattr(self.estimator, "feature_names_in_", ()))

    @property
    def remedy_for_thresholds(self) -> str | None:
        """What to do if its answers differ in ONNX because of rounded thresholds; None if it has none."""
        if not any(type(part).__name__.startswith("HistGradientBoosting") for part in _parts(self.estimator)):
            return None
        return ROUNDED + (IN_A_PIPELINE if hasattr(self.estimator, "steps") else ALONE)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes of a classifier."""
        return tuple(str(label) for label in getattr(self.estimator, "classes_", ()))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs."""
        from sklearn.base import is_classifier, is_regressor  # noqa: PLC0415 - imports slowly

        if is_classifier(self.estimator):
            return (LABEL, PROBABILITIES) if hasattr(self.estimator, "predict_proba") else (LABEL,)
        if is_regressor(self.estimator):
            return (PREDICTION,)
        return (LABEL,) if hasattr(self.estimator, "predict") else (TRANSFORMED,)

    def answer(self, inputs: Mapping[str, Array], outputs: Sequence[TensorSpec]) -> dict[str, Array]:
        """Return scikit-learn's answers, in the types and shapes of the outputs."""
        rows = self._rows(inputs)
        methods = {PROBABILITIES: "predict_proba", TRANSFORMED: "transform"}
        answers = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no warnings about column names
            for output in outputs:
                method: Callable[[Any], Any] = getattr(self.estimator, methods.get(output.name, "predict"))
                try:
                    answer = method(rows)
                except ValueError:
                    # Some compute only in the type of their training data.
                    answer = method(_narrowed(rows))
                array = np.asarray(answer.toarray() if hasattr(answer, "toarray") else answer)
                kind = {"BYTES": np.object_, "INT64": np.int64}.get(output.datatype, array.dtype)
                answers[output.name] = array.astype(kind).reshape(len(rows), *output.shape)
        return answers

    def convert(self, inputs: Sequence[TensorSpec], folder: Path) -> Path:
        """Convert the model to an ONNX graph and return its file; raise ExportError if skl2onnx cannot."""
        import skl2onnx  # noqa: PLC0415 - imports slowly
        from skl2onnx.common import data_types  # noqa: PLC0415 - as above

        types = [
            (tensor.name, getattr(data_types, TYPES[tensor.datatype])([None, *tensor.shape]))
            for tensor in inputs
        ]
        estimator = _by_position(self.estimator)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = skl2onnx.convert_sklearn(
                    estimator, "model", initial_types=types, options=_options(estimator), target_opset=OPSETS
                )
        except Exception as error:  # the library raises anything
            reason = brief(error).partition(" You may raise ")[0]
            raise UnsupportedModelError(
                f"skl2onnx cannot convert the model: {type(error).__name__}: {reason}",
                remedy=OTHERWISE,
            ) from error
        graph = ir.from_proto(model)
        names = [value.name for value in graph.graph.inputs]
        if names != [tensor.name for tensor in inputs]:
            raise UnsupportedModelError(
                f"skl2onnx renamed the inputs to {', '.join(map(str, names))}",
                remedy="fit the model on columns whose names have letters, digits, and underscores only",
            )
        del graph.graph.outputs[len(self.outputs) :]
        RemoveUnusedNodesPass()(graph)
        for domain in sorted(graph.opset_imports):  # skl2onnx gives them in the order of a set
            graph.opset_imports[domain] = graph.opset_imports.pop(domain)
        for node in graph.graph.all_nodes():
            if node.op_type == "StringNormalizer":
                node.attributes.setdefault("locale", ir.AttrString("locale", LOCALE))
        for value, name in zip(graph.graph.outputs, self.outputs, strict=True):
            value.name = name
        return save_foreign(graph, folder)

    def _rows(self, inputs: Mapping[str, Array]) -> Any:
        """Return the rows of features as users pass them: a data frame if the model was fitted on one.

        scikit-learn computes with 64 bits, as in training.
        """
        from pandas import DataFrame  # noqa: PLC0415 - imports slowly

        wide = {name: _widened(array) for name, array in inputs.items()}
        if not self.columns:
            return wide[WHOLE]
        if WHOLE in wide:
            return DataFrame(wide[WHOLE], columns=list(self.columns))
        return DataFrame({name: wide[name][:, 0] for name in self.columns})


def load_scikit_model(file: Path) -> ScikitModel:
    """Load a pickle; reject what is no fitted model of tables with one target."""
    estimator = load_pickle(file, code=UnsupportedModelError.code)
    estimator = getattr(estimator, "best_estimator_", estimator)  # of a search for parameters
    reason = None
    if not hasattr(estimator, "n_features_in_"):
        reason = "does not take rows of features, or is not fitted"
    elif isinstance(getattr(estimator, "classes_", None), list):
        reason = "has several targets"
    elif not hasattr(estimator, "predict") and not hasattr(estimator, "transform"):
        reason = "has neither predict nor transform"
    if reason is not None:
        raise UnsupportedModelError(f"{file.name} {reason}", remedy=OTHERWISE)
    return ScikitModel(estimator)


def _options(estimator: Any) -> dict[Any, dict[str, bool | str]]:
    """Return skl2onnx's options: scores as one tensor instead of a map, and words of any script."""
    from sklearn.base import is_classifier  # noqa: PLC0415 - imports slowly
    from sklearn.svm import LinearSVC  # noqa: PLC0415 - as above

    # Without an option of its own, a LinearSVC in a pipeline gets one that it does not have.
    options: dict[Any, dict[str, bool | str]] = {LinearSVC: {"raw_scores": True}}
    last = getattr(estimator, "steps", [("", estimator)])[-1][1]
    if is_classifier(last) and not isinstance(last, LinearSVC):
        options[id(estimator)] = {"zipmap": False}
    for part in _parts(estimator):
        if getattr(part, "token_pattern", None) == WORDS and part.analyzer == "word":
            options[id(part)] = {"tokenexp": UNICODE_WORDS}
    return options


def _by_position(estimator: Any) -> Any:
    """Return a copy for skl2onnx, which knows no slices of names and no masks: columns as positions."""
    from sklearn.compose import ColumnTransformer  # noqa: PLC0415 - imports slowly

    estimator = copy.deepcopy(estimator)
    for part in _parts(estimator):
        if isinstance(part, ColumnTransformer):
            places = part._transformer_to_input_indices
            part.transformers_ = [(name, step, places[name]) for name, step, _ in part.transformers_]
    return estimator


def _widened(array: Array) -> Array:
    """Return floats with 64 bits, and texts as str."""
    if array.dtype == np.object_:
        texts = [value.decode() if isinstance(value, bytes) else value for value in array.reshape(-1)]
        return np.array(texts, dtype=np.object_).reshape(array.shape)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _narrowed(rows: Any) -> Any:
    """Return rows with floats of 32 bits."""
    if not hasattr(rows, "columns"):
        return rows.astype(np.float32)
    return rows.astype(dict.fromkeys(rows.select_dtypes("number").columns, np.float32))


def _parts(estimator: Any) -> Iterator[Any]:
    """Yield an estimator and all that it consists of."""
    yield estimator
    values = [*vars(estimator).values()]
    while values:
        item = values.pop()
        if isinstance(item, list | tuple):
            values.extend(item)
        elif isinstance(item, dict):
            values.extend(item.values())
        elif hasattr(item, "get_params") and not isinstance(item, type):
            yield from _parts(item)
