"""OpenVINO in a build's process: Ctrl-C still stops the build."""

import signal
import subprocess
import sys

from tests.model_build.graph_texts import save_graph

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
    file = save_graph(tmp_path / "model.onnx", "(float[batch, 4] x) => (float[batch, 4] y) { y = Relu(x) }")
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(file)], stderr=subprocess.PIPE, text=True, check=False
    )
    assert ended.returncode == -signal.SIGINT, (ended.returncode, ended.stderr)
    assert ended.stderr.endswith("KeyboardInterrupt\n")
