"""Tensors in config.pbtxt that are not those of the model's file."""

import pytest

from tests.model_build.linting.given_repositories import ONNX, graph, lines, write
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
CASES = {
    "name": (ONNX, '"x"', '"X"', "4: input.name: model.onnx has no input 'X'"),
    "output": (ONNX, '"y"', '"scores"', "5: output.name: model.onnx has no output 'scores'"),
    "type": (
        ONNX,
        "TYPE_FP32 dims: [ 4 ]",
        "TYPE_INT32 dims: [ 4 ]",
        "4: input.data_type: 'x' is INT32 here",
    ),
    "size": (
        ONNX,
        "dims: [ 4 ]",
        "dims: [ 5 ]",
        "4: input.dims: 'x' has dims [5] here, and [4] in the graph",
    ),
    "rank": (ONNX, "dims: [ 4 ]", "dims: [ 1, 4 ]", "4: input.dims: 'x' has dims [1, 4] here, and [4]"),
    "variable": (ONNX, "dims: [ 4 ]", "dims: [ -1 ]", "4: input.dims: 'x' has dims [-1] here, and [4]"),
    "batch": (
        UNBATCHED,
        'input [ { name: "x" data_type: TYPE_FP32 dims: [ 1, 4 ] } ]',
        'max_batch_size: 8\ninput [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]',
        "2: max_batch_size: 'x' is [1, 4] in the graph, without a variable batch dimension",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_configuration_that_differs_from_the_graph(name, tmp_path):
    config, old, new, line = CASES[name]
    folder = write(
        tmp_path / "given", {"scores/config.pbtxt": config + GROUP, "scores/1/model.onnx": "graph"}
    )
    assert lines(folder) == []
    (folder / "scores/config.pbtxt").write_text(config.replace(old, new) + GROUP)
    found = [one for one in lines(folder) if "TS316" in one]
    assert found[0].startswith(f"error scores/config.pbtxt:{line}"), lines(folder)


def test_every_input_of_the_graph_is_declared(tmp_path):
    more = ONNX + 'input [ { name: "mask" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'
    folder = write(tmp_path / "given", {"scores/config.pbtxt": ONNX})
    (folder / "scores/1").mkdir()
    (folder / "scores/1/model.onnx").write_bytes(graph(more))
    assert lines(folder) == [
        "error scores/config.pbtxt:4: input: model.onnx also has the input 'mask' [TS316]"
    ]


def test_what_a_graph_allows(tmp_path):
    """A reshape counts, a variable size may be fixed, and outputs may be left out."""
    own = ONNX.replace("dims: [ 4 ]", "dims: [ 2, 2 ] reshape { shape: [ 4 ] }")
    files = {"scores/config.pbtxt": own, "scores/1/model.onnx": "graph"}
    folder = write(tmp_path / "given", files)
    made = ONNX.replace("dims: [ 2 ]", "dims: [ -1 ]")
    made += 'output [ { name: "z" data_type: TYPE_FP32 dims: [ 2 ] } ]\n'
    (folder / "scores/1/model.onnx").write_bytes(graph(made))
    assert lines(folder) == []


def test_a_file_that_is_no_graph(tmp_path):
    folder = write(tmp_path / "given", {"scores/config.pbtxt": ONNX, "scores/1/model.onnx": "text"})
    (found,) = lines(folder)
    assert found.startswith("error scores/1/model.onnx: model.onnx is not an ONNX graph")
    assert found.endswith("[TS306]")


def test_the_number_of_features_of_trees(tmp_path):
    folder = write(tmp_path / "given", {"trees/config.pbtxt": FOREST.format(features=FEATURES)})
    save_xgboost(folder / "trees/1/xgboost.json")
    assert lines(folder) == []
    (folder / "trees/config.pbtxt").write_text(FOREST.format(features=3))
    assert lines(folder) == [
        "error trees/config.pbtxt:3: input.dims: 'input__0' has 3 values here, and the trees have "
        f"{FEATURES} features [TS316]"
    ]
    (folder / "trees/1/xgboost.json").write_text("[]")
    assert lines(folder) == ["error trees/1/xgboost.json: not an XGBoost model in JSON [TS306]"]
