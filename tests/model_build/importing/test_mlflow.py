"""MLflow models: the flavors that recipes serve, and what to do about the others."""

import json
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from model_build.build import build_model
from model_build.errors import ModelImportError
from model_build.model_files import LARGEST, names_in_pickle
from tests.model_build.supplied_models import BINARY, ROWS, save_lightgbm, save_onnx, save_xgboost
from tritonstack import Session
from tritonstack.base.errors import UsageError
from tritonstack.base.yaml import load_document
from tritonstack.files.loading import ProjectFiles
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.validation import validate_project
from tritonstack.operate.artifacts.importing import ImportOptions, import_model

TRUST = "The pickle was written by this very test."
PYFUNC = {"python_function": {"loader_module": "mlflow.sklearn", "python_version": "3.11.9"}}


def mlmodel(root: Path, flavors: Mapping[str, Any]) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(
        {"artifact_path": "model", "flavors": {**PYFUNC, **flavors}, "mlflow_version": "3.1"}
    )
    (root / "MLmodel").write_text(text)
    (root / "requirements.txt").write_text("mlflow\n")
    return root


def onnx(root: Path) -> Path:
    save_onnx(root / "model.onnx", external=True)
    return mlmodel(root, {"onnx": {"data": "model.onnx", "onnx_version": "1.19.0"}})


def onnx_in_a_folder(root: Path) -> Path:
    save_onnx(root / "weights/net.onnx", batch=1)
    return mlmodel(root, {"onnx": {"data": "weights/net.onnx"}})


def xgboost(root: Path) -> Path:
    save_xgboost(root / "model.ubj").rename(root / "model.xgb")
    return mlmodel(root, {"xgboost": {"data": "model.xgb", "model_format": "xgb"}})


def lightgbm(root: Path) -> Path:
    save_lightgbm(root / "model.txt").rename(root / "model.lgb")
    return mlmodel(root, {"lightgbm": {"data": "model.lgb"}})


def estimator(root: Path, model: Any) -> Path:
    root.mkdir()
    (root / "model.pkl").write_bytes(pickle.dumps(model.fit(ROWS, BINARY)))
    return mlmodel(root, {"sklearn": {"pickled_model": "model.pkl", "serialization_format": "pickle"}})


def forest(root: Path) -> Path:
    from sklearn.ensemble import RandomForestClassifier

    return estimator(root, RandomForestClassifier(n_estimators=4, max_depth=3, random_state=0))


def pipeline(root: Path) -> Path:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return estimator(root, make_pipeline(StandardScaler(), RandomForestClassifier(n_estimators=4)))


def linear(root: Path) -> Path:
    from sklearn.linear_model import LogisticRegression

    return estimator(root, LogisticRegression())


@pytest.mark.e2e
@pytest.mark.parametrize("make", [onnx, xgboost, pipeline])
def test_a_flavor_builds(make, project, tmp_path, folders):
    options = ImportOptions("taken", trust_pickle=TRUST if make in (forest, pipeline) else None)
    result = import_model(Session(project), make(tmp_path / "run"), options)
    expected = "sklearn" if make in (forest, pipeline) else make.__name__
    assert result.kind == f"MLflow model, flavor {expected}"
    validate_project(ProjectFiles(project))
    manifest = build_model(
        model=load_document(project.model_file("taken"), ModelSpec), folders=folders
    ).manifest
    assert manifest.parity[-1].max_absolute_error < 1e-6


@pytest.mark.parametrize(
    ("task", "kind"),
    [("text-classification", "text-classification"), ("feature-extraction", "feature-extraction")],
)
def test_a_pipeline_of_transformers(task, kind, project, tmp_path):
    root = mlmodel(tmp_path / "run", {"transformers": {"task": task, "model_binary": "model"}})
    for name in ("model/config.json", "model/model.safetensors", "components/tokenizer/tokenizer.json"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes((2).to_bytes(8, "little") + b"{}")
    result = import_model(Session(project), root, ImportOptions())
    assert {file.name for file in result.files} == {
        "model.yaml",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    }
    assert load_document(project.model_file("run"), ModelSpec).record.recipe.kind == kind


GENERATION = {"task": "text-generation", "model_binary": "model"}
REJECTED: Mapping[str, tuple[Mapping[str, Any], str, str]] = {
    "pytorch": ({"pytorch": {"model_data": "data"}}, "flavor pytorch", "torch.jit.trace"),
    "tensorflow": ({"tensorflow": {}}, "flavor tensorflow", "tf2onnx"),
    "python only": ({}, "flavor python_function", "--recipe python"),
    "task": ({"transformers": GENERATION}, "'text-generation'", "python"),
    "no file": ({"onnx": {"data": "model.onnx"}}, "not found: model.onnx", "again"),
    "outside": ({"onnx": {"data": "../secret.onnx"}}, "../secret.onnx", ""),
    "no name": ({"xgboost": {"data": 3}}, "got 3", "again"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_a_flavor_without_a_recipe_is_rejected(name, project, tmp_path):
    flavors, message, remedy = REJECTED[name]
    (tmp_path / "secret.onnx").write_text("")
    with pytest.raises(UsageError) as caught:
        import_model(Session(project), mlmodel(tmp_path / "run", flavors), ImportOptions())
    assert message in str(caught.value)
    assert remedy in (caught.value.remedy or "")
    assert [entry.name for entry in project.models_dir.iterdir()] == ["minilm"]


@pytest.mark.parametrize(
    ("make", "kind"), [(forest, "trees"), (pipeline, "scikit-learn"), (linear, "scikit-learn")]
)
def test_pickles_are_read_without_running_them(make, kind, project, tmp_path):
    root = make(tmp_path / "run")
    with pytest.raises(UsageError, match=r"model\.pkl") as caught:
        import_model(Session(project), root, ImportOptions())
    assert caught.value.code == "TS217"
    assert [entry.name for entry in project.models_dir.iterdir()] == ["minilm"]
    import_model(Session(project), root, ImportOptions(trust_pickle=TRUST))
    assert load_document(project.model_file("run"), ModelSpec).record.recipe.kind == kind


SPLIT = {"columns": ["a", "b", "c", "d", "e"], "data": [[1, 2, None, 4, 5], [0.5, 1, 1, 1, 1]]}
NDARRAY = {"type": "ndarray", "format": "tf-serving", "artifact_path": "input_example.json"}
FRAME = {"type": "dataframe", "pandas_orient": "split", "artifact_path": "input_example.json"}
EXAMPLES: Mapping[str, tuple[Any, dict[str, Any], dict[str, Any], list[int]]] = {
    "a data frame": (xgboost, FRAME, {"input_example.json": SPLIT}, [2, 5]),
    "a request with a data frame": (
        lightgbm,
        {**FRAME, "serving_input_path": "serving_input_example.json"},
        {"serving_input_example.json": {"dataframe_split": SPLIT}, "input_example.json": SPLIT},
        [2, 5],
    ),
    "records": (xgboost, FRAME, {"input_example.json": [dict.fromkeys("abcde", 1.0)]}, [1, 5]),
    "an array": (xgboost, NDARRAY, {"input_example.json": {"inputs": [[1, 2, 3, 4, 5]] * 3}}, [3, 5]),
    "instances": (onnx, NDARRAY, {"input_example.json": {"instances": [[1, 2, 3]]}}, [1, 3]),
    "tensors by name": (onnx, NDARRAY, {"input_example.json": {"inputs": {"x": [[1, 2, 3]] * 2}}}, [2, 3]),
    "an earlier version of MLflow": (onnx, {}, {"input_example.json": {"inputs": [[1, 2, 3]]}}, [1, 3]),
    "one batch": (onnx_in_a_folder, NDARRAY, {"input_example.json": {"inputs": [[1, 2, 3]]}}, [1, 1, 3]),
}


def with_example(root: Path, info: Mapping[str, Any], files: Mapping[str, Any]) -> Path:
    values = yaml.safe_load((root / "MLmodel").read_text())
    (root / "MLmodel").write_text(yaml.safe_dump({**values, "saved_input_example_info": dict(info)}))
    for name, content in files.items():
        (root / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return root


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_saved_example_becomes_test_inputs(name, project, tmp_path):
    make, info, files, shape = EXAMPLES[name]
    result = import_model(
        Session(project), with_example(make(tmp_path / "run"), info, files), ImportOptions()
    )
    assert result.changes[0].endswith(next(iter(files)))
    (test_input,) = load_document(project.model_file("run"), ModelSpec).record.test_inputs
    assert test_input.file == "inputs.npz"
    with np.load(project.models_dir / "run/inputs.npz") as saved:
        ((tensor, array),) = saved.items()
    assert tensor == ("x" if make in (onnx, onnx_in_a_folder) else "input__0")
    assert (list(array.shape), array.dtype) == (shape, np.float32)
    assert np.isnan(array).any() == (shape == [2, 5])


def test_columns_with_texts_become_tensors(project, tmp_path):
    table = {"columns": ["age", "city", "income"], "data": [[31, "Oslo", 2100], [58, "Rome", None]]}
    root = with_example(linear(tmp_path / "run"), FRAME, {"input_example.json": table})
    import_model(Session(project), root, ImportOptions(trust_pickle=TRUST))
    first, second = load_document(project.model_file("run"), ModelSpec).record.test_inputs
    assert first.inputs == {"age": [31], "city": ["Oslo"], "income": [2100.0]}
    assert second.inputs is not None
    assert second.inputs["city"] == ["Rome"]
    assert np.isnan(second.inputs["income"]).all()


@pytest.mark.parametrize(
    ("task", "content", "expected"),
    [
        ("text-classification", ["Good.", "Bad."], ["Good.", "Bad."]),
        ("text-classification", "Good.", ["Good."]),
        ("text-classification", {"columns": ["text"], "data": [["Good."]]}, ["Good."]),
        ("question-answering", {"question": "Who?", "context": "She."}, ["Who?"]),
    ],
)
def test_texts_of_a_pipeline(task, content, expected, project, tmp_path):
    root = mlmodel(tmp_path / "run", {"transformers": {"task": task, "model_binary": "model"}})
    for name in ("model/config.json", "components/tokenizer/tokenizer.json"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("{}")
    info = {"type": "json_object", "artifact_path": "input_example.json"}
    with_example(root, info, {"input_example.json": json.dumps(content)})
    import_model(Session(project), root, ImportOptions())
    inputs = load_document(project.model_file("run"), ModelSpec).record.test_inputs
    assert [test_input.text or test_input.question for test_input in inputs] == expected


UNUSABLE: Mapping[str, tuple[Any, Any, str]] = {
    "texts": (xgboost, {"inputs": [["a", "b"]]}, "no numbers"),
    "no rows": (xgboost, {"columns": ["a"], "data": []}, "no rows"),
    "an uneven table": (xgboost, {"columns": ["a", "b"], "data": [[1]]}, "data frame"),
    "deep": (xgboost, "[" * 100_000, "JSON"),
    "other sizes": (onnx, {"inputs": [[1, 2]]}, r"x has shape \[2\].*\[3\]"),
    "other tensors": (onnx, {"inputs": {"z": [1]}}, "z; .* x"),
    "too large": (xgboost, " " * (1 << 21), "1 MiB"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_example_is_named_and_random_inputs_remain(name, project, tmp_path):
    make, content, reason = UNUSABLE[name]
    root = with_example(make(tmp_path / "run"), {}, {"input_example.json": content})
    result = import_model(Session(project), root, ImportOptions())
    (change,) = result.changes
    assert re.search(reason, change)
    (test_input,) = load_document(project.model_file("run"), ModelSpec).record.test_inputs
    assert test_input.random is not None
    assert not (project.models_dir / "run/inputs.npz").exists()


def test_an_example_outside_of_the_model_is_rejected(project, tmp_path):
    (tmp_path / "secret.json").write_text("[[1]]")
    root = with_example(xgboost(tmp_path / "run"), {"artifact_path": "../secret.json"}, {})
    with pytest.raises(UsageError, match=r"\.\./secret\.json"):
        import_model(Session(project), root, ImportOptions())
    assert [entry.name for entry in project.models_dir.iterdir()] == ["minilm"]
    missing = with_example(xgboost(tmp_path / "other"), {"artifact_path": "gone.json"}, {})
    result = import_model(Session(project), missing, ImportOptions())
    assert "missing" in result.changes[0]


@pytest.mark.parametrize("text", ["flavors: [1]", "a: [", "x", "\x00"])
def test_a_damaged_file_is_rejected(text, project, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/MLmodel").write_text(text)
    with pytest.raises(UsageError, match="MLmodel") as caught:
        import_model(Session(project), tmp_path / "run", ImportOptions())
    assert caught.value.code == "TS340"
    if text == "a: [":
        assert "MLmodel: line 2:" in str(caught.value)


def test_a_pickle_beyond_the_limit_is_not_read(tmp_path):
    file = tmp_path / "model.pkl"
    with file.open("wb") as pickled:
        pickled.truncate(LARGEST + 1)
    with pytest.raises(ModelImportError, match="256 MiB"):
        names_in_pickle(file, shown=Path("model.pkl"))
