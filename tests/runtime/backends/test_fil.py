"""The stand-in for NVIDIA's FIL backend in a real server, compared with the training libraries."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.repository.properties import read_instances
from tritonstack.reference.threads import Threads
from tritonstack.runtime import TritonFailedError, TritonServer

pytestmark = pytest.mark.soak
Start = Callable[..., TritonServer]

CORES = len(os.sched_getaffinity(0))
FEATURES = 3
RNG = np.random.default_rng(5)
ROWS = RNG.random((60, FEATURES), dtype=np.float32)
YES_OR_NO = (ROWS[:, 0] > ROWS[:, 1]).astype(int)
THREE = (ROWS[:, 0] * 3).astype(int)
ASKED = RNG.random((7, FEATURES), dtype=np.float32)


def write_config(
    folder: Path,
    *,
    outputs: int = 1,
    without: str = "",
    extra: str = "dynamic_batching {}",
    **parameters: str,
) -> None:
    (folder / "1").mkdir(parents=True)
    given = {"is_classifier": "false", **parameters}
    lines = "".join(
        f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}\n'
        for key, value in given.items()
        if key != without
    )
    (folder / "config.pbtxt").write_text(
        'backend: "fil"\nmax_batch_size: 64\n'
        f'input {{ name: "input__0" data_type: TYPE_FP32 dims: [ {FEATURES} ] }}\n'
        f'output {{ name: "output__0" data_type: TYPE_FP32 dims: [ {outputs} ] }}\n{extra}\n{lines}'
    )


def request_body() -> bytes:
    tensor = {
        "name": "input__0",
        "datatype": "FP32",
        "shape": list(ASKED.shape),
        "data": ASKED.ravel().tolist(),
    }
    return json.dumps({"inputs": [tensor]}).encode()


def ask(server: TritonServer) -> np.ndarray[Any, Any]:
    answer = server.request("POST", "/invocations", body=request_body())
    assert answer.status == 200, answer.body
    (output,) = json.loads(answer.body)["outputs"]
    return np.array(output["data"], dtype=np.float32).reshape(output["shape"])


def xgboost_classifier(labels: Any) -> Any:
    import xgboost

    return xgboost.XGBClassifier(n_estimators=4, max_depth=3, random_state=1).fit(ROWS, labels)


SHAP_OUTPUT = 'output { name: "treeshap_output" data_type: TYPE_FP32 dims: [ %s ] }'
CLASSIFIER = {"model_type": "xgboost_json", "is_classifier": "true", "threshold": "0.5"}


@pytest.mark.parametrize("outputs", [1, 2])
def test_probabilities_of_two_classes_as_one_number_or_two(start, tmp_path, outputs):
    model = xgboost_classifier(YES_OR_NO)
    folder = tmp_path / "models/trees"
    write_config(folder, outputs=outputs, predict_proba="true", **CLASSIFIER)
    model.save_model(folder / "1/xgboost.json")
    answer = ask(start(tmp_path / "models"))
    expected = model.predict_proba(ASKED)
    # A dimension of 1 vanishes, as it does in the original.
    np.testing.assert_allclose(answer, expected[:, 1] if outputs == 1 else expected, atol=1e-6)


@pytest.mark.skipif(CORES < 2, reason="one core has one thread with every setting")
def test_openmp_allows_the_threads_that_a_model_asks_for(start, tmp_path):
    model = xgboost_classifier(YES_OR_NO)
    folder = tmp_path / "models/trees"
    write_config(folder, cpu_nthread=str(CORES), **CLASSIFIER)
    model.save_model(folder / "1/xgboost.json")
    limited = start(tmp_path / "models", OMP_NUM_THREADS="1").request(
        "POST", "/invocations", body=request_body()
    )
    assert limited.status == 500
    assert "nthread cannot exceed 1" in json.loads(limited.body)["error"]
    found = read_instances(tmp_path / "models", gpu=False)
    variables = Threads(1, found.most, least=found.least_threads).variables()
    assert ask(start(tmp_path / "models", **variables)).tolist() == model.predict(ASKED).tolist()


def test_the_class_of_several_and_a_threshold_of_two(start, tmp_path):
    three, two = xgboost_classifier(THREE), xgboost_classifier(YES_OR_NO)
    write_config(tmp_path / "three/trees", **CLASSIFIER)
    three.save_model(tmp_path / "three/trees/1/xgboost.json")
    assert ask(start(tmp_path / "three")).tolist() == three.predict(ASKED).tolist()

    write_config(tmp_path / "two/trees", **{**CLASSIFIER, "threshold": "0.8"})
    two.save_model(tmp_path / "two/trees/1/xgboost.json")
    expected = two.predict_proba(ASKED)[:, 1] > 0.8
    assert ask(start(tmp_path / "two")).tolist() == expected.astype(float).tolist()


def test_probabilities_of_a_model_that_was_trained_to_answer_the_class(start, tmp_path):
    import xgboost

    trained = {"objective": "multi:softmax", "num_class": 3, "seed": 1, "max_depth": 3}
    booster = xgboost.train(trained, xgboost.DMatrix(ROWS, THREE), num_boost_round=3)
    folder = tmp_path / "models/trees"
    write_config(folder, outputs=3, predict_proba="true", **CLASSIFIER)
    booster.save_model(folder / "1/xgboost.json")
    margins = booster.predict(xgboost.DMatrix(ASKED), output_margin=True)
    powers = np.exp(margins)
    answer = ask(start(tmp_path / "models"))
    np.testing.assert_allclose(answer, powers / powers.sum(axis=1, keepdims=True), atol=1e-6)


def test_a_lightgbm_regression_and_the_parameter_of_older_releases(start, tmp_path):
    import lightgbm

    data = lightgbm.Dataset(ROWS, ROWS.sum(axis=1))
    booster = lightgbm.train({"verbose": -1, "min_data_in_leaf": 5, "seed": 1}, data, num_boost_round=5)
    folder = tmp_path / "models/trees"
    write_config(folder, without="is_classifier", output_class="false", model_type="lightgbm")
    booster.save_model(folder / "1/model.txt")
    np.testing.assert_allclose(ask(start(tmp_path / "models")), booster.predict(ASKED), atol=1e-6)


def test_treelite_checkpoint_of_a_forest_with_a_custom_file_name(start, tmp_path):
    import treelite
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(n_estimators=5, max_depth=3, random_state=1).fit(ROWS, THREE)
    folder = tmp_path / "models/trees"
    write_config(
        folder,
        outputs=3,
        predict_proba="true",
        extra='default_model_filename: "forest.tl"',
        **{**CLASSIFIER, "model_type": "treelite_checkpoint"},
    )
    treelite.sklearn.import_model(forest).serialize(folder / "1/forest.tl")
    np.testing.assert_allclose(ask(start(tmp_path / "models")), forest.predict_proba(ASKED), atol=1e-6)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"without": "is_classifier"}, "Required parameter is_classifier not found in config"),
        ({"without": "threshold"}, "Required parameter threshold not found in config"),
        ({"threshold": "half"}, "parameter threshold is 'half', which is no number"),
        ({"model_type": "catboost"}, "catboost not recognized as a valid serialization format"),
        ({"model_type": "lightgbm"}, "there is no file"),
        ({"outputs": 3}, "has dims [3], and these trees [ 1 ]"),
        ({"extra": 'output { name: "treeshap" data_type: TYPE_FP32 dims: [ 4 ] }'}, "and no other"),
        ({"extra": SHAP_OUTPUT % "2, 4"}, "has dims [2, 4], and these trees [ 4 ]"),
    ],
    ids=["kind", "threshold", "number", "type", "file", "width", "output", "treeshap"],
)
def test_config_that_contradicts_the_trees_is_rejected_with_a_message(start, tmp_path, change, reason):
    folder = tmp_path / "models/trees"
    write_config(folder, **{**CLASSIFIER, **change})
    xgboost_classifier(YES_OR_NO).save_model(folder / "1/xgboost.json")
    server = start(tmp_path / "models", ready=False)
    with pytest.raises(TritonFailedError) as caught:
        server.wait_ready(timeout_s=60)
    assert "unable to load model 'trees': " in str(caught.value)
    assert reason in str(caught.value)


def test_file_without_trees_is_reported(start, tmp_path):
    folder = tmp_path / "models/trees"
    write_config(folder, **CLASSIFIER)
    (folder / "1/xgboost.json").write_text("{}")
    server = start(tmp_path / "models", ready=False)
    with pytest.raises(TritonFailedError, match=r"treelite cannot read xgboost\.json as xgboost_json"):
        server.wait_ready(timeout_s=60)
