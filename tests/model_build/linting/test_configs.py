"""Findings about one config.pbtxt."""

from dataclasses import replace

import pytest

from tests.model_build.linting.given_repositories import (
    ONNX,
    OPTIONS,
    SINGLE,
    Files,
    assert_found,
    lines,
    write,
)


def config(addition: str, text: str = ONNX) -> Files:
    return {**SINGLE, "scores/config.pbtxt": text + addition}


def onnx(old: str, new: str) -> Files:
    assert old in ONNX
    return config("", ONNX.replace(old, new))


CASES = {
    "unknown field": (
        config("max_batch_sise: 3\n"),
        'error scores/config.pbtxt:7: column 1: Message type "inference.ModelConfig" has no field named '
        '"max_batch_sise". [TS316]',
    ),
    "another name": (
        onnx('name: "scores"', 'name: "score"'),
        "error scores/config.pbtxt:1: name: expected name 'scores', got 'score' [TS316]",
    ),
    "unknown backend": (
        onnx('"onnxruntime"', '"onnx"'),
        "error scores/config.pbtxt:2: backend: SageMaker's Triton images have no backend 'onnx' [TS209]",
    ),
    "unknown platform": (
        onnx('backend: "onnxruntime"', 'platform: "onnx"'),
        "error scores/config.pbtxt:2: platform: unknown platform 'onnx' [TS316]",
    ),
    "no backend": (
        {"scores/config.pbtxt": ONNX.replace('backend: "onnxruntime"', ""), "scores/1/weights.bin": ""},
        "error scores/config.pbtxt: no backend: neither `backend` nor a file that Triton recognizes [TS316]",
    ),
    "another platform": (
        config('platform: "pytorch_libtorch"\n'),
        "error scores/config.pbtxt:7: platform: 'pytorch_libtorch' is not the platform of the backend "
        "'onnxruntime' [TS316]",
    ),
    "TensorFlow": (
        {"scores/config.pbtxt": ONNX.replace('backend: "onnxruntime"', 'platform: "tensorflow_savedmodel"'),
         "scores/1/model.savedmodel/saved_model.pb": ""},
        "error scores/config.pbtxt:2: platform: Triton 26.05 has no TensorFlow backend; 25.02 has the last "
        "[TS209]",
    ),
    "negative batch": (
        onnx("max_batch_size: 8", "max_batch_size: -1"),
        "error scores/config.pbtxt:3: max_batch_size: max_batch_size is negative [TS316]",
    ),
    "no type": (
        onnx('name: "x" data_type: TYPE_FP32', 'name: "x"'),
        "error scores/config.pbtxt:4: input: the input 'x' has no data_type [TS316]",
    ),
    "unknown type": (
        onnx('"x" data_type: TYPE_FP32', '"x" data_type: 99'),
        "error scores/config.pbtxt:4: input.data_type: unknown data_type 99 of 'x' [TS316]",
    ),
    "no dims": (
        onnx("dims: [ 2 ]", ""),
        "error scores/config.pbtxt:5: output: the output 'y' has no dims [TS316]",
    ),
    "size 0": (
        onnx("dims: [ 4 ]", "dims: [ 0 ]"),
        "error scores/config.pbtxt:4: input.dims: dims of 'x' contain 0 [TS316]",
    ),
    "twice": (
        config('input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'),
        "warning scores/config.pbtxt:7: input.name: duplicate input 'x': Triton accepts it and uses one "
        "[TS332]",
    ),
    "batch in the dims of an image": (
        onnx("dims: [ 4 ]", "dims: [ -1, 3, 224, 224 ]"),
        "warning scores/config.pbtxt:4: input.dims: dims [-1, 3, 224, 224] of 'x' seem to contain the batch: "
        "with max_batch_size 8, Triton expects [-1, -1, 3, 224, 224] [TS332]",
    ),
    "batch in the dims": (
        onnx("dims: [ 4 ]", "dims: [ 8, 4 ]"),
        "warning scores/config.pbtxt:4: input.dims: dims [8, 4] of 'x' seem to contain the batch: with "
        "max_batch_size 8, Triton expects [-1, 8, 4] [TS332]",
    ),
    "tensors to complete": (
        onnx('input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]\n', ""),
        "warning scores/config.pbtxt: no input: Triton must ask the onnxruntime backend at each load, and "
        "fails with --disable-auto-complete-config [TS332]",
    ),
    "tensors that are missing": (
        {"scores/config.pbtxt": 'backend: "pytorch"\n', "scores/1/model.pt": ""},
        "error scores/config.pbtxt: no input and output, which the pytorch backend cannot complete [TS316]",
    ),
    "no labels": (
        onnx("dims: [ 2 ]", 'dims: [ 2 ] label_filename: "labels.txt"'),
        "error scores/config.pbtxt:5: output.label_filename: file not found: labels.txt [TS326]",
    ),
    "no warm-up": (
        config('model_warmup { name: "a" batch_size: 1 inputs { key: "x" value {'
               ' data_type: TYPE_FP32 dims: 4 input_data_file: "row" } } }\n'),
        "error scores/config.pbtxt:7: model_warmup: file not found: warmup/row [TS326]",
    ),
    "no engine": (
        config('cc_model_filenames { key: "8.6" value: "model.plan" }\n'),
        "error scores/config.pbtxt:7: cc_model_filenames: file not found: model.plan, for compute capability "
        "8.6 [TS326]",
    ),
    "no version to serve": (
        config("version_policy { specific { versions: [ 3 ] } }\n"),
        "error scores/config.pbtxt:7: version_policy: serves version 3, which is missing [TS326]",
    ),
    "decoupled": (
        config("model_transaction_policy { decoupled: true }\n"),
        "error scores/config.pbtxt:7: model_transaction_policy: scores is decoupled: InvokeEndpoint answers "
        "an error, because /invocations returns one answer per request [TS209]",
    ),
    "decoupled with a cache": (
        config("model_transaction_policy { decoupled: true }\nresponse_cache { enable: true }\n"),
        "error scores/config.pbtxt:8: response_cache: the response cache does not support decoupled models "
        "[TS316]",
    ),
    "GPU": (
        onnx("count: 2 kind: KIND_CPU", "kind: KIND_GPU"),
        "warning scores/config.pbtxt:6: instance_group: KIND_GPU: the load fails on instance types without a "
        "GPU [TS209]",
    ),
    "GPU of a CPU": (
        onnx("kind: KIND_CPU", "kind: KIND_CPU gpus: [ 0 ]"),
        "error scores/config.pbtxt:6: instance_group: KIND_CPU with `gpus` [TS316]",
    ),
    "profile": (
        onnx("kind: KIND_CPU", 'kind: KIND_CPU profile: "0"'),
        "error scores/config.pbtxt:6: instance_group.profile: `profile` is for TensorRT engines only [TS316]",
    ),
    "no instances": (
        onnx("instance_group [ { count: 2 kind: KIND_CPU } ]\n", ""),
        "warning scores/config.pbtxt: no instance_group: on a CPU, Triton loads an ONNX model twice [TS332]",
    ),
    "preferred size": (
        config("dynamic_batching { preferred_batch_size: [ 16 ] }\n"),
        "error scores/config.pbtxt:7: dynamic_batching.preferred_batch_size: preferred batch size 16 is not "
        "between 1 and max_batch_size 8 [TS316]",
    ),
    "batching without batch": (
        config("dynamic_batching { }\n", ONNX.replace("max_batch_size: 8\n", "")),
        "warning scores/config.pbtxt:6: dynamic_batching: batching has no effect: max_batch_size is 0 "
        "[TS332]",
    ),
    "priority": (
        config("dynamic_batching { priority_levels: 2 }\n"),
        "error scores/config.pbtxt:7: dynamic_batching.priority_levels: default_priority_level 0 is not "
        "between 1 and 2 [TS316]",
    ),
    "policy of a priority": (
        config("dynamic_batching { priority_levels: 2 default_priority_level: 1"
               " priority_queue_policy { key: 3 value { } } }\n"),
        "error scores/config.pbtxt:7: dynamic_batching.priority_queue_policy: a queue policy is for priority "
        "3, expected 1 to 2 [TS316]",
    ),
    "order of priorities": (
        config("dynamic_batching { priority_levels: 2 default_priority_level: 1 preserve_ordering: true }\n"),
        "error scores/config.pbtxt:7: dynamic_batching.preserve_ordering: preserve_ordering allows one "
        "priority level only [TS316]",
    ),
    "order of delayed requests": (
        config("dynamic_batching { preserve_ordering: true default_queue_policy { timeout_action: DELAY"
               " default_timeout_microseconds: 9 } }\n"),
        "error scores/config.pbtxt:7: dynamic_batching.preserve_ordering: preserve_ordering does not allow "
        "the timeout action DELAY [TS316]",
    ),
    "queue and delay": (
        config("dynamic_batching {\n  max_queue_delay_microseconds: 100\n"
               "  default_queue_policy { max_queue_size: 9 }\n}\n"),
        "warning scores/config.pbtxt:9: dynamic_batching.default_queue_policy: a queue policy with "
        "max_queue_delay_microseconds: releases up to 26.05 can lose throughput under load until the model "
        "is reloaded (triton-inference-server/server#8870) [TS332]",
    ),
    "queue of one instance": (
        config("dynamic_batching { default_queue_policy { default_timeout_microseconds: 9 } }\n",
               ONNX.replace("count: 2", "count: 1")),
        "warning scores/config.pbtxt:7: dynamic_batching.default_queue_policy: a queue policy disables "
        "prefetching of batches: a single instance can idle up to 500 ms between batches [TS332]",
    ),
    "sequences": (
        config("sequence_batching { }\n"),
        "warning scores/config.pbtxt:7: sequence_batching: sequences: SageMaker may send the requests of one "
        "sequence to different instances [TS332]",
    ),
    "sequences with a cache": (
        config("sequence_batching { }\nresponse_cache { enable: true }\n"),
        "error scores/config.pbtxt:8: response_cache: the response cache does not support sequences [TS316]",
    ),
    "cache": (
        config("response_cache { enable: true }\n"),
        "warning scores/config.pbtxt:7: response_cache: the response cache works only if the server has one "
        "[TS332]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", ["folder", "archive"])
@pytest.mark.parametrize(("files", "line"), CASES.values(), ids=CASES)
def test_finding(tmp_path, files, line, form):
    assert_found(tmp_path, files, line, form)


def test_a_vector_of_the_batch_size_is_no_batch(tmp_path):
    path = write(tmp_path / "given", onnx("dims: [ 4 ]", "dims: [ 8 ]"))
    assert lines(path) == []


def test_a_queue_needs_no_batch(tmp_path):
    queue = "dynamic_batching { default_queue_policy { max_queue_size: 9 } }\n"
    path = write(tmp_path / "given", config(queue, ONNX.replace("max_batch_size: 8\n", "")))
    assert lines(path) == []


def test_the_instance_type_decides_about_gpus(tmp_path):
    path = write(tmp_path / "given", onnx("count: 2 kind: KIND_CPU", "kind: KIND_GPU gpus: [ 1 ]"))
    assert lines(path, replace(OPTIONS, gpus=0)) == [
        "error scores/config.pbtxt:6: instance_group: KIND_GPU, but the instance type has no GPU [TS209]"
    ]
    assert lines(path, replace(OPTIONS, gpus=1)) == [
        "error scores/config.pbtxt:6: instance_group.gpus: GPU 1 does not exist: the instance type has 1 "
        "[TS209]"
    ]
    assert lines(path, replace(OPTIONS, gpus=4)) == []
