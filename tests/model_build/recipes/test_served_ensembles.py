"""Ensembles of other models, served by a real Triton in both hosting modes."""

from pathlib import Path

import numpy as np
import pytest

from model_build.build import BuildFolders, build_model
from model_build.checking.serving_check import ServingCheck, ServingReport
from model_build.data.context import WrittenRepository
from model_build.environments.packing import build_environment
from model_build.progress import Progress
from model_build.repository.config import read_config
from model_build.repository.layout import check_layout
from model_build.store.archive import pack
from tests.model_build.recipes.ensemble_parts import (
    classifier_graph,
    graph_artifact,
    keep_artifact,
    python_artifact,
    write_ensemble,
)
from tests.model_build.tiny import TEXTS, write_model
from tritonstack.base.yaml import Document, load_document
from tritonstack.records.manifests import TensorSpec
from tritonstack.runtime import find_installation
from tritonstack.spec.models.model import ModelSpec

EMBEDDING = TensorSpec(name="embedding", datatype="FP32", shape=(32,))
PROBABILITIES = TensorSpec(name="probabilities", datatype="FP32", shape=(3,), labels=("a", "b", "c"))

ADD_ONE_CODE = """\
import numpy as np
import triton_python_backend_utils as pb_utils
import idna

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([self.add(request)]) for request in requests]

    def add(self, request):
        numbers = pb_utils.get_input_tensor_by_name(request, "numbers_in").as_numpy()
        return pb_utils.Tensor("numbers_out", numbers + 1)
"""

CALCULATING_CODE = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        def read(name):
            return pb_utils.get_input_tensor_by_name(request, name).as_numpy()

        outputs = EXPRESSION
        return pb_utils.InferenceResponse([pb_utils.Tensor(*item) for item in outputs.items()])
"""


def ensemble_model(folder: Path, text: str, name: str = "whole") -> Document[ModelSpec]:
    folder.mkdir(parents=True)
    file = folder / "model.yaml"
    file.write_text(f"name: {name}\ndescription: A pipeline.\n{text}")
    return load_document(file, ModelSpec)


def serve(repository: WrittenRepository, work: Path, folders: BuildFolders) -> ServingReport:
    assert check_layout(repository.folder) == repository.entry
    return ServingCheck(
        installation=find_installation(home=folders.server),
        packed=pack(repository.folder, work / "model.tar.gz"),
        entry=repository.entry,
        cases=repository.cases,
        precision=repository.precision,
        max_batch=repository.max_batch or 0,
        work=work / "serving",
    ).run()


@pytest.mark.soak
def test_a_text_model_and_a_classifier(tmp_path, tiny_folder, folders):
    text_model = write_model(tmp_path / "tiny", source=f"file://{tiny_folder}")
    weights = np.random.default_rng(3).standard_normal((32, 3)).tolist()
    artifacts = {
        "tiny": build_model(model=text_model, folders=folders).artifact_dir,
        "head": graph_artifact(
            tmp_path / "artifacts",
            "head",
            classifier_graph(weights),
            inputs=(EMBEDDING,),
            outputs=(PROBABILITIES,),
            max_batch=3,
        ),
    }
    document = ensemble_model(
        tmp_path / "whole",
        "recipe:\n  kind: ensemble\n  steps: [{model: tiny}, {model: head}]\n"
        "  outputs: [probabilities, embedding]\n"
        f"test_inputs: [{TEXTS[0]}, {TEXTS[1]}]\n",
    )
    repository = write_ensemble(document, tmp_path / "work", artifacts, folders.server)
    names = sorted(folder.name for folder in repository.folder.iterdir())
    assert names == ["head", "tiny-model", "whole"]
    assert (repository.max_batch, [tensor.name for tensor in repository.inputs]) == (3, ["TEXT"])
    assert [tensor.labels for tensor in repository.outputs] == [("a", "b", "c"), ()]
    assert {case.origin for case in repository.cases} == {"served"}
    for case in repository.cases:
        logits = case.expected["embedding"] @ np.array(weights, np.float32)
        expected = np.exp(logits) / np.exp(logits).sum()
        np.testing.assert_allclose(case.expected["probabilities"], expected, atol=1e-5)
    served = serve(repository, tmp_path, folders)
    assert served.parity.max_absolute_error < 1e-5


@pytest.mark.soak
def test_six_models_and_packages_that_are_shared(tmp_path, folders):
    """More folders than multi-model hosting recommends, the same packages in all, one model used twice."""
    environment = tmp_path / "packages" / "env.tar.gz"
    environment.parent.mkdir()
    build_environment(["idna==3.10"], file=environment, cache_dir=folders.cache)
    tensors = {
        "inputs": (TensorSpec(name="numbers_in", datatype="FP32", shape=(-1,)),),
        "outputs": (TensorSpec(name="numbers_out", datatype="FP32", shape=(-1,)),),
    }
    names = [f"add-{letter}" for letter in "abcdef"]
    artifacts = {
        name: python_artifact(tmp_path / "members", name, ADD_ONE_CODE, environment=environment, **tensors)
        for name in names
    }
    steps = [
        f"{{model: {name}, inputs: {{numbers_in: t{index}}}, outputs: {{numbers_out: t{index + 1}}}}}"
        for index, name in enumerate([*names, "add-a"])
    ]
    document = ensemble_model(
        tmp_path / "whole",
        f"recipe: {{kind: ensemble, steps: [{', '.join(steps)}]}}\n"
        "test_inputs: [{inputs: {t0: [1.0, 2.0]}}, {inputs: {t0: [5.0]}}]\n",
    )
    repository = write_ensemble(document, tmp_path / "work", artifacts, folders.server)
    assert [path.parent.name for path in sorted(repository.folder.rglob("env.tar.gz"))] == ["add-a"]
    parameters = read_config(repository.folder / "add-f/config.pbtxt").parameters
    shared_environment = "$$TRITON_MODEL_DIRECTORY/../add-a/env.tar.gz"
    assert parameters["EXECUTION_ENV_PATH"].string_value == shared_environment
    assert repository.cases[0].expected["t7"].tolist() == [[8.0, 9.0]]
    assert serve(repository, tmp_path, folders).parity.max_absolute_error == 0


@pytest.mark.soak
def test_a_complete_build(tmp_path, tiny_folder, folders):
    """Two encoders of the same texts: built with the ensemble, packed once each, reused with it."""
    members = {
        name: write_model(tmp_path / name, name=name, source=f"file://{tiny_folder}")
        for name in ("one", "two")
    }
    document = ensemble_model(
        tmp_path / "whole",
        "recipe:\n  kind: ensemble\n  steps:\n"
        "    - {model: one, outputs: {embedding: first}}\n"
        "    - {model: two, outputs: {embedding: second}}\n"
        f"test_inputs: [{TEXTS[0]}, {TEXTS[1]}]\n",
    )
    events: list[Progress] = []
    artifact = build_model(model=document, members=members, folders=folders, on_progress=events.append)
    manifest = artifact.manifest
    assert [tensor.name for tensor in manifest.outputs] == ["first", "second"]
    assert (manifest.max_batch, manifest.entry_model) == (4, "whole")
    assert {report.stage: report.max_absolute_error < 1e-4 for report in manifest.parity} == {
        "graph": True,
        "served": True,
    }
    assert "torch" in manifest.tools, "an ensemble is built again when what built its models changes"
    archives = [entry.path for entry in manifest.files if entry.path.endswith("env.tar.gz")]
    assert archives == ["one-model/env.tar.gz"]
    assert build_model(model=document, members=members, folders=folders).reused


def tensors(**datatypes: str) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(name=name, datatype=datatype, shape=(-1,)) for name, datatype in datatypes.items()
    )


@pytest.mark.e2e
def test_branches_join_and_one_output_is_optional(tmp_path, folders):
    """Two models get the callers' input, a third joins their outputs, and one of its outputs is not used."""
    environment = tmp_path / "env.tar.gz"
    build_environment([], file=environment, cache_dir=folders.cache)
    members = {
        "scale": ('{"y": read("x") * 2}', {"x": "FP32"}, {"y": "FP32"}),
        "round": ('{"n": np.rint(read("x")).astype(np.int64)}', {"x": "FP32"}, {"n": "INT64"}),
        "join": (
            '{"sum": read("a") + read("b"), "unused": read("a")}',
            {"a": "FP32", "b": "INT64"},
            {"sum": "FP64", "unused": "FP32"},
        ),
    }
    artifacts = {
        name: python_artifact(
            tmp_path / "artifacts",
            name,
            CALCULATING_CODE.replace("EXPRESSION", expression),
            inputs=tensors(**inputs),
            outputs=tensors(**outputs),
            environment=environment,
        )
        for name, (expression, inputs, outputs) in members.items()
    }
    document = ensemble_model(
        tmp_path / "whole",
        "recipe:\n  kind: ensemble\n  steps: [{model: scale}, {model: round}, "
        "{model: join, inputs: {a: y, b: n}}]\n  outputs: [sum, n]\n"
        "test_inputs: [{inputs: {x: [1.4, 2.6]}}, {inputs: {x: [5.0]}}]\n",
    )
    repository = write_ensemble(document, tmp_path / "work", artifacts, folders.server)
    config = read_config(repository.folder / "whole/config.pbtxt")
    maps = [dict(step.input_map) for step in config.ensemble_scheduling.step]
    assert maps == [{"x": "x"}, {"x": "x"}, {"a": "y", "b": "n"}]
    assert [path.parent.name for path in sorted(repository.folder.rglob("env.tar.gz"))] == ["join"]
    expected = repository.cases[0].expected
    assert (expected["n"].tolist(), expected["sum"].tolist()) == ([[1, 3]], [pytest.approx([3.8, 8.2])])
    assert serve(repository, tmp_path, folders).parity.max_absolute_error == 0

    # The ensemble as a step: its models share packages, and get other names in the outer one.
    artifacts["whole"] = keep_artifact(
        repository.folder,
        tmp_path / "artifacts/whole/new",
        inputs=repository.inputs,
        outputs=repository.outputs,
        max_batch=4,
    )
    outer = ensemble_model(
        tmp_path / "outer",
        "recipe:\n  kind: ensemble\n  steps: [{model: whole}, {model: scale, outputs: {y: twice}}]\n"
        "test_inputs: [{inputs: {x: [1.4, 2.6]}}]\n",
        name="outer",
    )
    repository = write_ensemble(outer, tmp_path / "work-outer", artifacts, folders.server)
    names = sorted(folder.name for folder in repository.folder.iterdir())
    assert names == ["outer", "scale", "whole-join", "whole-round", "whole-scale"]
    assert [path.parent.name for path in sorted(repository.folder.rglob("env.tar.gz"))] == ["scale"]
    (tmp_path / "served-outer").mkdir()
    assert serve(repository, tmp_path / "served-outer", folders).parity.max_absolute_error == 0
