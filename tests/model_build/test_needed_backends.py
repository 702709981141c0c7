"""Backends that the checking server lacks are reported before anything is fetched or exported."""

import json

import pytest

from model_build.build import BuildFolders, build_model
from model_build.needed_backends import needed_backends
from model_build.progress import Progress
from tests.model_build.tiny import write_model
from tritonstack.base.errors import UsageError
from tritonstack.base.yaml import load_document
from tritonstack.runtime.installation import RECORD_NAME
from tritonstack.spec.models.model import ModelSpec

TENSORS = "test_inputs: [{inputs: {x: [1.0]}}]"
ONNX = f"{TENSORS}\nsource: file://m\nrecipe: {{kind: onnx}}\n"
TEXT = "test_inputs: [a text]\nsource: file://m\nrecipe: "
EMBEDDING = TEXT + "{kind: text-embedding}\n"


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        (EMBEDDING, ["onnxruntime", "python"]),
        (EMBEDDING + "precision: bf16\n", ["openvino", "python"]),
        (TEXT + "{kind: text-embedding, input: tokens}", ["onnxruntime"]),
        (TEXT + "{kind: text-classification, format: torchscript}", ["python", "pytorch"]),
        (ONNX, ["onnxruntime"]),
        (ONNX + "precision: bf16\n", ["openvino"]),
        (ONNX + "precision: auto\n", ["onnxruntime", "openvino"]),
        (ONNX + "precision: auto\nbatching: {queue_delay_us: 5}\n", ["onnxruntime"]),
        (ONNX.replace("kind: onnx", "kind: torchscript, file: model.pt"), ["pytorch"]),
        (ONNX.replace("kind: onnx", "kind: trees, file: model.json"), ["fil"]),
        (f"recipe: {{kind: ensemble, steps: [{{model: a}}, {{model: b}}]}}\n{TENSORS}", []),
    ],
)
def test_required_backends_of_a_file(tmp_path, text, needed):
    file = tmp_path / "model.yaml"
    file.write_text(f"name: m\ndescription: M.\n{text}\n")
    assert list(needed_backends(load_document(file, ModelSpec).record)) == needed


def test_missing_backend_is_reported_before_the_source_is_fetched(tmp_path, folders):
    server = tmp_path / "server"
    (server / "backends/python").mkdir(parents=True)
    (server / "lib").mkdir()
    record = {"version": "1", "release": "24.10", "site_packages": "p", "outside": [], "missing": {}}
    (server / RECORD_NAME).write_text(json.dumps(record))
    steps: list[Progress] = []
    with pytest.raises(UsageError, match="no onnxruntime") as caught:
        build_model(
            model=write_model(tmp_path, source="file://nowhere"),
            folders=BuildFolders(folders.artifacts, folders.cache, server),
            on_progress=steps.append,
        )
    assert "tritonstack setup" in (caught.value.remedy or "")
    assert steps == []
