"""The stand-in for Triton's OpenVINO backend, in a real server."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from model_build.graphs.openvino_session import computes_bf16
from tests.triton.conftest import IR_VERSION, OPSET
from tests.triton.kserve_requests import Served, failed_start, outputs, post, tensor
from tritonstack.triton import TritonResponse

pytestmark = pytest.mark.e2e

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
UNDECLARED = 'backend: "openvino"\ndefault_model_filename: "model.onnx"\n'
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
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.save(model, repository / "product/1/model.onnx")
    return repository


def invoke(server: Served, x: np.ndarray) -> TritonResponse:
    return post(server, tensor("x", "FP32", x.ravel().tolist(), list(x.shape)))


def answer(server: Served, x: np.ndarray) -> np.ndarray:
    values: list[Any] = outputs(invoke(server, x))["y"]
    return np.array(values, np.float32).reshape(len(x), -1)


def rounded(array: np.ndarray) -> np.ndarray:
    """Round to bf16."""
    bits = array.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)


def test_batches_of_any_size_and_the_precision_of_the_parameter(host):
    server = host.load(add_product)
    for rows in (1, 3, 2):
        right = X[:rows] @ WEIGHTS
        difference = np.abs(answer(server, X[:rows]) - right).max()
        assert difference < 0.5
        if computes_bf16():
            # Both factors are rounded, and so may be the result.
            halved = rounded(X[:rows]) @ rounded(WEIGHTS)
            assert np.abs(answer(server, X[:rows]) - halved).max() < np.abs(right).max() / 128
            assert difference > 1e-3
    assert b"shape for input 'x'" in invoke(server, np.zeros((1, 3), np.float32)).body
    assert answer(server, X).shape == (3, 64)


def test_a_config_without_tensors_is_completed_from_a_graph_of_fixed_sizes(start, tmp_path):
    server = start(add_product(tmp_path / "models", UNDECLARED, rows=3))
    assert answer(server, X).shape == (3, 64)
    # If one size varies, the original completes all as variable, and then rejects the fixed ones.
    server = start(add_product(tmp_path / "varying", UNDECLARED), ready=False)
    assert "[-1, -1]" in failed_start(server).message


def test_with_batching_only_full_batches_are_answered_as_in_the_original(host):
    server = host.load(lambda folder: add_product(folder, BATCHING))
    refused = invoke(server, X[:1]).body
    assert b"size '2', got '1'" in refused
    assert b"ENABLE_BATCH_PADDING" in refused


EXTRA = 'input { name: "w" data_type: TYPE_FP32 dims: [ 1 ] } '
REJECTED = {
    "hint": ('"YES"', '"no"', "be YES, got no"),
    "name": ('name: "x"', 'name: "z"', "'z', allowed inputs are: x"),
    "type": ("TYPE_FP32 dims: [ -1, 64", "TYPE_FP64 dims: [ -1, 64", "TYPE_FP64 for output 'y'"),
    "size": ("[ -1, 256 ]", "[ -1, -1 ]", "(shape [-1, 256])"),
    "dims": ("[ -1, 256 ]", "[ 256 ]", "(shape [256])"),
    "file": ('"model.onnx"', '"other.onnx"', "other.onnx"),
    "padding": ("HINT_BF16", "ENABLE_BATCH_PADDING", "ENABLE_BATCH_PADDING"),
    "count": ('input { name: "x"', EXTRA + 'input { name: "x"', "2 inputs, model provides 1"),
}


@pytest.mark.parametrize(("written", "instead", "reason"), REJECTED.values(), ids=REJECTED)
def test_config_that_contradicts_the_graph_is_rejected(host, written, instead, reason):
    config = CONFIG.replace(written, instead, 1)
    assert config != CONFIG
    assert reason in host.reason(lambda folder: add_product(folder, config))
