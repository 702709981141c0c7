"""A tokenizer or an image decoder in front of a given graph, checked against running both in Python."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from model_build.build import build_model
from model_build.recipes import recipe_for
from model_build.repository.config import read_config
from tests.model_build.graph_texts import save_graph
from tests.model_build.supplied_models import write_supplied
from tests.model_build.tiny import TEXTS, VOCABULARY
from tests.model_build.tiny_tasks import save_pictures, save_task_tokenizer
from tests.model_build.written_repositories import error_of, tensors, violation_of, write_repository
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec

WIDTH = 4
TABLE = np.random.default_rng(6).standard_normal((VOCABULARY, WIDTH)).astype(np.float32)
NAMES = ("input_ids", "attention_mask", "token_type_ids")
LENGTH = 24


def save_sums(
    folder: Path, *, names: tuple[str, ...] = NAMES[:2], datatype: str = "int64", length: int | str = "length"
) -> None:
    """Save a graph that sums the vectors of tokens."""
    steps = [f"vectors = Gather(table, {names[0]})"]
    last = "vectors"
    if "attention_mask" in names:
        steps += [
            "mask = Cast<to = 1>(attention_mask)",
            "column = Unsqueeze(mask, last)",
            "masked = Mul(vectors, column)",
        ]
        last = "masked"
    if "token_type_ids" in names:
        steps += [
            "types = Cast<to = 1>(token_type_ids)",
            "types_column = Unsqueeze(types, last)",
            f"typed = Add({last}, types_column)",
        ]
        last = "typed"
    steps.append(f"y = ReduceSum<keepdims = 0>({last}, middle)")
    inputs = ", ".join(f"{datatype}[batch, {length}] {name}" for name in names)
    text = f"({inputs}) => (float[batch, {WIDTH}] y) {{ {' '.join(steps)} }}"
    save_graph(folder / "model.onnx", text, table=TABLE, last=[-1], middle=[1])


def save_pixels(folder: Path, shape: tuple[Any, ...] = ("batch", 3, 16, 16)) -> None:
    """Save a graph that returns the mean of each channel, and an image processor."""
    from transformers import ViTImageProcessorPil

    text = f"""(float{list(shape)} picture) => (float[batch, 3] means) {{
        means = ReduceMean<axes = [2, 3], keepdims = 0>(picture)
    }}"""
    save_graph(folder / "model.onnx", text.replace("'", ""))
    processor: Any = ViTImageProcessorPil
    processor(size={"height": 16, "width": 16}).save_pretrained(folder / "processor")


def texts(folder: Path, *, graph: dict[str, Any] | None = None, **more: Any) -> Document[ModelSpec]:
    (folder / "weights").mkdir(parents=True)
    save_task_tokenizer(folder / "weights")
    save_sums(folder / "weights", **(graph or {}))
    recipe = {"kind": "onnx", "input": "text", "max_length": LENGTH}
    return write_supplied(folder, recipe, test_inputs=[{"text": text} for text in TEXTS], **more)


def images(folder: Path, shape: tuple[Any, ...] = ("batch", 3, 16, 16)) -> Document[ModelSpec]:
    save_pixels(folder / "weights", shape)
    save_pictures(folder, "a.png", "b.jpg")
    recipe = {"kind": "onnx", "input": "image", "processor": "processor"}
    return write_supplied(folder, recipe, test_inputs=[{"image": "a.png"}, {"image": "b.jpg"}])


@pytest.mark.parametrize(
    ("names", "datatype"),
    [
        (NAMES[:1], "int32"),
        (NAMES[:2], "int32"),
        (NAMES[:2], "int64"),
        (NAMES, "int64"),
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
        kind = np.int32 if datatype == "int32" else np.int64
        types = np.zeros_like(tokens["input_ids"])
        arrays = {name: tokens.get(name, types).astype(kind) for name in names}
        np.testing.assert_allclose(case.expected["y"], session.run(["y"], arrays)[0], rtol=1e-5)
        checked.append(case.name)
    assert {"test input 1", "an empty text", "a text to cut"} <= set(checked)
    config = read_config(written.folder / "tokenizer" / "config.pbtxt")
    assert [tensor.name for tensor in config.output] == list(names)
    assert (config.parameters["padding"].string_value == "together") == (
        "attention_mask" in names and (len(names) == 3 or datatype == "int32")
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
    save_task_tokenizer(tmp_path / "weights")
    scripted: Any = torch.jit.script(Sums())
    scripted.save(str(tmp_path / "weights/sums.pt"))
    recipe = {"kind": "torchscript", "file": "sums.pt", "input": "text", "max_length": LENGTH}
    model = write_supplied(tmp_path, recipe, test_inputs=[{"text": text} for text in TEXTS])
    manifest = build_model(model=model, folders=folders).manifest
    assert [tensor.name for tensor in manifest.inputs] == ["TEXT"]
    assert manifest.parity[-1].max_absolute_error < 1e-5


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (texts, {"graph": {"names": ("ids", "attention_mask")}}, "takes ids, attention_mask"),
        (texts, {"graph": {"length": 8}}, "input_ids is INT64 [8]"),
        (images, {"shape": ("batch", 3, 20, 20)}, "picture FP32 [3, 20, 20]"),
    ],
)
def test_graphs_that_take_other_tensors(tmp_path, make, change, message):
    assert message in error_of(lambda: make(tmp_path, **change), tmp_path)


@pytest.mark.parametrize(
    ("changes", "field"), [({"batching": {"max_batch": 0}}, "batching"), ({"name": "tokenizer"}, "name")]
)
def test_conflicts_in_the_file(tmp_path, changes, field):
    with pytest.raises(InvalidFilesError, match=field):
        recipe_for(texts(tmp_path, **changes))


def test_a_graph_without_batches_must_be_exported_again(tmp_path):
    """`max_batch: 0` is no remedy: what is in front of the graph needs batches."""
    violation = violation_of(images(tmp_path, (1, 3, 16, 16)), tmp_path)
    assert "max_batch" not in (violation.remedy or "")
