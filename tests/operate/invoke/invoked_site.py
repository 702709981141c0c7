"""A project whose endpoint answers as a test sets; its artifacts are in moto's S3."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.operate.strict_aws import checked
from tests.operate.verify.smoke_environment import (
    DIGESTS,
    Arrays,
    example,
    manifest_of,
    put,
    reply,
    with_endpoints,
    workspace_of,
)
from tests.projects import MODEL, edit
from tritonstack import Session, invoke
from tritonstack.client.tensor_decoding import decode_tensors
from tritonstack.files.loading import load_workspace
from tritonstack.files.records.examples import EXAMPLES_NAME, Examples
from tritonstack.files.records.manifests import MANIFEST_NAME, TensorSpec
from tritonstack.operate.invoke.invoke import InvokeOptions
from tritonstack.operate.shared.aws import Cloud, cloud_of

PLAIN = "  search: {kind: ensemble, model: minilm, instance_type: ml.c7i.xlarge}\n"
QUEUED = PLAIN.replace("}", ", asynchronous: {}}")
TOKENS = MODEL.replace("kind: text-embedding", "kind: text-embedding\n  input: tokens")
SINGLE = PLAIN.replace("ensemble", "single")
X = TensorSpec(name="x", datatype="FP32", shape=(3,))
SCORES = TensorSpec(name="scores", datatype="FP32", shape=(2,), labels=("negative", "positive"))
COUNTER = """\
name: minilm
description: Counts.
recipe: {kind: python, decoupled: true}
test_inputs: [{inputs: {x: [1.0, 2.0, 3.0]}, responses: [{y: [1.0, 2.0, 3.0]}]}]
"""
Y = TensorSpec(name="y", datatype="FP32", shape=(3,))


class Endpoint:
    """InvokeEndpoint, checked with botocore's model and answered by a function of the inputs."""

    def __init__(self, answer: Callable[[Arrays], Arrays]) -> None:
        self.answer = answer
        self.calls: list[dict[str, Any]] = []
        self.headers: list[dict[str, Any]] = []

    def invoke_endpoint(self, **fields: Any) -> dict[str, Any]:
        checked("sagemaker-runtime", "InvokeEndpoint", fields)
        size = int(fields["ContentType"].rpartition("=")[2])
        header = json.loads(fields["Body"][:size])
        self.calls.append(fields)
        self.headers.append(header)
        inputs = decode_tensors(header["inputs"], fields["Body"], offset=size)
        body, content_type = reply(self.answer(inputs))
        return {"Body": io.BytesIO(body), "ContentType": content_type}


class Site:
    """A project whose endpoint answers as a test sets."""

    def __init__(self, root: Path, account: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.patch = root, monkeypatch
        self.project = workspace_of(root, PLAIN).project
        edit(self.project.environment_file("dev"), "0" * 12, account)

    def model(self, text: str, endpoints: str) -> None:
        """Replace the model's file, and the endpoints."""
        self.project.model_file("minilm").write_text(text)
        (self.project.model_file("minilm").parent / "model.py").touch()
        edit(self.project.environment_file("dev"), PLAIN, endpoints)

    def stock(self, *requests: Any, **facts: Any) -> None:
        """Publish the artifact with its manifest and examples."""
        workspace = load_workspace(self.project, "dev")
        cloud = cloud_of(workspace.spec, variables={})
        for bucket in (workspace.spec.artifact_bucket, workspace.spec.data_bucket):
            boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=bucket)
        empty = {"none_because": "the test has none"} if requests == (None,) else {}
        stored = tuple(request for request in requests or (example(),) if request is not None)
        examples = Examples(model="minilm", digest=DIGESTS["minilm"], requests=stored, **empty)
        put(cloud, workspace, "minilm", EXAMPLES_NAME, examples.to_json())
        manifest = manifest_of("minilm", examples_sha256=examples.sha256, max_batch=8, **facts)
        put(cloud, workspace, "minilm", MANIFEST_NAME, manifest.to_json())

    def answers(self, answer: Callable[[Arrays], Arrays]) -> Endpoint:
        endpoint = Endpoint(answer)
        self.use(endpoint)
        return endpoint

    def use(self, runtime: Any) -> None:
        """Send requests to this runtime; S3 is moto's."""

        def cloud(_: Session, spec: Any, **__: Any) -> Cloud:
            return with_endpoints(cloud_of(spec, variables={}), runtime)

        self.patch.setattr(Session, "cloud", cloud)

    def invoke(self, *texts: str, **options: Any) -> Any:
        return invoke(Session(self.project), "dev", "search", texts, options=InvokeOptions(**options))
