"""OpenVINO in a build's process: Ctrl-C still stops the build."""

import signal
import subprocess
import sys

import onnx
from onnx import TensorProto, helper

SCRIPT = """
import os, signal, sys
from pathlib import Path
from model_build.graphs.openvino_session import OpenVinoSession

signal.signal(signal.SIGINT, signal.default_int_handler)
first, second = (OpenVinoSession(Path(sys.argv[1]), threads=1) for _ in range(2))
del first
del second
os.kill(os.getpid(), signal.SIGINT)
"""


def test_ctrl_c_is_an_interrupt_after_two_sessions(tmp_path):
    """OpenVINO replaces the thread's signal stack; of two sessions, the last one restores a freed stack."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "graph",
        [value("x", TensorProto.FLOAT, ["batch", 4])],
        [value("y", TensorProto.FLOAT, ["batch", 4])],
    )
    file = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(file)], stderr=subprocess.PIPE, text=True, check=False
    )
    assert ended.returncode == -signal.SIGINT, (ended.returncode, ended.stderr)
    assert ended.stderr.endswith("KeyboardInterrupt\n")
