"""Smoke requests to real Tritons: a build's examples distinguish right endpoints from wrong ones.

An endpoint is invoked without anything of the model: no framework, no source, and no archive.
"""

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from model_build.build import BuildFolders, BuiltArtifact, build_model
from model_build.store.archive import unpack
from model_build.store.publishing import publish
from tests.model_build.builds.test_supplied_model_builds import counter, supplied
from tests.model_build.tiny import write_model
from tests.moto_aws import simulated_aws
from tests.operations.smoke.smoke_environment import SimulatedTime, model_error, with_endpoints
from tests.operations.strict_aws import checked
from tests.projects import add_builder, edit
from tritonstack.base.paths import Project
from tritonstack.base.yaml import Document
from tritonstack.operations.aws import Cloud
from tritonstack.operations.smoke.asking import smoke_endpoint
from tritonstack.project.loading import load_workspace
from tritonstack.project.workspace import Workspace
from tritonstack.records.examples import EXAMPLES_NAME
from tritonstack.records.lock_writing import write_lock
from tritonstack.records.locks import Lock
from tritonstack.records.manifests import ARCHIVE_NAME
from tritonstack.reference.container_variables import ContainerOptions, container_variables
from tritonstack.runtime import TritonServer, find_installation
from tritonstack.spec.models.model import ModelSpec

pytestmark = pytest.mark.soak

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

    artifact: BuiltArtifact
    workspace: Workspace
    cloud: Cloud
    folders: BuildFolders

    def unpacked(self, folder: Path) -> Path:
        """Unpack what an endpoint would serve, for a test to damage."""
        limit = self.artifact.manifest.unpacked_bytes
        unpack(self.artifact.artifact_dir / ARCHIVE_NAME, folder, limit_bytes=limit)
        return folder

    def smoke(self, repository: Path) -> list[tuple[str, str]]:
        """Serve a repository as the endpoint and invoke it; return each outcome and its detail."""
        with TritonServer.start(
            installation=find_installation(home=self.folders.server),
            model_root=repository,
            environment=container_variables({}, ContainerOptions(self.artifact.manifest.entry_model)),
            state_dir=repository.with_name(f"{repository.name}-server"),
        ) as server:
            server.wait_ready(timeout_s=120)
            cloud = with_endpoints(self.cloud, TritonEndpoint(server))
            smoked = smoke_endpoint(cloud, self.workspace, "asked", patience=SimulatedTime().patience())
            return [(result.outcome, result.detail) for result in smoked]


@contextmanager
def built(model: Document[ModelSpec], project: Project, folders: BuildFolders) -> Iterator[Built]:
    """Build and publish, then remove the model's source."""
    artifact = build_model(model=model, folders=folders)
    add_builder(project.root)
    project.environments_dir.mkdir()
    project.environment_file("local").write_text(ENVIRONMENT.format(kind=model.record.layout))
    write_lock(project.lock_file("local"), Lock().with_artifact(artifact.manifest))
    workspace = load_workspace(project, "local")
    with simulated_aws():
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        cloud = Cloud(workspace.spec.account, workspace.spec.region, keys)
        s3 = cloud.client("s3")
        s3.create_bucket(Bucket=workspace.spec.artifact_bucket)
        publish(artifact_dir=artifact.artifact_dir, bucket=workspace.spec.artifact_bucket, s3_client=s3)
        shutil.rmtree(project.models_dir)
        yield Built(artifact, workspace, cloud, folders)


def mix_weights(file: Path) -> None:
    """Write the same graph with the same name and other weights."""
    model = onnx.load(str(file))
    random = np.random.default_rng(1)
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype == np.float32 and values.ndim == 2:
            mixed = random.permutation(values.ravel()).reshape(values.shape)
            tensor.CopyFrom(numpy_helper.from_array(mixed, tensor.name))
    onnx.save(model, str(file))


def test_right_and_wrong_weights(tmp_path, tiny_folder, folders):
    project = Project(tmp_path / "project")
    model = write_model(project.models_dir / "tiny", source=f"file://{tiny_folder}", takes="tokens")
    with built(model, project, folders) as one:
        assert one.smoke(one.unpacked(tmp_path / "served")) == [("ok", "")] * 3
        other = one.unpacked(tmp_path / "other")
        mix_weights(other / "tiny/1/model.onnx")
        assert {outcome for outcome, _ in one.smoke(other)} == {"wrong"}


def test_each_failure_of_code_differs(tmp_path, folders):
    project = Project(tmp_path / "project")
    model = supplied(project.models_dir / "tiny", "a configuration of Python")
    with built(model, project, folders) as one:
        assert one.smoke(one.unpacked(tmp_path / "served")) == [("ok", "")] * 2
        for name, body, outcome, words in (
            ("off", "y = x * 2.0002", "wrong", "y is 2.0002 for 2 at [0, 0]: cosine 1.0000000"),
            ("order", "y = x[:, ::-1] * 2", "wrong", "y is 8 for 2 at [0, 0]: cosine 0.5714286"),
            ("error", "raise ValueError('no answer today')", "failed", "no answer today"),
        ):
            repository = one.unpacked(tmp_path / name)
            edit(repository / "tiny/1/model.py", "y = x * 2", body)
            first, second = one.smoke(repository)
            assert (first[0], second[0]) == (outcome, outcome), (name, first)
            assert words in first[1]


def test_steps_of_a_sequence(tmp_path, folders):
    project = Project(tmp_path / "project")
    folder = project.models_dir / "tiny"
    model = counter(folder, {"strategy": "direct"}, 1.0, 21.0, 321.0, batching={"max_batch": 1})
    with built(model, project, folders) as one:
        assert one.smoke(one.unpacked(tmp_path / "served")) == [("ok", "")] * 3


def test_an_artifact_of_an_earlier_version_is_built_again_with_the_same_digest(tmp_path, folders):
    model = supplied(tmp_path / "model", "a configuration of Python")
    first = build_model(model=model, folders=folders)
    assert build_model(model=model, folders=folders).reused
    (first.artifact_dir / EXAMPLES_NAME).unlink()
    before = first.manifest.model_copy(update={"examples_sha256": None})
    (first.artifact_dir / "manifest.json").write_text(before.to_json())
    again = build_model(model=model, folders=folders)
    assert (again.reused, again.manifest.digest) == (False, first.manifest.digest)
    assert again.manifest.examples_sha256 == first.manifest.examples_sha256
    assert build_model(model=model, folders=folders).reused
