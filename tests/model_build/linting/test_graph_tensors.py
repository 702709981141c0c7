"""Tensors in config.pbtxt that are not those of the model's file."""

import pytest

from tests.model_build.linting.given_repositories import (
    ONNX,
    assert_finding,
    findings,
    found_at,
    graph,
    write,
)
from tests.model_build.supplied_models import FEATURES, save_xgboost

GROUP = "instance_group [ { count: 1 kind: KIND_CPU } ]\n"
FOREST = """\
backend: "fil"
max_batch_size: 8
input [ {{ name: "input__0" data_type: TYPE_FP32 dims: [ {features} ] }} ]
output [ {{ name: "output__0" data_type: TYPE_FP32 dims: [ 1 ] }} ]
parameters [ {{ key: "model_type" value: {{ string_value: "xgboost_json" }} }} ]
"""
UNBATCHED = """\
backend: "onnxruntime"
input [ { name: "x" data_type: TYPE_FP32 dims: [ 1, 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1, 2 ] } ]
"""
X, WITH_BATCH = "dims: [ 4 ]", 'max_batch_size: 8\ninput [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]'
CASES = {
    "name": (ONNX, '"x"', '"X"', "4 input.name 'X'"),
    "output": (ONNX, '"y"', '"scores"', "5 output.name 'scores'"),
    "type": (ONNX, f"TYPE_FP32 {X}", f"TYPE_INT32 {X}", "4 input.data_type INT32"),
    "size": (ONNX, X, "dims: [ 5 ]", "4 input.dims [5] here, and [4]"),
    "rank": (ONNX, X, "dims: [ 1, 4 ]", "4 input.dims [1, 4] here, and [4]"),
    "variable": (ONNX, X, "dims: [ -1 ]", "4 input.dims [-1] here, and [4]"),
    "batch": (UNBATCHED, UNBATCHED.splitlines()[1], WITH_BATCH, "2 max_batch_size [1, 4]"),
}


@pytest.mark.parametrize(("config", "old", "new", "finding"), CASES.values(), ids=CASES)
def test_a_configuration_that_differs_from_the_graph(tmp_path, config, old, new, finding):
    files = {"scores/config.pbtxt": config + GROUP, "scores/1/model.onnx": "graph"}
    folder = write(tmp_path / "given", files)
    assert findings(folder) == []
    (folder / "scores/config.pbtxt").write_text(config.replace(old, new) + GROUP)
    assert_finding(folder, f"error TS316 scores/config.pbtxt:{finding}")


def test_every_input_of_the_graph_is_declared(tmp_path):
    more = ONNX + 'input [ { name: "mask" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'
    folder = write(tmp_path / "given", {"scores/config.pbtxt": ONNX, "scores/1/model.onnx": ""})
    (folder / "scores/1/model.onnx").write_bytes(graph(more))
    assert_finding(folder, "error TS316 scores/config.pbtxt:4 input 'mask'")


def test_what_a_graph_allows(tmp_path):
    """A reshape counts, a variable size may be fixed, and outputs may be left out."""
    own = ONNX.replace("dims: [ 4 ]", "dims: [ 2, 2 ] reshape { shape: [ 4 ] }")
    files = {"scores/config.pbtxt": own, "scores/1/model.onnx": "graph"}
    folder = write(tmp_path / "given", files)
    variable = ONNX.replace("dims: [ 2 ]", "dims: [ -1 ]")
    variable += 'output [ { name: "z" data_type: TYPE_FP32 dims: [ 2 ] } ]\n'
    (folder / "scores/1/model.onnx").write_bytes(graph(variable))
    assert findings(folder) == []


def test_a_file_that_is_no_graph(tmp_path):
    folder = write(tmp_path / "given", {"scores/config.pbtxt": ONNX, "scores/1/model.onnx": "text"})
    assert found_at(folder) == ["error TS306 scores/1/model.onnx -"]


def test_the_number_of_features_of_trees(tmp_path):
    folder = write(tmp_path / "given", {"trees/config.pbtxt": FOREST.format(features=FEATURES)})
    save_xgboost(folder / "trees/1/xgboost.json")
    assert findings(folder) == []
    (folder / "trees/config.pbtxt").write_text(FOREST.format(features=3))
    assert_finding(folder, f"error TS316 trees/config.pbtxt:3 input.dims {FEATURES} features")
    (folder / "trees/1/xgboost.json").write_text("[]")
    assert found_at(folder) == ["error TS306 trees/1/xgboost.json -"]
