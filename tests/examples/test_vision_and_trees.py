"""examples/vision-and-trees: its README."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.examples.running import passed
from tests.model_build.written_repositories import tensors, write_repository
from tools.examples import GALLERY
from tritonstack.base.yaml import load_document
from tritonstack.files.model.model import ModelSpec

KINDS = {
    "resnet": "image-classification",
    "detector": "onnx",
    "topics": "text-classification",
    "fraud": "trees",
    "delivery": "trees",
    "churn": "scikit-learn",
}


@pytest.mark.soak
def test_its_readme_runs(tmp_path):
    result = passed("vision-and-trees", tmp_path)
    assert {model.model: model.kind for model in result.models} == {
        name: f"multi-model, {kind}" for name, kind in KINDS.items()
    }
    assert max(model.max_absolute_error or 0 for model in result.models) < 1e-4
    assert result.model_python_lines == 0


def save_graph(file: Path) -> None:
    """Save a graph with the tensors of ultralytics' export of YOLOv10 (dynamic=True)."""
    image = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, "height", "width"])
    boxes = helper.make_tensor_value_info("output0", TensorProto.FLOAT, ["batch", 300, 6])
    nodes = [
        helper.make_node("ReduceMean", ["images", "pixels"], ["means"], keepdims=0),
        helper.make_node("Concat", ["means", "means"], ["six"], axis=1),
        helper.make_node("Unsqueeze", ["six", "rows"], ["row"]),
        helper.make_node("Mul", ["row", "ones"], ["output0"]),
    ]
    constants = {"pixels": np.array([2, 3]), "rows": np.array([1]), "ones": np.ones((1, 300, 1), np.float32)}
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "yolo", [image], [boxes], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), file)


def test_the_pretrained_detector_takes_images(tmp_path):
    """What the README uploads to S3, as a folder."""
    source = GALLERY / "vision-and-trees/models/yolo"
    shutil.copytree(source, tmp_path / "yolo/weights")
    save_graph(tmp_path / "yolo/weights/yolov10n.onnx")
    shutil.copy(source / "example.png", tmp_path / "yolo")
    text = (source / "model.yaml").read_text().replace("s3://our-models/yolov10n/1", "file://weights")
    (tmp_path / "yolo/model.yaml").write_text(text)
    model = load_document(tmp_path / "yolo/model.yaml", ModelSpec)
    written = write_repository(model, tmp_path / "work", "sm75-26.05")
    assert tensors(written) == [("IMAGE", "BYTES", (1,)), ("output0", "FP32", (300, 6))]
    assert {item.name for item in written.folder.iterdir()} == {"preparer", "model", "yolo"}
