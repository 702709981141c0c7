"""Stand-in for Triton's FIL backend: runs decision trees of XGBoost, LightGBM, and treelite in Python.

The embedded server has no C++ FIL backend. Unmodified model repositories with `backend: "fil"` run through
this file. It matches the original, including three surprising details:

- It requires `is_classifier` (`output_class` before release 25.09), and `threshold` for classifiers.
- An output with the single dimension 1 drops it: a batch of 8 returns 8 numbers, not 8 rows of one.
- All numbers are in single precision.

Unsupported configurations are rejected when the model loads.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# The installer links treelite into this backend's own folder, so Python models do not see it.
sys.path.append(str(Path(__file__).parent / "packages"))

import numpy as np
import numpy.typing as npt
import treelite
from stand_in import (
    CallableModel,
    configuration_error,
    openmp_threads,
    read_bool,
    read_number,
    read_text,
    reject_unsupported,
    warn_of_cpu,
)
from tree_shap import TreeShap

Array = npt.NDArray[Any]

INPUT, OUTPUT, SHAP = "input__0", "output__0", "treeshap_output"
DEFAULT_TYPE = "xgboost"
FILES = {
    "xgboost": "xgboost.model",
    "xgboost_json": "xgboost.json",
    "xgboost_ubj": "xgboost.ubj",
    "lightgbm": "model.txt",
    "treelite_checkpoint": "checkpoint.tl",
}
MULTI_CLASS = 2  # treelite's number for models with several classes
RUN_ERRORS: tuple[type[Exception], ...] = (treelite.TreeliteError, ValueError)


class TritonPythonModel:
    """One instance of one tree model."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the trees; reject a configuration that does not match them."""
        config = json.loads(args["model_config"])
        reject_unsupported(config, of="FIL")
        warn_of_cpu(args)
        self._is_classifier = read_is_classifier(config)
        self._probabilities = bool(read_bool(config, "predict_proba", False))
        self._threshold = read_threshold(config) if self._is_classifier else math.nan
        self._threads = read_number(config, "cpu_nthread", 0) or openmp_threads(config) or -1
        self._trees = load_trees(config, Path(args["model_repository"], args["model_version"]))
        header = self._trees.get_header_accessor()
        self._classes = int(header.get_field("num_class")[0])
        if self._probabilities:
            answer_probabilities(header)
        self._width = check_tensors(config, self._trees, self._widths(), self._classes)
        self._shap = load_shap(config, self._trees)
        self._answering = CallableModel(config, self._run, errors=RUN_ERRORS, error_prefix="FIL failure")

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer the requests; those with equal shapes share one run."""
        return self._answering.execute(requests)

    def _widths(self) -> tuple[int, ...]:
        """Return the allowed widths of the output."""
        if not self._is_classifier:
            return (self._classes,)
        if not self._probabilities:
            return (1,)
        return (self._classes,) if self._classes > 1 else (1, 2)

    def _run(self, feed: dict[str, Array], wanted: list[str]) -> dict[str, Array]:
        rows = feed[INPUT].astype(self._trees.input_type, copy=False)
        answers: dict[str, Array] = {}
        if OUTPUT in wanted:
            scores = treelite.gtil.predict(self._trees, np.ascontiguousarray(rows), nthread=self._threads)
            answer = self._answer(scores.reshape(len(rows), -1).astype(np.float32, copy=False))
            answers[OUTPUT] = answer.reshape(len(rows)) if self._width == 1 else answer
        if SHAP in wanted and self._shap is not None:
            values = self._shap.values(rows)
            answers[SHAP] = values if self._classes > 1 else values[:, 0]
        return answers

    def _answer(self, scores: Array) -> Array:
        if not self._is_classifier:
            return scores
        if not self._probabilities:
            chosen = scores.argmax(axis=1) if self._classes > 1 else scores[:, 0] > self._threshold
            return chosen.astype(np.float32)[:, np.newaxis]
        if self._width == 2 and self._classes == 1:
            return np.concatenate([1 - scores, scores], axis=1)
        return scores


def read_is_classifier(config: Mapping[str, Any]) -> bool:
    """Return the only required parameter; its name has changed, and the old one takes precedence."""
    for name in ("output_class", "is_classifier"):
        if (found := read_bool(config, name, None)) is not None:
            return found
    raise configuration_error(
        config,
        "Required parameter is_classifier not found in config (output_class before release 25.09; give both)",
    )


def read_threshold(config: Mapping[str, Any]) -> float:
    """Return the score threshold of a binary classifier."""
    threshold = read_number(config, "threshold", math.nan)
    if math.isnan(threshold):
        raise configuration_error(
            config, "Required parameter threshold not found in config, as it is for a classifier"
        )
    return threshold


def answer_probabilities(header: Any) -> None:
    """Make a multi-class model return probabilities, even if it was trained to return the class."""
    if int(header.get_field("task_type")[0]) != MULTI_CLASS:
        return
    in_leaves = int(header.get_field("leaf_vector_shape")[1]) > 1
    header.set_field("postprocessor", "identity_multiclass" if in_leaves else "softmax")


def load_trees(config: Mapping[str, Any], folder: Path) -> treelite.Model:
    """Load the model in its configured format, from its default file name unless another is configured."""
    kind = read_text(config, "model_type") or DEFAULT_TYPE
    if kind not in FILES:
        known = ", ".join(FILES)
        raise configuration_error(
            config, f"{kind} not recognized as a valid serialization format; there are {known}"
        )
    file = folder / (config["default_model_filename"] or FILES[kind])
    if not file.is_file():
        raise configuration_error(config, f"there is no file {file}")
    lenient = bool(read_bool(config, "xgboost_allow_unknown_field", False))
    try:
        if kind == "xgboost":
            return treelite.frontend.load_xgboost_model_legacy_binary(file)
        if kind == "lightgbm":
            return treelite.frontend.load_lightgbm_model(file)
        if kind == "treelite_checkpoint":
            return treelite.Model.deserialize(file)
        choice = "json" if kind == "xgboost_json" else "ubjson"
        return treelite.frontend.load_xgboost_model(file, format_choice=choice, allow_unknown_field=lenient)
    except treelite.TreeliteError as error:
        raise configuration_error(config, f"treelite cannot read {file.name} as {kind}: {error}") from error


def load_shap(config: Mapping[str, Any], trees: treelite.Model) -> TreeShap | None:
    """Prepare SHAP values, if the configuration has their output; reject trees without them."""
    if SHAP not in {entry["name"] for entry in config["output"]}:
        return None
    try:
        return TreeShap(trees)
    except ValueError as error:
        raise configuration_error(config, f"{SHAP}: {error}") from error


def check_tensors(
    config: Mapping[str, Any], trees: treelite.Model, widths: Sequence[int], classes: int
) -> int:
    """Reject tensors that do not match the trees; return the width of the output."""
    header = trees.get_header_accessor()
    if int(header.get_field("num_target")[0]) != 1:
        raise configuration_error(config, "Multi-target model not supported")
    if not config["max_batch_size"]:
        raise configuration_error(config, "max_batch_size is 0, and the rows of a request are always a batch")
    outputs = {entry["name"]: entry for entry in config["output"]}
    inputs = [entry["name"] for entry in config["input"]]
    if inputs != [INPUT] or OUTPUT not in outputs or not outputs.keys() <= {OUTPUT, SHAP}:
        raise configuration_error(
            config,
            f"this server's stand-in for FIL has the input {INPUT} and the outputs {OUTPUT} and {SHAP}, "
            "and no other",
        )
    columns = trees.num_feature + 1
    expected = {
        INPUT: ([trees.num_feature],),
        OUTPUT: tuple([width] for width in widths),
        SHAP: ([classes, columns] if classes > 1 else [columns],),
    }
    for kind, entry in (("input", config["input"][0]), *(("output", entry) for entry in outputs.values())):
        allowed = expected[entry["name"]]
        if entry["data_type"] != "TYPE_FP32":
            raise configuration_error(
                config, f"{kind} '{entry['name']}' is {entry['data_type']}, FIL has TYPE_FP32 only"
            )
        dims = [int(size) for size in entry["dims"]]
        if entry.get("reshape") or dims not in allowed:
            meant = " or ".join(f"[ {', '.join(map(str, sizes))} ]" for sizes in allowed)
            raise configuration_error(
                config, f"{kind} '{entry['name']}' has dims {dims}, and these trees {meant}"
            )
    return int(outputs[OUTPUT]["dims"][0])
