"""User-supplied ONNX graphs and TorchScript: what is accepted, what is rejected, and reproducible bytes."""

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from model_build.errors import UnsafeWeightsError
from model_build.repository.config import read_config
from tests.model_build.graph_texts import save_graph
from tests.model_build.supplied_models import save_onnx, save_scripted, write_entry, write_supplied
from tests.model_build.written_repositories import contents, error_of, tensors, violation_of, write_repository

X = [{"inputs": {"x": [1.0, 2.0, 3.5]}}, {"inputs": {"x": [0.0, -2.0, 3.5]}}]
SCALED = [
    {"inputs": {"x": [1.0, 2.0, 3.5], "scale": [2.0]}},
    {"inputs": {"x": [0.0, 1.0, 0.5], "scale": [3.0]}},
]
MASKED = [{"inputs": {"x": [1.0, 2.0, 3.5], "mask": [1.0]}}]
TRUST = {"pickle": "made by this very test"}
ONNX, TORCHSCRIPT = {"kind": "onnx"}, {"kind": "torchscript", "file": "net.pt"}
ENTRY = {"kind": "torchscript", "entry": "scorer.py:make"}


@pytest.mark.parametrize("external", [False, True])
def test_tensors_are_read_from_the_onnx_graph(tmp_path, external):
    file = save_onnx(tmp_path / "weights/net.onnx", external=external)
    recipe = {"kind": "onnx", "file": "net.onnx"}
    model = write_supplied(tmp_path, recipe, test_inputs=[*X, {"random": {"rows": 2}}])
    repository = write_repository(model, tmp_path / "work")
    assert tensors(repository) == [("x", "FP32", (3,)), ("y", "FP32", (2,)), ("best", "INT64", (1,))]
    assert [case.expected["best"].shape for case in repository.cases] == [(1, 1)] * 4
    files = contents(repository.folder / "tiny" / "1")
    assert files["model.onnx"] == file.read_bytes()
    assert set(files) == {"model.onnx", *(["net.onnx.data"] if external else [])}


def test_an_onnx_graph_without_a_batch_dimension(tmp_path):
    save_onnx(tmp_path / "weights/model.onnx", batch=1)
    violation = violation_of(write_supplied(tmp_path, ONNX, test_inputs=X), tmp_path)
    assert (violation.field, "x [1, 3]" in violation.message) == ("batching.max_batch", True)
    unbatched = {"test_inputs": [{"inputs": {"x": [[1.0, 2.0, 3.0]]}}], "batching": {"max_batch": 0}}
    repository = write_repository(write_supplied(tmp_path, ONNX, **unbatched), tmp_path / "other")
    assert tensors(repository) == [("x", "FP32", (1, 3)), ("y", "FP32", (1, 2)), ("best", "INT64", (1,))]


TABLE = np.arange(6, dtype=np.float32).reshape(3, 2)
RESHAPE, CONCAT = "Reshape(p, one)", "Concat<axis = 0>(p, p)"


@pytest.mark.parametrize(
    ("last", "size", "value"),
    [(RESHAPE, "batch", "in a batch of 2 rows"), (CONCAT, "k", "; expected one row per requested row")],
)
def test_a_graph_without_its_declared_batch_dimension(tmp_path, last, size, value):
    text = f"(float[batch, 3] x) => (float[{size}, 2] y) {{ p = MatMul(x, w) y = {last} }}"
    save_graph(tmp_path / "weights/model.onnx", text, w=TABLE, one=[1, 2])
    tests = [{"inputs": {"x": [1.0, 2.0, 3.0]}}]
    error = error_of(lambda: write_supplied(tmp_path, ONNX, test_inputs=tests), tmp_path)
    assert value in error
    assert "max_batch: 0" in error


def test_a_test_input_that_the_graph_cannot_answer(tmp_path):
    text = "(int64[batch] x) => (float[batch, 2] y) { y = Gather(w, x) }"
    save_graph(tmp_path / "weights/model.onnx", text, w=TABLE)
    tests = [{"inputs": {"x": 1}}, {"inputs": {"x": 7}}]
    violation = violation_of(write_supplied(tmp_path, ONNX, test_inputs=tests), tmp_path)
    assert (violation.field, "idx=7" in violation.message) == ("test_inputs.1", True)


def leave_its_folder(file: Path) -> None:
    import onnx

    graph = onnx.load(file, load_external_data=False)
    graph.graph.initializer[0].external_data[0].value = "../secret"
    onnx.save(graph, file)


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (lambda file: save_onnx(file, domain="my.own"), "my.own:Relu"),
        (lambda file: file.with_suffix(".onnx.data").unlink(), "model.onnx.data is missing"),
        (lambda file: file.write_bytes(b"\x00no graph"), "model.onnx is not"),
        (leave_its_folder, "'../secret' is not"),
    ],
    ids=["operators", "no data", "no graph", "data elsewhere"],
)
def test_graphs_that_are_rejected(tmp_path, change, value):
    change(save_onnx(tmp_path / "weights/model.onnx", external=True))
    assert value in error_of(lambda: write_supplied(tmp_path, ONNX, test_inputs=X), tmp_path)


def test_saved_module_is_served_unchanged(tmp_path):
    file = save_scripted(tmp_path / "weights/net.pt")
    model = write_supplied(tmp_path, TORCHSCRIPT, test_inputs=SCALED)
    repository = write_repository(model, tmp_path / "work")
    assert tensors(repository) == [
        ("x", "FP32", (3,)),
        ("scale", "FP32", (1,)),
        ("OUTPUT__0", "FP32", (2,)),
        ("OUTPUT__1", "FP32", (1,)),
    ]
    assert contents(repository.folder / "tiny" / "1") == {"model.pt": file.read_bytes()}
    assert read_config(repository.folder / "tiny" / "config.pbtxt").backend == "pytorch"


def test_function_that_creates_a_module(tmp_path):
    write_entry(tmp_path)
    model = write_supplied(tmp_path, ENTRY, test_inputs=MASKED)
    repository = [write_repository(model, tmp_path / "one"), write_repository(model, tmp_path / "two")]
    assert tensors(repository[0]) == [
        ("x", "FP32", (3,)),
        ("mask", "FP32", (1,)),
        ("scores", "FP32", (2,)),
        ("best", "INT64", (1,)),
    ]
    assert contents(repository[0].folder) == contents(repository[1].folder)


def test_a_module_described_in_model_yaml_gets_random_inputs(tmp_path):
    write_entry(tmp_path)
    declared = {"x": {"datatype": "FP32", "shape": [3]}, "mask": {"datatype": "FP32", "shape": [1]}}
    model = write_supplied(tmp_path, ENTRY, test_inputs=[{"random": {"rows": 3}}], tensors=declared)
    assert len(write_repository(model, tmp_path / "work").cases) == 3


def test_input_not_accepted_by_forward(tmp_path):
    save_scripted(tmp_path / "weights/net.pt")
    wrong = [{"inputs": {"x": [1.0, 2.0, 3.5], "scales": [2.0]}}]
    error = error_of(lambda: write_supplied(tmp_path, TORCHSCRIPT, test_inputs=wrong), tmp_path)
    assert "test_inputs.0.inputs.scales" in error
    assert "'scale'?" in error


@pytest.mark.parametrize(
    ("code", "value"),
    [
        (None, "scorer.py:17: FileNotFoundError"),
        ("def made(folder):\n    return 3\n", "'make'"),
        ("def make(folder):\n    return 3\n", "returned a int"),
    ],
)
def test_an_entry_that_fails_is_reported_with_its_line(tmp_path, code, value):
    write_entry(tmp_path)
    file = tmp_path / "scorer.py"
    file.write_text(code or file.read_text().replace("scorer.safetensors", "other.safetensors"))
    assert value in error_of(lambda: write_supplied(tmp_path, ENTRY, test_inputs=MASKED), tmp_path)


def test_trusted_pickle_is_not_torchscript(tmp_path):
    import torch

    (tmp_path / "weights").mkdir()
    torch.save({"w": torch.ones(2)}, tmp_path / "weights/net.pt")
    model = write_supplied(tmp_path, TORCHSCRIPT, test_inputs=X, trust=TRUST)
    assert "not TorchScript" in error_of(lambda: model, tmp_path / "a")
    (tmp_path / "weights/net.pt").write_bytes(pickle.dumps([1]))
    assert "not TorchScript" in error_of(lambda: model, tmp_path / "b")


def test_a_module_that_writes_files_is_rejected(tmp_path):
    file = save_scripted(tmp_path / "weights/net.pt")
    with zipfile.ZipFile(file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            hostile = b'\n    torch.save(x, "/etc/passwd")' if name.endswith(".py") else b""
            archive.writestr(name, content + hostile)
    model = write_supplied(tmp_path, TORCHSCRIPT, test_inputs=SCALED)
    with pytest.raises(UnsafeWeightsError, match=r"torch\.save"):
        write_repository(model, tmp_path / "work")


def test_a_module_that_mixes_rows_has_no_batch_dimension(tmp_path):
    write_entry(tmp_path)
    file = tmp_path / "scorer.py"
    file.write_text(file.read_text().replace("self.layer(x) * mask", "(self.layer(x) * mask).sum(dim=0)"))
    violation = violation_of(write_supplied(tmp_path, ENTRY, test_inputs=MASKED), tmp_path)
    assert (violation.field, "scores has shape [2]" in violation.message) == ("batching.max_batch", True)
