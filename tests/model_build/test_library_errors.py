"""Library exceptions become errors with model, step, cause, help, and a full log."""

import io
import json
from typing import Any

import pytest

from model_build import build as building
from model_build.errors import ModelBuildError
from model_build.job import BuildOrder, run_order
from model_build.library_errors import as_build_error, brief
from model_build.progress import BuildSteps, Progress
from model_build.sources import FetchedSource
from tests.model_build.tiny import write_model
from tritonstack.base.errors import TritonstackError
from tritonstack.base.paths import Project


class PanicException(BaseException):
    """pyo3's exception for a panic in Rust; not a subclass of Exception."""


ODD: list[BaseException] = [
    TypeError("got an unexpected keyword argument"),
    NotImplementedError("`get_input_embeddings` not auto-handled"),
    AssertionError(),
    StopIteration(),
    SystemExit(3),
    PanicException("index out of bounds"),
    RecursionError("maximum recursion depth exceeded"),
]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_any_exception_of_a_step_is_an_error(odd):
    told: list[Progress] = []

    def fail() -> None:
        raise odd

    with pytest.raises(ModelBuildError, match=type(odd).__name__) as caught:
        BuildSteps(told.append).run("export", fail, str)
    assert caught.value.__cause__ is odd
    assert (told[-1].state, told[-1].detail) == ("failed", caught.value.message)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize("step", ["_fetch", "_find_server"])
def test_a_build_names_the_model_and_the_step_and_logs_the_rest(odd, step, tmp_path, monkeypatch):
    """Inside a step and outside of any."""

    def fail(*_: Any) -> FetchedSource:
        raise odd

    monkeypatch.setattr(building._Build, "_find_server", lambda _: None)
    monkeypatch.setattr(building._Build, step, fail)
    write_model(tmp_path / "models" / "tiny", source="file://weights")
    told: list[dict[str, Any]] = []
    log = io.StringIO()
    code = run_order(Project(tmp_path), BuildOrder(model="tiny", targets=["cpu"]), told.append, log)
    assert (code, told[-1]["event"], told[-1]["exit_code"]) == (1, "failed", 1)
    assert told[-1]["where"] == ("tiny, step 'source'" if step == "_fetch" else "tiny")
    assert type(odd).__name__ in told[-1]["message"]
    assert "Traceback" not in json.dumps(told)
    assert "Traceback (most recent call last)" in log.getvalue()
    assert "in fail" in log.getvalue()


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (
            ImportError("TimmWrapperConfig requires the timm library but it was not found"),
            "this is a timm checkpoint, and builds do not include timm;",
        ),
        (ValueError("`tiktoken` is required to read a `tiktoken` file."), "no tokenizer.json"),
        (ImportError("T5Converter requires the SentencePiece library"), "no tokenizer.json"),
        (ModuleNotFoundError("No module named 'einops'"), "builds do not include this package;"),
        (AssertionError("Torch not compiled with CUDA enabled"), "export on the CPU"),
    ],
)
def test_known_causes_have_help(error, remedy):
    assert remedy in str(as_build_error(error).remedy)


def test_errors_of_this_project_are_not_wrapped():
    error = TritonstackError("said", remedy="done")
    assert as_build_error(error) is error


def test_library_noise_is_omitted():
    xgboost = "[19:09:56] /project/src/common/json.cc:12: Invalid cast\nStack trace:\n  [bt] (0) lib.so\n"
    onnx = "[ONNXRuntimeError] : 1 : FAIL : Load model from /tmp/x/model.onnx failed:Type Error: no"
    assert brief(RuntimeError(xgboost)) == "Invalid cast"
    assert brief(RuntimeError(onnx)) == "Type Error: no"
    assert len(brief(RuntimeError("word " * 1000))) < 500
