"""Findings about one config.pbtxt, and about trees."""

from dataclasses import replace

import pytest

from tests.model_build.linting.given_repositories import (
    ONNX,
    OPTIONS,
    SINGLE,
    Files,
    assert_finding,
    findings,
    found_at,
    write,
)
from tests.model_build.supplied_models import FEATURES, save_xgboost


def config(addition: str, text: str = ONNX) -> Files:
    return {**SINGLE, "scores/config.pbtxt": text + addition}


def onnx(old: str, new: str) -> Files:
    assert old in ONNX
    return config("", ONNX.replace(old, new))


CASES = {
    "unknown field": (config("max_batch_sise: 3\n"), 'error TS316 scores/config.pbtxt:7 - "max_batch_sise"'),
    "another name": (
        onnx('name: "scores"', 'name: "score"'),
        "error TS316 scores/config.pbtxt:1 name got 'score'",
    ),
    "unknown backend": (onnx('"onnxruntime"', '"onnx"'), "error TS209 scores/config.pbtxt:2 backend 'onnx'"),
    "TensorFlow": (
        {
            "scores/config.pbtxt": ONNX.replace(
                'backend: "onnxruntime"', 'platform: "tensorflow_savedmodel"'
            ),
            "scores/1/model.savedmodel/saved_model.pb": "",
        },
        "error TS209 scores/config.pbtxt:2 platform 25.02",
    ),
    "twice": (
        config('input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'),
        "warning TS332 scores/config.pbtxt:7 input.name 'x'",
    ),
    "batch in the dims": (
        onnx("dims: [ 4 ]", "dims: [ 8, 4 ]"),
        "warning TS332 scores/config.pbtxt:4 input.dims [-1, 8, 4]",
    ),
    "tensors to complete": (
        onnx('input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]\n', ""),
        "warning TS332 scores/config.pbtxt - no input:",
    ),
    "no labels": (
        onnx("dims: [ 2 ]", 'dims: [ 2 ] label_filename: "labels.txt"'),
        "error TS326 scores/config.pbtxt:5 output.label_filename labels.txt",
    ),
    "no warm-up": (
        config(
            'model_warmup { name: "a" batch_size: 1 inputs { key: "x" value {'
            ' data_type: TYPE_FP32 dims: 4 input_data_file: "row" } } }\n'
        ),
        "error TS326 scores/config.pbtxt:7 model_warmup warmup/row",
    ),
    "no engine": (
        config('cc_model_filenames { key: "8.6" value: "model.plan" }\n'),
        "error TS326 scores/config.pbtxt:7 cc_model_filenames model.plan",
    ),
    "no version to serve": (
        config("version_policy { specific { versions: [ 3 ] } }\n"),
        "error TS326 scores/config.pbtxt:7 version_policy version 3",
    ),
    "decoupled": (
        config("model_transaction_policy { decoupled: true }\n"),
        "error TS209 scores/config.pbtxt:7 model_transaction_policy",
    ),
    "GPU": (
        onnx("count: 2 kind: KIND_CPU", "kind: KIND_GPU"),
        "warning TS209 scores/config.pbtxt:6 instance_group",
    ),
    "no instances": (
        onnx("instance_group [ { count: 2 kind: KIND_CPU } ]\n", ""),
        "warning TS332 scores/config.pbtxt -",
    ),
    "batching without batch": (
        config("dynamic_batching { }\n", ONNX.replace("max_batch_size: 8\n", "")),
        "warning TS332 scores/config.pbtxt:6 dynamic_batching",
    ),
    "queue and delay": (
        config(
            "dynamic_batching {\n  max_queue_delay_microseconds: 100\n"
            "  default_queue_policy { max_queue_size: 9 }\n}\n"
        ),
        "warning TS332 scores/config.pbtxt:9 dynamic_batching.default_queue_policy #8870",
    ),
    "queue of one instance": (
        config(
            "dynamic_batching { default_queue_policy { default_timeout_microseconds: 9 } }\n",
            ONNX.replace("count: 2", "count: 1"),
        ),
        "warning TS332 scores/config.pbtxt:7 dynamic_batching.default_queue_policy prefetching",
    ),
    "sequences": (config("sequence_batching { }\n"), "warning TS332 scores/config.pbtxt:7 sequence_batching"),
    "cache": (
        config("response_cache { enable: true }\n"),
        "warning TS332 scores/config.pbtxt:7 response_cache",
    ),
}


@pytest.mark.parametrize(("files", "finding"), CASES.values(), ids=CASES)
def test_finding(tmp_path, files, finding):
    assert_finding(write(tmp_path / "given", files), finding)


QUEUE = "dynamic_batching { default_queue_policy { max_queue_size: 9 } }\n"


@pytest.mark.parametrize(
    "files",
    [onnx("dims: [ 4 ]", "dims: [ 8 ]"), config(QUEUE, ONNX.replace("max_batch_size: 8\n", ""))],
    ids=["a vector of the batch size", "a queue without a batch"],
)
def test_no_finding(tmp_path, files):
    assert findings(write(tmp_path / "given", files)) == []


def test_the_instance_type_decides_about_gpus(tmp_path):
    path = write(tmp_path / "given", onnx("count: 2 kind: KIND_CPU", "kind: KIND_GPU gpus: [ 1 ]"))
    group = "error TS209 scores/config.pbtxt:6 instance_group"
    assert found_at(path, replace(OPTIONS, gpus=0)) == [group]
    assert found_at(path, replace(OPTIONS, gpus=1)) == [f"{group}.gpus"]
    assert found_at(path, replace(OPTIONS, gpus=4)) == []


FOREST = """\
backend: "fil"
max_batch_size: 8
input [ {{ name: "input__0" data_type: TYPE_FP32 dims: [ {features} ] }} ]
output [ {{ name: "output__0" data_type: TYPE_FP32 dims: [ 1 ] }} ]
parameters [ {{ key: "model_type" value: {{ string_value: "xgboost_json" }} }} ]
"""


def test_the_number_of_features_of_trees(tmp_path):
    folder = write(tmp_path / "given", {"trees/config.pbtxt": FOREST.format(features=FEATURES)})
    save_xgboost(folder / "trees/1/xgboost.json")
    assert findings(folder) == []
    (folder / "trees/config.pbtxt").write_text(FOREST.format(features=3))
    assert_finding(folder, f"error TS316 trees/config.pbtxt:3 input.dims {FEATURES} features")
    (folder / "trees/1/xgboost.json").write_text("[]")
    assert found_at(folder) == ["error TS306 trees/1/xgboost.json -"]
