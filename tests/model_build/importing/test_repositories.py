"""Triton repositories that people wrote: what is imported, what is rejected, and what is left behind."""

import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from model_build.build import BuildFolders, build_model
from model_build.errors import ParityError, ServingError
from tests.model_build.supplied_models import save_onnx
from tests.projects import edit
from tritonstack import Session
from tritonstack.base.errors import TritonstackError, UsageError
from tritonstack.base.paths import Project
from tritonstack.base.yaml import load_document
from tritonstack.files.loading import ProjectFiles, load_models
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.validation import validate_project
from tritonstack.operate.artifacts.importing import ImportOptions, ImportResult, import_model

BODY = """\
import numpy as np
import triton_python_backend_utils as pb_utils


def get(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy()


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("{output}", ({formula}).astype(np.float32))])
            for r in requests
        ]
"""
TENSOR = '{kind} [ {{ name: "{name}" data_type: TYPE_FP32 dims: [ 3 ] }} ]\n'
WHOLE = """\
# Written by hand.
name: "whole"
platform: "ensemble"
max_batch_size: 4
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "z" data_type: TYPE_FP32 dims: [ 3 ] } ]
ensemble_scheduling { step [
  { model_name: "left_part" model_version: -1
    input_map { key: "x" value: "x" } output_map { key: "y" value: "l" } },
  { model_name: "right" model_version: -1
    input_map { key: "x" value: "x" } output_map { key: "y" value: "r" } },
  { model_name: "join" model_version: -1
    input_map { key: "a" value: "l" } input_map { key: "b" value: "r" } output_map { key: "z" value: "z" } }
] }
"""


def python_part(folder: Path, inputs: str, output: str, formula: str) -> None:
    (folder / "1").mkdir(parents=True)
    tensors = "".join(TENSOR.format(kind="input", name=name) for name in inputs)
    text = f'backend: "python"\nmax_batch_size: 4\n{tensors}{TENSOR.format(kind="output", name=output)}'
    (folder / "config.pbtxt").write_text(text)
    (folder / "1/model.py").write_text(BODY.format(output=output, formula=formula))


def branches(root: Path) -> Path:
    """Write an ensemble in which two parts get one input, and a third joins their outputs."""
    python_part(root / "left_part", "x", "y", "get(r, 'x') * 2")
    python_part(root / "right", "x", "y", "get(r, 'x') + 1")
    python_part(root / "join", "ab", "z", "get(r, 'a') - get(r, 'b')")
    (root / "whole/1").mkdir(parents=True)
    (root / "whole/config.pbtxt").write_text(WHOLE)
    return root


def single(root: Path, formula: str = "get(r, 'x') * 2", name: str = "Double_It") -> Path:
    python_part(root / name, "x", "y", formula)
    return root


def take(project: Project, path: Path, **options: Any) -> ImportResult:
    return import_model(Session(project), path, ImportOptions(**options))


def build(project: Project, name: str, folders: BuildFolders) -> Any:
    return build_model(model=load_document(project.model_file(name), ModelSpec), folders=folders).manifest


def nothing_left(project: Project) -> bool:
    return [entry.name for entry in project.models_dir.iterdir()] == ["minilm"]


def packed(root: Path, file: Path, prefix: str = ".") -> Path:
    with tarfile.open(file, "w:gz") as tar:
        tar.add(root, arcname=prefix)
    return file


@pytest.mark.e2e
def test_an_ensemble_with_branches_is_packed_and_compared(project, tmp_path, folders):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(tmp_path / "rows.npz", **{"x": x, "outputs/z": x - 1})
    result = take(project, branches(tmp_path / "repository"), inputs=tmp_path / "rows.npz", environment="dev")
    assert (result.name, result.kind) == ("whole", "Triton repository")
    source = project.models_dir / "whole/source"
    assert (source / "whole/config.pbtxt").read_text() == WHOLE
    assert [change.split()[1] for change in result.changes] == ["whole/1/README.txt:"]
    endpoint = yaml.safe_load(project.environment_file("dev").read_text())["endpoints"]["whole"]
    assert (endpoint["kind"], endpoint["model"]) == ("ensemble", "whole")
    validate_project(ProjectFiles(project))
    manifest = build(project, "whole", folders)
    assert (manifest.entry_model, manifest.max_batch, manifest.unverified) == ("whole", 4, ())
    (parity,) = manifest.parity
    assert parity.max_absolute_error == 0


@pytest.mark.e2e
def test_imported_models_are_steps_of_an_ensemble(project, tmp_path, folders):
    take(project, branches(tmp_path / "branches"))
    take(project, single(tmp_path / "single"))
    (project.models_dir / "outer").mkdir()
    project.model_file("outer").write_text(
        "name: outer\ndescription: Both.\n"
        "recipe:\n  kind: ensemble\n  steps:\n"
        "    - {model: whole, outputs: {z: middle}}\n    - {model: double-it, inputs: {x: middle}}\n"
        "test_inputs: [{inputs: {x: [1.0, 2.0, 4.0]}, outputs: {y: [0.0, 2.0, 6.0]}}]\n"
    )
    models = load_models(project, "outer")
    manifest = build_model(model=models["outer"], members=models, folders=folders).manifest
    assert [spec.name for spec in (*manifest.inputs, *manifest.outputs)] == ["x", "y"]
    assert len(manifest.unverified) == 2
    (parity,) = manifest.parity
    assert (parity.stage, parity.max_absolute_error) == ("served", 0)


@pytest.mark.e2e
def test_changing_and_unusable_answers_fail_the_build(project, tmp_path, folders):
    take(project, single(tmp_path / "random", "np.random.random(get(r, 'x').shape)"), name="random")
    with pytest.raises(ParityError, match="differently"):
        build(project, "random", folders)
    take(project, single(tmp_path / "nan", "np.log(get(r, 'x') - 99)"), name="nan")
    with pytest.raises(ServingError, match="y of test"):
        build(project, "nan", folders)
    mixed = branches(tmp_path / "mixed")
    (mixed / "whole/config.pbtxt").write_text(
        WHOLE.replace('"z" data_type: TYPE_FP32', '"z" data_type: TYPE_FP64')
    )
    take(project, mixed)
    with pytest.raises(TritonstackError, match="inconsistent data type") as caught:
        build(project, "whole", folders)
    assert caught.value.code == "TS604"
    assert not list(folders.artifacts.rglob("manifest.json"))


@pytest.mark.e2e
@pytest.mark.parametrize(
    "config",
    [None, "max_batch_size: 4\n", 'input [ { name: "x" data_type: TYPE_FP32 dims: [ -1, 3 ] } ]'],
)
def test_tensors_that_triton_would_derive_are_written(config, project, tmp_path, folders):
    root = tmp_path / "repository"
    save_onnx(root / "scores/1/model.onnx")
    if config is not None:
        (root / "scores/config.pbtxt").write_text(config)
    result = take(project, root)
    kinds = "output" if config and "input" in config else "input and output"
    assert f"the {kinds} tensors" in result.changes[0]
    text = (project.models_dir / "scores/source/scores/config.pbtxt").read_text()
    assert text.startswith(config.rstrip("\n") if config else "# Added")
    manifest = build(project, "scores", folders)
    batches = config == "max_batch_size: 4\n"
    assert manifest.max_batch == (4 if batches else 0)
    assert [spec.shape for spec in manifest.inputs] == [(3,) if batches else (-1, 3)]


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("model folder", "double-it"),
        ("own name", "other"),
        ("archive", "scorer"),
        ("folder above", "double-it"),
    ],
)
def test_other_forms_of_one_model(form, name, project, tmp_path):
    root = single(tmp_path / "repository")
    path = folder = root / "Double_It"
    (folder / ".DS_Store").write_text("")
    if form == "archive":
        path = packed(folder, tmp_path / "scorer.tar.gz")
    elif form == "folder above":
        (root / ".DS_Store").write_text("")
        path = packed(root, tmp_path / "model.tar.gz", "exported")
    elif form == "own name":
        (folder / "config.pbtxt").write_text(f'name: "other"\n{(folder / "config.pbtxt").read_text()}')
    result = take(project, path)
    assert result.name == name
    assert any(".DS_Store" in change for change in result.changes)
    files = {file.relative_to(project.models_dir).as_posix() for file in result.files}
    base = f"{name}/source/{name}"
    assert files == {f"{name}/model.yaml", f"{base}/config.pbtxt", f"{base}/1/model.py"}
    validate_project(ProjectFiles(project))


def test_a_model_of_several_can_be_chosen(project, tmp_path):
    root = single(single(tmp_path / "repository"), name="other")
    with pytest.raises(UsageError, match="Double_It, other") as caught:
        take(project, root)
    assert caught.value.code == "TS340"
    with pytest.raises(UsageError, match="'othr'"):
        take(project, root, model="othr")
    assert nothing_left(project)
    result = take(project, root, model="other")
    assert [change.split()[2] for change in result.changes] == ["Double_It:"]


def test_texts_and_variable_sizes_get_test_inputs(project, tmp_path):
    root = single(tmp_path / "repository", name="mixed")
    text = (root / "mixed/config.pbtxt").read_text()
    added = 'input [ { name: "TEXT" data_type: TYPE_STRING dims: [ -1 ] } ]\n'
    (root / "mixed/config.pbtxt").write_text(text + added)
    take(project, root)
    (first,) = load_document(project.model_file("mixed"), ModelSpec).record.test_inputs
    assert first.inputs is not None
    assert first.inputs["TEXT"] == ["a", "short", "text", "a"]
    assert len(first.inputs["x"]) == 3
    (root / "mixed/config.pbtxt").write_text(text.replace("[ 3 ]", "[ 3, 400 ]") + added)
    take(project, root, name="large")
    (first,) = load_document(project.model_file("large"), ModelSpec).record.test_inputs
    with np.load(project.models_dir / "large" / str(first.file)) as arrays:
        assert {name: arrays[name].shape for name in arrays} == {"x": (1, 3, 400), "TEXT": (1, 4)}
    (root / "mixed/config.pbtxt").write_text(text.replace("[ 3 ]", "[ -1, 5 ]"))
    take(project, root, name="variable")
    (first,) = load_document(project.model_file("variable"), ModelSpec).record.test_inputs
    assert first.random is not None
    assert dict(first.random.sizes) == {"x": (4, 5)}


def with_config(text: str, mode: str = "w") -> Callable[[Path], Any]:
    return lambda root: (single(root) / "Double_It/config.pbtxt").open(mode).write(text)


WARM_UP = 'model_warmup { name: "w" inputs { key: "x" value { input_data_file: "f" } } }\n'
BAD: Mapping[str, tuple[Callable[[Path], Any], str]] = {
    "nothing": (lambda root: (root / "notes.txt").write_text(""), "nothing to import"),
    "syntax": (with_config("input {"), "config.pbtxt:1"),
    "unknown field": (with_config("foo: 1\n", "a"), '"foo"'),
    "bytes that are no text": (
        lambda root: (single(root) / "Double_It/config.pbtxt").write_bytes(b"# \xff"),
        "is not UTF-8",
    ),
    "missing file": (lambda root: (single(root) / "Double_It/1/model.py").unlink(), "version folder"),
    "version 01": (
        lambda root: (single(root) / "Double_It/1").rename(root / "Double_It/01"),
        "version folder",
    ),
    "missing part": (lambda root: (branches(root) / "right").rename(root.parent / "r"), "needs right"),
    "no tensors": (with_config('backend: "python"'), "no input"),
    "backend": (lambda root: edit(single(root) / "Double_It/config.pbtxt", "python", "paddle"), "'paddle'"),
    "warm-up": (with_config(WARM_UP, "a"), "warmup/f"),
    "link": (lambda root: (single(root) / "Double_It/1/all").symlink_to("/etc/passwd"), "/etc/passwd"),
    "pickle": (lambda root: (single(root) / "Double_It/1/a.pkl").write_bytes(b""), "a.pkl"),
    "name in bytes": (lambda root: (single(root) / "Double_It/1/\udcff.bin").touch(), "unsafe name"),
    "decoupled": (with_config("model_transaction_policy { decoupled: true }", "a"), "is decoupled"),
    "another name": (with_config('name: "other"', "a"), "'Double_It', got 'other'"),
    "existing": (lambda root: single(root, name="minilm"), "models/minilm"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_imported_leaves_nothing_behind(name, project, tmp_path):
    damage, message = BAD[name]
    root = tmp_path / "repository"
    root.mkdir()
    damage(root)
    before = sorted(project.root.rglob("*"))
    with pytest.raises(TritonstackError) as caught:
        take(project, root)
    assert message in str(caught.value)
    assert "help: " in str(caught.value)
    assert sorted(project.root.rglob("*")) == before


def test_other_bad_requests_leave_nothing_behind(project, tmp_path):
    root = single(tmp_path / "repository")
    (tmp_path / "broken.tar.gz").write_bytes(b"text")
    x = np.ones((1, 3), np.float32)
    np.savez(tmp_path / "shape.npz", x=x[:, :2])
    np.savez(tmp_path / "name.npz", **{"x": x, "outputs/z": x})
    before = project.environment_file("dev").read_text()
    for path, options, message in (
        (tmp_path / "none", {}, "file not found"),
        (Path("s3://bucket/model.tar.gz"), {}, "local files"),
        (tmp_path / "broken.tar.gz", {}, "broken.tar.gz"),
        (root, {"name": "Bad Name"}, "invalid name"),
        (root, {"name": "minilm"}, "already exists"),
        (root, {"release": "1.0"}, "unknown Triton release"),
        (root, {"inputs": tmp_path / "none.npz"}, "file not found"),
        (root, {"environment": "none"}, "unknown environment"),
        (root, {"name": "search", "environment": "dev"}, "search"),
        (root, {"trust_pickle": "short"}, "--trust-pickle"),
        (root, {"inputs": tmp_path / "broken.tar.gz"}, ".npz archive"),
        (root, {"inputs": tmp_path / "shape.npz"}, "x has shape [2]"),
        (root, {"inputs": tmp_path / "name.npz"}, "--inputs: unknown tensor"),
    ):
        with pytest.raises(TritonstackError) as caught:
            take(project, path, **options)
        assert message in str(caught.value)
        assert nothing_left(project), message
    assert project.environment_file("dev").read_text() == before


def test_an_import_that_is_killed_adds_no_model(project, tmp_path):
    root = single(tmp_path / "repository")
    (root / "Double_It/1/weights.bin").write_bytes(os.urandom(1 << 20))
    program = (
        "import sys, time\nfrom pathlib import Path\nimport model_build.importing.repository as target\n"
        "def wait(*_):\n    print('copied', flush=True)\n    time.sleep(60)\n"
        "target.check_copy = wait\n"
        "from tritonstack.base.paths import Project\nfrom tritonstack import Session\n"
        "from tritonstack.operate.artifacts.importing import import_model\n"
        "import_model(Session(Project(Path(sys.argv[1]))), Path(sys.argv[2]))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(project.root), str(root)], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"copied\n"
        child.send_signal(signal.SIGKILL)
        child.wait()
    validate_project(ProjectFiles(project))
    assert [entry.name for entry in project.models_dir.glob("[!.]*")] == ["minilm"]
    begin = time.monotonic()
    assert take(project, root).name == "double-it"
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("layout: single", "layout: ensemble", "'single'"),
        ("name: double-it", "name: doubled", "'double-it'"),
        ("test_inputs:", "batching: {max_batch: 3}\ntest_inputs:", "batching"),
    ],
)
def test_a_changed_model_yaml_is_rejected(old, new, message, project, tmp_path, folders):
    take(project, single(tmp_path / "repository"))
    file = project.model_file("double-it")
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(TritonstackError) as caught:
        build_model(model=load_document(file, ModelSpec), folders=folders)
    assert message in str(caught.value)
