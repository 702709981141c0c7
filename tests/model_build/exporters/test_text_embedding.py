"""The exported graph: right for every pooling and shape, reproducible, and rejected if unsupported."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from safetensors.numpy import load_file, save_file

from model_build.data import ExportedGraph
from model_build.errors import ExportError
from model_build.graphs.onnx_files import save_graph
from model_build.graphs.running import GraphSession
from tests.model_build.frameworks import framework_of
from tests.model_build.tiny import POSITIONS
from tritonstack.base.files import sha256_of

KIND = "text-embedding"


def run(graph: ExportedGraph, input_ids: np.ndarray, attention_mask: np.ndarray) -> np.ndarray:
    inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
    return GraphSession(graph.file).answer(inputs)["embedding"]


def test_graph_has_the_promised_shape_and_no_local_paths(tiny_graph):
    assert [(t.name, t.datatype, t.shape) for t in (*tiny_graph.inputs, *tiny_graph.outputs)] == [
        ("input_ids", "INT64", (-1,)),
        ("attention_mask", "INT64", (-1,)),
        ("embedding", "FP32", (32,)),
    ]
    model = onnx.load(tiny_graph.file)
    assert (model.ir_version, [(o.domain, o.version) for o in model.opset_import]) == (8, [("", 18)])
    content = tiny_graph.file.read_bytes()
    for text in (b"/model_build/", b"site-packages", b".py", b"torch", str(tiny_graph.file.parent).encode()):
        assert text not in content


@pytest.mark.soak  # another process loads the framework again
def test_output_is_the_same_in_another_process_and_folder(tiny_folder, tiny_graph, tmp_path):
    source = shutil.copytree(tiny_folder, tmp_path / "elsewhere")
    script = (
        "import sys; from pathlib import Path\n"
        "from tests.model_build.frameworks import framework_of\n"
        "framework_of(Path(sys.argv[1]), 'text-embedding', max_length=24).export(Path(sys.argv[2]))\n"
    )
    command = [sys.executable, "-c", script, str(source), str(tmp_path / "other")]
    variables = {"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "4"}
    subprocess.run(command, check=True, cwd=Path(__file__).parents[3], env=variables)
    assert sha256_of(tmp_path / "other" / "model.onnx") == sha256_of(tiny_graph.file)


def test_large_weights_are_stored_as_external_data(tiny_graph, tmp_path, monkeypatch):
    monkeypatch.setattr("model_build.graphs.onnx_files.INLINE_LIMIT", 1000)
    saved = save_graph(onnx_ir.load(tiny_graph.file), tmp_path / "1")
    assert {file.name for file in (tmp_path / "1").iterdir()} == {"model.onnx", "model.onnx.data"}
    (tmp_path / "1").rename(tmp_path / "moved")
    moved = ExportedGraph(tmp_path / "moved" / "model.onnx", saved.inputs, saved.outputs)
    ids = np.array([[2, 9, 3]], dtype=np.int64)
    np.testing.assert_array_equal(run(moved, ids, ids * 0 + 1), run(tiny_graph, ids, ids * 0 + 1))


def test_texts_longer_than_the_model_positions(tiny_folder):
    with pytest.raises(ExportError, match=f"{POSITIONS + 1} tokens.* {POSITIONS} positions"):
        framework_of(tiny_folder, KIND, max_length=POSITIONS + 1)


def damage_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["encoder.layer.1.output.dense.weight"][:] = np.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def damage_vocabulary(folder: Path) -> None:
    file = folder / "tokenizer.json"
    file.write_text(file.read_text().replace('"vocab": {', '"vocab": {"zebra": 5000, '))


@pytest.mark.parametrize(
    ("damage", "value"),
    [
        (lambda folder: (folder / "model.safetensors").write_text("damaged"), "load the model"),
        (lambda folder: (folder / "config.json").write_text("damaged"), "config.json"),
        (lambda folder: (folder / "tokenizer.json").write_text("damaged"), "load the tokenizer"),
        (damage_weights, "NaN for embedding"),
        (damage_vocabulary, "5000; .* 120"),
    ],
    ids=["weights", "config", "tokenizer", "numbers", "vocabulary"],
)
def test_damaged_files(tiny_folder, tmp_path, damage, value):
    folder = shutil.copytree(tiny_folder, tmp_path / "model")
    damage(folder)
    with pytest.raises(ExportError, match=value):
        framework_of(folder, KIND, max_length=24)
