"""Library exceptions become errors with model, step, cause, help, and a full log."""

import io
import json
from typing import Any

import pytest

from model_build import build as building
from model_build.job import BuildOrder, run_order
from model_build.library_errors import as_build_error
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


@pytest.mark.parametrize(("odd", "step"), [*((odd, "_fetch") for odd in ODD), (ODD[0], "_find_server")])
def test_a_build_names_the_model_and_the_step_and_logs_the_rest(odd, step, tmp_path, monkeypatch):
    """Inside a step and outside of any."""

    def fail(*_: Any) -> FetchedSource:
        raise odd

    monkeypatch.setattr(building._Build, "_find_server", lambda _: None)
    monkeypatch.setattr(building._Build, step, fail)
    write_model(tmp_path / "models" / "tiny", source="file://weights")
    events: list[dict[str, Any]] = []
    log = io.StringIO()
    code = run_order(Project(tmp_path), BuildOrder(model="tiny", targets=["cpu"]), events.append, log)
    assert (code, events[-1]["event"], events[-1]["exit_code"]) == (1, "failed", 1)
    assert events[-1]["where"] == ("tiny, step 'source'" if step == "_fetch" else "tiny")
    assert type(odd).__name__ in events[-1]["message"]
    assert "Traceback" not in json.dumps(events)
    assert "Traceback (most" in log.getvalue()
    assert "in fail" in log.getvalue()


def test_errors_of_this_project_are_not_wrapped():
    error = TritonstackError("message", remedy="remedy")
    assert as_build_error(error) is error
