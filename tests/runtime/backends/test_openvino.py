"""The stand-in for Triton's OpenVINO backend, in a real server."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from model_build.graphs.openvino_session import computes_bf16
from tests.runtime.conftest import IR_VERSION, OPSET
from tests.runtime.kserve_requests import outputs
from tritonstack.runtime import TritonFailedError, TritonResponse, TritonServer

pytestmark = pytest.mark.e2e
Start = Callable[..., TritonServer]

CONFIG = """
backend: "openvino"
default_model_filename: "model.onnx"
input { name: "x" data_type: TYPE_FP32 dims: [ -1, 256 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ -1, 64 ] }
instance_group [ { kind: KIND_CPU count: 1 } ]
parameters { key: "HINT_BF16" value: { string_value: "YES" } }
"""
BATCHING = (
    CONFIG.replace("-1, 256", "256").replace("-1, 64", "64").replace("input {", "max_batch_size: 2\ninput {")
)
WEIGHTS = np.random.default_rng(5).normal(size=(256, 64)).astype(np.float32)
X = np.random.default_rng(6).normal(size=(3, 256)).astype(np.float32)


def add_product(repository: Path, config: str = CONFIG, *, rows: int | str = "n") -> Path:
    """y = x · w."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 256])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 64])],
        [numpy_helper.from_array(WEIGHTS, "w")],
    )
    (repository / "product/1").mkdir(parents=True)
    (repository / "product/config.pbtxt").write_text(config)
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)
    onnx.save(model, repository / "product/1/model.onnx")
    return repository


def invoke(server: TritonServer, x: np.ndarray) -> TritonResponse:
    tensor = {"name": "x", "datatype": "FP32", "shape": list(x.shape), "data": x.ravel().tolist()}
    return server.request("POST", "/invocations", body=json.dumps({"inputs": [tensor]}).encode())


def answer(server: TritonServer, x: np.ndarray) -> np.ndarray:
    values: list[Any] = outputs(invoke(server, x))["y"]
    return np.array(values, np.float32).reshape(len(x), -1)


def expected_error(start: Start, repository: Path) -> str:
    server = start(repository, ready=False)
    with pytest.raises(TritonFailedError) as caught:
        server.wait_ready(timeout_s=60)
    return str(caught.value)


def rounded(array: np.ndarray) -> np.ndarray:
    """Round to bf16."""
    bits = array.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)


def test_batches_of_any_size_and_the_precision_of_the_parameter(start, tmp_path):
    server = start(add_product(tmp_path / "bf16"))
    for rows in (1, 3, 2):
        right = X[:rows] @ WEIGHTS
        error = np.abs(answer(server, X[:rows]) - right).max()
        assert error < 0.5
        if computes_bf16():
            # Both factors are rounded, and so may be the result.
            halved = rounded(X[:rows]) @ rounded(WEIGHTS)
            assert np.abs(answer(server, X[:rows]) - halved).max() < np.abs(right).max() / 128
            assert error > 1e-3


def test_wrong_shapes_fail_alone(start, tmp_path):
    server = start(add_product(tmp_path / "models"))
    assert b"unexpected shape for input 'x'" in invoke(server, np.zeros((1, 3), np.float32)).body
    assert answer(server, X).shape == (3, 64)


def test_a_config_without_tensors_is_completed_from_a_graph_of_fixed_sizes(start, tmp_path):
    config = 'backend: "openvino"\ndefault_model_filename: "model.onnx"\n'
    server = start(add_product(tmp_path / "models", config, rows=3))
    assert answer(server, X).shape == (3, 64)
    # If one size varies, the original completes all as variable, and then rejects the fixed ones.
    assert "(shape [-1, -1])" in expected_error(start, add_product(tmp_path / "varying", config))


def test_with_batching_only_full_batches_are_answered_as_in_the_original(start, tmp_path):
    server = start(add_product(tmp_path / "models", BATCHING))
    refused = invoke(server, X[:1])
    assert b"expected requests with batch size '2', got '1'" in refused.body
    assert b"ENABLE_BATCH_PADDING" in refused.body


@pytest.mark.parametrize(
    ("written", "instead", "reason"),
    [
        ('"YES"', '"no"', "expected the parameter 'HINT_BF16' to be YES, got no"),
        ('name: "x"', 'name: "z"', "unexpected inference input 'z', allowed inputs are: x"),
        (
            "TYPE_FP32 dims: [ -1, 64",
            "TYPE_FP64 dims: [ -1, 64",
            "unsupported datatype TYPE_FP64 for output 'y'",
        ),
        ("[ -1, 256 ]", "[ -1, -1 ]", "the model expects 2 dimensions (shape [-1, 256]) but"),
        ("[ -1, 256 ]", "[ 256 ]", "the model configuration specifies 1 dimensions (shape [256])"),
        ('"model.onnx"', '"other.onnx"', "unable to find"),
        (
            "HINT_BF16",
            "ENABLE_BATCH_PADDING",
            "ENABLE_BATCH_PADDING is not supported by this server's stand-in",
        ),
        (
            'input { name: "x"',
            'input { name: "w" data_type: TYPE_FP32 dims: [ 1 ] } input { name: "x"',
            "configuration expects 2 inputs, model provides 1",
        ),
    ],
    ids=["hint", "name", "type", "size", "dims", "file", "padding", "count"],
)
def test_config_that_contradicts_the_graph_is_rejected_with_a_message(
    start, tmp_path, written, instead, reason
):
    config = CONFIG.replace(written, instead, 1)
    assert config != CONFIG
    assert reason in expected_error(start, add_product(tmp_path / "models", config))
