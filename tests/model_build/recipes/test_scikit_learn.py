"""scikit-learn models as ONNX graphs: their answers, labels, columns, and what cannot be converted."""

import pickle
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
from tritonstack.spec.models.model import ModelSpec

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


@pytest.mark.parametrize(
    ("make", "outputs"),
    [
        pytest.param(
            lambda: make_pipeline(StandardScaler(), LogisticRegression()).fit(ROWS, NAMES),
            [("label", "BYTES", (1,)), ("probabilities", "FP32", (3,))],
            id="classes with names",
        ),
        pytest.param(
            lambda: CalibratedClassifierCV(LinearSVC(), cv=2).fit(ROWS, CLASSES),
            [("label", "INT64", (1,)), ("probabilities", "FP32", (3,))],
            id="numbered classes",
        ),
        pytest.param(
            lambda: make_pipeline(StandardScaler(), LinearSVC()).fit(ROWS, NAMES),
            [("label", "BYTES", (1,))],
            id="no probabilities",
        ),
        pytest.param(
            lambda: make_pipeline(PCA(3), Ridge()).fit(ROWS, VALUES),
            [("prediction", "FP32", (1,))],
            id="regression",
        ),
        pytest.param(lambda: Ridge().fit(ROWS, ROWS[:, :2]), [("prediction", "FP32", (2,))], id="two values"),
        pytest.param(
            lambda: make_pipeline(StandardScaler(), PCA(2)).fit(ROWS),
            [("transformed", "FP32", (2,))],
            id="transformer",
        ),
        pytest.param(
            lambda: KMeans(3, n_init=1, random_state=0).fit(ROWS), [("label", "INT64", (1,))], id="clusters"
        ),
        pytest.param(
            lambda: GridSearchCV(
                RandomForestClassifier(4, max_depth=3, random_state=0), {"max_features": [2, 3]}, cv=2
            ).fit(ROWS, CLASSES),
            [("label", "INT64", (1,)), ("probabilities", "FP32", (3,))],
            id="search",
        ),
    ],
)
def test_answers_are_those_of_scikit_learn(tmp_path, make, outputs):
    model = saved(tmp_path, make(), RANDOM)
    repository = write_repository(model, tmp_path / "work")
    assert tensors(repository) == [X, *outputs]
    assert repository.parity[0].max_absolute_error < 1e-5
    assert repository.unverified == ()
    assert {case.origin for case in repository.cases} == {"framework"}
    assert read_config(repository.folder / "tiny" / "config.pbtxt").backend == "onnxruntime"
    again = write_repository(model, tmp_path / "again")
    assert contents(repository.folder) == contents(again.folder)


@pytest.mark.parametrize(
    ("numbers", "texts"),
    [
        (["age", "income", "kids"], ["city"]),
        (make_column_selector(dtype_include="number"), make_column_selector(dtype_exclude="number")),
        ([0, 2, 3], [1]),
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


def numbers_of(frame: Any) -> list[str]:
    return [name for name in frame.columns if name != "note"]


def note_of(frame: Any) -> str:
    return str(frame.columns[-1])


@pytest.mark.parametrize(
    ("numbers", "note"),
    [
        (["age", "income"], "note"),
        (slice("age", "income"), 2),
        (slice(0, 2), "note"),
        ([True, True, False], "note"),
        (np.array([True, True, False]), "note"),
        (numbers_of, "note"),
        (make_column_selector(dtype_include="number"), note_of),
    ],
)
def test_a_vectorizer_reads_one_text_column(tmp_path, numbers, note):
    """However the columns are chosen, answers are those of the user's call with a data frame."""
    frame = pandas.DataFrame(
        {
            "age": np.linspace(1, 60, 40),
            "income": np.linspace(5, 1, 40),
            "note": ["Good coffee", "bad tea", "so GOOD, Émile", "never again bad"] * 10,
        }
    )
    columns = [("numbers", StandardScaler(), numbers), ("note", TfidfVectorizer(), note)]
    pipeline = make_pipeline(ColumnTransformer(columns), LogisticRegression())
    pipeline.fit(frame, np.arange(40) % 4 % 2)
    requests = pandas.DataFrame(
        {"age": [3.0, 9.5], "income": [2.0, 1.5], "note": ["GOOD tea", "again émile"]}
    )
    inputs = [
        {"inputs": {name: [value] for name, value in row.items()}} for row in requests.to_dict("records")
    ]
    repository = write_repository(saved(tmp_path, pipeline, inputs), tmp_path / "work")
    answers = np.concatenate([case.expected["probabilities"] for case in repository.cases])
    np.testing.assert_allclose(answers, pipeline.predict_proba(requests), rtol=1e-12)
    assert repository.parity[0].max_absolute_error < 1e-6


def test_double_precision(tmp_path):
    pipeline = make_pipeline(StandardScaler(), Ridge()).fit(ROWS, VALUES)
    model = saved(tmp_path, pipeline, RANDOM, tensors={"X": {"datatype": "FP64"}})
    repository = write_repository(model, tmp_path / "work")
    assert [(spec.name, spec.datatype) for spec in repository.inputs] == [("X", "FP64")]
    assert repository.parity[0].max_absolute_error < 1e-12


@pytest.mark.parametrize(
    ("make", "test_inputs", "message"),
    [
        (
            lambda: make_pipeline(FunctionTransformer(np.log1p), Ridge()).fit(ROWS, VALUES),
            RANDOM,
            "RuntimeError: FunctionTransformer",
        ),
        (
            lambda: RandomForestClassifier(2, random_state=0).fit(ROWS, np.stack([CLASSES, CLASSES], 1)),
            RANDOM,
            "several targets",
        ),
        (Ridge, RANDOM, "m.joblib does not"),
        (mixed, [{"inputs": {"age": [1.0], "town": ["Oslo"]}}], "got age, town; the model was fitted on age"),
        (
            mixed,
            [{"inputs": {"age": [1.0, 2.0], "city": ["Oslo"], "income": [1.0], "kids": [1.0]}}],
            "age has shape [2]; expected one value",
        ),
        (lambda: Ridge().fit(ROWS, VALUES), [{"inputs": {"X": [1.0, 2.0]}}], "X has shape [2]; the model"),
    ],
)
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
    model = saved(tmp_path, estimator, [{"file": "rows.npz"}])
    message = error_of(lambda: model, tmp_path)
    assert remedy in message.partition("help: ")[2]


def test_pickles_need_trust_and_batches(tmp_path):
    recipe = {"kind": "scikit-learn", "file": "m.joblib"}
    model = write_supplied(tmp_path, recipe, test_inputs=RANDOM, batching={"max_batch": 0})
    with pytest.raises(InvalidFilesError) as caught:
        recipe_for(model)
    assert [violation.code for violation in caught.value.violations] == ["TS217", "TS111"]


def test_other_pickles(tmp_path):
    model = saved(tmp_path, Ridge(), RANDOM)
    (tmp_path / "weights/m.joblib").write_bytes(pickle.dumps({"a": 1}))
    assert "builtins.dict" in error_of(lambda: model, tmp_path)
