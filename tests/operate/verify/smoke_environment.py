"""An environment with artifacts and examples in moto's S3, and simulated endpoints."""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from botocore.exceptions import ClientError

from tests.manifests import manifest
from tests.operate.strict_aws import checked, client_error
from tests.projects import MODEL, write_project
from tritonstack.base.naming import artifact_prefix
from tritonstack.client.codec import JSON_CONTENT_TYPE
from tritonstack.files.loading import load_workspace
from tritonstack.files.model.tolerance import Tolerance
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.examples import (
    EXAMPLES_NAME,
    Example,
    Examples,
    PlaceInSequence,
    RightAnswer,
    tensor_of,
)
from tritonstack.files.records.lock_writing import write_lock
from tritonstack.files.records.locks import Lock, LockedArtifact
from tritonstack.files.records.manifests import MANIFEST_NAME, Manifest
from tritonstack.operate.invoke.smoke_requests import Patience
from tritonstack.operate.shared.aws import Cloud

Arrays = Mapping[str, Any]
Answer = Callable[[Mapping[str, Any], Arrays], Arrays]
"""From the fields of a call and the tensors of its body to the outputs."""

DIGESTS = {"minilm": "ab" * 32, "other": "cd" * 32}
ASKED = np.array([[1.0, 2.0, 3.0]], dtype=np.float32)
RIGHT = np.array([[0.1, 0.2, 0.7]], dtype=np.float32)
NEAR = Tolerance(cosine=0.9999, absolute=1e-3)


def example(name: str = "test input 1", right: Any = RIGHT, **more: Any) -> Example:
    answer = RightAnswer(**dict(tensor_of("scores", right)), tolerance=NEAR)
    return Example(name=name, origin="framework", inputs=(tensor_of("x", ASKED),), outputs=(answer,), **more)


def sequence(length: int) -> list[Example]:
    """Return requests whose answers count the earlier ones."""
    return [
        example(
            f"step {number}",
            np.array([[number]], dtype=np.float32),
            sequence=PlaceInSequence(start=number == 1, end=number == length),
        )
        for number in range(1, length + 1)
    ]


def workspace_of(root: Path, endpoints: str, *, locked: Sequence[str] = ("minilm", "other")) -> Workspace:
    """Return a local environment with these endpoints, and artifacts for all instance types."""
    project = write_project(root)
    project.model_file("other").parent.mkdir()
    project.model_file("other").write_text(MODEL.replace("name: minilm", "name: other"))
    head = 'name: dev\naccount: "000000000000"\nregion: us-east-1\ntriton_release: "25.04"\nendpoints:\n'
    project.environment_file("dev").write_text(head + endpoints)
    artifacts = {
        name: {
            "cpu": LockedArtifact(digest=DIGESTS[name], spec_hash="0" * 64, archive_bytes=1, unpacked_bytes=1)
        }
        for name in locked
    }
    write_lock(project.lock_file("dev"), Lock(models=artifacts))
    return load_workspace(project, "dev")


def manifest_of(model: str, **facts: Any) -> Manifest:
    return manifest(model, digest=DIGESTS[model], spec_hash="0" * 64, **facts)


def stock(cloud: Cloud, workspace: Workspace, model: str, *requests: Example, **facts: Any) -> None:
    """Publish an artifact with examples."""
    examples = Examples(model=model, digest=DIGESTS[model], requests=requests, **facts)
    put(cloud, workspace, model, EXAMPLES_NAME, examples.to_json())
    put(cloud, workspace, model, MANIFEST_NAME, manifest_of(model, examples_sha256=examples.sha256).to_json())


def put(cloud: Cloud, workspace: Workspace, model: str, name: str, text: str) -> None:
    key = f"{artifact_prefix(model, DIGESTS[model])}/{name}"
    cloud.client("s3").put_object(Bucket=workspace.spec.artifact_bucket, Key=key, Body=text.encode())


@dataclass(frozen=True)
class CloudWithEndpoints(Cloud):
    """A cloud whose endpoints a test simulates."""

    runtime: Any = None

    def client(self, service: str) -> Any:
        return self.runtime if service == "sagemaker-runtime" else super().client(service)


def with_endpoints(cloud: Cloud, runtime: Any) -> Cloud:
    return CloudWithEndpoints(cloud.account, cloud.region, cloud.variables, runtime)


@dataclass
class SimulatedEndpoints:
    """InvokeEndpoint, validated with botocore's model and answered by a function."""

    answer: Answer
    calls: list[dict[str, Any]] = field(default_factory=list)

    def invoke_endpoint(self, **fields: Any) -> dict[str, Any]:
        checked("sagemaker-runtime", "InvokeEndpoint", fields)
        self.calls.append(fields)
        body, content_type = reply(self.answer(fields, tensors_of(fields["Body"], fields["ContentType"])))
        return {"Body": io.BytesIO(body), "ContentType": content_type}


@dataclass
class SimulatedQueue:
    """An asynchronous endpoint, validated with botocore's model; it answers when `work` is called."""

    s3: Any
    answer: Answer
    stored_as: str | None = None
    """The content type of answers, if it is not the container's."""
    silent: bool = False
    request: dict[str, Any] | None = None

    def invoke_endpoint_async(self, **fields: Any) -> dict[str, Any]:
        checked("sagemaker-runtime", "InvokeEndpointAsync", fields)
        bucket, _, key = fields["InputLocation"].removeprefix("s3://").partition("/")
        self.request = {**self.s3.get_object(Bucket=bucket, Key=key), "Key": key}
        output, failure = f"answers/{fields['EndpointName']}/1", f"failures/{fields['EndpointName']}/1"
        if not self.silent:
            tensors = tensors_of(self.request["Body"].read(), fields["ContentType"])
            try:
                body, kind = reply(self.answer(fields, tensors))
                self.s3.put_object(Bucket=bucket, Key=output, Body=body, ContentType=self.stored_as or kind)
            except ValueError as error:
                self.s3.put_object(Bucket=bucket, Key=failure, Body=str(error).encode())
        return {
            "InferenceId": "1",
            "OutputLocation": f"s3://{bucket}/{output}",
            "FailureLocation": f"s3://{bucket}/{failure}",
        }


class StreamingEndpoint:
    """InvokeEndpointWithResponseStream of a decoupled model, which sends two responses."""

    def __init__(self, *responses: bytes) -> None:
        self.responses = responses or (b'"y":[1.0,2.0,3.0]', b'"y":2.5,"word":"n\xc3\xa4ch"')
        self.sent: Any = None

    def invoke_endpoint_with_response_stream(self, **fields: Any) -> dict[str, Any]:
        checked("sagemaker-runtime", "InvokeEndpointWithResponseStream", fields)
        self.sent = json.loads(fields["Body"])
        events = b"".join(b'data: {"model_name":"minilm",%b}\n\n' % response for response in self.responses)
        parts = ({"PayloadPart": {"Bytes": part}} for part in (events[:20], events[20:]))
        return {"Body": closable(parts), "ContentType": "text/event-stream; charset=utf-8"}


def closable(parts: Iterator[dict[str, Any]]) -> Any:
    """Return a generator, which has the method `close` of an event stream."""
    yield from parts


def tensors_of(body: bytes, content_type: str) -> Arrays:
    """Return the float tensors of a request and its parameters, or the fields of a JSON request."""
    if content_type == JSON_CONTENT_TYPE:
        fields: Arrays = json.loads(body)
        return fields
    size = int(content_type.rpartition("=")[2])
    header = json.loads(body[:size])
    arrays: dict[str, Any] = {"parameters": header.get("parameters", {})}
    for tensor in header["inputs"]:
        length = tensor["parameters"]["binary_data_size"]
        arrays[tensor["name"]] = np.frombuffer(body[size : size + length], np.float32)
        size += length
    return arrays


def reply(outputs: Arrays) -> tuple[bytes, str]:
    """Return outputs in Triton's binary form, or any other dictionary as JSON."""
    if not all(isinstance(value, np.ndarray) for value in outputs.values()):
        return json.dumps(outputs).encode(), JSON_CONTENT_TYPE
    described, raw = [], b""
    for name, array in outputs.items():
        data = array.astype("<f4").tobytes()
        described.append(
            {
                "name": name,
                "datatype": "FP32",
                "shape": list(array.shape),
                "parameters": {"binary_data_size": len(data)},
            }
        )
        raw += data
    header = json.dumps({"model_name": "é", "outputs": described}, ensure_ascii=False).encode()
    kind = f"application/vnd.sagemaker-triton.binary+json;json-header-size={len(header)}"
    return header + raw, kind


def model_error(message: str, *, status: int = 500) -> ClientError:
    error = client_error("InvokeEndpoint", "ModelError", "Received server error (500) from primary")
    error.response |= {"OriginalStatusCode": status, "OriginalMessage": message}
    return error


@dataclass
class SimulatedTime:
    """A clock that advances only during sleeps."""

    now: float = 0.0

    def patience(self, seconds: float = 10.0) -> Patience:
        return Patience(seconds=seconds, pause_s=1.0, sleep=self.sleep, clock=lambda: self.now)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
