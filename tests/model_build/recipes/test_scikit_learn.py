"""scikit-learn models as ONNX graphs: their answers, labels, columns, and what cannot be converted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import onnxruntime
import pandas
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from model_build.recipes import recipe_for
from model_build.repository.config import read_config
from tests.model_build.supplied_models import CLASSES, FEATURES, ROWS, VALUES, write_supplied
from tests.model_build.written_repositories import contents, error_of, tensors, write_repository
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec

TRUST = {"pickle": "made by this very test"}
RANDOM = [{"random": {"rows": 20}}]
NAMES = np.array(["low", "middle", "high"])[CLASSES]
X = ("X", "FP32", (FEATURES,))
FRAME = pandas.DataFrame(
    {
        "age": ROWS[:, 0] * 60,
        "city": np.array(["Oslo", "Paris", "Rome"])[CLASSES],
        "income": np.where(ROWS[:, 1] < 0.1, np.nan, ROWS[:, 1] * 3000),
        "kids": (ROWS[:, 2] * 4).astype(int),
    }
)
COLUMNS = {"age": [31.5, 58.0], "city": ["Oslo", "Madrid"], "income": [2100.0, np.nan], "kids": [2.0, 0.0]}


def saved(folder: Path, estimator: Any, test_inputs: Any, **more: Any) -> Document[ModelSpec]:
    (folder / "weights").mkdir()
    joblib.dump(estimator, folder / "weights/m.joblib")
    recipe = {"kind": "scikit-learn", "file": "m.joblib"}
    batching = {"max_batch": 64}
    return write_supplied(folder, recipe, test_inputs=test_inputs, trust=TRUST, batching=batching, **more)


def mixed(numbers: Any = ("age", "income", "kids"), texts: Any = ("city",)) -> Any:
    columns = [
        ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        ("texts", OneHotEncoder(handle_unknown="ignore"), texts),
    ]
    pipeline = make_pipeline(ColumnTransformer(columns), LogisticRegression())
    return pipeline.fit(FRAME, np.where(FRAME["age"] > 30, "yes", "no"))


LABEL, NUMBER = ("label", "BYTES", (1,)), ("label", "INT64", (1,))
PROBABILITIES = ("probabilities", "FP32", (3,))
FOREST = GridSearchCV(RandomForestClassifier(4, max_depth=3, random_state=0), {"max_features": [2, 3]}, cv=2)
ESTIMATORS: dict[str, tuple[Any, Any, list[tuple[str, str, tuple[int, ...]]]]] = {
    "named classes": (make_pipeline(StandardScaler(), LogisticRegression()), NAMES, [LABEL, PROBABILITIES]),
    "numbered classes": (CalibratedClassifierCV(LinearSVC(), cv=2), CLASSES, [NUMBER, PROBABILITIES]),
    "no probabilities": (make_pipeline(StandardScaler(), LinearSVC()), NAMES, [LABEL]),
    "regression": (make_pipeline(PCA(3), Ridge()), VALUES, [("prediction", "FP32", (1,))]),
    "two values": (Ridge(), ROWS[:, :2], [("prediction", "FP32", (2,))]),
    "transformer": (make_pipeline(StandardScaler(), PCA(2)), None, [("transformed", "FP32", (2,))]),
    "clusters": (KMeans(3, n_init=1, random_state=0), None, [NUMBER]),
    "search": (FOREST, CLASSES, [NUMBER, PROBABILITIES]),
}


@pytest.mark.parametrize(("estimator", "targets", "outputs"), ESTIMATORS.values(), ids=ESTIMATORS)
def test_answers_are_those_of_scikit_learn(tmp_path, estimator, targets, outputs):
    model = saved(tmp_path, estimator.fit(ROWS, targets), RANDOM)
    repository = write_repository(model, tmp_path / "work")
    assert tensors(repository) == [X, *outputs]
    assert repository.parity[0].max_absolute_error < 1e-5
    assert repository.unverified == ()
    assert {case.origin for case in repository.cases} == {"framework"}
    assert read_config(repository.folder / "tiny" / "config.pbtxt").backend == "onnxruntime"


@pytest.mark.parametrize(
    ("numbers", "texts"),
    [
        (["age", "income", "kids"], ["city"]),
        (make_column_selector(dtype_include="number"), make_column_selector(dtype_exclude="number")),
    ],
)
def test_columns_of_numbers_and_texts(tmp_path, numbers, texts):
    """The reference is the model itself on a data frame."""
    pipeline = mixed(numbers, texts)
    rows = {name: np.array(values)[:, None] for name, values in COLUMNS.items()}
    np.savez(
        tmp_path / "rows.npz", **{n: v.astype(np.float32) if n != "city" else v for n, v in rows.items()}
    )
    inputs = [{"inputs": {"age": [1.0], "city": [""], "income": [2.0], "kids": [3.0]}}, {"file": "rows.npz"}]
    repository = write_repository(saved(tmp_path, pipeline, inputs), tmp_path / "work")
    assert tensors(repository) == [
        ("age", "FP32", (1,)),
        ("city", "BYTES", (1,)),
        ("income", "FP32", (1,)),
        ("kids", "FP32", (1,)),
        ("label", "BYTES", (1,)),
        ("probabilities", "FP32", (2,)),
    ]
    assert repository.outputs[1].labels == ("no", "yes")
    session = onnxruntime.InferenceSession(str(repository.folder / "tiny/1/model.onnx"))
    frame = pandas.DataFrame(COLUMNS)
    requests = {
        name: frame[[name]].to_numpy(object if name == "city" else np.float32) for name in frame.columns
    }
    label, probabilities = session.run(["label", "probabilities"], requests)
    np.testing.assert_allclose(probabilities, pipeline.predict_proba(frame), atol=1e-6)
    assert list(label) == list(pipeline.predict(frame))
    for row, case in enumerate(repository.cases[1:]):
        np.testing.assert_allclose(case.expected["probabilities"][0], pipeline.predict_proba(frame)[row])


def note_of(frame: Any) -> str:
    return str(frame.columns[-1])


@pytest.mark.parametrize(
    ("numbers", "note"),
    [
        (["age", "income"], "note"),
        (slice(0, 2), "note"),
        (make_column_selector(dtype_include="number"), note_of),
    ],
)
def test_a_vectorizer_reads_one_text_column(tmp_path, numbers, note):
    """However the columns are chosen, answers are those of the user's call with a data frame."""
    texts = ["Good coffee", "bad tea", "so GOOD, Émile", "never again bad"] * 10
    frame = pandas.DataFrame({"age": np.linspace(1, 60, 40), "income": np.linspace(5, 1, 40), "note": texts})
    columns = [("numbers", StandardScaler(), numbers), ("note", TfidfVectorizer(), note)]
    pipeline = make_pipeline(ColumnTransformer(columns), LogisticRegression())
    pipeline.fit(frame, np.arange(40) % 4 % 2)
    rows = [
        {"age": 3.0, "income": 2.0, "note": "GOOD tea"},
        {"age": 9.5, "income": 1.5, "note": "again émile"},
    ]
    inputs = [{"inputs": {name: [value] for name, value in row.items()}} for row in rows]
    repository = write_repository(saved(tmp_path, pipeline, inputs), tmp_path / "work")
    answers = np.concatenate([case.expected["probabilities"] for case in repository.cases])
    np.testing.assert_allclose(answers, pipeline.predict_proba(pandas.DataFrame(rows)), rtol=1e-12)
    assert repository.parity[0].max_absolute_error < 1e-6


def test_double_precision(tmp_path):
    pipeline = make_pipeline(StandardScaler(), Ridge()).fit(ROWS, VALUES)
    model = saved(tmp_path, pipeline, RANDOM, tensors={"X": {"datatype": "FP64"}})
    repository = write_repository(model, tmp_path / "work")
    assert [(spec.name, spec.datatype) for spec in repository.inputs] == [("X", "FP64")]
    assert repository.parity[0].max_absolute_error < 1e-12
    assert contents(repository.folder) == contents(write_repository(model, tmp_path / "again").folder)


LOG = make_pipeline(FunctionTransformer(np.log1p), Ridge())
AGE = {"age": [1.0], "city": ["Oslo"], "income": [1.0], "kids": [1.0]}
REJECTED: dict[str, tuple[Callable[[], Any], Any, str]] = {
    "a function": (lambda: LOG.fit(ROWS, VALUES), RANDOM, "RuntimeError: FunctionTransformer"),
    "several targets": (
        lambda: RandomForestClassifier(2, random_state=0).fit(ROWS, np.stack([CLASSES, CLASSES], 1)),
        *(RANDOM, "several targets"),
    ),
    "not fitted": (Ridge, RANDOM, "m.joblib does not"),
    "no model": (lambda: {"a": 1}, RANDOM, "builtins.dict"),
    "another column": (mixed, [{"inputs": {"age": [1.0], "town": ["Oslo"]}}], "got age, town; the model was"),
    "two values": (mixed, [{"inputs": {**AGE, "age": [1.0, 2.0]}}], "age has shape [2]; expected one value"),
    "two columns": (
        lambda: Ridge().fit(ROWS, VALUES),
        [{"inputs": {"X": [1.0, 2.0]}}],
        "X has shape [2]; the",
    ),
}


@pytest.mark.parametrize(("make", "test_inputs", "message"), REJECTED.values(), ids=REJECTED)
def test_models_that_cannot_be_served(tmp_path, make, test_inputs, message):
    assert message in error_of(lambda: saved(tmp_path, make(), test_inputs), tmp_path)


@pytest.mark.parametrize(
    ("whole", "remedy"),
    [(False, "use `recipe: {kind: trees"), (True, "serve it alone with a recipe of kind `trees`")],
)
def test_rounded_thresholds_fail_with_a_remedy(tmp_path, whole, remedy):
    random = np.random.default_rng(0).random((400, FEATURES))
    trees = HistGradientBoostingClassifier(max_iter=20, random_state=0)
    estimator = make_pipeline(StandardScaler(), trees) if whole else trees
    estimator.fit(random, (random[:, 0] * 3).astype(int))
    np.savez(tmp_path / "rows.npz", X=random[:100].astype(np.float32))
    message = error_of(lambda: saved(tmp_path, estimator, [{"file": "rows.npz"}]), tmp_path)
    assert remedy in message.partition("help: ")[2]


def test_pickles_need_trust_and_batches(tmp_path):
    recipe = {"kind": "scikit-learn", "file": "m.joblib"}
    model = write_supplied(tmp_path, recipe, test_inputs=RANDOM, batching={"max_batch": 0})
    with pytest.raises(InvalidFilesError) as caught:
        recipe_for(model)
    assert [violation.code for violation in caught.value.violations] == ["TS217", "TS111"]
