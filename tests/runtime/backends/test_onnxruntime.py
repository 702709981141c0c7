"""The stand-in for NVIDIA's ONNX Runtime backend, in a real server."""

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from tests.runtime.backends.instance_threads import instance_threads
from tests.runtime.conftest import IR_VERSION, ONNX_CONFIG, OPSET, add_onnx_model
from tests.runtime.kserve_requests import invoke, outputs, tensor
from tritonstack.reference.container_variables import ADDITIONAL_ARGS, ContainerOptions, container_variables
from tritonstack.reference.threads import Threads
from tritonstack.runtime import TritonFailedError, TritonResponse, TritonServer

pytestmark = pytest.mark.e2e
Start = Callable[..., TritonServer]


def invoke_together(server: TritonServer, rows: Sequence[int]) -> list[TritonResponse]:
    """Send requests that arrive while the first waits for a batch."""
    with ThreadPoolExecutor(len(rows)) as pool:
        return list(pool.map(lambda row: invoke(server, [1.0, 2.0], row=row), rows))


def test_requests_share_a_run_and_a_bad_request_fails_alone(start, tmp_path):
    server = start(add_onnx_model(tmp_path / "models"))
    good = [outputs(response) for response in invoke_together(server, [0, 1, 1, 0])]
    assert [answer["y"] for answer in good] == [[2.0, 4.0], [3.0, 6.0], [3.0, 6.0], [2.0, 4.0]]
    assert max(answer["batch"][0] for answer in good) > 1

    *spared, bad = invoke_together(server, [0, 1, 77])
    assert [outputs(response)["y"] for response in spared] == [[2.0, 4.0], [3.0, 6.0]]
    assert bad.status == 500
    assert "onnx runtime error" in (text := json.loads(bad.body)["error"])
    assert "indices element out of data bounds, idx=77" in text
    assert "Traceback" not in text


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core has one thread with every setting")
def test_instances_share_the_threads_of_the_pool(start, tmp_path):
    config = ONNX_CONFIG.replace("count: 1", "count: 2").partition("parameters")[0]
    cores = len(os.sched_getaffinity(0))
    without = instance_threads(start(add_onnx_model(tmp_path / "models", config=config)))
    shared = container_variables({}, ContainerOptions("scale", threads=Threads(cores, 2)))
    limited = instance_threads(start(tmp_path / "models", **{ADDITIONAL_ARGS: shared[ADDITIONAL_ARGS]}))
    assert len(without) == len(limited) == 2
    # ONNX Runtime starts one thread per core, less the calling one, in each of the two.
    assert sum(without) - sum(limited) == 2 * (cores - 1) - 2 * (max(1, cores // 2) - 1)


def test_only_requested_outputs_are_sent(start, tmp_path):
    server = start(add_onnx_model(tmp_path / "models"))
    request = {
        "inputs": [tensor("x", "FP32", [1.0]), tensor("row", "INT64", [1])],
        "outputs": [{"name": "batch"}],
    }
    answer = server.request("POST", "/invocations", body=json.dumps(request).encode())
    assert outputs(answer) == {"batch": [1]}


def test_a_config_of_one_line_is_completed_from_the_graph(start, tmp_path):
    server = start(add_onnx_model(tmp_path / "models", config='backend: "onnxruntime"'))
    answer = invoke(server, [1.0], row=1)
    assert outputs(answer) == {"y": [3.0], "batch": [1]}
    assert [output["shape"] for output in json.loads(answer.body)["outputs"]] == [[1, 1], [1, 1]]
    many = {"name": "x", "datatype": "FP32", "shape": [5, 1], "data": [1.0] * 5}
    row = {"name": "row", "datatype": "INT64", "shape": [5, 1], "data": [0] * 5}
    answer = server.request("POST", "/invocations", body=json.dumps({"inputs": [many, row]}).encode())
    assert b"batch-size must be <= 4" in answer.body


def test_text_scalars_and_models_without_batching(start, tmp_path):
    folder = tmp_path / "models/words"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text('backend: "onnxruntime"\ndefault_model_filename: "words.onnx"\n')
    nodes = [
        helper.make_node("Identity", ["words"], ["same"]),
        helper.make_node("Size", ["words"], ["count"]),
    ]
    graph = helper.make_graph(
        nodes,
        "words",
        [helper.make_tensor_value_info("words", TensorProto.STRING, ["n"])],
        [
            helper.make_tensor_value_info("same", TensorProto.STRING, ["n"]),
            helper.make_tensor_value_info("count", TensorProto.INT64, []),
        ],
    )
    opset = [helper.make_opsetid("", OPSET)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION), folder / "1/words.onnx")
    server = start(tmp_path / "models")
    words: list[Any] = ["größer", "als", ""]
    request = {"inputs": [{"name": "words", "datatype": "BYTES", "shape": [3], "data": words}]}
    answer = server.request("POST", "/invocations", body=json.dumps(request).encode())
    assert outputs(answer) == {"same": words, "count": [3]}


@pytest.mark.parametrize(
    ("written", "instead", "reason"),
    [
        (
            '"x" data_type: TYPE_FP32',
            '"x" data_type: TYPE_FP64',
            "input 'x' is TYPE_FP32 in the graph, not TYPE_FP64",
        ),
        ('input { name: "x"', 'input { name: "z"', "the graph has no input 'z', it has row, x"),
        (
            'input { name: "row" data_type: TYPE_INT64 dims: [ 1 ] }',
            "",
            "the graph needs inputs that the configuration lacks: row",
        ),
        (
            '"y" data_type: TYPE_FP32 dims: [ -1 ]',
            '"y" data_type: TYPE_FP32 dims: [ -1, 2 ]',
            "output 'y' is [-1, -1]",
        ),
        ('string_value: "1"', 'string_value: "many"', "parameter intra_op_thread_count is 'many'"),
        (
            "dynamic_batching",
            "optimization { graph { level: 5 } } dynamic_batching",
            "allowed are -1, 0, 1 and 2",
        ),
        (
            '"x" data_type: TYPE_FP32 dims: [ -1 ]',
            '"x" data_type: TYPE_FP32 dims: [ -1, -1 ]',
            "input 'x' is [-1, -1] in the graph, not a batch dimension and [-1, -1]",
        ),
        (
            "TYPE_FP32 dims: [ -1 ] }",
            "TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }",
            "allow_ragged_batch is not",
        ),
        ("TYPE_FP32 dims: [ -1 ] }", "TYPE_FP32 dims: [ -1 ] optional: true }", "an optional input beside"),
    ],
    ids=["type", "name", "missing", "dims", "parameter", "level", "batching", "ragged", "optional"],
)
def test_config_that_contradicts_the_graph_is_rejected_with_a_message(
    start, tmp_path, written, instead, reason
):
    config = ONNX_CONFIG.replace(written, instead, 1)
    assert config != ONNX_CONFIG
    server = start(add_onnx_model(tmp_path / "models", config=config), ready=False)
    with pytest.raises(TritonFailedError) as caught:
        server.wait_ready(timeout_s=60)
    assert "unable to load model 'scale': " in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("content", "reason"), [(b"no graph", "ONNX Runtime cannot read"), (None, "there is no file")]
)
def test_a_broken_or_missing_graph_is_named(start, tmp_path, content, reason):
    models = add_onnx_model(tmp_path / "models")
    graph = models / "scale/1/model.onnx"
    graph.unlink()
    if content is not None:
        graph.write_bytes(content)
    server = start(models, ready=False)
    with pytest.raises(TritonFailedError) as caught:
        server.wait_ready(timeout_s=60)
    assert reason in str(caught.value)
