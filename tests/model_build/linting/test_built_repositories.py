"""Repositories that this project builds have no finding."""

from model_build.environments.packing import build_environment
from model_build.repository.parts import (
    SchedulingStep,
    add_ensemble,
    add_graph_model,
    add_python_model,
    environment_file,
)
from model_build.store.archive import pack
from tests.model_build.linting.given_repositories import PROGRAM, findings
from tests.model_build.repository.tiny_repositories import a_graph
from tritonstack.records.manifests import TensorSpec
from tritonstack.reference.targets import Target
from tritonstack.spec.models.triton_options import Batching, TritonOptions

TEXT = TensorSpec(name="TEXT", datatype="BYTES", shape=(1,))
IDS = TensorSpec(name="ids", datatype="INT64", shape=(-1,))
VECTOR = TensorSpec(name="vector", datatype="FP32", shape=(8,))
BATCHING = Batching(max_batch=4)


def test_an_artifact_with_an_ensemble_has_no_finding(tmp_path):
    folder = tmp_path / "repository"
    code = tmp_path / "code.py"
    code.write_text(PROGRAM)
    add_python_model(folder, name="cut", code=code, inputs=[TEXT], outputs=[IDS], batching=BATCHING)
    build_environment([], file=environment_file(folder, "cut"), cache_dir=tmp_path / "cache")
    exported = a_graph(tmp_path / "exported", inputs=(IDS,), outputs=(VECTOR,))
    add_graph_model(
        folder, name="run", graph=exported, batching=BATCHING, triton=TritonOptions(), target=Target("cpu")
    )
    steps = [
        SchedulingStep("cut", {"TEXT": "TEXT"}, {"ids": "ids"}),
        SchedulingStep("run", {"ids": "ids"}, {"vector": "vector"}),
    ]
    add_ensemble(folder, name="whole", inputs=[TEXT], outputs=[VECTOR], steps=steps, max_batch=4)
    packed = pack(folder, tmp_path / "model.tar.gz")
    assert findings(packed.file) == []
    assert findings(folder) == []
