"""A failed serving check shows the server's errors; the whole log goes into the build's log."""

import io
from pathlib import Path
from typing import Any

import pytest

from model_build.checking.served_model import SEVERAL_REMEDY, WHOLE_LOG
from model_build.job import BuildOrder, run_order
from tests.projects import write_project
from tritonstack.base.paths import find_project

FAILING = """\
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
"""
IN_EXECUTE = """\
    def execute(self, requests):
        raise KeyError("no such column")
"""
IN_INITIALIZE = """\
    def initialize(self, args):
        raise ValueError("weights are missing")

    def execute(self, requests):
        return []
"""
SEVERAL = """\
    def execute(self, requests):
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            for _ in range(2):
                answer = pb_utils.InferenceResponse([pb_utils.Tensor("y", x)])
                request.get_response_sender().send(answer)
        return [None] * len(requests)
"""
MODEL = """\
name: failing
description: Fails.
recipe: {kind: python}
test_inputs: [{inputs: {x: [1.0]}, outputs: {y: [1.0]}}]
"""


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (IN_EXECUTE, "no such column"),
        (IN_INITIALIZE, "weights are missing"),
        (SEVERAL, "expected a single response, got 2"),
    ],
)
def test_the_whole_log_is_in_the_log_of_the_build(tmp_path, monkeypatch, body, message):
    server = find_project(Path(__file__)).server_dir
    monkeypatch.setenv("TRITONSTACK_HOME", str(tmp_path / "state"))
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "server").symlink_to(server)
    project = write_project(tmp_path)
    model = project.model_file("failing")
    model.parent.mkdir()
    model.write_text(MODEL)
    (model.parent / "model.py").write_text(FAILING + body)
    events: list[dict[str, object]] = []
    log = io.StringIO()
    assert run_order(project, BuildOrder(model="failing", targets=["cpu"]), events.append, log) == 1
    failed: Any = events[-1]
    assert failed["event"] == "failed"
    assert message in failed["message"]
    assert len(failed["message"].splitlines()) <= 10
    assert WHOLE_LOG in failed["remedy"]
    assert "triton.log" not in failed["remedy"]
    assert (SEVERAL_REMEDY in failed["remedy"]) == (body == SEVERAL)
    assert "\0" not in failed["message"]
    assert "single-server, triton.log:" in log.getvalue()
    assert "server_version" in log.getvalue(), "also what Triton prints at its start"
    assert not list((tmp_path / "state" / "artifacts").rglob("*.tar.gz"))
