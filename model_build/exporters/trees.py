"""Load tree models of XGBoost, LightGBM, scikit-learn, and treelite.

Triton's FIL backend reads trees through treelite. Its releases parse only the XGBoost JSON of their time: FIL
up to 25.09 cannot read XGBoost 3.1. Every FIL since 24.03 reads treelite 4.x checkpoints, so XGBoost and
scikit-learn models are converted to checkpoints. LightGBM's text format is stable and is served unchanged.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import treelite

from model_build.data import Array
from model_build.errors import UnsafeWeightsError, UnsupportedModelError
from model_build.exporters.scikit_learn import load_pickle
from model_build.library_errors import brief
from tritonstack.base.errors import TritonstackError
from tritonstack.base.files import parse_json
from tritonstack.base.source_files import copy_from

# Prepare trees for SHAP values in Triton's FIL backend; reject those that it explains wrongly or not at all.
# Follows FIL of Triton 23.12 to 26.06, on CPUs and GPUs.

DEEPEST = 31
AGAIN = "train the model again, or remove `shap`"


def missing_for_shap(model: Any) -> tuple[str, str] | None:
    """Return why FIL cannot explain a treelite model, and the remedy; None if it can."""
    header = model.get_header_accessor()
    classes = int(header.get_field("num_class")[0])
    order = np.asarray(header.get_field("class_id"))
    if not np.array_equal(order, np.arange(model.num_tree) % classes):
        return (
            "its trees are not in the order of the classes, which FIL assumes for SHAP values",
            "train with `num_parallel_tree=1`, or remove `shap`",
        )
    for index in range(model.num_tree):
        tree = model.get_tree_accessor(index)
        left_nodes, right = (np.asarray(tree.get_field(name)) for name in ("cleft", "cright"))
        if _depth(left_nodes, right) > DEEPEST:
            return f"tree {index} is deeper than {DEEPEST} levels", f"limit `max_depth`, and {AGAIN}"
        if len(left_nodes) > 1 and not _has_counts(tree):
            return (
                f"tree {index} has a node without training rows, or the file does not count them",
                f"raise `min_child_weight`, and {AGAIN}",
            )
    return None


def share_base_scores(model: Any) -> None:
    """Move base scores that differ per class into the leaves of each class's first tree; answers stay.

    On GPUs, FIL adds the first class's base score to the SHAP values of all classes. On CPUs, releases before
    26.01 do not load such models.
    """
    header = model.get_header_accessor()
    bases = np.asarray(header.get_field("base_scores"))
    if len(set(bases.tolist())) < 2:
        return
    for index, base in enumerate(bases):
        tree = model.get_tree_accessor(index)
        values = np.array(tree.get_field("leaf_value"))
        values[np.asarray(tree.get_field("cleft")) < 0] += base
        tree.set_field("leaf_value", values)
    header.set_field("base_scores", np.zeros_like(bases))


def _depth(left_nodes: Array, right: Array) -> int:
    """Return the number of tests on the longest path."""
    level, depth = np.array([0]), -1
    while level.size:
        children = np.concatenate([left_nodes[level], right[level]])
        level, depth = children[children >= 0], depth + 1
    return depth


def _has_counts(tree: Any) -> bool:
    for name in ("sum_hess", "data_count"):
        present = np.asarray(tree.get_field(f"{name}_present"))
        if len(present) and present.all():
            return bool((np.asarray(tree.get_field(name)) > 0).all())
    return False


Library = Literal["xgboost", "lightgbm", "scikit-learn", "treelite"]

CHECKPOINT, LIGHTGBM_FILE = "checkpoint.tl", "model.txt"
TAKES = (
    "FIL runs gradient-boosted trees, random forests, extra trees, and isolation forests; for other models "
    "use the recipe `python`"
)
CLASSIFIERS = {0: "binary", 2: "multi-class"}
"""treelite's task numbers for classifiers."""
READABLE_CHECKPOINTS = (4, (3, 9))
_UBJSON = (b"{L", b"{l", b"{I", b"{i", b"{U")
_PICKLES = (b"\x80", b"x\x9c", b"x\x01", b"x\xda", b"\x1f\x8b", b"BZ")
"""Magic bytes of a pickle, and of joblib's compressed ones."""


@dataclass(frozen=True)
class Trees:
    """A loaded model: treelite's trees, and the library's own answers."""

    library: Library
    model: Any
    scores: Callable[[Array], Array]
    """Maps rows to one score per class, one for a binary classifier, or one value."""
    classes: tuple[str, ...] = ()
    """Class names of a classifier, if its file has them."""
    text: Path | None = None
    """LightGBM's file, served unchanged."""
    contributions: Callable[[Array], Array] | None = None
    """Maps rows to the library's SHAP values per class and feature, the value of an average row at last."""

    @property
    def features(self) -> int:
        """Number of features per row."""
        return int(self.model.num_feature)

    @property
    def class_count(self) -> int:
        """Number of scores per row."""
        return int(self._field("num_class")[0])

    @property
    def task(self) -> str | None:
        """Whether it is a classifier, binary or multi-class."""
        return CLASSIFIERS.get(int(self._field("task_type")[0]))

    @property
    def gives_probabilities(self) -> bool:
        """Whether FIL's postprocessing matches the library's; FIL knows only two kinds."""
        return str(self._field("postprocessor")) in ("sigmoid", "softmax", "identity_multiclass")

    def save(self, folder: Path) -> str:
        """Write the file that FIL reads; return its format."""
        folder.mkdir(parents=True)
        if self.text is not None:
            copy_from(self.text.parent, self.text.name, folder / LIGHTGBM_FILE)
            return "lightgbm"
        self.model.serialize(folder / CHECKPOINT)
        return "treelite_checkpoint"

    def _field(self, name: str) -> Any:
        return self.model.get_header_accessor().get_field(name)


def library_of(file: Path) -> Library:
    """Detect the library of a file by its first bytes."""
    with file.open("rb") as stream:
        begin = stream.read(16)
    if begin.startswith(_UBJSON) or begin.lstrip().startswith(b'{"'):
        return "xgboost"
    if begin.startswith(b"tree"):
        return "lightgbm"
    if begin[1:4] == bytes(3) and begin[0] in range(1, 10):
        return "treelite"
    if begin.startswith(_PICKLES):
        return "scikit-learn"
    raise UnsupportedModelError(
        f"{file.name} is not a known tree model",
        remedy="save XGBoost as .json or .ubj, LightGBM as .txt, scikit-learn with joblib or pickle",
    )


def load_trees(file: Path, library: Library, *, trusted: bool) -> Trees:
    """Load a library's file; a pickle only if `trusted`."""
    if library == "scikit-learn" and not trusted:
        raise UnsafeWeightsError(
            f"{file.name} is a pickle, which can run code when loaded",
            remedy="set `trust: {pickle: <reason>}`; or, in a "
            "sandbox, save it once with treelite.sklearn.import_model(model).serialize(file)",
        )
    loaders: dict[Library, Callable[[Path], Trees]] = {
        "xgboost": _load_xgboost,
        "lightgbm": _load_lightgbm,
        "scikit-learn": _load_sklearn,
        "treelite": _load_checkpoint,
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trees = loaders[library](file)
    except TritonstackError:
        raise
    except Exception as error:
        raise UnsupportedModelError(
            f"treelite cannot convert {file.name} from {library}: {type(error).__name__}: {brief(error)}",
            remedy=TAKES,
        ) from error
    if int(trees._field("num_target")[0]) != 1:
        raise UnsupportedModelError(
            f"{file.name} has several targets; FIL supports one",
            remedy="train one model per target, or use the recipe `python`",
        )
    return trees


@contextmanager
def _loading(file: Path, library: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise UnsupportedModelError(
            f"{library} cannot load {file.name}: {brief(error)}",
            remedy=f"save the model again with {library}'s own save_model",
        ) from error


def _load_xgboost(file: Path) -> Trees:
    import xgboost  # noqa: PLC0415 - each library is needed for its own models only

    with file.open("rb") as stream:
        choice = "ubjson" if stream.read(2) in _UBJSON else "json"
    booster = xgboost.Booster()
    with _loading(file, "XGBoost"):
        booster.load_model(str(file))
    learner = parse_json(booster.save_config())["learner"]
    if learner["gradient_booster"]["name"] == "gblinear":
        raise UnsupportedModelError(
            f"{file.name} is a linear model (booster gblinear), not trees", remedy=TAKES
        )
    model = treelite.frontend.load_xgboost_model(file, format_choice=choice)
    objective = learner["objective"]["name"]

    def matrix(rows: Array) -> Any:
        return xgboost.DMatrix(
            rows,
            feature_names=booster.feature_names,
            feature_types=booster.feature_types,
            enable_categorical=True,
        )

    def scores(rows: Array) -> Array:
        if objective == "multi:softmax":
            return _softmax(booster.predict(matrix(rows), output_margin=True))
        return _as_columns(booster.predict(matrix(rows)))

    def contributions(rows: Array) -> Array:
        return np.asarray(booster.predict(matrix(rows), pred_contribs=True, strict_shape=True))

    return Trees("xgboost", model, scores, contributions=contributions)


def _load_lightgbm(file: Path) -> Trees:
    import lightgbm  # noqa: PLC0415 - as above

    with _loading(file, "LightGBM"):
        booster = lightgbm.Booster(model_file=str(file), params={"verbose": -1})
    model = treelite.frontend.load_lightgbm_model(file)
    # LightGBM averages the predictions of a random forest, but not their contributions.
    averaged = int(model.get_header_accessor().get_field("average_tree_output")[0])
    rounds = booster.num_trees() // booster.num_model_per_iteration() if averaged else 1

    def contributions(rows: Array) -> Array:
        values = np.asarray(booster.predict(rows, pred_contrib=True)) / rounds
        return values.reshape(len(rows), booster.num_model_per_iteration(), -1)

    return Trees(
        "lightgbm",
        model,
        lambda rows: _as_columns(booster.predict(rows)),
        text=file,
        contributions=contributions,
    )


def _load_sklearn(file: Path) -> Trees:
    estimator = load_pickle(file, code=UnsupportedModelError.code)
    model = treelite.sklearn.import_model(estimator)
    classes = tuple(str(item) for item in getattr(estimator, "classes_", ()))
    return Trees("scikit-learn", model, _sklearn_scores(estimator, len(classes)), classes)


def _sklearn_scores(estimator: Any, classes: int) -> Callable[[Array], Array]:
    def scores(rows: Array) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no warnings about column names
            if classes:
                return np.asarray(estimator.predict_proba(rows))
            if hasattr(estimator, "score_samples"):
                return _as_columns(-estimator.score_samples(rows))
            return _as_columns(estimator.predict(rows))

    return scores


def _load_checkpoint(file: Path) -> Trees:
    with file.open("rb") as stream:
        header = stream.read(8)
    major, minor = (int.from_bytes(header[place : place + 4], "little") for place in (0, 4))
    if major != READABLE_CHECKPOINTS[0] and (major, minor) != READABLE_CHECKPOINTS[1]:
        raise UnsupportedModelError(
            f"{file.name} was written by treelite {major}.{minor}; FIL reads 3.9 and 4",
            remedy="save it again with treelite 4",
        )
    model = treelite.Model.deserialize(file)

    def scores(rows: Array) -> Array:
        answers = treelite.gtil.predict(model, rows.astype(model.input_type))
        return _as_columns(answers.reshape(len(rows), -1))

    return Trees("treelite", model, scores)


def _as_columns(answers: Any) -> Array:
    array = np.asarray(answers)
    return array[:, np.newaxis] if array.ndim == 1 else array


def _softmax(margins: Array) -> Array:
    powers = np.exp(margins - margins.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
