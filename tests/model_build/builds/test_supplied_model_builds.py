"""Complete builds of user-supplied models, served by a real Triton in both hosting modes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import pandas
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from model_build.build import build_model
from model_build.errors import ParityError
from model_build.progress import Progress
from model_build.repository.config import read_config
from model_build.store.archive import unpack
from tests.model_build.supplied_models import (
    PYTHON_MODEL,
    save_lightgbm,
    save_onnx,
    save_rows,
    save_scripted,
    save_xgboost,
    write_entry,
    write_supplied,
)
from tritonstack.base.errors import UsageError
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.examples import parse_examples

ROWS = [{"file": "rows.npz"}]
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


def write_files(files: dict[str, str]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

    return write


def save_pipeline(file: Path) -> None:
    """Save a pipeline of columns with numbers and texts, whose labels are texts."""
    frame = pandas.DataFrame({"age": [20.0, 31.0, 45.0, 70.0], "city": ["Oslo", "Rome", "Oslo", "Rome"]})
    columns = [("numbers", StandardScaler(), ["age"]), ("texts", OneHotEncoder(), ["city"])]
    file.parent.mkdir()
    joblib.dump(
        make_pipeline(ColumnTransformer(columns), LogisticRegression()).fit(frame, list("yynn")), file
    )


TWICE = PYTHON_MODEL.format(imports="", body="y = x * 2")
TWICE_AND_ONE = "def right(request):\n    return {'y': request['x'] * 2 + 1}\n"
PACKAGES = {  # one in pure Python, and one that is compiled for each version
    "model.py": PYTHON_MODEL.format(
        imports="import regex\nimport six\n", body="y = x * len(regex.findall('a', 'aba')) + six.PY3"
    ),
    "requirements.txt": "six==1.17.0\nregex==2024.11.6\n",
    "right.py": TWICE_AND_ONE,
}
HELPERS = {  # a module and a package beside model.py, and a package in the source, each importing another
    "model.py": PYTHON_MODEL.format(
        imports="import helpers\nfrom lexicon import BASE", body="y = helpers.twice(x) + BASE"
    ),
    "helpers.py": "from kit.words import FACTOR\n\ndef twice(x):\n    return x * FACTOR\n",
    "kit/__init__.py": "",
    "kit/words.py": "with open(__file__[:-8] + 'f.txt') as file:\n    FACTOR = int(file.read())\n",
    "kit/f.txt": "2",
    "weights/lexicon/__init__.py": "from .base import BASE\n",
    "weights/lexicon/base.py": "BASE = 1\n",
    "right.py": TWICE_AND_ONE,
}
CONFIG = """\
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
PART_OF_CONFIG = "# Only this matters to us.\ninstance_group { kind: KIND_CPU count: 2 }\n"


def configured(config: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        save_onnx(folder / "weights/model.onnx")
        (folder / "config.pbtxt").write_text(config)

    return write


def at(place: str, save: Callable[..., object], *arguments: Any) -> Callable[[Path], object]:
    return lambda folder: save(folder / place, *arguments)


def requests(name: str, *values: float) -> list[Any]:
    return [{"inputs": {"x": [1.0, 2.0, value], name: [value]}} for value in values]


X = [{"inputs": {"x": [1.0, 2.0, 3.5]}}, {"random": {"rows": 5}}]
ANSWERED = [
    {"inputs": {"x": [1.0, 2.0, 4.0]}, "outputs": {"y": [2.0, 4.0, 8.0]}},
    {"inputs": {"x": [0.5, 0.0, -1.0]}, "outputs": {"y": [1.0, 0.0, -2.0]}},
]
PEOPLE = [{"inputs": {"age": [age], "city": [city]}} for age, city in ((33.5, "Rome"), (60.0, "Oslo"))]
REFERENCE = {"kind": "python", "reference": "right.py:right"}
XS = [{"inputs": {"x": [1.0, 2.0]}}, {"inputs": {"x": [1.0, 2.0, 3.0]}}]
Facts = dict[str, Any]
MODELS: dict[str, tuple[Callable[[Path], object], Facts, Facts]] = {
    "columns": (
        at("weights/a.joblib", save_pipeline),
        {"kind": "scikit-learn", "file": "a.joblib"},
        {"test_inputs": PEOPLE},
    ),
    "SHAP": (
        at("weights/a.json", save_xgboost, "multi:softprob"),
        *({"kind": "trees", "file": "a.json", "shap": True}, {"test_inputs": ROWS}),
    ),
    "onnx": (
        lambda folder: save_onnx(folder / "weights/model.onnx", external=True),
        *({"kind": "onnx"}, {"test_inputs": X, "triton": {"warm_up": True}}),
    ),
    "a whole configuration": (
        configured(CONFIG),
        *({"kind": "onnx"}, {"test_inputs": X, "triton": {"config": "config.pbtxt"}}),
    ),
    "a part of a configuration": (
        configured(PART_OF_CONFIG),
        *({"kind": "onnx"}, {"test_inputs": X, "triton": {"config": "config.pbtxt"}}),
    ),
    "scripted": (
        at("weights/net.pt", save_scripted),
        {"kind": "torchscript", "file": "net.pt"},
        {"test_inputs": requests("scale", 0.5, 2.0, 3.0)},
    ),
    "entry": (
        write_entry,
        {"kind": "torchscript", "entry": "scorer.py:make"},
        {"test_inputs": requests("mask", 0.5, 2.0, 3.0)},
    ),
    "LightGBM": (
        at("weights/a.txt", save_lightgbm, "regression"),
        *({"kind": "trees", "file": "a.txt"}, {"test_inputs": ROWS}),
    ),
    "packages": (
        write_files(PACKAGES),
        {**REFERENCE, "requirements": "requirements.txt"},
        {"source": None, "test_inputs": XS},
    ),
    "helpers": (write_files(HELPERS), REFERENCE, {"test_inputs": XS[:1]}),
    "a configuration of Python": (
        write_files({"model.py": TWICE, "config.pbtxt": "# Nothing but a word.\n"}),
        {"kind": "python"},
        {"source": None, "test_inputs": ANSWERED, "triton": {"config": "config.pbtxt"}},
    ),
}
FAST = ("columns", "SHAP")


def supplied(folder: Path, name: str) -> Document[ModelSpec]:
    write, recipe, more = MODELS[name]
    folder.mkdir(parents=True, exist_ok=True)
    write(folder)
    save_rows(folder / "rows.npz", 6)
    return write_supplied(folder, recipe, trust={"pickle": "made by this very test"}, **more)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.e2e if name in FAST else pytest.mark.soak) for name in MODELS],
)
def test_a_supplied_model_end_to_end(name, tmp_path, folders):
    model = supplied(tmp_path / "model", name)
    built = build_model(model=model, folders=folders)
    manifest = built.manifest
    assert (built.reused, manifest.target, manifest.parity[-1].stage) == (False, "cpu", "served")
    assert manifest.parity[-1].max_absolute_error < 1e-6
    assert [report.batch for report in manifest.latency] == [1, 4]
    assert build_model(model=model, folders=folders).reused
    unpack(built.artifact_dir / "model.tar.gz", tmp_path / "unpacked", limit_bytes=1 << 30)
    file = tmp_path / "unpacked/tiny/config.pbtxt"
    config = read_config(file)
    assert [tensor.name for tensor in config.input] == [spec.name for spec in manifest.inputs]
    assert [tensor.name for tensor in config.output] == [spec.name for spec in manifest.outputs]
    examples = built.artifact_dir / "examples.json"
    assert examples.stat().st_size < 64 << 10
    origins = {example.origin for example in parse_examples(examples.read_bytes(), origin=examples).requests}
    match name:
        case "SHAP":
            assert [list(tensor.dims) for tensor in config.output] == [[3], [3, 6]]
        case "packages":
            (environment,) = manifest.environments
            assert environment.pythons == ("py310", "py311", "py312")
            assert environment.packages == ("regex==2024.11.6", "six==1.17.0")
        case "a whole configuration":
            assert file.read_text() == CONFIG
        case "a part of a configuration":
            assert file.read_text().startswith(PART_OF_CONFIG)
            assert (config.backend, config.max_batch_size, config.instance_group[0].count) == (
                "onnxruntime",
                4,
                2,
            )
        case "a configuration of Python":
            assert origins == {"given"}
            assert 0 < manifest.shared_memory_bytes <= 4 << 20


def counter(folder: Path, sequences: dict[str, Any], *totals: float, **more: Any) -> Document[ModelSpec]:
    """Write a model that keeps a state, with these answers for one sequence."""
    write_files({"model.py": COUNTER})(folder)
    steps = [
        {"inputs": {"x": [value]}, "outputs": {"total": [total]}}
        for value, total in zip((1.0, 20.0, 300.0), totals, strict=True)
    ]
    triton = {"sequences": {"start": "start", "correlation_id": "which", **sequences}}
    return write_supplied(folder, {"kind": "python"}, source=None, test_inputs=steps, triton=triton, **more)


@pytest.mark.soak
@pytest.mark.parametrize("sequences", [{"strategy": "oldest", "max_candidates": 2}, {"strategy": "direct"}])
def test_a_model_that_keeps_a_state(sequences, tmp_path, folders):
    model = counter(tmp_path / "model", sequences, 1.0, 21.0, 321.0, batching={"max_batch": 1})
    built = build_model(model=model, folders=folders)
    assert [tensor.name for tensor in built.manifest.inputs] == ["x"]
    # Alone, twice at once, and in multi-model hosting.
    assert built.manifest.parity[-1].cases == 3 * (1 + 2 + 1)
    assert [report.batch for report in built.manifest.latency] == [1]


@pytest.mark.soak
def test_lost_sequence_state_is_detected(tmp_path, folders):
    model = counter(tmp_path / "model", {"strategy": "oldest"}, 1.0, 20.0, 300.0)
    with pytest.raises(ParityError, match="alone: test input 3"):
        build_model(model=model, folders=folders)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("helpers.py", "repository"),
        ("kit/f.txt", "environment"),
        ("model.py", "answer"),
        ("weights/lexicon/base.py", "source"),
    ],
)
def test_a_file_that_becomes_a_link_during_the_build(name, step, tmp_path, folders):
    """At any time: nothing is kept, and the link's target was not packed."""
    model = supplied(tmp_path / "model", "helpers")
    (tmp_path / "secret").write_text("SECRET = 1\n")

    def swap(progress: Progress) -> None:
        if (progress.step, progress.state) == (step, "done"):
            (tmp_path / "model" / name).unlink()
            (tmp_path / "model" / name).symlink_to("../" * name.count("/") + "../secret")

    with pytest.raises(UsageError, match=rf"{Path(name).name} (changed during the build|is a link out)"):
        build_model(model=model, folders=folders, on_progress=swap)
    assert not list(folders.artifacts.rglob("*.tar.gz"))


@pytest.mark.soak
def test_an_artifact_of_an_earlier_version_is_built_again_with_the_same_digest(tmp_path, folders):
    model = supplied(tmp_path / "model", "a configuration of Python")
    first = build_model(model=model, folders=folders)
    assert build_model(model=model, folders=folders).reused
    (first.artifact_dir / "examples.json").unlink()
    before = first.manifest.model_copy(update={"examples_sha256": None})
    (first.artifact_dir / "manifest.json").write_text(before.to_json())
    again = build_model(model=model, folders=folders)
    assert (again.reused, again.manifest.digest) == (False, first.manifest.digest)
    assert again.manifest.examples_sha256 == first.manifest.examples_sha256
    assert build_model(model=model, folders=folders).reused
