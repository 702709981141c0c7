"""Smoke requests to real Tritons: a build's examples distinguish right endpoints from wrong ones.

An endpoint is invoked without anything of the model: no framework, no source, and no archive.
"""

import io
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from model_build.build import BuildFolders, BuiltArtifact, build_model
from model_build.exporters.image_preparation import encoded
from model_build.store.archive import unpack
from model_build.store.publishing import publish
from tests.model_build.builds.test_configured_builds import counter
from tests.model_build.supplied_models import PYTHON_MODEL, save_rows, save_xgboost, write_supplied
from tests.model_build.tiny import write_model, write_model_file
from tests.model_build.tiny_tasks import save_image_model
from tests.moto_aws import simulated_aws
from tests.operations.smoke.smoke_environment import SimulatedTime, model_error, with_endpoints
from tests.operations.strict_aws import checked
from tests.projects import add_builder, edit
from tritonstack.base.paths import Project
from tritonstack.base.yaml import Document, load_document
from tritonstack.operations.aws import Cloud
from tritonstack.operations.smoke.asking import SmokeResult, smoke_endpoint
from tritonstack.project.loading import load_workspace
from tritonstack.project.workspace import Workspace
from tritonstack.records.examples import EXAMPLES_NAME, Examples, parse_examples
from tritonstack.records.lock_writing import write_lock
from tritonstack.records.locks import Lock
from tritonstack.records.manifests import ARCHIVE_NAME
from tritonstack.reference.container_variables import ContainerOptions, container_variables
from tritonstack.runtime import TritonServer, find_installation
from tritonstack.spec.models.model import ModelSpec

ENVIRONMENT = """\
name: local
account: "000000000000"
region: us-east-1
triton_release: "25.04"
endpoints:
  asked:
    kind: {kind}
    model: tiny
    instance_type: ml.c7i.xlarge
    scaling: {{min_instances: 1, max_instances: 1}}
"""
Make = Callable[[Path, Path], Document[ModelSpec]]


def texts(folder: Path, tiny: Path) -> Document[ModelSpec]:
    return write_model(folder, source=f"file://{tiny}")


def tokens(folder: Path, tiny: Path) -> Document[ModelSpec]:
    return write_model(folder, source=f"file://{tiny}", takes="tokens")


def trees(folder: Path, _: Path) -> Document[ModelSpec]:
    save_xgboost(folder / "weights/a.json", "multi:softprob")
    save_rows(folder / "rows.npz", 6)
    return write_supplied(folder, {"kind": "trees", "file": "a.json"}, test_inputs=[{"file": "rows.npz"}])


def images(folder: Path, _: Path) -> Document[ModelSpec]:
    save_image_model(folder / "weights")
    pixels = np.random.default_rng(2).integers(0, 256, (50, 40, 3), dtype=np.uint8)
    (folder / "a.png").write_bytes(encoded(pixels))
    file = write_model_file(
        folder,
        recipe="kind: image-classification, input: image",
        source=folder / "weights",
        tests=["image: a.png"],
    )
    return load_document(file, ModelSpec)


def python(folder: Path, _: Path) -> Document[ModelSpec]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.py").write_text(PYTHON_MODEL.format(imports="", body="y = x * 2"))
    answered = [
        {"inputs": {"x": [1.0, 2.0, 4.0]}, "outputs": {"y": [2.0, 4.0, 8.0]}},
        {"inputs": {"x": [0.5, 0.0, -1.0]}, "outputs": {"y": [1.0, 0.0, -2.0]}},
    ]
    return write_supplied(folder, {"kind": "python"}, source=None, test_inputs=answered)


def steps(folder: Path, _: Path) -> Document[ModelSpec]:
    """A model that adds up the inputs of one sequence."""
    folder.parent.mkdir(parents=True)
    return counter(folder, {"strategy": "direct"}, 1.0, 21.0, 321.0, batching={"max_batch": 1})


@dataclass
class TritonEndpoint:
    """A server in place of an endpoint, validated with botocore's model of InvokeEndpoint."""

    server: TritonServer

    def invoke_endpoint(self, **fields: Any) -> dict[str, Any]:
        checked("sagemaker-runtime", "InvokeEndpoint", fields)
        headers = {"Content-Type": fields["ContentType"]}
        answer = self.server.request("POST", "/invocations", body=fields["Body"], headers=headers)
        if answer.status != 200:
            raise model_error(answer.body.decode(), status=answer.status)
        return {"Body": io.BytesIO(answer.body), "ContentType": answer.headers["content-type"]}


@dataclass
class Built:
    """An artifact in the bucket of an environment that serves it."""

    result: BuiltArtifact
    workspace: Workspace
    cloud: Cloud
    folders: BuildFolders

    def unpacked(self, folder: Path) -> Path:
        """Unpack what an endpoint would serve, for a test to damage."""
        unpack(
            self.result.artifact_dir / ARCHIVE_NAME,
            folder,
            limit_bytes=self.result.manifest.unpacked_bytes,
        )
        return folder

    def smoke(self, repository: Path) -> list[SmokeResult]:
        """Serve a repository as the endpoint, and invoke it."""
        with TritonServer.start(
            installation=find_installation(home=self.folders.server),
            model_root=repository,
            environment=container_variables({}, ContainerOptions(self.result.manifest.entry_model)),
            state_dir=repository.with_name(f"{repository.name}-server"),
        ) as server:
            server.wait_ready(timeout_s=120)
            return smoke_endpoint(
                with_endpoints(self.cloud, TritonEndpoint(server)),
                self.workspace,
                "asked",
                patience=SimulatedTime().patience(),
            )

    @property
    def examples(self) -> Examples:
        file = self.result.artifact_dir / EXAMPLES_NAME
        return parse_examples(file.read_bytes(), origin=file)


@contextmanager
def built(make: Make, root: Path, tiny: Path, folders: BuildFolders) -> Iterator[Built]:
    """Build and publish, then remove the model's source."""
    project = Project(root / "project")
    model = make(project.models_dir / "tiny", tiny)
    result = build_model(model=model, folders=folders)
    add_builder(project.root)
    project.environments_dir.mkdir()
    kind = model.record.layout
    project.environment_file("local").write_text(ENVIRONMENT.format(kind=kind))
    write_lock(project.lock_file("local"), Lock().with_artifact(result.manifest))
    workspace = load_workspace(project, "local")
    with simulated_aws():
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        cloud = Cloud(workspace.spec.account, workspace.spec.region, keys)
        s3 = cloud.client("s3")
        s3.create_bucket(Bucket=workspace.spec.artifact_bucket)
        publish(artifact_dir=result.artifact_dir, bucket=workspace.spec.artifact_bucket, s3_client=s3)
        shutil.rmtree(project.models_dir)
        yield Built(result, workspace, cloud, folders)


def outcomes(results: list[SmokeResult]) -> set[str]:
    return {result.outcome for result in results}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("make", "origin", "count"),
    [
        (texts, "framework", 3),
        (tokens, "framework", 3),
        (trees, "framework", 3),
        (images, "framework", 1),
        (python, "given", 2),
        (steps, "given", 3),
    ],
)
def test_smoke_examples_of_a_build_are_answered(tmp_path, tiny_folder, folders, make, origin, count):
    with built(make, tmp_path, tiny_folder, folders) as one:
        assert [example.origin for example in one.examples.requests] == [origin] * count
        assert all(example.name.startswith("test input") for example in one.examples.requests)
        assert (one.result.artifact_dir / EXAMPLES_NAME).stat().st_size < 64 << 10
        right = one.smoke(one.unpacked(tmp_path / "served"))
        assert [(result.outcome, result.detail) for result in right] == [("ok", "")] * count
        if make is tokens:
            assert outcomes(one.smoke(other_weights(one.unpacked(tmp_path / "other")))) == {"wrong"}
        if make is python:
            the_python_model_goes_wrong(one, tmp_path)


def other_weights(repository: Path) -> Path:
    """The same graph with the same name and other weights."""
    file = repository / "tiny/1/model.onnx"
    model = onnx.load(str(file))
    random = np.random.default_rng(1)
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype == np.float32 and values.ndim == 2:
            mixed = random.permutation(values.ravel()).reshape(values.shape)
            tensor.CopyFrom(numpy_helper.from_array(mixed, tensor.name))
    onnx.save(model, str(file))
    return repository


def the_python_model_goes_wrong(one: Built, folder: Path) -> None:
    """Each failure differs, and is found and reported."""
    for name, body, outcome, words in (
        ("off", "y = x * 2.0002", "wrong", "y is 2.0002 for 2 at [0, 0]: cosine 1.0000000"),
        ("order", "y = x[:, ::-1] * 2", "wrong", "y is 8 for 2 at [0, 0]: cosine 0.5714286"),
        ("error", "raise ValueError('no answer today')", "failed", "no answer today"),
    ):
        repository = one.unpacked(folder / name)
        edit(repository / "tiny/1/model.py", "y = x * 2", body)
        first, second = one.smoke(repository)
        assert (first.outcome, second.outcome) == (outcome, outcome), (name, first)
        assert words in first.detail


@pytest.mark.soak
def test_an_artifact_of_an_earlier_version_is_built_again_with_the_same_digest(tmp_path, folders):
    model = python(tmp_path / "model", tmp_path)
    first = build_model(model=model, folders=folders)
    assert build_model(model=model, folders=folders).reused
    (first.artifact_dir / EXAMPLES_NAME).unlink()
    before = first.manifest.model_copy(update={"examples_sha256": None})
    (first.artifact_dir / "manifest.json").write_text(before.to_json())
    again = build_model(model=model, folders=folders)
    assert (again.reused, again.manifest.digest) == (False, first.manifest.digest)
    assert again.manifest.examples_sha256 == first.manifest.examples_sha256
    assert build_model(model=model, folders=folders).reused


def test_smoke_requests_need_no_framework():
    """A machine that runs verify has only the core dependencies, without any of the build's."""
    script = (
        "import sys, tritonstack.operations.smoke.asking\n"
        "heavy = {'torch', 'transformers', 'onnx', 'onnxruntime', 'xgboost', 'model_build', 'tokenizers'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
