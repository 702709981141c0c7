"""Backends that the checking server lacks are reported before anything is fetched or exported."""

import json

import pytest

from model_build.build import BuildFolders, build_model
from model_build.needed_backends import needed_backends, require_backends
from model_build.progress import Progress
from tests.model_build.tiny import write_model
from tests.runtime.test_installation import EMBEDDED
from tritonstack.base.errors import UsageError
from tritonstack.base.yaml import load_document
from tritonstack.runtime.installation import RECORD_NAME
from tritonstack.spec.models.model import ModelSpec

TENSORS = "test_inputs: [{inputs: {x: [1.0]}}]"
TEXTS = "test_inputs: [a text]"


@pytest.mark.parametrize(
    ("recipe", "needed"),
    [
        (f"source: file://m\nrecipe: {{kind: text-embedding}}\n{TEXTS}", ("onnxruntime", "python")),
        (f"source: file://m\nrecipe: {{kind: text-embedding, input: tokens}}\n{TEXTS}", ("onnxruntime",)),
        (
            f"source: file://m\nrecipe: {{kind: text-classification, format: torchscript}}\n{TEXTS}",
            ("python", "pytorch"),
        ),
        (f"source: file://m\nrecipe: {{kind: onnx}}\n{TENSORS}", ("onnxruntime",)),
        (f"source: file://m\nrecipe: {{kind: onnx}}\nprecision: bf16\n{TENSORS}", ("openvino",)),
        (
            f"source: file://m\nrecipe: {{kind: text-embedding}}\nprecision: bf16\n{TEXTS}",
            ("openvino", "python"),
        ),
        (
            f"source: file://m\nrecipe: {{kind: onnx}}\nprecision: auto\n{TENSORS}",
            ("onnxruntime", "openvino"),
        ),
        (
            "source: file://m\nrecipe: {kind: onnx}\nprecision: auto\n"
            f"batching: {{queue_delay_us: 5}}\n{TENSORS}",
            ("onnxruntime",),
        ),
        (f"source: file://m\nrecipe: {{kind: torchscript, file: model.pt}}\n{TENSORS}", ("pytorch",)),
        (f"source: file://m\nrecipe: {{kind: trees, file: model.json}}\n{TENSORS}", ("fil",)),
        (
            "recipe: {kind: ensemble, steps: [{model: a}, {model: b}]}\n" + TENSORS,
            (),
        ),
    ],
)
def test_required_backends_of_a_file(tmp_path, recipe, needed):
    file = tmp_path / "m/model.yaml"
    file.parent.mkdir()
    file.write_text(f"name: m\ndescription: M.\n{recipe}\n")
    assert needed_backends(load_document(file, ModelSpec).record) == needed


def test_a_missing_backend_is_named_with_the_remedy(tmp_path):
    spec = write_model(tmp_path, source="file://m").record
    with pytest.raises(UsageError, match=r"'tiny' cannot be checked here: .* no onnxruntime") as caught:
        require_backends(spec, EMBEDDED)
    assert "tritonstack setup" in str(caught.value)


def test_missing_backend_is_reported_before_the_source_is_fetched(tmp_path, folders):
    server = tmp_path / "server"
    (server / "backends/python").mkdir(parents=True)
    (server / "lib").mkdir()
    record = {
        "version": "1",
        "release": "24.10",
        "site_packages": "p",
        "outside": [],
        "missing": {},
        "inputs": "",
    }
    (server / RECORD_NAME).write_text(json.dumps(record))
    told: list[Progress] = []
    with pytest.raises(UsageError, match="no onnxruntime backend"):
        build_model(
            model=write_model(tmp_path, source="file://nowhere"),
            folders=BuildFolders(folders.artifacts, folders.cache, server),
            on_progress=told.append,
        )
    assert told == []
