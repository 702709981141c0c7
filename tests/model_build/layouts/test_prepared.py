"""A tokenizer or an image decoder in front of a given graph, checked against running both in Python."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from model_build.build import build_model
from model_build.recipes import recipe_for
from model_build.repository.config import read_config
from tests.model_build.supplied_models import write_supplied
from tests.model_build.tiny import TEXTS, VOCABULARY
from tests.model_build.tiny_tasks import save_tokenizer
from tests.model_build.written_repositories import error_of, tensors, write_repository
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import Document
from tritonstack.spec.models.model import ModelSpec

WIDTH = 4
TABLE = np.random.default_rng(6).standard_normal((VOCABULARY, WIDTH)).astype(np.float32)
NAMES = ("input_ids", "attention_mask", "token_type_ids")
LENGTH = 24


def save_graph(
    folder: Path,
    *,
    names: tuple[str, ...] = NAMES[:2],
    datatype: int = TensorProto.INT64,
    per_token: bool = False,
    length: int | str = "length",
) -> None:
    """Save a graph that sums the vectors of tokens, or returns them."""
    nodes = [helper.make_node("Gather", ["table", names[0]], ["vectors"])]
    last = "vectors"
    if "attention_mask" in names:
        nodes += [
            helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["mask", "last"], ["column"]),
            helper.make_node("Mul", ["vectors", "column"], ["masked"]),
        ]
        last = "masked"
    if "token_type_ids" in names:
        nodes += [
            helper.make_node("Cast", ["token_type_ids"], ["types"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["types", "last"], ["types_column"]),
            helper.make_node("Add", [last, "types_column"], ["typed"]),
        ]
        last = "typed"
    end = ("Identity", [last]) if per_token else ("ReduceSum", [last, "middle"])
    nodes.append(helper.make_node(*end, ["y"], **({} if per_token else {"keepdims": 0})))
    shape = ["batch", length, WIDTH] if per_token else ["batch", WIDTH]
    graph = helper.make_graph(
        nodes,
        "sums",
        [helper.make_tensor_value_info(name, datatype, ["batch", length]) for name in names],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [
            numpy_helper.from_array(TABLE, "table"),
            numpy_helper.from_array(np.array([-1]), "last"),
            numpy_helper.from_array(np.array([1]), "middle"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "model.onnx")


def save_pixels(folder: Path, shape: tuple[Any, ...] = ("batch", 3, 16, 16)) -> None:
    """Save a graph that returns the mean of each channel, and an image processor."""
    from transformers import ViTImageProcessorPil

    graph = helper.make_graph(
        [helper.make_node("ReduceMean", ["picture"], ["means"], axes=[2, 3], keepdims=0)],
        "means",
        [helper.make_tensor_value_info("picture", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("means", TensorProto.FLOAT, ["batch", 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    processor: Any = ViTImageProcessorPil
    processor(size={"height": 16, "width": 16}).save_pretrained(folder / "processor")


def texts(folder: Path, *, graph: dict[str, Any] | None = None, **more: Any) -> Document[ModelSpec]:
    (folder / "weights").mkdir(parents=True)
    save_tokenizer(folder / "weights")
    save_graph(folder / "weights", **(graph or {}))
    recipe = {"kind": "onnx", "input": "text", "max_length": LENGTH}
    return write_supplied(folder, recipe, test_inputs=[{"text": text} for text in TEXTS], **more)


def images(folder: Path, shape: tuple[Any, ...] = ("batch", 3, 16, 16)) -> Document[ModelSpec]:
    save_pixels(folder / "weights", shape)
    random = np.random.default_rng(2)
    for name in ("a.png", "b.jpg"):
        Image.fromarray(random.integers(0, 256, (50, 40, 3), dtype=np.uint8)).save(folder / name)
    recipe = {"kind": "onnx", "input": "image", "processor": "processor"}
    return write_supplied(folder, recipe, test_inputs=[{"image": "a.png"}, {"image": "b.jpg"}])


@pytest.mark.parametrize(
    ("names", "datatype"),
    [
        (NAMES[:1], TensorProto.INT32),
        (NAMES[:2], TensorProto.INT32),
        (NAMES[:2], TensorProto.INT64),
        (NAMES, TensorProto.INT64),
    ],
)
def test_texts_in_front_of_a_graph(tmp_path, names, datatype):
    import transformers

    written = write_repository(texts(tmp_path, graph={"names": names, "datatype": datatype}), tmp_path / "w")
    assert tensors(written) == [("TEXT", "BYTES", (1,)), ("y", "FP32", (WIDTH,))]
    assert {folder.name for folder in written.folder.iterdir()} == {"tiny", "tokenizer", "model"}
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(tmp_path / "weights")
    session = onnxruntime.InferenceSession(str(tmp_path / "weights/model.onnx"))
    checked = []
    for case in written.cases:
        sent = [row[0] for row in case.inputs["TEXT"]]
        if len(sent) > 1 and "attention_mask" not in names:
            continue  # padding changes the answers of such a graph
        tokens = tokenizer(sent, padding=True, truncation=True, max_length=LENGTH, return_tensors="np")
        kind = np.int32 if datatype == TensorProto.INT32 else np.int64
        types = np.zeros_like(tokens["input_ids"])
        arrays = {name: tokens.get(name, types).astype(kind) for name in names}
        np.testing.assert_allclose(case.expected["y"], session.run(["y"], arrays)[0], rtol=1e-5)
        checked.append(case.name)
    assert {"test input 1", "an empty text", "a text to cut"} <= set(checked)
    config = read_config(written.folder / "tokenizer" / "config.pbtxt")
    assert [tensor.name for tensor in config.output] == list(names)
    assert (config.parameters["padding"].string_value == "together") == (
        "attention_mask" in names and (len(names) == 3 or datatype == TensorProto.INT32)
    )
    assert written.unverified


def test_right_answers_beside_texts_verify_a_graph(tmp_path):
    model = texts(tmp_path)
    first = write_repository(model, tmp_path / "first")
    inputs = [
        {"text": text, "outputs": {"y": case.expected["y"][0].tolist()}}
        for text, case in zip(TEXTS, first.cases, strict=False)
    ]
    recipe = {"kind": "onnx", "input": "text", "max_length": LENGTH}
    written = write_repository(write_supplied(tmp_path, recipe, test_inputs=inputs), tmp_path / "second")
    assert written.unverified == ()
    assert written.cases[0].origin == "given"
    inputs[1]["outputs"] = {"y": [9.0] * WIDTH}
    wrong = write_supplied(tmp_path, recipe, test_inputs=inputs)
    assert "differs" in error_of(lambda: wrong, tmp_path)


def test_images_in_front_of_a_graph(tmp_path):
    import transformers

    written = write_repository(images(tmp_path, ("batch", 3, "height", "width")), tmp_path / "w")
    assert tensors(written) == [("IMAGE", "BYTES", (1,)), ("means", "FP32", (3,))]
    assert {folder.name for folder in written.folder.iterdir()} == {"tiny", "preparer", "model"}
    auto: Any = transformers.AutoImageProcessor
    processor = auto.from_pretrained(tmp_path / "weights/processor", backend="pil")
    for case, name in zip(written.cases, ("a.png", "b.jpg"), strict=False):
        pixels = processor(Image.open(tmp_path / name), return_tensors="np")["pixel_values"]
        np.testing.assert_allclose(case.expected["means"], pixels.mean(axis=(2, 3)), atol=1e-6)
    config = read_config(written.folder / "model" / "config.pbtxt")
    assert list(config.input[0].dims) == [3, 16, 16]


@pytest.mark.e2e
@pytest.mark.parametrize("make", [texts, pytest.param(images, marks=pytest.mark.soak)])
def test_a_given_graph_end_to_end(tmp_path, folders, make):
    manifest = build_model(model=make(tmp_path / "model"), folders=folders).manifest
    assert manifest.parity[-1].stage == "served"
    assert manifest.parity[-1].max_absolute_error < 1e-5
    assert len(manifest.environments) == 1


@pytest.mark.soak
def test_texts_in_front_of_torchscript(tmp_path, folders):
    import torch

    class Sums(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding.from_pretrained(torch.from_numpy(TABLE))

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            return (self.table(input_ids) * attention_mask.unsqueeze(-1)).sum(dim=1)

    (tmp_path / "weights").mkdir()
    save_tokenizer(tmp_path / "weights")
    scripted: Any = torch.jit.script(Sums())
    scripted.save(str(tmp_path / "weights/sums.pt"))
    recipe = {"kind": "torchscript", "file": "sums.pt", "input": "text", "max_length": LENGTH}
    model = write_supplied(tmp_path, recipe, test_inputs=[{"text": text} for text in TEXTS])
    manifest = build_model(model=model, folders=folders).manifest
    assert [tensor.name for tensor in manifest.inputs] == ["TEXT"]
    assert manifest.parity[-1].max_absolute_error < 1e-5


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({"names": ("ids", "attention_mask")}, "takes ids, attention_mask"),
        ({"length": 8}, "input_ids is INT64 [8]"),
    ],
)
def test_graphs_that_take_no_tokens(tmp_path, graph, message):
    assert message in error_of(lambda: texts(tmp_path, graph=graph), tmp_path)


def test_graphs_that_take_other_pixels(tmp_path):
    message = error_of(lambda: images(tmp_path, ("batch", 3, 20, 20)), tmp_path)
    assert "picture FP32 [3, 20, 20]" in message
    assert "one FP32 [3, 16, 16]" in message


@pytest.mark.parametrize(
    ("changes", "field"), [({"batching": {"max_batch": 0}}, "batching"), ({"name": "tokenizer"}, "name")]
)
def test_conflicts_in_the_file(tmp_path, changes, field):
    with pytest.raises(InvalidFilesError, match=field):
        recipe_for(texts(tmp_path, **changes))


def test_a_graph_without_batches_must_be_exported_again(tmp_path):
    """`max_batch: 0` is no remedy: what is in front of the graph needs batches."""
    with pytest.raises(InvalidFilesError) as caught:
        write_repository(images(tmp_path, (1, 3, 16, 16)), tmp_path / "work")
    (violation,) = caught.value.violations
    assert "max_batch" not in (violation.remedy or "")
