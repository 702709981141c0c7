"""Trees of every library for the FIL backend: configuration, and unsupported requests."""

import json
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.errors import UnsafeWeightsError
from model_build.recipes import recipe_for
from model_build.repository.config import read_config
from tests.model_build.supplied_models import (
    save_lightgbm,
    save_rows,
    save_sklearn,
    save_xgboost,
    write_supplied,
)
from tests.model_build.written_repositories import contents, error_of, write_repository
from tritonstack.base.errors import InvalidFilesError, UsageError
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec

ROWS = [{"file": "rows.npz"}]
TRUST = {"pickle": "made by this very test"}
Save = Callable[[Path], Path]
TREELITE = "treelite_checkpoint"


def xgboost(objective: str) -> Save:
    return partial(save_xgboost, objective=objective)


def lightgbm(objective: str) -> Save:
    return partial(save_lightgbm, objective=objective)


def sklearn(kind: str) -> Save:
    return partial(save_sklearn, kind=kind)


def trees(
    folder: Path, name: str, save: Save | bytes, *, rows: int = 5, **recipe: Any
) -> Document[ModelSpec]:
    """Write a model.yaml for a file of trees, or of these bytes."""
    file = folder / "weights" / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(save) if isinstance(save, bytes) else save(file)
    save_rows(folder / "rows.npz", rows)
    recipe = {"kind": "trees", "file": name, **recipe}
    return write_supplied(folder, recipe, test_inputs=ROWS, trust=TRUST, batching={"max_batch": 64})


@pytest.mark.parametrize(
    ("name", "save", "more", "form", "dims"),
    [
        ("a.json", xgboost("multi:softmax"), {}, TREELITE, [3]),
        ("b.ubj", save_xgboost, {}, TREELITE, [2]),
        ("b.ubj", save_xgboost, {"answer": "class"}, TREELITE, [1]),
        ("b.ubj", save_xgboost, {"answer": "value"}, TREELITE, [1]),
        ("r.json", xgboost("reg:squarederror"), {}, TREELITE, [1]),
        ("l.txt", save_lightgbm, {}, "lightgbm", [3]),
        ("l.txt", save_lightgbm, {"answer": "class"}, "lightgbm", [1]),
        ("l.txt", lightgbm("regression"), {}, "lightgbm", [1]),
        ("f.joblib", save_sklearn, {}, TREELITE, [3]),
        ("i.pkl", sklearn("IsolationForest"), {}, TREELITE, [1]),
        pytest.param(
            "g.pkl", sklearn("GradientBoostingClassifier"), {}, TREELITE, [3], marks=pytest.mark.e2e
        ),
        pytest.param(
            "h.pkl", sklearn("HistGradientBoostingRegressor"), {}, TREELITE, [1], marks=pytest.mark.e2e
        ),
    ],
)
def test_trees_of_every_library(tmp_path, name, save, more, form, dims):
    model = trees(tmp_path, name, save, rows=30, **more)
    repository = write_repository(model, tmp_path / "work")
    config = read_config(repository.folder / "tiny" / "config.pbtxt")
    assert [list(tensor.dims) for tensor in (*config.input, *config.output)] == [[5], dims]
    assert config.parameters["model_type"].string_value == form
    is_classifier = "false" if dims == [1] and more.get("answer") != "class" else "true"
    assert config.parameters["is_classifier"].string_value == is_classifier
    assert config.parameters["output_class"].string_value == is_classifier
    assert ("threshold" in config.parameters) == (is_classifier == "true")
    assert repository.parity[0].max_absolute_error < 1e-6
    if name == "f.joblib":
        assert repository.outputs[0].labels == ("high", "low", "middle")
    if name == "b.ubj" and not more:
        assert contents(write_repository(model, tmp_path / "again").folder) == contents(repository.folder)


@pytest.mark.parametrize(
    ("name", "save", "dims"),
    [
        ("a.json", xgboost("multi:softprob"), [3, 6]),
        ("b.ubj", save_xgboost, [6]),
        ("r.json", xgboost("reg:squarederror"), [6]),
        ("l.txt", save_lightgbm, [3, 6]),
    ],
)
def test_shap_values_are_an_output_of_fil(tmp_path, name, save, dims):
    repository = write_repository(trees(tmp_path, name, save, shap=True), tmp_path / "work")
    config = read_config(repository.folder / "tiny/config.pbtxt")
    assert [(tensor.name, list(tensor.dims)) for tensor in config.output][1] == ("treeshap_output", dims)
    case = repository.cases[0]
    assert case.expected["treeshap_output"].shape == (1, *dims)
    # SHAP values add up to the raw score, from which the library computes its answer.
    scores = case.expected["treeshap_output"].sum(axis=-1).astype(float)
    powers = np.exp(scores)
    answers = {3: powers / powers.sum(axis=-1, keepdims=True), 2: 1 / (1 + 1 / powers), 1: scores}
    width = repository.outputs[0].shape[0]
    np.testing.assert_allclose(
        case.expected["output__0"].reshape(-1)[-1], answers[width].reshape(-1)[-1], atol=1e-5
    )


def test_base_scores_of_classes_move_into_trees(tmp_path):
    import treelite

    for shap in (False, True):
        model = trees(tmp_path, "a.json", xgboost("multi:softprob"), shap=shap)
        repository = write_repository(model, tmp_path / f"work-{shap}")
        saved = treelite.Model.deserialize(repository.folder / "tiny/1/checkpoint.tl")
        bases = saved.get_header_accessor().get_field("base_scores")
        assert (len(set(bases.tolist())) == 1) == shap
        assert repository.parity[0].max_absolute_error < 1e-6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_parallel_tree": 2, "objective": "multi:softprob", "num_class": 3}, "order of"),
        ({"max_depth": 40, "lambda": 0, "base_score": 0.0}, "deeper than 31 levels"),
        ({"counts": False}, "without training rows"),
    ],
    ids=["order", "depth", "counts"],
)
def test_trees_that_fil_cannot_explain_are_rejected(tmp_path, settings, message):
    save_trained(tmp_path / "weights/a.json", **settings)
    np.savez(tmp_path / "rows.npz", input__0=np.ones((2, 1), np.float32))
    recipe = {"kind": "trees", "file": "a.json", "shap": True}
    error = error_of(lambda: write_supplied(tmp_path, recipe, test_inputs=ROWS), tmp_path)
    assert message in error
    assert "recipe.shap" in error


def save_trained(file: Path, *, counts: bool = True, **settings: Any) -> None:
    """Save XGBoost trees of one feature, deep if `max_depth` allows it."""
    import xgboost

    rows = np.arange(64, dtype=np.float32)[:, np.newaxis]
    targets = rows[:, 0] % settings["num_class"] if "num_class" in settings else 1.9 ** rows[:, 0]
    options = {"nthread": 1, "tree_method": "exact", **settings}
    booster = xgboost.train(options, xgboost.DMatrix(rows, targets), num_boost_round=1)
    saved = json.loads(booster.save_raw("json"))
    if not counts:
        saved["learner"]["gradient_booster"]["model"]["trees"][0]["sum_hessian"][-1] = 0.0
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(saved))


@pytest.mark.parametrize(
    ("name", "parameters", "field"),
    [
        ("f.pkl", {}, "recipe.shap"),
        ("a.json", {"transfer_threshold": "32"}, "triton.parameters.transfer_threshold"),
    ],
)
def test_unexplained_files_and_settings_are_rejected_before_the_build(tmp_path, name, parameters, field):
    recipe = {"kind": "trees", "file": name, "shap": True}
    triton = {"parameters": parameters}
    with pytest.raises(InvalidFilesError, match="SHAP") as caught:
        recipe_for(write_supplied(tmp_path, recipe, test_inputs=ROWS, trust=TRUST, triton=triton))
    assert [violation.field for violation in caught.value.violations] == [field]


def save_treelite(file: Path) -> Path:
    import treelite

    treelite.frontend.load_xgboost_model(save_xgboost(file.with_suffix(".json"))).serialize(file)
    return file


def test_a_treelite_checkpoint(tmp_path):
    model = trees(tmp_path, "a.tl", save_treelite)
    file = tmp_path / "weights/a.tl"
    repository = write_repository(model, tmp_path / "work")
    assert (repository.folder / "tiny/1/checkpoint.tl").read_bytes() == file.read_bytes()
    file.write_bytes((5).to_bytes(4, "little") + file.read_bytes()[4:])
    assert "written by treelite 5." in error_of(lambda: model, tmp_path)


@pytest.mark.parametrize(
    ("name", "save", "recipe", "message"),
    [
        ("a.json", save_xgboost, {"library": "lightgbm"}, "a.json is a xgboost model; expected"),
        ("a.json", xgboost("reg:squarederror"), {"answer": "class"}, "recipe.answer"),
        ("l.txt", save_lightgbm, {"answer": "value"}, "several classes"),
        ("a.json", xgboost("binary:hinge"), {}, "objective"),
        ("l.txt", lightgbm("multiclassova"), {}, "set `answer: class`"),
        ("a.json", b'{"learner": {}}', {}, "XGBoost cannot load a.json"),
        ("a.json", b"nonsense", {}, "a.json is not a known tree model"),
        ("l.txt", b"tree\nversion=v4\n", {}, "l.txt"),
        ("c.pkl", pickle.dumps({"a": 1}), {}, "holds a builtins.dict, not a scikit-learn model"),
        ("c.pkl", b"\x80\x04", {}, "cannot be unpickled"),
        ("c.pkl", sklearn("AdaBoostClassifier"), {}, "convert c.pkl from scikit-learn"),
    ],
)
def test_files_and_options_that_are_rejected(tmp_path, name, save, recipe, message):
    assert message in error_of(lambda: trees(tmp_path, name, save, **recipe), tmp_path)


def test_pickled_trees_are_loaded_only_if_trusted(tmp_path):
    save_sklearn(tmp_path / "weights/f.bin")
    save_rows(tmp_path / "rows.npz")
    with pytest.raises(InvalidFilesError, match=r"recipe\.file: f\.joblib"):
        recipe_for(write_supplied(tmp_path, {"kind": "trees", "file": "f.joblib"}, test_inputs=ROWS))
    disguised = write_supplied(tmp_path, {"kind": "trees", "file": "f.bin"}, test_inputs=ROWS)
    with pytest.raises(UnsafeWeightsError, match=r"f\.bin is a pickle"):
        write_repository(disguised, tmp_path / "work")


def test_checkpoints_need_a_release_that_reads_them(tmp_path):
    model = trees(tmp_path, "a.json", save_xgboost)
    with pytest.raises(UsageError, match=r"24\.01.* treelite 4"):
        write_repository(model, tmp_path / "old", "sm86-24.01")
    write_repository(model, tmp_path / "new", "sm86-24.03")
