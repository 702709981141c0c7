"""A Python model without a framework, for tests of builds."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from model_build.data.cases import Case
from model_build.data.context import BuildContext, WrittenRepository
from model_build.environments.packing import build_environment
from model_build.progress import BuildSteps
from tritonstack.base.yaml import Document, load_document
from tritonstack.records.manifests import ParityReport, TensorSpec
from tritonstack.reference.targets import Target
from tritonstack.spec.models.model import ModelSpec

CODE = """
import numpy as np, plain
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", -x)]))
        return responses
"""
CONFIG = """
name: "plain"
backend: "python"
max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: [ 2 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 2 ] }
instance_group { kind: KIND_CPU count: 1 }
dynamic_batching {}
parameters { key: "EXECUTION_ENV_PATH" value: { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }
"""
X = TensorSpec(name="x", datatype="FP32", shape=(2,))
Y = TensorSpec(name="y", datatype="FP32", shape=(2,))
MODEL = """
name: plain
description: Turns signs around.
recipe: {kind: python}
batching: {max_batch: 4}
test_inputs: [{inputs: {x: [[1.0, 2.0]]}, outputs: {y: [[-1.0, -2.0]]}}]
"""


class PlainRecipe:
    """Lay out the model, its environment from a package `plain` that pip finds, and 2 MB to pack."""

    tools = ("numpy",)

    def write_repository(self, context: BuildContext, steps: BuildSteps) -> WrittenRepository:
        repository = context.folder / "repository"
        return steps.run("repository", lambda: self._write(repository, context), lambda _: "")

    def _write(self, repository: Path, context: BuildContext) -> WrittenRepository:
        model = repository / "plain"
        (model / "1").mkdir(parents=True)
        (model / "1/model.py").write_text(CODE)
        (model / "1/weights.bin").write_bytes(np.random.default_rng(3).bytes(2_000_000))
        (model / "config.pbtxt").write_text(CONFIG)
        environment = build_environment(
            ["plain==1.0"], file=model / "env.tar.gz", cache_dir=context.cache_dir, dependencies=False
        )
        return WrittenRepository(
            folder=repository,
            entry="plain",
            target=Target("cpu"),
            inputs=(X,),
            outputs=(Y,),
            parity=(ParityReport(stage="graph", cases=1, min_cosine=1, max_absolute_error=0),),
            cases=negated([[1.0, 2.0]], [[0.5, -3.0]]),
            environments=(environment,),
        )


def negated(*rows: Sequence[Sequence[float]]) -> list[Case]:
    arrays = [np.array(row, dtype=np.float32) for row in rows]
    return [Case(str(number), {"x": array}, {"y": -array}) for number, array in enumerate(arrays)]


def write_plain_model(folder: Path) -> Document[ModelSpec]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.yaml").write_text(MODEL)
    (folder / "model.py").write_text(CODE)
    return load_document(folder / "model.yaml", ModelSpec)
