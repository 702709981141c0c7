"""Ensembles of other models, served by a real Triton in both hosting modes."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.build import BuildFolders, build_model
from model_build.checking.archive_checks import ServingCheck, ServingReport
from model_build.data import WrittenRepository
from model_build.progress import BuildSteps, ignore_progress
from model_build.recipes import recipe_for
from model_build.repository.config import read_config
from model_build.repository.layout import check_layout
from model_build.store.archive import pack
from tests.model_build.graph_texts import save_graph
from tests.model_build.supplied_models import write_supplied
from tests.model_build.tiny import TEXTS, write_model
from tests.model_build.written_repositories import context_of, manifest_of
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.manifests import ARCHIVE_NAME, MANIFEST_NAME
from tritonstack.triton import find_installation

CODE = """\
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
CALCULATORS: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "scale": ('{"y": read("x") * 2}', {"x": "FP32"}, {"y": "FP32"}),
    "round": ('{"n": np.rint(read("x")).astype(np.int64)}', {"x": "FP32"}, {"n": "INT64"}),
    "join": (
        '{"sum": read("a") + read("b"), "unused": read("a")}',
        {"a": "FP32", "b": "INT64"},
        {"sum": "FP64", "unused": "FP32"},
    ),
}
"""What the code of a model computes, and its tensors."""


def calculator(folder: Path, name: str) -> Document[ModelSpec]:
    expression, inputs, outputs = CALCULATORS[name]
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(CODE.replace("EXPRESSION", expression))
    tensors = {name: {"datatype": kind, "shape": [-1]} for name, kind in (inputs | outputs).items()}
    tests = [{"inputs": {key: [1] for key in inputs}, "outputs": {key: [1] for key in outputs}}]
    return write_supplied(
        folder, {"kind": "python"}, name=name, source=None, tensors=tensors, test_inputs=tests
    )


def ensemble(
    folder: Path, steps: list[Any], tests: list[Any], name: str, **recipe: Any
) -> Document[ModelSpec]:
    whole = {"kind": "ensemble", "steps": steps, **recipe}
    return write_supplied(folder, whole, name=name, source=None, batching=None, test_inputs=tests)


def written(
    model: Document[ModelSpec], work: Path, folders: BuildFolders, artifacts: Mapping[str, Path]
) -> WrittenRepository:
    """Write a repository whose members have been built already."""
    context = replace(
        context_of(model, work),
        cache_dir=folders.cache,
        installation=find_installation(home=folders.server),
        build_member=lambda name: artifacts[name],
    )
    return recipe_for(model).write_repository(context, BuildSteps(ignore_progress))


def artifact_of(repository: WrittenRepository, folder: Path) -> Path:
    """Pack a repository as a build does; return the artifact's folder."""
    folder.mkdir(parents=True)
    packed = pack(repository.folder, folder / ARCHIVE_NAME)
    tensors = {"inputs": tuple(repository.inputs), "outputs": tuple(repository.outputs)}
    manifest = manifest_of(packed, model=repository.entry, max_batch=4, **tensors)
    (folder / MANIFEST_NAME).write_text(manifest.to_json())
    return folder.rename(folder.with_name(packed.digest))


def serve(repository: WrittenRepository, work: Path, folders: BuildFolders) -> ServingReport:
    assert check_layout(repository.folder) == repository.entry
    work.mkdir(exist_ok=True)
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
def test_a_complete_build_of_texts_and_a_classifier(tmp_path, tiny_folder, folders):
    """Two encoders of the same texts: built with the ensemble, packed once each, reused with it."""
    weights = np.random.default_rng(3).standard_normal((32, 3)).astype(np.float32)
    members: dict[str, Document[ModelSpec]] = {
        name: write_model(tmp_path / name, name=name, source=f"file://{tiny_folder}")
        for name in ("one", "two")
    }
    text = """(float[batch, 32] embedding) => (float[batch, 3] scores) {
        logits = MatMul(embedding, w)
        scores = Softmax<axis = 1>(logits)
    }"""
    save_graph(tmp_path / "head/weights/model.onnx", text, w=weights)
    rows = [{"random": {"rows": 3}}]
    labels = {"scores": {"labels": ["a", "b", "c"]}}
    members["head"] = write_supplied(
        *(tmp_path / "head", {"kind": "onnx"}),
        name="head",
        test_inputs=rows,
        tensors=labels,
        batching={"max_batch": 3},
    )
    steps = [
        {"model": "one", "outputs": {"embedding": "first"}},
        {"model": "two", "outputs": {"embedding": "second"}},
        {"model": "head", "inputs": {"embedding": "first"}},
    ]
    outputs = ["scores", "first", "second"]
    document = ensemble(tmp_path / "whole", steps, list(TEXTS[:2]), "whole", outputs=outputs)
    artifact = build_model(model=document, members=members, folders=folders)
    manifest = artifact.manifest
    assert [(tensor.name, tensor.labels) for tensor in manifest.outputs] == [
        *(("scores", ("a", "b", "c")), ("first", ()), ("second", ()))
    ]
    assert (manifest.max_batch, manifest.entry_model, [tensor.name for tensor in manifest.inputs]) == (
        *(3, "whole"),
        ["TEXT"],
    )
    assert {report.stage: report.max_absolute_error < 1e-4 for report in manifest.parity} == {
        "graph": True,
        "served": True,
    }
    assert "torch" in manifest.tools, "an ensemble is built again when what built its models changes"
    archives = [entry.path for entry in manifest.files if entry.path.endswith("env.tar.gz")]
    assert archives == ["one-model/env.tar.gz"]
    assert build_model(model=document, members=members, folders=folders).reused
    artifacts = {
        name: build_model(model=model, folders=folders).artifact_dir for name, model in members.items()
    }
    for case in written(document, tmp_path / "work", folders, artifacts).cases:
        logits = case.expected["first"] @ weights
        expected = np.exp(logits) / np.exp(logits).sum()
        np.testing.assert_allclose(case.expected["scores"], expected, atol=1e-5)
        assert case.origin == "served"


@pytest.mark.e2e
def test_branches_join_and_one_output_is_optional(tmp_path, folders):
    """Two models get the callers' input, a third joins their outputs, and one of its outputs is not used."""
    artifacts: dict[str, Path] = {}
    for name in CALCULATORS:
        member = written(calculator(tmp_path / name, name), tmp_path / name / "work", folders, {})
        artifacts[name] = artifact_of(member, tmp_path / "artifacts" / name)
    joined = {"model": "join", "inputs": {"a": "y", "b": "n"}}
    tests = [{"inputs": {"x": [1.4, 2.6]}}, {"inputs": {"x": [5.0]}}]
    document = ensemble(
        *(tmp_path / "whole", [{"model": "scale"}, {"model": "round"}, joined], tests, "whole"),
        outputs=["sum", "n"],
    )
    repository = written(document, tmp_path / "work", folders, artifacts)
    config = read_config(repository.folder / "whole/config.pbtxt")
    maps = [dict(step.input_map) for step in config.ensemble_scheduling.step]
    assert maps == [{"x": "x"}, {"x": "x"}, {"a": "y", "b": "n"}]
    assert [path.parent.name for path in sorted(repository.folder.rglob("env.tar.gz"))] == ["join"]
    parameters = read_config(repository.folder / "scale/config.pbtxt").parameters
    assert parameters["EXECUTION_ENV_PATH"].string_value == "$$TRITON_MODEL_DIRECTORY/../join/env.tar.gz"
    expected = repository.cases[0].expected
    assert (expected["n"].tolist(), expected["sum"].tolist()) == ([[1, 3]], [pytest.approx([3.8, 8.2])])
    assert serve(repository, tmp_path / "served", folders).parity.max_absolute_error == 0

    # The ensemble as a step: its models share packages, and get other names in the outer one.
    artifacts["whole"] = artifact_of(repository, tmp_path / "artifacts/whole")
    steps = [{"model": "whole"}, {"model": "scale", "outputs": {"y": "twice"}}]
    outer = ensemble(tmp_path / "outer", steps, tests[:1], "outer")
    repository = written(outer, tmp_path / "work-outer", folders, artifacts)
    names = sorted(folder.name for folder in repository.folder.iterdir())
    assert names == ["outer", "scale", "whole-join", "whole-round", "whole-scale"]
    assert [path.parent.name for path in sorted(repository.folder.rglob("env.tar.gz"))] == ["scale"]
    assert serve(repository, tmp_path / "served-outer", folders).parity.max_absolute_error == 0
