"""Complete builds of user-supplied models, served by a real Triton in both hosting modes."""

from pathlib import Path
from typing import Any

import pytest

from model_build.build import BuildFolders, BuiltArtifact, build_model
from model_build.progress import Progress
from model_build.repository.config import read_config
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
from tritonstack.base.errors import UsageError
from tritonstack.base.yaml import Document
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


def with_helpers(folder: Path) -> Document[ModelSpec]:
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
    return write_supplied(folder, recipe, test_inputs=[{"inputs": {"x": [1.0, 2.0]}}])


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


SWAPS: dict[str, tuple[str, str]] = {
    "a module beside model.py": ("helpers.py", "repository"),
    "a file of a package": ("kit/f.txt", "environment"),
    "the code itself": ("model.py", "answer"),
    "a file of the source": ("weights/lexicon/base.py", "source"),
}


@pytest.mark.parametrize("what", SWAPS)
def test_a_file_that_becomes_a_link_during_the_build(
    what: str, tmp_path: Path, folders: BuildFolders
) -> None:
    """At any time: nothing is kept, and the link's target was not packed."""
    name, moment = SWAPS[what]
    model = with_helpers(tmp_path / "model")
    (tmp_path / "secret").write_text("SECRET = 1\n")

    def swap(progress: Progress) -> None:
        if (progress.step, progress.state) == (moment, "done"):
            (tmp_path / "model" / name).unlink()
            (tmp_path / "model" / name).symlink_to("../" * name.count("/") + "../secret")

    with pytest.raises(UsageError, match=rf"{Path(name).name} (changed during the build|is a link out)"):
        build_model(model=model, folders=folders, on_progress=swap)
    assert not list(folders.artifacts.rglob("*.tar.gz"))


def test_vllm_is_rejected_before_its_weights_are_fetched(tmp_path, folders):
    told: list[Progress] = []
    model = vllm_model(tmp_path)
    with pytest.raises(UsageError, match=r"no vllm backend|no GPU"):
        build_model(model=model, folders=folders, targets=["sm86-25.04"], on_progress=told.append)
    assert told == []
