"""The stand-in for NVIDIA's ONNX Runtime backend, in a real server."""

import json
import os

import onnx
import pytest
from onnx import TensorProto, helper

from tests.triton.backends.instance_threads import instance_threads
from tests.triton.conftest import IR_VERSION, ONNX_CONFIG, OPSET, add_onnx_model
from tests.triton.kserve_requests import error, invoke, invoke_together, outputs, post, tensor
from tritonstack.facts.container_variables import ADDITIONAL_ARGS, ContainerOptions, container_variables
from tritonstack.facts.threads import Threads

pytestmark = pytest.mark.e2e


def test_requests_share_a_run_and_a_bad_request_fails_alone(host):
    server = host.load(add_onnx_model)
    good = [outputs(response) for response in invoke_together(server, [0, 1, 1, 0])]
    assert [answer["y"] for answer in good] == [[2.0, 4.0], [3.0, 6.0], [3.0, 6.0], [2.0, 4.0]]
    assert max(answer["batch"][0] for answer in good) > 1
    *spared, bad = invoke_together(server, [0, 1, 77])
    assert [outputs(response)["y"] for response in spared] == [[2.0, 4.0], [3.0, 6.0]]
    assert "idx=77" in error(bad)
    assert "Traceback" not in error(bad)
    inputs = [tensor("x", "FP32", [1.0]), tensor("row", "INT64", [1])]
    assert outputs(post(server, *inputs, outputs=[{"name": "batch"}])) == {"batch": [1]}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core has one thread with every setting")
def test_instances_share_the_threads_of_the_pool(start, tmp_path):
    config = ONNX_CONFIG.replace("count: 1", "count: 2").partition("parameters")[0]
    cores = len(os.sched_getaffinity(0))
    unlimited = instance_threads(start(add_onnx_model(tmp_path / "models", config=config)))
    shared = container_variables({}, ContainerOptions("scale", threads=Threads(cores, 2)))
    limited = instance_threads(start(tmp_path / "models", **{ADDITIONAL_ARGS: shared[ADDITIONAL_ARGS]}))
    assert len(unlimited) == len(limited) == 2
    # ONNX Runtime starts one thread per core, less the calling one, in each of the two.
    assert sum(unlimited) - sum(limited) == 2 * (cores - 1) - 2 * (max(1, cores // 2) - 1)


def test_a_config_of_one_line_is_completed_from_the_graph(start, tmp_path):
    server = start(add_onnx_model(tmp_path / "models", config='backend: "onnxruntime"'))
    answer = invoke(server, [1.0], row=1)
    assert outputs(answer) == {"y": [3.0], "batch": [1]}
    assert [output["shape"] for output in json.loads(answer.body)["outputs"]] == [[1, 1], [1, 1]]
    five = [tensor("x", "FP32", [1.0] * 5, [5, 1]), tensor("row", "INT64", [0] * 5, [5, 1])]
    assert b"<= 4" in post(server, *five).body


def test_text_scalars_and_models_without_batching(start, tmp_path):
    words = helper.make_tensor_value_info("words", TensorProto.STRING, ["n"])
    same = helper.make_tensor_value_info("same", TensorProto.STRING, ["n"])
    count = helper.make_tensor_value_info("count", TensorProto.INT64, [])
    nodes = [
        helper.make_node("Identity", ["words"], ["same"]),
        helper.make_node("Size", ["words"], ["count"]),
    ]
    graph = helper.make_graph(nodes, "words", [words], [same, count])
    opset = [helper.make_opsetid("", OPSET)]

    config = 'backend: "onnxruntime"\ndefault_model_filename: "words.onnx"\n'
    models = add_onnx_model(tmp_path / "models", config=config, name="words")
    model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)
    onnx.save(model, models / "words/1/words.onnx")
    texts = ["größer", "als", ""]
    answer = post(start(models), tensor("words", "BYTES", texts, [3]))
    assert outputs(answer) == {"same": texts, "count": [3]}


X, FREE = '"x" data_type: TYPE_FP32 dims: [ -1 ]', "TYPE_FP32 dims: [ -1 ] }"
REJECTED = {
    "type": (X, X.replace("FP32", "FP64"), "'x' is TYPE_FP32 in the graph"),
    "name": ('input { name: "x"', 'input { name: "z"', "no input 'z'"),
    "missing": ('input { name: "row" data_type: TYPE_INT64 dims: [ 1 ] }', "", "lacks: row"),
    "dims": (
        '"y" data_type: TYPE_FP32 dims: [ -1 ]',
        '"y" data_type: TYPE_FP32 dims: [ -1, 2 ]',
        "'y' is [-1, -1]",
    ),
    "parameter": ('string_value: "1"', 'string_value: "many"', "intra_op_thread_count is 'many'"),
    "level": ("dynamic_batching", "optimization { graph { level: 5 } } dynamic_batching", "level is 5"),
    "batching": (X, X.replace("[ -1 ]", "[ -1, -1 ]"), "'x' is [-1, -1] in the graph"),
    "ragged": (FREE, FREE.replace("}", "allow_ragged_batch: true }"), "allow_ragged_batch"),
    "optional": (FREE, FREE.replace("}", "optional: true }"), "optional input"),
}


@pytest.mark.parametrize(("written", "instead", "reason"), REJECTED.values(), ids=REJECTED)
def test_config_that_contradicts_the_graph_is_rejected(host, written, instead, reason):
    config = ONNX_CONFIG.replace(written, instead, 1)
    assert config != ONNX_CONFIG
    message = host.reason(lambda folder: add_onnx_model(folder, config=config))
    assert reason in message


@pytest.mark.parametrize(
    ("content", "reason"), [(b"no graph", "cannot read model.onnx"), (None, "1/model.onnx")]
)
def test_a_broken_or_missing_graph_is_named(host, content, reason):
    def write(folder):
        graph = add_onnx_model(folder) / "scale/1/model.onnx"
        graph.unlink()
        if content is not None:
            graph.write_bytes(content)

    assert reason in host.reason(write)
