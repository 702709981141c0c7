"""The stand-in for NVIDIA's PyTorch backend, in a real server."""

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.backends.instance_threads import instance_threads
from tritonstack.reference.threads import OPENMP
from tritonstack.runtime import TritonFailedError, TritonResponse, TritonServer

pytestmark = pytest.mark.e2e
Start = Callable[..., TritonServer]

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


def save_module(repository: Path, module: Any, config: str = CONFIG, name: str = "scale") -> Path:
    import torch

    folder = repository / name
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(config)
    scripted: Any = torch.jit.script(module)
    scripted.save(str(folder / "1/model.pt"))
    return repository


def scale_module() -> Any:
    """y = x * [2, 3][row], and beside each answer the size of the batch that it was computed in."""
    import torch

    class Scale(torch.nn.Module):
        def forward(self, x: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            factors = torch.tensor([2.0, 3.0])
            return x * factors[row], torch.full_like(row, len(row))

    return Scale()


def words_module() -> Any:
    import torch

    class Words(torch.nn.Module):
        def forward(self, words: list[str]) -> tuple[list[str], torch.Tensor]:
            return [word.upper() for word in words], torch.tensor([len(word) for word in words])

    return Words()


def dictionary_module() -> Any:
    import torch

    class Add(torch.nn.Module):
        def forward(self, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
            return tensors["a"] - tensors["b"]

    return Add()


def faulty_module(kind: str) -> Any:
    import torch

    class Scalar(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sum()

    class Double(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.double()

    class Dictionary(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"y": x}

    class Optional(torch.nn.Module):
        def forward(self, x: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
            return x * factor

    return {"scalar": Scalar, "double": Double, "dictionary": Dictionary, "optional": Optional}[kind]()


ONE_IN_ONE_OUT = """
backend: "pytorch"
max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ -1 ] }
"""


def ask(server: TritonServer, *tensors: tuple[str, str, list[int], list[Any]]) -> TritonResponse:
    inputs = [dict(zip(("name", "datatype", "shape", "data"), item, strict=True)) for item in tensors]
    return server.request("POST", "/invocations", body=json.dumps({"inputs": inputs}).encode())


def answers(response: TritonResponse) -> dict[str, list[Any]]:
    assert response.status == 200, response.body
    return {output["name"]: output["data"] for output in json.loads(response.body)["outputs"]}


def ask_together(server: TritonServer, rows: Sequence[int]) -> list[TritonResponse]:
    def one(row: int) -> TritonResponse:
        return ask(server, ("x", "FP32", [1, 2], [1.0, 2.0]), ("row", "INT64", [1, 1], [row]))

    with ThreadPoolExecutor(len(rows)) as pool:
        return list(pool.map(one, rows))


@pytest.mark.soak
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core has one thread with every setting")
def test_instances_share_the_threads_of_the_endpoint(start, tmp_path):
    import torch

    class Large(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.matmul(x.new_ones(256, 256), x.new_ones(256, 256))[: len(x), : x.size(1)]

    config = ONE_IN_ONE_OUT + "instance_group [ { kind: KIND_CPU count: 2 } ]"
    models = save_module(tmp_path / "models", Large(), config)

    def threads(**environment: str) -> int:
        server = start(models, **environment)
        with ThreadPoolExecutor(8) as pool:
            request = ("x", "FP32", [1, 2], [1.0, 2.0])
            replies = list(pool.map(lambda _: answers(ask(server, request)), range(64)))
        assert replies[0]["OUTPUT__0"] == [256.0, 256.0]
        counts = instance_threads(server)
        assert len(counts) == 2
        return sum(counts)

    cores = len(os.sched_getaffinity(0))
    # The endpoint's instance type may have more cores than this machine: the instances share these.
    assert threads(**{OPENMP: str(cores)}) < threads()


def test_forward_arguments_in_any_order_share_a_run_and_a_bad_request_fails_alone(start, tmp_path):
    server = start(save_module(tmp_path / "models", scale_module()))
    good = [answers(response) for response in ask_together(server, [0, 1, 1, 0])]
    assert [answer["y__0"] for answer in good] == [[2.0, 4.0], [3.0, 6.0], [3.0, 6.0], [2.0, 4.0]]
    assert max(answer["batch__1"][0] for answer in good) > 1

    *spared, bad = ask_together(server, [0, 1, 77])
    assert [answers(response)["y__0"] for response in spared] == [[2.0, 4.0], [3.0, 6.0]]
    assert bad.status == 500
    assert "PyTorch execute failure" in json.loads(bad.body)["error"]


@pytest.mark.soak
def test_numbered_names_and_the_order_of_the_file(start, tmp_path):
    """Outputs without numbers are taken in the file's order, as are inputs that match no argument."""
    config = CONFIG.replace('"row"', '"INPUT__1"').replace('"x"', '"INPUT__0"')
    config = config.replace("y__0", "y").replace("batch__1", "batch")
    server = start(save_module(tmp_path / "models", scale_module(), config))
    answer = ask(server, ("INPUT__1", "INT64", [1, 1], [1]), ("INPUT__0", "FP32", [1, 1], [5.0]))
    assert answers(answer) == {"y": [15.0], "batch": [1]}


@pytest.mark.soak
def test_texts_and_a_model_without_batching(start, tmp_path):
    config = """
    backend: "pytorch"
    input { name: "words" data_type: TYPE_STRING dims: [ -1 ] }
    output { name: "OUTPUT__0" data_type: TYPE_STRING dims: [ -1 ] }
    output { name: "OUTPUT__1" data_type: TYPE_INT64 dims: [ -1 ] }
    """
    server = start(save_module(tmp_path / "models", words_module(), config))
    # Texts are bytes to TorchScript: it counts them, and knows no capitals beyond ASCII.
    answer = ask(server, ("words", "BYTES", [3], ["größe", "b", ""]))
    assert answers(answer) == {"OUTPUT__0": ["GRößE", "B", ""], "OUTPUT__1": [7, 1, 0]}


@pytest.mark.soak
def test_a_module_that_takes_one_dictionary(start, tmp_path):
    config = """
    backend: "pytorch"
    max_batch_size: 4
    input { name: "b" data_type: TYPE_FP32 dims: [ 1 ] }
    input { name: "a" data_type: TYPE_FP32 dims: [ 1 ] }
    output { name: "difference" data_type: TYPE_FP32 dims: [ 1 ] }
    """
    server = start(save_module(tmp_path / "models", dictionary_module(), config))
    answer = ask(server, ("a", "FP32", [1, 1], [5.0]), ("b", "FP32", [1, 1], [3.0]))
    assert answers(answer) == {"difference": [2.0]}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("scalar", "output 'OUTPUT__0' is a scalar which is not supported"),
        (
            "double",
            "configuration expects datatype TYPE_FP32 for output 'OUTPUT__0', model provides TYPE_FP64",
        ),
        ("dictionary", "It should not be a List / Dictionary of Tensors"),
    ],
)
def test_answer_rejected_by_the_original_client(start, tmp_path, kind, reason):
    server = start(save_module(tmp_path / "models", faulty_module(kind), ONE_IN_ONE_OUT))
    answer = ask(server, ("x", "FP32", [1, 2], [1.0, 2.0]))
    assert answer.status == 500
    assert reason in json.loads(answer.body)["error"]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("written", "instead", "reason"),
    [
        (
            'input { name: "row" data_type: TYPE_INT64 dims: [ 1 ] }',
            "",
            "configuration expects 1 inputs, model provides 2: x, row",
        ),
        (
            "TYPE_FP32 dims: [ -1 ] }",
            "TYPE_BF16 dims: [ -1 ] }",
            "unsupported datatype TYPE_BF16 for input 'x'",
        ),
        (
            "TYPE_FP32 dims: [ -1 ] }",
            "TYPE_STRING dims: [ -1 ] }",
            "only supports 1 dimensional List of String",
        ),
        ('"false"', '"maybe"', "parameter INFERENCE_MODE is 'maybe', and has to be true or false"),
        ('string_value: "1"', 'string_value: "all"', "parameter INTRA_OP_THREAD_COUNT is 'all'"),
        ("dims: [ -1 ] }", "dims: [ -1 ] allow_ragged_batch: true }", "allow_ragged_batch is not supported"),
    ],
    ids=["missing", "type", "text", "boolean", "number", "ragged"],
)
def test_config_that_contradicts_the_module_is_rejected_with_a_message(
    start, tmp_path, written, instead, reason
):
    config = CONFIG.replace(written, instead, 1)
    assert config != CONFIG
    server = start(save_module(tmp_path / "models", scale_module(), config), ready=False)
    with pytest.raises(TritonFailedError) as caught:
        server.wait_ready(timeout_s=60)
    assert "unable to load model 'scale': " in str(caught.value)
    assert reason in str(caught.value)


def test_a_module_with_an_argument_that_is_not_a_tensor_is_rejected(start, tmp_path):
    server = start(save_module(tmp_path / "models", faulty_module("optional"), ONE_IN_ONE_OUT), ready=False)
    with pytest.raises(TritonFailedError, match="An input of type 'float' was detected in the model"):
        server.wait_ready(timeout_s=60)


@pytest.mark.soak
def test_a_file_that_is_not_a_module_is_named(start, tmp_path):
    models = save_module(tmp_path / "models", scale_module())
    (models / "scale/1/model.pt").write_bytes(b"no module")
    server = start(models, ready=False)
    with pytest.raises(TritonFailedError, match=r"TorchScript cannot read model\.pt"):
        server.wait_ready(timeout_s=60)


@pytest.mark.soak
def test_models_in_python_do_not_see_the_linked_library(start, tmp_path):
    folder = tmp_path / "models/looks"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text('backend: "python"\n')
    (folder / "1/model.py").write_text("import torch\nclass TritonPythonModel: pass\n")
    server = start(tmp_path / "models", ready=False)
    with pytest.raises(TritonFailedError, match="No module named 'torch'"):
        server.wait_ready(timeout_s=60)
