"""Complete builds of user-supplied models, served by a real Triton in both hosting modes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from model_build import build_copy
from model_build.build import BuildFolders, BuiltArtifact, build_model
from model_build.build_copy import BuildCopy
from model_build.errors import ParityError
from model_build.progress import Progress
from model_build.repository.config import read_config
from model_build.sources import FetchedSource, fetch_source, file_selection, local_folder
from model_build.store.archive import unpack
from tests.model_build.recipes.test_vllm import vllm_model
from tests.model_build.supplied_models import (
    PYTHON_MODEL,
    save_lightgbm,
    save_onnx,
    save_rows,
    save_scripted,
    save_sklearn,
    save_xgboost,
    write_entry,
    write_supplied,
)
from tritonstack.base.errors import FileViolation, InvalidFilesError, UsageError
from tritonstack.base.source_files import UnsafeFileError, find_file
from tritonstack.base.yaml import Document
from tritonstack.project.files.model_files import helper_files
from tritonstack.project.files.model_hashes import model_hash
from tritonstack.spec.models.model import ModelSpec

TRUST = {"pickle": "made by this very test"}
X = [{"inputs": {"x": [1.0, 2.0, 3.5]}}, {"random": {"rows": 5}}]
ROWS = [{"file": "rows.npz"}]


def onnx(folder: Path) -> Document[ModelSpec]:
    save_onnx(folder / "weights/model.onnx", external=True)
    return write_supplied(folder, {"kind": "onnx"}, test_inputs=X, triton={"warm_up": True})


def scripted(folder: Path) -> Document[ModelSpec]:
    save_scripted(folder / "weights/net.pt")
    asked = [{"inputs": {"x": [1.0, 2.0, value], "scale": [value]}} for value in (0.5, 2.0, 3.0)]
    return write_supplied(folder, {"kind": "torchscript", "file": "net.pt"}, test_inputs=asked)


def entry(folder: Path) -> Document[ModelSpec]:
    write_entry(folder)
    asked = [{"inputs": {"x": [1.0, 2.0, value], "mask": [value]}} for value in (0.5, 2.0, 3.0)]
    return write_supplied(folder, {"kind": "torchscript", "entry": "scorer.py:make"}, test_inputs=asked)


def trees(folder: Path, name: str, **more: Any) -> Document[ModelSpec]:
    save_rows(folder / "rows.npz", 6)
    return write_supplied(folder, {"kind": "trees", "file": name, **more}, test_inputs=ROWS, trust=TRUST)


def xgboost(folder: Path) -> Document[ModelSpec]:
    save_xgboost(folder / "weights/a.ubj")
    return trees(folder, "a.ubj")


def explained(folder: Path) -> Document[ModelSpec]:
    """Trees with SHAP values, which the served FIL computes."""
    save_xgboost(folder / "weights/a.json", "multi:softprob")
    return trees(folder, "a.json", shap=True)


def lightgbm(folder: Path) -> Document[ModelSpec]:
    save_lightgbm(folder / "weights/a.txt", "regression")
    return trees(folder, "a.txt")


def sklearn(folder: Path) -> Document[ModelSpec]:
    save_sklearn(folder / "weights/a.joblib")
    return trees(folder, "a.joblib", answer="class")


def pipeline(folder: Path) -> Document[ModelSpec]:
    """A scikit-learn pipeline of columns with numbers and texts, whose labels are texts."""
    import joblib
    import pandas
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    frame = pandas.DataFrame({"age": [20.0, 31.0, 45.0, 70.0], "city": ["Oslo", "Rome", "Oslo", "Rome"]})
    columns = [("numbers", StandardScaler(), ["age"]), ("texts", OneHotEncoder(), ["city"])]
    fitted = make_pipeline(ColumnTransformer(columns), LogisticRegression()).fit(frame, list("yynn"))
    (folder / "weights").mkdir(parents=True)
    joblib.dump(fitted, folder / "weights/a.joblib")
    asked = [{"inputs": {"age": [age], "city": [city]}} for age, city in ((33.5, "Rome"), (60.0, "Oslo"))]
    recipe = {"kind": "scikit-learn", "file": "a.joblib"}
    return write_supplied(folder, recipe, test_inputs=asked, trust=TRUST)


def python(folder: Path) -> Document[ModelSpec]:
    """A pure Python package, and one that is compiled for each version."""
    folder.mkdir()
    body = "y = x * len(regex.findall('a', 'aba')) + six.PY3"
    (folder / "model.py").write_text(PYTHON_MODEL.format(imports="import regex\nimport six\n", body=body))
    (folder / "requirements.txt").write_text("six==1.17.0\nregex==2024.11.6\n")
    (folder / "right.py").write_text("def right(request):\n    return {'y': request['x'] * 2 + 1}\n")
    recipe = {"kind": "python", "requirements": "requirements.txt", "reference": "right.py:right"}
    asked = [{"inputs": {"x": [1.0, 2.0]}}, {"inputs": {"x": [1.0, 2.0, 3.0]}}]
    return write_supplied(folder, recipe, source=None, test_inputs=asked)


def with_helpers(folder: Path, source: str = "file://weights") -> Document[ModelSpec]:
    """A module and a package beside model.py, and a package in the source, each importing another."""
    files = {
        "model.py": PYTHON_MODEL.format(
            imports="import helpers\nfrom lexicon import BASE", body="y = helpers.twice(x) + BASE"
        ),
        "helpers.py": "from kit.words import FACTOR\n\ndef twice(x):\n    return x * FACTOR\n",
        "kit/__init__.py": "",
        "kit/words.py": "with open(__file__[:-8] + 'f.txt') as file:\n    FACTOR = int(file.read())\n",
        "kit/f.txt": "2",
        "weights/lexicon/__init__.py": "from .base import BASE\n",
        "weights/lexicon/base.py": "BASE = 1\n",
        "right.py": "def right(request):\n    return {'y': request['x'] * 2 + 1}\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    recipe = {"kind": "python", "reference": "right.py:right"}
    trust = {} if source == "file://weights" else {"external_source": "made by this very test"}
    asked = [{"inputs": {"x": [1.0, 2.0]}}]
    return write_supplied(folder, recipe, source=source, test_inputs=asked, trust=trust)


def build(model: Document[ModelSpec], folders: BuildFolders) -> BuiltArtifact:
    return build_model(model=model, folders=folders)


@pytest.mark.parametrize(
    "make",
    [
        *(pytest.param(make, marks=pytest.mark.e2e) for make in (pipeline, explained)),
        *(
            pytest.param(make, marks=pytest.mark.soak)
            for make in (onnx, scripted, entry, xgboost, lightgbm, sklearn, python, with_helpers)
        ),
    ],
)
def test_a_supplied_model_end_to_end(make, tmp_path, folders):
    model = make(tmp_path / "model")
    built = build(model, folders)
    assert not built.reused
    assert built.manifest.target == "cpu"
    assert built.manifest.parity[-1].stage == "served"
    assert built.manifest.parity[-1].max_absolute_error < 1e-6
    assert [report.batch for report in built.manifest.latency] == [1, 4]
    assert build(model, folders).reused
    unpack(built.artifact_dir / "model.tar.gz", tmp_path / "unpacked", limit_bytes=1 << 30)
    config = read_config(tmp_path / "unpacked/tiny/config.pbtxt")
    assert [tensor.name for tensor in config.input] == [spec.name for spec in built.manifest.inputs]
    assert [tensor.name for tensor in config.output] == [spec.name for spec in built.manifest.outputs]
    if make is explained:
        assert [list(tensor.dims) for tensor in config.output] == [[3], [3, 6]]
    if make is python:
        (environment,) = built.manifest.environments
        assert environment.pythons == ("py310", "py311", "py312")
        assert environment.packages == ("regex==2024.11.6", "six==1.17.0")


@pytest.mark.soak
def test_a_wrong_python_model_is_not_stored(tmp_path, folders):
    model = python(tmp_path / "model")
    (tmp_path / "model/right.py").write_text("def right(request):\n    return {'y': request['x'] * 2}\n")
    with pytest.raises(ParityError, match="the served artifact differs"):
        build(model, folders)
    assert not list(folders.artifacts.rglob("manifest.json"))


def copied(model: Document[ModelSpec], work: Path) -> tuple[BuildCopy, FetchedSource]:
    copy = BuildCopy(model, work / "model")
    source = fetch_source(
        str(model.record.source),
        model_folder=model.file.parent,
        cache_dir=work,
        selection=file_selection(model.record),
        external=True,
        into=copy.source_folder,
    )
    return copy, source


@pytest.mark.parametrize("source", ["file://weights", "file://.", "file://../model/weights"])
def test_a_build_hashes_and_reads_copies(source, tmp_path):
    """A file that changes afterwards is neither packed nor hashed."""
    model = with_helpers(tmp_path / "model", source)
    models = {model.record.name: model}
    before = model_hash(model.record.name, models)
    copy, fetched = copied(model, tmp_path / "work")
    for file in model.file.parent.rglob("*.*"):
        file.unlink()
        file.symlink_to("/etc/passwd")
    assert copy.hash(models, fetched) == before
    helpers, files = helper_files(copy.document), fetched.files
    assert helpers.keys() >= {"helpers.py", "kit/f.txt"}
    assert any(name.endswith("lexicon/base.py") for name in files)
    for read in (*helpers.values(), *files.values(), find_file(copy.document.file.parent, "model.py")):
        assert read is not None
        assert read.path.is_relative_to(tmp_path / "work")
        assert b"root:" not in read.path.read_bytes()


def test_errors_name_the_originals(tmp_path: Path) -> None:
    model = with_helpers(tmp_path / "model")
    copy, _ = copied(model, tmp_path / "work")
    beside = FileViolation(copy.document.file.parent / "helpers.py", 2, "", "m", "r", code="TS111")
    error = InvalidFilesError([copy.document.violation(("recipe",), "m", remedy="r", code="TS111"), beside])
    copy.name_originals(error)
    files = [(violation.file, violation.line) for violation in error.violations]
    assert files == [(tmp_path / "model/helpers.py", 2), (model.file, model.line_of(("recipe",)))]
    assert str(tmp_path / "work") not in str(error)


@pytest.mark.parametrize("name", ["helpers.py", "kit/f.txt", "model.py", "weights/lexicon/base.py"])
def test_a_file_that_becomes_a_link_before_it_is_copied(name, tmp_path, monkeypatch):
    model = with_helpers(tmp_path / "model")

    def swap_after(listing: Callable[..., Any]) -> Callable[..., Any]:
        def list_and_swap(*arguments: Any) -> Any:
            listed = listing(*arguments)
            (tmp_path / "model" / name).unlink()
            (tmp_path / "model" / name).symlink_to("/etc/passwd")
            return listed

        return list_and_swap

    module, listing = (local_folder, "list_files") if "weights" in name else (build_copy, "model_files")
    monkeypatch.setattr(module, listing, swap_after(getattr(module, listing)))
    with pytest.raises(UnsafeFileError):
        copied(model, tmp_path / "work")


def test_vllm_is_rejected_before_its_weights_are_fetched(tmp_path, folders):
    told: list[Progress] = []
    model = vllm_model(tmp_path)
    with pytest.raises(UsageError, match=r"no vllm backend|no GPU"):
        build_model(model=model, folders=folders, targets=["sm86-25.04"], on_progress=told.append)
    assert told == []
