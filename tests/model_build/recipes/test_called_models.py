"""Python models that call other models, served by a real Triton in both hosting modes."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.build import BuildFolders, BuiltArtifact, build_model
from model_build.errors import ServingError
from model_build.linting.check import lint_repository
from model_build.linting.findings import LintOptions
from model_build.store.archive import unpack
from tests.model_build.supplied_models import write_supplied
from tritonstack.base.yaml import Document
from tritonstack.client import decode_reply, encode_request
from tritonstack.records.manifests import ARCHIVE_NAME
from tritonstack.runtime import TritonServer, find_installation
from tritonstack.spec.models.model import ModelSpec

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


def ask(server: TritonServer, path: str, numbers: list[Any], headers: Mapping[str, str]) -> Any:
    """Return the answer, or the status and text of an error."""
    request = encode_request({"numbers": np.array(numbers, np.float32)})
    reply = server.request(
        "POST",
        path,
        body=request.body,
        headers={"Content-Type": request.content_type, **headers},
        timeout_s=60,
    )
    if reply.status != 200:
        return reply.status, reply.body.decode()
    return decode_reply(reply.body, content_type=reply.headers["content-type"]).outputs["total"].tolist()


@contextmanager
def hosted(artifacts: Mapping[str, Path], work: Path, folders: BuildFolders) -> Iterator[TritonServer]:
    """Serve artifacts on one multi-model host."""
    for name, artifact in artifacts.items():
        (work / "models" / name).mkdir(parents=True)
        root = work / "models" / name / "model"
        unpack(artifact / ARCHIVE_NAME, root, limit_bytes=1 << 20, limit_members=100)
    with TritonServer.start(
        installation=find_installation(home=folders.server),
        model_root=work / "models",
        environment={"SAGEMAKER_MULTI_MODEL": "true", "SAGEMAKER_TRITON_PING_MODE": "live"},
        state_dir=work / "server",
    ) as server:
        server.wait_ready(timeout_s=60)
        yield server


def control(server: TritonServer, method: str, name: str) -> None:
    """Load a model of the host (POST), or unload it (DELETE)."""
    order = {"model_name": name, "url": f"{server.model_root}/{name}/model"}
    headers = {"Content-Type": "application/json", "X-Amzn-SageMaker-Target-Model": f"{name}.tar.gz"}
    path = "/models" if method == "POST" else f"/models/{name}"
    reply = server.request(method, path, body=json.dumps(order).encode(), headers=headers, timeout_s=60)
    assert reply.status == 200, server.log_tail()


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
    paths = {name: f"/models/{name}/invoke" for name in artifacts}
    target = {name: {"X-Amzn-SageMaker-Target-Model": f"{name}.tar.gz"} for name in artifacts}
    with hosted(
        {name: artifact.artifact_dir for name, artifact in artifacts.items()}, tmp_path, folders
    ) as server:
        for name in (*artifacts, *artifacts):
            control(server, "POST", name)
            answers = ask(server, paths[name], [[1.0, 2.0], [5.0, 6.0]], target[name])
            assert answers == [[5.0, 7.0], [13.0, 15.0]]
            _only_failed_calls_fail(server, paths[name], target[name])
            if name == "second":
                for hosted_model in artifacts:
                    control(server, "DELETE", hosted_model)


def _only_failed_calls_fail(server: TritonServer, path: str, headers: Mapping[str, str]) -> None:
    """Send good and bad requests at once; Triton passes several of them to the code together."""
    with ThreadPoolExecutor(8) as pool:
        requests = [[[float(number)]] for number in (1, -1) * 8]
        answers = list(pool.map(lambda numbers: ask(server, path, numbers, headers), requests))
    assert answers[::2] == [[[5.0]]] * 8
    assert all(status == 400 and "a number is negative" in text for status, text in answers[1::2])


def test_a_call_that_only_serving_finds(tmp_path, folders):
    with pytest.raises(ServingError, match=r"'three', .*: one, two-steps"):
        build_judge(tmp_path, folders, names="'one', 't' + 'hree'")
    assert not list((folders.artifacts / "judge").rglob(ARCHIVE_NAME))
