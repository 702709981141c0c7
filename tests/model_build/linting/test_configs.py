"""Findings about one config.pbtxt."""

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
    "unknown platform": (
        onnx('backend: "onnxruntime"', 'platform: "onnx"'),
        "error TS316 scores/config.pbtxt:2 platform 'onnx'",
    ),
    "no backend": (
        {"scores/config.pbtxt": ONNX.replace('backend: "onnxruntime"', ""), "scores/1/weights.bin": ""},
        "error TS316 scores/config.pbtxt - no backend",
    ),
    "another platform": (
        config('platform: "pytorch_libtorch"\n'),
        "error TS316 scores/config.pbtxt:7 platform 'pytorch_libtorch'",
    ),
    "TensorFlow": (
        {
            "scores/config.pbtxt": ONNX.replace(
                'backend: "onnxruntime"', 'platform: "tensorflow_savedmodel"'
            ),
            "scores/1/model.savedmodel/saved_model.pb": "",
        },
        "error TS209 scores/config.pbtxt:2 platform 25.02",
    ),
    "negative batch": (
        onnx("max_batch_size: 8", "max_batch_size: -1"),
        "error TS316 scores/config.pbtxt:3 max_batch_size",
    ),
    "no type": (
        onnx('name: "x" data_type: TYPE_FP32', 'name: "x"'),
        "error TS316 scores/config.pbtxt:4 input 'x' has no data_type",
    ),
    "unknown type": (
        onnx('"x" data_type: TYPE_FP32', '"x" data_type: 99'),
        "error TS316 scores/config.pbtxt:4 input.data_type 99",
    ),
    "no dims": (onnx("dims: [ 2 ]", ""), "error TS316 scores/config.pbtxt:5 output 'y' has no dims"),
    "size 0": (
        onnx("dims: [ 4 ]", "dims: [ 0 ]"),
        "error TS316 scores/config.pbtxt:4 input.dims 'x' contain 0",
    ),
    "twice": (
        config('input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'),
        "warning TS332 scores/config.pbtxt:7 input.name 'x'",
    ),
    "batch in the dims of an image": (
        onnx("dims: [ 4 ]", "dims: [ -1, 3, 224, 224 ]"),
        "warning TS332 scores/config.pbtxt:4 input.dims [-1, -1, 3, 224, 224]",
    ),
    "batch in the dims": (
        onnx("dims: [ 4 ]", "dims: [ 8, 4 ]"),
        "warning TS332 scores/config.pbtxt:4 input.dims [-1, 8, 4]",
    ),
    "tensors to complete": (
        onnx('input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]\n', ""),
        "warning TS332 scores/config.pbtxt - no input:",
    ),
    "tensors that are missing": (
        {"scores/config.pbtxt": 'backend: "pytorch"\n', "scores/1/model.pt": ""},
        "error TS316 scores/config.pbtxt - no input and output",
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
    "decoupled with a cache": (
        config("model_transaction_policy { decoupled: true }\nresponse_cache { enable: true }\n"),
        "error TS316 scores/config.pbtxt:8 response_cache",
    ),
    "GPU": (
        onnx("count: 2 kind: KIND_CPU", "kind: KIND_GPU"),
        "warning TS209 scores/config.pbtxt:6 instance_group",
    ),
    "GPU of a CPU": (
        onnx("kind: KIND_CPU", "kind: KIND_CPU gpus: [ 0 ]"),
        "error TS316 scores/config.pbtxt:6 instance_group `gpus`",
    ),
    "profile": (
        onnx("kind: KIND_CPU", 'kind: KIND_CPU profile: "0"'),
        "error TS316 scores/config.pbtxt:6 instance_group.profile",
    ),
    "no instances": (
        onnx("instance_group [ { count: 2 kind: KIND_CPU } ]\n", ""),
        "warning TS332 scores/config.pbtxt -",
    ),
    "preferred size": (
        config("dynamic_batching { preferred_batch_size: [ 16 ] }\n"),
        "error TS316 scores/config.pbtxt:7 dynamic_batching.preferred_batch_size 16",
    ),
    "batching without batch": (
        config("dynamic_batching { }\n", ONNX.replace("max_batch_size: 8\n", "")),
        "warning TS332 scores/config.pbtxt:6 dynamic_batching",
    ),
    "priority": (
        config("dynamic_batching { priority_levels: 2 }\n"),
        "error TS316 scores/config.pbtxt:7 dynamic_batching.priority_levels 0 is not between 1 and 2",
    ),
    "policy of a priority": (
        config(
            "dynamic_batching { priority_levels: 2 default_priority_level: 1"
            " priority_queue_policy { key: 3 value { } } }\n"
        ),
        "error TS316 scores/config.pbtxt:7 dynamic_batching.priority_queue_policy priority 3",
    ),
    "order of priorities": (
        config("dynamic_batching { priority_levels: 2 default_priority_level: 1 preserve_ordering: true }\n"),
        "error TS316 scores/config.pbtxt:7 dynamic_batching.preserve_ordering one priority",
    ),
    "order of delayed requests": (
        config(
            "dynamic_batching { preserve_ordering: true default_queue_policy { timeout_action: DELAY"
            " default_timeout_microseconds: 9 } }\n"
        ),
        "error TS316 scores/config.pbtxt:7 dynamic_batching.preserve_ordering DELAY",
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
    "sequences with a cache": (
        config("sequence_batching { }\nresponse_cache { enable: true }\n"),
        "error TS316 scores/config.pbtxt:8 response_cache",
    ),
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
