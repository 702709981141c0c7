"""Python models: their code, their tensors, and their right answers."""

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.recipes import recipe_for
from tests.model_build.supplied_models import PYTHON_MODEL, write_supplied
from tests.model_build.written_repositories import contents, error_of, tensors, write_repository
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import Document
from tritonstack.facts.targets import Target
from tritonstack.files.model.model import ModelSpec


def python_model(folder: Path, body: str = "y = x * 2", **more: Any) -> Document[ModelSpec]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.py").write_text(PYTHON_MODEL.format(imports="", body=body))
    recipe = {"kind": "python", **more.pop("recipe", {})}
    answered = [{"inputs": {"x": [1.0, 2.0]}, "outputs": {"y": [2.0, 4.0]}}]
    return write_supplied(folder, recipe, **{"source": None, "test_inputs": answered, **more})


def test_a_python_model_with_written_answers(tmp_path):
    repository = write_repository(python_model(tmp_path), tmp_path / "work")
    assert tensors(repository) == [("x", "FP32", (2,)), ("y", "FP32", (2,))]
    assert contents(repository.folder).keys() == {"tiny/config.pbtxt", "tiny/1/model.py", "tiny/env.tar.gz"}
    assert repository.target == Target("cpu")
    assert [(report.path, report.packages) for report in repository.environments] == [("tiny/env.tar.gz", ())]
    with tarfile.open(repository.folder / "tiny/env.tar.gz") as tar:
        names = {member.name for member in tar if member.isfile()}
    assert {"bin/activate", "watch_stubs.py"} <= names
    assert not [name for name in names if name.startswith("packages")]


def test_a_python_model_with_a_reference_and_weights(tmp_path):
    (tmp_path / "weights/inner").mkdir(parents=True)
    (tmp_path / "weights/inner/table.csv").write_text("1,2\n")
    (tmp_path / "weights/own.py").write_text("BASE = 1")
    (tmp_path / "right.py").write_text(
        "def right(request, source=None):\n    return {'y': request['x'] * 2}\n"
    )
    model = python_model(
        tmp_path,
        source="file://weights",
        recipe={"reference": "right.py:right"},
        test_inputs=[{"inputs": {"x": [1.0, 2.0]}}, {"inputs": {"x": [0.5]}}],
    )
    repository = write_repository(model, tmp_path / "work")
    assert tensors(repository) == [("x", "FP32", (-1,)), ("y", "FP32", (-1,))]
    assert "tiny/1/inner/table.csv" in contents(repository.folder)
    assert {"tiny/1/own.py", "tiny/1/right.py"} <= contents(repository.folder).keys()
    np.testing.assert_array_equal(repository.cases[1].expected["y"], np.array([[1.0]], np.float32))


def test_a_python_model_whose_config_declares_its_tensors(tmp_path):
    (tmp_path / "config.pbtxt").write_text(
        'input { name: "x" data_type: TYPE_FP64 dims: [-1] }\n'
        'output { name: "y" data_type: TYPE_FP64 dims: [-1] }\n'
    )
    repository = write_repository(
        python_model(tmp_path, triton={"config": "config.pbtxt"}), tmp_path / "work"
    )
    assert tensors(repository) == [("x", "FP64", (-1,)), ("y", "FP64", (-1,))]
    assert repository.cases[0].inputs["x"].dtype == np.float64


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("class TritonPythonModel:\n    def run(self): ...\n", "TritonPythonModel with a method execute"),
        ("def execute(requests): ...\n", "TritonPythonModel with a method execute"),
        ("class TritonPythonModel\n", "model.py:1: "),
    ],
)
def test_code_without_a_model_class(tmp_path, code, message):
    model = python_model(tmp_path)
    (tmp_path / "model.py").write_text(code)
    with pytest.raises(InvalidFilesError, match=message):
        recipe_for(model)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"test_inputs": [{"inputs": {"x": [1.0]}}]}, "test_inputs.0"),
        ({"recipe": {"requirements": "requirements.txt"}}, "'six>=1.0'"),
    ],
)
def test_answers_and_exact_versions_are_required(tmp_path, more, field):
    (tmp_path / "requirements.txt").write_text("six>=1.0\n")
    with pytest.raises(InvalidFilesError) as caught:
        recipe_for(python_model(tmp_path, **more))
    assert field in str(caught.value)


REQUESTS = [{"inputs": {"x": [1.0, 2.0]}}]
READS_SOURCE = """\
import numpy as np

def right(request, source):
    return {"y": request["x"] * np.loadtxt(source / "inner/factor.txt", dtype=np.float32)}
"""


def test_a_reference_reads_the_fetched_source(tmp_path, s3):
    """As in a build job: the source is in a bucket, not beside model.yaml."""
    (tmp_path / "right.py").write_text(READS_SOURCE)
    model = python_model(
        tmp_path, source="s3://weights/scale/1", recipe={"reference": "right.py:right"}, test_inputs=REQUESTS
    )
    s3.create_bucket(Bucket="weights")
    s3.put_object(Bucket="weights", Key="scale/1/inner/factor.txt", Body=b"3.0")
    repository = write_repository(model, tmp_path / "work")
    np.testing.assert_array_equal(repository.cases[0].expected["y"], np.array([[3.0, 6.0]], np.float32))
    assert contents(repository.folder)["tiny/1/inner/factor.txt"] == b"3.0"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def right(request, source):\n    return {}\n", "no `source`"),
        ("def right(request):\n    return 1 / 0\n", "right.py:2: ZeroDivisionError: division by zero"),
        ("def right(request):\n    return 3\n", "returned a int, not a dictionary"),
        ("def wrong(request):\n    return 3\n", "has no attribute 'right'"),
        ("import absent_module\n", "No module named 'absent_module'"),
        ("import os\n\ndef right(request):\n    os._exit(9)\n", "exit code 9"),
        ("def right(request):\n    return {'y': request['x'][0]}\n", "the reference returns y of"),
    ],
)
def test_references_that_fail(tmp_path, code, message):
    (tmp_path / "right.py").write_text(code)
    model = python_model(tmp_path, recipe={"reference": "right.py:right"}, test_inputs=REQUESTS)
    assert message in error_of(lambda: model, tmp_path)
