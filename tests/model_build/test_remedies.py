"""Remedies that give commands: each is followed to the letter, and leads to an answer."""

import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from model_build.errors import ExportError
from model_build.exporters.framework import NO_FORMAT, Framework
from model_build.graphs.onnx_files import graph_tensors
from model_build.importing.opening import open_import
from model_build.importing.records import ImportRequest
from model_build.model_files import check_torchscript
from tests.model_build.graph_texts import save_graph
from tests.model_build.linting.given_repositories import (
    CUT,
    OPTIONS,
    PROGRAM,
    SINGLE,
    TRIO,
    findings,
    write,
)
from tritonstack.base.errors import TritonstackError


def commands(remedy: str | None, **places: Path) -> list[str]:
    """Return the commands of a remedy, with paths for its placeholders."""
    lines = re.findall(r"`([^`]+)`", remedy or "")
    for name, path in places.items():
        lines = [line.replace(f"<{name}>", str(path)) for line in lines]
    return lines


def run(command: str, folder: Path) -> None:
    """Run a command with this interpreter as `python`."""
    line = re.sub(r"^python ", f"{sys.executable} ", command)
    subprocess.run(["bash", "-c", line], cwd=folder, check=True, capture_output=True, text=True)


def error_of(work: Any) -> TritonstackError:
    with pytest.raises(TritonstackError) as caught:
        work()
    return caught.value


def tar(folder: Path, archive: Path) -> Path:
    run(f"tar -C {folder} -czf {archive} .", folder)
    return archive


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_links_in_an_archive(tmp_path, kind):
    repository = write(tmp_path / "given", SINGLE)
    file = repository / "scores/1/model.onnx"
    file.rename(tmp_path / "elsewhere.onnx")
    if kind == "hard":
        shutil.copy(tmp_path / "elsewhere.onnx", repository / "scores/1/graph.onnx")
        file.hardlink_to(repository / "scores/1/graph.onnx")
    else:
        file.symlink_to(tmp_path / "elsewhere.onnx")
    archive = tar(repository, tmp_path / "model.tar.gz")
    finding = next(item for item in findings(archive) if item.code == "TS410")
    assert ("outside" in finding.message) is (kind == "soft")
    for command in commands(finding.remedy, repository=repository, copy=tmp_path / "copy"):
        run(command, tmp_path)
    assert findings(archive) == []


def test_a_repository_below_two_folders(tmp_path):
    files = {f"export/triton/{name}": text for name, text in TRIO.items()}
    files |= {"export/README.md": "", "export/notes/todo.txt": ""}
    archive = tar(write(tmp_path / "given", files), tmp_path / "model.tar.gz")
    (finding,) = findings(archive)
    assert "export/triton" in finding.message
    with open_import(ImportRequest(archive, OPTIONS)) as importable:
        assert importable.name == "whole"
    for command in commands(finding.remedy):
        run(command, tmp_path / "given")
    assert findings(tmp_path / "given/model.tar.gz") == []


def test_a_call_of_a_step_of_the_ensemble_is_no_finding(tmp_path):
    program = PROGRAM + "\n\nCALL = pb_utils.InferenceRequest(model_name='scores')\n"
    files = {**TRIO, "cut/1/model.py": program}
    assert findings(write(tmp_path / "ensemble", files)) == []
    alone = {**CUT, "cut/1/model.py": program}
    assert "TS332" in {finding.code for finding in findings(write(tmp_path / "alone", alone))}


def classifier(file: Path) -> Path:
    """Write a graph with probabilities as maps, as CatBoost does, without their tensor."""
    text = """(float[N, 2] features) => (int64[N] label, seq(map(int64, float)) probabilities) {
        label, probability_tensor = ai.onnx.ml.LinearClassifier<
            coefficients = [1.0, -1.0, 0.5, 0.5], intercepts = [0.0, 0.0],
            classlabels_ints = [0, 1], post_transform = "SOFTMAX">(features)
        probabilities = ai.onnx.ml.ZipMap<classlabels_int64s = [0, 1]>(probability_tensor)
    }"""
    return save_graph(file, text, domain="ai.onnx.ml")


def test_probabilities_as_maps(tmp_path):
    error = error_of(lambda: graph_tensors(classifier(tmp_path / "model.onnx")))
    for command in commands(error.remedy):
        run(command, tmp_path)
    file = tmp_path / "model-tensors.onnx"
    _, outputs = graph_tensors(file)
    assert [(spec.name, spec.datatype, spec.shape) for spec in outputs] == [
        ("label", "INT64", (-1,)),
        ("probability_tensor", "FP32", (-1, 2)),
    ]
    answers = onnxruntime.InferenceSession(file).run(None, {"features": np.ones((3, 2), np.float32)})
    np.testing.assert_allclose(answers[1].sum(axis=1), 1, rtol=1e-6)


class Plus(torch.nn.Module):
    """The smallest module."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x + 1."""
        return x + 1


@pytest.mark.parametrize("read", [check_torchscript, graph_tensors])
def test_a_program_of_torch_export(tmp_path, monkeypatch, read):
    file = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(Plus(), (torch.ones(2, 3),)), file)
    error = error_of(lambda: read(file))
    assert "torch.export" in error.message
    monkeypatch.chdir(tmp_path)
    statement, command = commands(error.remedy)
    exec(statement, {"torch": torch})  # noqa: S102 - the remedy's own line
    assert "--recipe onnx --from model.onnx" in command
    inputs, _ = graph_tensors(tmp_path / "model.onnx")
    assert inputs[0].shape == (2, 3)


def keras(file: Path) -> Path:
    """Write what a .keras file begins with; keras is no dependency."""
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("metadata.json", "config.json", "model.weights.h5"):
            archive.writestr(name, "{}")
    return file


def hdf5(file: Path) -> Path:
    file.write_bytes(b"\x89HDF\r\n\x1a\n")
    return file


@pytest.mark.parametrize(("write_file", "read"), [(keras, check_torchscript), (hdf5, graph_tensors)])
def test_a_keras_model_is_named(tmp_path, write_file, read):
    error = error_of(lambda: read(write_file(tmp_path / "model.keras")))
    assert "Keras" in error.message
    assert ".export('model.onnx', format='onnx'" in (error.remedy or "")


def saved_model(root: Path) -> Path:
    return write(root, {"saved_model.pb": "", "variables/variables.index": "", "assets/x": ""})


FOREIGN: Mapping[str, tuple[Any, str, str]] = {
    "SavedModel": (saved_model, "SavedModel", "tf2onnx.convert --saved-model {path}"),
    "SavedModel below": (lambda root: saved_model(root / "export").parent, "SavedModel", "{path}/export"),
    "Hugging Face": (lambda root: write(root, {"config.json": "{}"}), "Hugging Face", "--from {path}"),
    "Keras": (lambda root: keras(root.parent / "m.keras"), "Keras", "load_model('{path}')"),
    "graph": (lambda root: classifier(root.parent / "m.onnx"), ".onnx", "--recipe onnx --from {path}"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_an_import_names_what_it_cannot_import(tmp_path, name):
    write_model, kind, remedy = FOREIGN[name]
    path = write_model(tmp_path / "given")

    def work() -> None:
        with open_import(ImportRequest(path, OPTIONS)):
            raise AssertionError

    error = error_of(work)
    assert (error.code, kind in error.message) == ("TS340", True)
    assert remedy.format(path=path) in (error.remedy or "")


class Head(torch.nn.Module):
    """A head whose steps depend on a value: no ONNX graph, and TorchScript only if `traced`."""

    outputs = ("y",)
    labels: Mapping[str, tuple[str, ...]] = {}

    def __init__(self, *, traced: bool) -> None:
        super().__init__()
        self.encoder, self.traced = torch.nn.Identity(), traced

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a multiple of x; unless `traced`, the factor is a value that tracing would freeze."""
        if float(x.sum()) < 0:
            return x
        return x * 2 if self.traced else x * float(x.sum())


class HeadFramework(Framework):
    """The framework of such a head."""

    def other_example(self) -> dict[str, Any]:
        """Return another example."""
        return {"x": np.full((3, 4), 2, np.float32)}


@pytest.mark.parametrize("traced", [True, False])
def test_torchscript_is_named_only_if_it_works(traced):
    head: Any = Head(traced=traced)
    example = {"x": np.ones((2, 4), np.float32)}
    with pytest.raises(ExportError) as caught:
        HeadFramework(head, example=example, axes={0: "batch"}).export(Path())
    assert ("`format: torchscript`" in (caught.value.remedy or "")) == traced
    assert (caught.value.remedy == NO_FORMAT) == (not traced)
