"""The stand-in for NVIDIA's FIL backend in a real server, compared with the training libraries."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.repository.properties import read_instances
from tests.triton.kserve_requests import Served, error, post, tensor
from tritonstack.facts.threads import Threads
from tritonstack.triton import TritonResponse

pytestmark = pytest.mark.soak

CORES = len(os.sched_getaffinity(0))
FEATURES = 3
RNG = np.random.default_rng(5)
ROWS = RNG.random((60, FEATURES), dtype=np.float32)
YES_OR_NO = (ROWS[:, 0] > ROWS[:, 1]).astype(int)
THREE = (ROWS[:, 0] * 3).astype(int)
REQUEST = RNG.random((7, FEATURES), dtype=np.float32)
CLASSIFIER = {"model_type": "xgboost_json", "is_classifier": "true", "threshold": "0.5"}
SHAP_OUTPUT = 'output { name: "treeshap_output" data_type: TYPE_FP32 dims: [ %s ] }'


def write_trees(
    repository: Path,
    save: Any,
    file: str = "xgboost.json",
    *,
    outputs: int = 1,
    without: str = "",
    extra: str = "dynamic_batching {}",
    **parameters: str,
) -> Path:
    """Write a repository whose file `save` writes."""
    folder = repository / "trees"
    (folder / "1").mkdir(parents=True)
    values = {"is_classifier": "false", **parameters}
    lines = "".join(
        f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}\n'
        for key, value in values.items()
        if key != without
    )
    (folder / "config.pbtxt").write_text(
        'backend: "fil"\nmax_batch_size: 64\n'
        f'input {{ name: "input__0" data_type: TYPE_FP32 dims: [ {FEATURES} ] }}\n'
        f'output {{ name: "output__0" data_type: TYPE_FP32 dims: [ {outputs} ] }}\n{extra}\n{lines}'
    )
    save(folder / "1" / file)
    return repository


def predict(server: Served) -> TritonResponse:
    return post(server, tensor("input__0", "FP32", REQUEST.ravel().tolist(), list(REQUEST.shape)))


def answer(server: Served) -> np.ndarray[Any, Any]:
    response = predict(server)
    assert response.status == 200, response.body
    (output,) = json.loads(response.body)["outputs"]
    return np.array(output["data"], dtype=np.float32).reshape(output["shape"])


def xgboost_classifier(labels: Any = YES_OR_NO) -> Any:
    import xgboost

    return xgboost.XGBClassifier(n_estimators=4, max_depth=3, random_state=1).fit(ROWS, labels)


@pytest.mark.parametrize("outputs", [1, 2])
def test_probabilities_of_two_classes_as_one_number_or_two(host, outputs):
    model = xgboost_classifier()
    server = host.load(
        lambda root: write_trees(root, model.save_model, outputs=outputs, predict_proba="true", **CLASSIFIER)
    )
    expected = model.predict_proba(REQUEST)
    # A dimension of 1 vanishes, as it does in the original.
    np.testing.assert_allclose(answer(server), expected[:, 1] if outputs == 1 else expected, atol=1e-6)


@pytest.mark.skipif(CORES < 2, reason="one core has one thread with every setting")
def test_openmp_allows_the_threads_that_a_model_asks_for(start, tmp_path):
    model = xgboost_classifier()
    models = write_trees(tmp_path / "models", model.save_model, cpu_nthread=str(CORES), **CLASSIFIER)
    assert "cannot exceed 1" in error(predict(start(models, OMP_NUM_THREADS="1")))
    instances = read_instances(models, gpu=False)
    variables = Threads(1, instances.most, least=instances.least_threads).variables()
    assert answer(start(models, **variables)).tolist() == model.predict(REQUEST).tolist()


def test_the_class_of_several_and_a_threshold_of_two(host):
    three, two = xgboost_classifier(THREE), xgboost_classifier()
    server = host.load(lambda root: write_trees(root, three.save_model, **CLASSIFIER))
    assert answer(server).tolist() == three.predict(REQUEST).tolist()
    server = host.load(lambda root: write_trees(root, two.save_model, **{**CLASSIFIER, "threshold": "0.8"}))
    assert answer(server).tolist() == (two.predict_proba(REQUEST)[:, 1] > 0.8).astype(float).tolist()


def test_probabilities_of_a_model_that_was_trained_to_answer_the_class(host):
    import xgboost

    settings = {"objective": "multi:softmax", "num_class": 3, "seed": 1, "max_depth": 3}
    booster = xgboost.train(settings, xgboost.DMatrix(ROWS, THREE), num_boost_round=3)
    server = host.load(
        lambda root: write_trees(root, booster.save_model, outputs=3, predict_proba="true", **CLASSIFIER)
    )
    powers = np.exp(booster.predict(xgboost.DMatrix(REQUEST), output_margin=True))
    np.testing.assert_allclose(answer(server), powers / powers.sum(axis=1, keepdims=True), atol=1e-6)


def test_a_lightgbm_regression_and_the_parameter_of_older_releases(host):
    import lightgbm

    data = lightgbm.Dataset(ROWS, ROWS.sum(axis=1))
    booster = lightgbm.train({"verbose": -1, "min_data_in_leaf": 5, "seed": 1}, data, num_boost_round=5)
    older = {"without": "is_classifier", "output_class": "false", "model_type": "lightgbm"}
    server = host.load(lambda root: write_trees(root, booster.save_model, "model.txt", **older))
    np.testing.assert_allclose(answer(server), booster.predict(REQUEST), atol=1e-6)


def test_treelite_checkpoint_of_a_forest_with_a_custom_file_name(host):
    import treelite
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(n_estimators=5, max_depth=3, random_state=1).fit(ROWS, THREE)
    options = {"outputs": 3, "predict_proba": "true", "extra": 'default_model_filename: "forest.tl"'}
    save = treelite.sklearn.import_model(forest).serialize
    parameters = {**CLASSIFIER, "model_type": "treelite_checkpoint"}
    server = host.load(lambda root: write_trees(root, save, "forest.tl", **options, **parameters))
    np.testing.assert_allclose(answer(server), forest.predict_proba(REQUEST), atol=1e-6)


REJECTED: dict[str, tuple[dict[str, Any], str]] = {
    "kind": ({"without": "is_classifier"}, "is_classifier"),
    "threshold": ({"without": "threshold"}, "threshold"),
    "number": ({"threshold": "half"}, "threshold is 'half'"),
    "type": ({"model_type": "catboost"}, "catboost"),
    "file": ({"model_type": "lightgbm"}, "1/model.txt"),
    "width": ({"outputs": 3}, "[3], and these trees [ 1 ]"),
    "output": ({"extra": SHAP_OUTPUT.replace("_output", "") % "4"}, "and no other"),
    "treeshap": ({"extra": SHAP_OUTPUT % "2, 4"}, "[2, 4], and these trees [ 4 ]"),
}


@pytest.mark.parametrize(("change", "reason"), REJECTED.values(), ids=REJECTED)
def test_config_that_contradicts_the_trees_is_rejected(host, change, reason):
    save = xgboost_classifier().save_model
    message = host.reason(lambda root: write_trees(root, save, **{**CLASSIFIER, **change}))
    assert reason in message


def test_file_without_trees_is_reported(host):
    def save(file):
        file.write_text("{}")

    message = host.reason(lambda root: write_trees(root, save, **CLASSIFIER))
    assert "as xgboost_json" in message
