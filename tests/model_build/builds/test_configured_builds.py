"""Complete builds of models with their own configuration, served by a real Triton in both hosting modes."""

from pathlib import Path
from typing import Any

import pytest

from model_build.build import build_model
from model_build.errors import ParityError
from model_build.repository.config import read_config
from model_build.store.archive import unpack
from tests.model_build.supplied_models import PYTHON_MODEL, save_onnx, write_supplied
from tritonstack.base.yaml import Document
from tritonstack.spec.models.model import ModelSpec

pytestmark = pytest.mark.soak

COMPLETE = """\
# Ours, tuned by hand.
name: "tiny"
backend: "onnxruntime"
max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: 3 }
output { name: "y" data_type: TYPE_FP32 dims: 2 }
output { name: "best" data_type: TYPE_INT64 dims: 1 reshape { shape: [] } }
dynamic_batching { preferred_batch_size: [ 2, 4 ] }
instance_group { kind: KIND_CPU count: 2 }
"""
INCOMPLETE = "# Only this matters to us.\ninstance_group { kind: KIND_CPU count: 2 }\n"
COUNTER = '''\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Adds up the values of each sequence."""

    def initialize(self, args):
        self.totals = {}

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        def read(name):
            return pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0]

        which = read("which")
        before = 0.0 if read("start") else self.totals[which]
        self.totals[which] = before + read("x")
        total = np.array([[self.totals[which]]], np.float32)
        return pb_utils.InferenceResponse([pb_utils.Tensor("total", total)])
'''


@pytest.mark.parametrize("text", [COMPLETE, INCOMPLETE])
def test_graph_with_a_custom_configuration(text, tmp_path, folders):
    save_onnx(tmp_path / "model/weights/model.onnx")
    (tmp_path / "model/config.pbtxt").write_text(text)
    asked = [{"inputs": {"x": [1.0, 2.0, 3.5]}}, {"random": {"rows": 5}}]
    model = write_supplied(
        tmp_path / "model", {"kind": "onnx"}, test_inputs=asked, triton={"config": "config.pbtxt"}
    )
    built = build_model(model=model, folders=folders)
    unpack(built.artifact_dir / "model.tar.gz", tmp_path / "unpacked", limit_bytes=1 << 30)
    served = (tmp_path / "unpacked/tiny/config.pbtxt").read_text()
    assert served.startswith(text)
    assert (served == text) == (text == COMPLETE)
    config = read_config(tmp_path / "unpacked/tiny/config.pbtxt")
    assert (config.backend, config.max_batch_size, config.instance_group[0].count) == ("onnxruntime", 4, 2)


@pytest.mark.parametrize(
    "text",
    [
        "# Nothing but a word.\n",
        'name: "tiny"\nbackend: "python"\nmax_batch_size: 4\n'
        'input { name: "x" data_type: TYPE_FP32 dims: -1 }\n'
        'output { name: "y" data_type: TYPE_FP32 dims: -1 }\n',
    ],
)
def test_python_model_with_a_custom_configuration(text, tmp_path, folders):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.pbtxt").write_text(text)
    (folder / "model.py").write_text(PYTHON_MODEL.format(imports="", body="y = x * 2"))
    asked = [
        {"inputs": {"x": [1.0, 2.0]}, "outputs": {"y": [2.0, 4.0]}},
        {"inputs": {"x": [3.0]}, "outputs": {"y": [6.0]}},
    ]
    model = write_supplied(
        folder, {"kind": "python"}, source=None, test_inputs=asked, triton={"config": "config.pbtxt"}
    )
    manifest = build_model(model=model, folders=folders).manifest
    assert [tensor.name for tensor in (*manifest.inputs, *manifest.outputs)] == ["x", "y"]
    assert 0 < manifest.shared_memory_bytes <= 4 << 20


def counter(folder: Path, sequences: dict[str, Any], *totals: float, **more: Any) -> Document[ModelSpec]:
    folder.mkdir()
    (folder / "model.py").write_text(COUNTER)
    asked = [
        {"inputs": {"x": [value]}, "outputs": {"total": [total]}}
        for value, total in zip((1.0, 20.0, 300.0), totals, strict=True)
    ]
    triton = {"sequences": {"start": "start", "correlation_id": "which", **sequences}}
    return write_supplied(folder, {"kind": "python"}, source=None, test_inputs=asked, triton=triton, **more)


@pytest.mark.parametrize(
    "sequences",
    [{"strategy": "oldest", "max_candidates": 2}, {"strategy": "direct"}],
    ids=lambda given: given["strategy"],
)
def test_a_model_that_keeps_a_state(sequences, tmp_path, folders):
    model = counter(tmp_path / "model", sequences, 1.0, 21.0, 321.0, batching={"max_batch": 1})
    built = build_model(model=model, folders=folders)
    assert [tensor.name for tensor in built.manifest.inputs] == ["x"]
    # Alone, twice at once, and in multi-model hosting.
    assert built.manifest.parity[-1].cases == 3 * (1 + 2 + 1)
    assert [report.batch for report in built.manifest.latency] == [1]


def test_lost_sequence_state_is_detected(tmp_path, folders):
    model = counter(tmp_path / "model", {"strategy": "oldest"}, 1.0, 20.0, 300.0)
    with pytest.raises(ParityError, match="alone: test input 3"):
        build_model(model=model, folders=folders)
