"""SHAP values of the stand-in for FIL, compared with those of XGBoost and LightGBM."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tritonstack.triton.install import BACKENDS

RNG = np.random.default_rng(11)
ROWS = RNG.random((300, 4), dtype=np.float32)
ROWS[:, 1] = RNG.integers(0, 6, 300)
TARGETS = (ROWS[:, 0] * 3).astype(int) ^ (ROWS[:, 1] > 2)
SAMPLES = ROWS[:40].copy()
SAMPLES[::3, 0] = np.nan
SAMPLES[1::3, 1] = -1
Trained = tuple[Any, np.ndarray[Any, Any]]


@pytest.fixture
def values(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], np.ndarray[Any, Any]]:
    monkeypatch.syspath_prepend(str(BACKENDS / "fil"))
    monkeypatch.delitem(sys.modules, "tree_shap", raising=False)
    import tree_shap

    return lambda model: np.asarray(tree_shap.TreeShap(model).values(SAMPLES))


def xgboost_trees(folder: Path, rows: Any = ROWS, targets: Any = TARGETS, **settings: Any) -> Trained:
    import treelite
    import xgboost

    options = {"max_depth": 5, "nthread": 1, "seed": 1, **settings}
    booster = xgboost.train(options, xgboost.DMatrix(rows, targets), num_boost_round=8)
    booster.save_model(folder / "m.json")
    model = treelite.frontend.load_xgboost_model(folder / "m.json", format_choice="json")
    return model, booster.predict(xgboost.DMatrix(SAMPLES), pred_contribs=True, strict_shape=True)


def lightgbm_trees(folder: Path, *, categories: list[int], **settings: Any) -> Trained:
    import lightgbm
    import treelite

    options = {"verbose": -1, "num_threads": 1, "seed": 1, "min_data_in_leaf": 5, **settings}
    data = lightgbm.Dataset(ROWS, TARGETS, categorical_feature=categories)
    booster = lightgbm.train(options, data, num_boost_round=8)
    booster.save_model(folder / "m.txt")
    expected = np.asarray(booster.predict(SAMPLES, pred_contrib=True))
    return treelite.frontend.load_lightgbm_model(folder / "m.txt"), expected


@pytest.mark.parametrize(
    "settings",
    [
        {"objective": "reg:squarederror"},
        {"objective": "multi:softprob", "num_class": 4, "base_score": 0.5},
        {"objective": "reg:squarederror", "booster": "dart", "rate_drop": 0.3},
    ],
    ids=["values", "classes", "dart"],
)
def test_values_are_those_of_xgboost(tmp_path, values, settings):
    model, expected = xgboost_trees(tmp_path, **settings)
    np.testing.assert_allclose(values(model), expected, atol=2e-6)


@pytest.mark.parametrize(
    ("settings", "categories"),
    [({"objective": "regression"}, [1]), ({"objective": "multiclass", "num_class": 4}, [])],
    ids=["categories", "classes"],
)
def test_values_are_those_of_lightgbm(tmp_path, values, settings, categories):
    model, expected = lightgbm_trees(tmp_path, categories=categories, **settings)
    actual = values(model)
    np.testing.assert_allclose(actual, expected.reshape(actual.shape), atol=2e-6)


def test_values_of_a_forest_add_up_to_its_answer(values):
    import treelite
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(n_estimators=5, max_depth=4, random_state=1).fit(ROWS, TARGETS)
    contributions = values(treelite.sklearn.import_model(forest))
    np.testing.assert_allclose(contributions.sum(axis=2), forest.predict_proba(SAMPLES), atol=1e-5)
    assert np.abs(contributions[:, :, 3]).max() > 0


def test_trees_that_fil_rejects_are_rejected(tmp_path, values):
    model, _ = xgboost_trees(tmp_path, objective="multi:softprob", num_class=4)
    with pytest.raises(ValueError, match="base_scores"):
        values(model)
    model, _ = xgboost_trees(tmp_path)
    tree = model.get_tree_accessor(0)
    tree.set_field("sum_hess_present", np.zeros_like(tree.get_field("sum_hess_present")))
    with pytest.raises(ValueError, match="statistics"):
        values(model)
    # Each test separates the largest of these values from the others.
    steps = np.arange(64, dtype=np.float32)[:, np.newaxis].repeat(4, axis=1)
    deep = {"max_depth": 40, "lambda": 0, "base_score": 0.0, "tree_method": "exact"}
    model, _ = xgboost_trees(tmp_path, rows=steps, targets=1.9 ** steps[:, 0], **deep)
    with pytest.raises(ValueError, match="32"):
        values(model)
