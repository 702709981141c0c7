"""Python models that call other models, served by a real Triton in both hosting modes."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.build import BuildFolders, BuiltArtifact, build_model
from model_build.errors import ServingError
from model_build.linting.check import lint_repository
from model_build.linting.findings import LintOptions
from model_build.store.archive import unpack
from tests.model_build.repository.hosting import Host, hosting
from tests.model_build.supplied_models import write_supplied
from tritonstack.base.yaml import Document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.manifests import ARCHIVE_NAME

pytestmark = pytest.mark.e2e

ADDS_ONE = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        numbers = pb_utils.get_input_tensor_by_name(request, "numbers_in").as_numpy()
        if (numbers < 0).any():
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("a number is negative"))
        return pb_utils.InferenceResponse([pb_utils.Tensor("numbers_out", numbers + 1)])
"""
JUDGE = """\
import asyncio

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        return [await self.answer(request) for request in requests]

    async def answer(self, request):
        numbers = pb_utils.get_input_tensor_by_name(request, "numbers").as_numpy()
        calls = [
            pb_utils.InferenceRequest(
                model_name=name,
                inputs=[pb_utils.Tensor("numbers_in", numbers)],
                requested_output_names=["numbers_out"],
            )
            for name in ({names})
        ]
        answers = await asyncio.gather(*(call.async_exec() for call in calls))
        for answer in answers:
            if answer.has_error():
                return pb_utils.InferenceResponse(error=answer.error())
        numbers = [pb_utils.get_output_tensor_by_name(answer, "numbers_out").as_numpy() for answer in answers]
        return pb_utils.InferenceResponse([pb_utils.Tensor("total", sum(numbers))])
"""


def adds_one(folder: Path, name: str, **more: Any) -> Document[ModelSpec]:
    """Write a model that adds one, and fails for negative numbers."""
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(ADDS_ONE)
    answered = [{"inputs": {"numbers_in": [1.0, 2.0]}, "outputs": {"numbers_out": [2.0, 3.0]}}]
    tensors = {"numbers_in": {"shape": [-1]}, "numbers_out": {"shape": [-1]}}
    facts = {"source": None, "test_inputs": answered, "tensors": tensors, **more}
    return write_supplied(folder, {"kind": "python"}, name=name, **facts)


def build_judge(
    root: Path, folders: BuildFolders, *, names: str = "'one', 'two-steps'", plus: str = ""
) -> BuiltArtifact:
    """Build a model that calls a model and an ensemble, which uses that model twice."""
    single = adds_one(root / "one", "one", batching={"max_batch": 2})
    steps = [
        {"model": "one", "outputs": {"numbers_out": "between"}},
        {"model": "one", "inputs": {"numbers_in": "between"}},
    ]
    two = write_supplied(
        root / "two-steps",
        {"kind": "ensemble", "steps": steps},
        name="two-steps",
        source=None,
        batching=None,
        test_inputs=[{"inputs": {"numbers_in": [1.0]}}],
    )
    (root / "judge").mkdir()
    (root / "judge/model.py").write_text(JUDGE.replace("{names}", names) + plus)
    judge = write_supplied(
        root / "judge",
        {"kind": "python", "calls": ["one", "two-steps"]},
        name="judge",
        source=None,
        batching={"max_batch": 2},
        tensors={"numbers": {"shape": [-1]}, "total": {"shape": [-1]}},
        test_inputs=[
            {"inputs": {"numbers": [1.0, 2.0]}, "outputs": {"total": [5.0, 7.0]}},
            {"inputs": {"numbers": [0.0]}, "outputs": {"total": [3.0]}},
        ],
    )
    return build_model(
        model=judge, members={"one": single, "two-steps": two, "judge": judge}, folders=folders
    )


@pytest.mark.soak
def test_two_artifacts_on_one_host(tmp_path, folders):
    """The check of each build covers both hosting modes; a rollout hosts two builds of one model."""
    artifacts = {
        "first": build_judge(tmp_path / "1", folders),
        "second": build_judge(tmp_path / "2", folders, plus="# changed\n"),
    }
    manifest = artifacts["first"].manifest
    assert (manifest.entry_model, manifest.max_batch) == ("judge", 2)
    assert ([tensor.name for tensor in manifest.inputs], manifest.target) == (["numbers"], "cpu")
    assert manifest.parity[-1].max_absolute_error == 0
    archives = [entry.path for entry in manifest.files if entry.path.endswith("env.tar.gz")]
    assert [report.path for report in manifest.environments] == archives
    lint = lint_repository(artifacts["first"].artifact_dir / ARCHIVE_NAME, LintOptions("26.05"))
    assert (lint.entry, lint.findings) == ("judge", ())
    for name, artifact in artifacts.items():
        root = tmp_path / "models" / name / "model"
        root.parent.mkdir(parents=True)
        unpack(artifact.artifact_dir / ARCHIVE_NAME, root, limit_bytes=1 << 20, limit_members=100)
    with hosting(tmp_path / "models", tmp_path / "server") as host:
        for name in (*artifacts, *artifacts):
            host.load(name)
            answers = host.ask(name, {"numbers": np.array([[1.0, 2.0], [5.0, 6.0]], np.float32)})
            assert answers["total"].tolist() == [[5.0, 7.0], [13.0, 15.0]]
            _only_failed_calls_fail(host, name)
            if name == "second":
                for hosted_model in artifacts:
                    host.unload(hosted_model)


def _only_failed_calls_fail(host: Host, name: str) -> None:
    """Send good and bad requests at once; Triton passes several of them to the code together."""
    with ThreadPoolExecutor(8) as pool:
        requests = [{"numbers": np.array([[number]], np.float32)} for number in (1, -1) * 8]
        replies = list(pool.map(lambda request: host.post(name, request), requests))
    assert [reply.status for reply in replies] == [200, 400] * 8
    assert all(b"a number is negative" in reply.body for reply in replies[1::2])


def test_a_call_that_only_serving_finds(tmp_path, folders):
    with pytest.raises(ServingError, match=r"'three', .*: one, two-steps"):
        build_judge(tmp_path, folders, names="'one', 't' + 'hree'")
    assert not list((folders.artifacts / "judge").rglob(ARCHIVE_NAME))
