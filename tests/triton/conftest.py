"""An installed server, and small repositories for it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.contract.drivers import EmbeddedDriver
from tests.python_models import python_model
from tests.triton.kserve_requests import Host
from tritonstack.base.paths import find_project
from tritonstack.triton import TritonInstallation, TritonServer, find_installation

IR_VERSION, OPSET = 9, 17  # what the pinned runtime and every release since 2023 can read

ONNX_CONFIG = """
platform: "onnxruntime_onnx"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }
input { name: "row" data_type: TYPE_INT64 dims: [ 1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "batch" data_type: TYPE_INT64 dims: [ 1 ] reshape: { shape: [] } }
instance_group [ { kind: KIND_CPU count: 1 } ]
dynamic_batching { max_queue_delay_microseconds: 300000 }
parameters { key: "intra_op_thread_count" value: { string_value: "1" } }
"""

PYTHON_CONFIG = """
backend: "python"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""

NEGATE = python_model("-x", "if (x == 666).any(): os.abort()")


def scale_graph() -> onnx.ModelProto:
    """y = x * [2, 3][row], and beside each answer the size of the batch that it was computed in.

    A row other than 0 and 1 makes the whole run fail.
    """
    nodes = [
        helper.make_node("Gather", ["factors", "row"], ["factor"]),
        helper.make_node("Mul", ["x", "factor"], ["y"]),
        helper.make_node("Shape", ["row"], ["shape"]),
        helper.make_node("Slice", ["shape", "zero", "one"], ["rows"]),
        helper.make_node("Expand", ["rows", "rows"], ["batch"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "k"]),
        helper.make_tensor_value_info("row", TensorProto.INT64, ["n", 1]),
    ]
    outputs = [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "k"]),
        helper.make_tensor_value_info("batch", TensorProto.INT64, ["n"]),
    ]
    constants = [
        helper.make_tensor("factors", TensorProto.FLOAT, [2], [2.0, 3.0]),
        helper.make_tensor("zero", TensorProto.INT64, [1], [0]),
        helper.make_tensor("one", TensorProto.INT64, [1], [1]),
    ]
    graph = helper.make_graph(nodes, "scale", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def add_onnx_model(repository: Path, *, config: str = ONNX_CONFIG, name: str = "scale") -> Path:
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(config)
    onnx.save(scale_graph(), folder / "1/model.onnx")
    return repository


def add_python_model(repository: Path, *, source: str = NEGATE, name: str = "negate") -> Path:
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(PYTHON_CONFIG)
    (folder / "1/model.py").write_text(source)
    return repository


@pytest.fixture(scope="session")
def installation() -> TritonInstallation:
    """The server that `make server` installs."""
    return find_installation(home=find_project(Path(__file__)).state_dir / "server")


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """A multi-model server that the tests of a file share."""
    driver = EmbeddedDriver()
    yield Host(driver.multi_model())
    driver.close()


Start = Callable[..., TritonServer]


@pytest.fixture
def start(installation: TritonInstallation, tmp_path: Path) -> Iterator[Start]:
    """Start servers that stop with the test; they are ready by default."""
    servers: list[TritonServer] = []

    def start_server(repository: Path, *, ready: bool = True, **environment: str) -> TritonServer:
        server = TritonServer.start(
            installation=installation,
            model_root=repository,
            environment={"SAGEMAKER_TRITON_LOG_VERBOSE": "false", **environment},
            state_dir=tmp_path / f"state-{len(servers)}",
        )
        servers.append(server)
        if ready:
            server.wait_ready(timeout_s=60)
        return server

    yield start_server
    for server in servers:
        server.stop(grace_s=0)
