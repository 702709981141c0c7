"""The stand-in for NVIDIA's PyTorch backend, in a real server."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.triton.backends.instance_threads import instance_threads
from tests.triton.kserve_requests import (
    error,
    failed_start,
    invoke,
    invoke_together,
    outputs,
    post,
    tensor,
)
from tritonstack.facts.threads import OPENMP

pytestmark = pytest.mark.e2e

CONFIG = """
platform: "pytorch_libtorch"
max_batch_size: 8
input { name: "row" data_type: TYPE_INT64 dims: [ 1 ] }
input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "y__0" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "batch__1" data_type: TYPE_INT64 dims: [ 1 ] }
instance_group [ { kind: KIND_CPU count: 1 } ]
dynamic_batching { max_queue_delay_microseconds: 300000 }
parameters { key: "INTRA_OP_THREAD_COUNT" value: { string_value: "1" } }
parameters { key: "INFERENCE_MODE" value: { string_value: "false" } }
parameters { key: "DISABLE_OPTIMIZED_EXECUTION" value: { string_value: "true" } }
parameters { key: "ENABLE_JIT_PROFILING" value: { string_value: "false" } }
parameters { key: "DISABLE_CUDNN" value: { string_value: "true" } }
"""
ONE_IN_ONE_OUT = """
backend: "pytorch"
max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ -1 ] }
"""


class Scale(torch.nn.Module):
    """y = x * [2, 3][row], and beside each answer the size of the batch that it was computed in."""

    def forward(self, x: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        factors = torch.tensor([2.0, 3.0])
        return x * factors[row], torch.full_like(row, len(row))


class Words(torch.nn.Module):
    def forward(self, words: list[str]) -> tuple[list[str], torch.Tensor]:
        return [word.upper() for word in words], torch.tensor([len(word) for word in words])


class Difference(torch.nn.Module):
    def forward(self, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        return tensors["a"] - tensors["b"]


class Scalar(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum()


class Double(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.double()


class Dictionary(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x}


class Factor(torch.nn.Module):
    def forward(self, x: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
        return x * factor


class Large(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.matmul(x.new_ones(256, 256), x.new_ones(256, 256))[: len(x), : x.size(1)]


def save_module(repository: Path, module: type[torch.nn.Module] = Scale, config: str = CONFIG) -> Path:
    folder = repository / "scale"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(config)
    scripted: Any = torch.jit.script(module())
    scripted.save(str(folder / "1/model.pt"))
    return repository


@pytest.mark.soak
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core has one thread with every setting")
def test_instances_share_the_threads_of_the_endpoint(start, tmp_path):
    config = ONE_IN_ONE_OUT + "instance_group [ { kind: KIND_CPU count: 2 } ]"
    models = save_module(tmp_path / "models", Large, config)

    def threads(**environment: str) -> int:
        server = start(models, **environment)
        with ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda _: outputs(invoke(server, [1.0, 2.0])), range(64)))
        assert replies[0]["OUTPUT__0"] == [256.0, 256.0]
        counts = instance_threads(server)
        assert len(counts) == 2
        return sum(counts)

    cores = len(os.sched_getaffinity(0))
    # The endpoint's instance type may have more cores than this machine: the instances share these.
    assert threads(**{OPENMP: str(cores)}) < threads()


def test_forward_arguments_in_any_order_share_a_run_and_a_bad_request_fails_alone(host):
    server = host.load(save_module)
    good = [outputs(response) for response in invoke_together(server, [0, 1, 1, 0])]
    assert [answer["y__0"] for answer in good] == [[2.0, 4.0], [3.0, 6.0], [3.0, 6.0], [2.0, 4.0]]
    assert max(answer["batch__1"][0] for answer in good) > 1
    *spared, bad = invoke_together(server, [0, 1, 77])
    assert [outputs(response)["y__0"] for response in spared] == [[2.0, 4.0], [3.0, 6.0]]
    assert "PyTorch execute failure" in error(bad)


NUMBERED = CONFIG.replace('"row"', '"INPUT__1"').replace('"x"', '"INPUT__0"')
IN_ORDER = NUMBERED.replace("y__0", "y").replace("batch__1", "batch")
TEXTS = """
backend: "pytorch"
input { name: "words" data_type: TYPE_STRING dims: [ -1 ] }
output { name: "OUTPUT__0" data_type: TYPE_STRING dims: [ -1 ] }
output { name: "OUTPUT__1" data_type: TYPE_INT64 dims: [ -1 ] }
"""
NAMED = """
backend: "pytorch"
max_batch_size: 4
input { name: "b" data_type: TYPE_FP32 dims: [ 1 ] }
input { name: "a" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "difference" data_type: TYPE_FP32 dims: [ 1 ] }
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("module", "config", "inputs", "expected"),
    [
        # Outputs without numbers are taken in the file's order, as are inputs that match no argument.
        (
            Scale,
            IN_ORDER,
            [tensor("INPUT__1", "INT64", [1]), tensor("INPUT__0", "FP32", [5.0])],
            {"y": [15.0], "batch": [1]},
        ),
        # Texts are bytes to TorchScript: it counts them, and knows no capitals beyond ASCII.
        (
            Words,
            TEXTS,
            [tensor("words", "BYTES", ["größe", "b", ""], [3])],
            {"OUTPUT__0": ["GRößE", "B", ""], "OUTPUT__1": [7, 1, 0]},
        ),
        (
            Difference,
            NAMED,
            [tensor("a", "FP32", [5.0]), tensor("b", "FP32", [3.0])],
            {"difference": [2.0]},
        ),
    ],
    ids=["numbers", "texts", "dictionary"],
)
def test_arguments_and_results_follow_the_original(host, module, config, inputs, expected):
    server = host.load(lambda folder: save_module(folder, module, config))
    assert outputs(post(server, *inputs)) == expected


@pytest.mark.soak
@pytest.mark.parametrize(
    ("module", "reason"),
    [(Scalar, "scalar"), (Double, "TYPE_FP32 for output 'OUTPUT__0'"), (Dictionary, "List / Dictionary")],
)
def test_answer_rejected_by_the_original_client(host, module, reason):
    server = host.load(lambda folder: save_module(folder, module, ONE_IN_ONE_OUT))
    assert reason in error(invoke(server, [1.0, 2.0]))


FREE = "TYPE_FP32 dims: [ -1 ] }"
REJECTED = {
    "missing": ('input { name: "row" data_type: TYPE_INT64 dims: [ 1 ] }', "", "2: x, row"),
    "type": (FREE, FREE.replace("FP32", "BF16"), "TYPE_BF16 for input 'x'"),
    "text": (FREE, FREE.replace("FP32", "STRING"), "List of String"),
    "boolean": ('"false"', '"maybe"', "INFERENCE_MODE is 'maybe'"),
    "number": ('string_value: "1"', 'string_value: "all"', "INTRA_OP_THREAD_COUNT is 'all'"),
    "ragged": (FREE, FREE.replace("}", "allow_ragged_batch: true }"), "allow_ragged_batch"),
}


@pytest.mark.soak
@pytest.mark.parametrize(("written", "instead", "reason"), REJECTED.values(), ids=REJECTED)
def test_config_that_contradicts_the_module_is_rejected(host, written, instead, reason):
    config = CONFIG.replace(written, instead, 1)
    assert config != CONFIG
    message = host.reason(lambda folder: save_module(folder, config=config))
    assert reason in message


def test_a_module_with_an_argument_that_is_not_a_tensor_is_rejected(host):
    assert "type 'float'" in host.reason(lambda folder: save_module(folder, Factor, ONE_IN_ONE_OUT))


@pytest.mark.soak
def test_a_file_that_is_not_a_module_is_named(host):
    def write(folder):
        (save_module(folder) / "scale/1/model.pt").write_bytes(b"no module")

    assert "model.pt" in host.reason(write)


@pytest.mark.soak
def test_models_in_python_do_not_see_the_linked_library(start, tmp_path):
    folder = tmp_path / "models/looks"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text('backend: "python"\n')
    (folder / "1/model.py").write_text("import torch\nclass TritonPythonModel: pass\n")
    assert "'torch'" in failed_start(start(tmp_path / "models", ready=False)).message
