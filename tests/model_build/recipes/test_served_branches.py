"""Ensembles with branches, served by a real Triton in both hosting modes."""

import pytest

from model_build.environments.packing import build_environment
from model_build.recipes.ensemble import Ensemble
from model_build.repository.config import read_config
from tests.model_build.recipes.ensemble_parts import (
    build_context_for,
    keep_artifact,
    python_artifact,
    quiet_steps,
)
from tests.model_build.recipes.test_served_ensembles import pipeline, serve
from tritonstack.records.manifests import TensorSpec
from tritonstack.runtime import find_installation

pytestmark = pytest.mark.e2e

CODE = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        def read(name):
            return pb_utils.get_input_tensor_by_name(request, name).as_numpy()

        {statement}
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, made[name]) for name in made])
"""


def tensors(**datatypes: str) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(name=name, datatype=datatype, shape=(-1,)) for name, datatype in datatypes.items()
    )


def test_branches_join_and_one_output_is_optional(tmp_path, folders):
    """Two models get the callers' input, a third joins what they make; one output is only for other uses."""
    environment = tmp_path / "env.tar.gz"
    build_environment([], file=environment, cache_dir=folders.cache)
    members = {
        "scale": ('made = {"y": read("x") * 2}', {"x": "FP32"}, {"y": "FP32"}),
        "round": ('made = {"n": np.rint(read("x")).astype(np.int64)}', {"x": "FP32"}, {"n": "INT64"}),
        "join": (
            'made = {"sum": read("a") + read("b"), "unused": read("a")}',
            {"a": "FP32", "b": "INT64"},
            {"sum": "FP64", "unused": "FP32"},
        ),
    }
    artifacts = {
        name: python_artifact(
            tmp_path / "artifacts",
            name,
            CODE.replace("{statement}", statement),
            inputs=tensors(**inputs),
            outputs=tensors(**outputs),
            environment=environment,
        )
        for name, (statement, inputs, outputs) in members.items()
    }
    document = pipeline(
        tmp_path / "whole",
        "recipe:\n  kind: ensemble\n  steps: [{model: scale}, {model: round}, "
        "{model: join, inputs: {a: y, b: n}}]\n  outputs: [sum, n]\n"
        "test_inputs: [{inputs: {x: [1.4, 2.6]}}, {inputs: {x: [5.0]}}]\n",
    )
    recipe = Ensemble(document, document.record.recipe)  # type: ignore[arg-type]
    installation = find_installation(home=folders.server)
    written = recipe.write_repository(
        build_context_for(document, tmp_path / "work", artifacts, installation), quiet_steps()
    )
    config = read_config(written.folder / "whole/config.pbtxt")
    maps = [dict(step.input_map) for step in config.ensemble_scheduling.step]
    assert maps == [{"x": "x"}, {"x": "x"}, {"a": "y", "b": "n"}]
    assert [path.parent.name for path in sorted(written.folder.rglob("env.tar.gz"))] == ["join"]
    expected = written.cases[0].expected
    assert (expected["n"].tolist(), expected["sum"].tolist()) == ([[1, 3]], [pytest.approx([3.8, 8.2])])
    assert serve(written, tmp_path, folders).parity.max_absolute_error == 0

    # The ensemble as a step: its models share packages, and get other names in the outer one.
    artifacts["whole"] = keep_artifact(
        written.folder,
        tmp_path / "artifacts/whole/new",
        inputs=written.inputs,
        outputs=written.outputs,
        max_batch=4,
    )
    outer = pipeline(
        tmp_path / "outer",
        "recipe:\n  kind: ensemble\n  steps: [{model: whole}, {model: scale, outputs: {y: twice}}]\n"
        "test_inputs: [{inputs: {x: [1.4, 2.6]}}]\n",
        name="outer",
    )
    written = Ensemble(outer, outer.record.recipe).write_repository(  # type: ignore[arg-type]
        build_context_for(outer, tmp_path / "work-outer", artifacts, installation), quiet_steps()
    )
    names = sorted(folder.name for folder in written.folder.iterdir())
    assert names == ["outer", "scale", "whole-join", "whole-round", "whole-scale"]
    assert [path.parent.name for path in sorted(written.folder.rglob("env.tar.gz"))] == ["scale"]
    (tmp_path / "served-outer").mkdir()
    assert serve(written, tmp_path / "served-outer", folders).parity.max_absolute_error == 0
