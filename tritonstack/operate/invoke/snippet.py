"""Print a ready request to an endpoint in several languages, with the model's own test input."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tritonstack.base import naming
from tritonstack.base.byte_tensors import BYTES, datatype_of
from tritonstack.base.error_kinds import NotApplicableError
from tritonstack.base.files import parse_json
from tritonstack.base.results import Internal
from tritonstack.client.codec import JSON_CONTENT_TYPE, Parameter, content_type_for, encode_request
from tritonstack.client.streaming import flat_inputs
from tritonstack.facts.container_variables import INFERENCE_TYPE, STREAMING
from tritonstack.files.endpoint.endpoint import MultiModelEndpoint
from tritonstack.files.project.names import require_known
from tritonstack.operate.invoke.invocation_targets import find_target
from tritonstack.operate.invoke.invoke import Arrays, InvokeOptions, ModelRequest
from tritonstack.operate.invoke.snippet_texts import QUEUED, WRITERS, SnippetRequest
from tritonstack.operate.shared.output_files import write_output
from tritonstack.operate.shared.session import Session

LANGUAGES = tuple(WRITERS)
_AWS = "https://runtime.sagemaker"
"""The start of the URLs that SDKs use by themselves; the local cloud and VPC endpoints have others."""
_BINARY_ONLY = frozenset({"FP16", "BF16"})
"""Datatypes that Triton neither reads nor writes in JSON."""
_MOST_INLINE = 2000
"""The longest body that a snippet contains."""


@dataclass(frozen=True)
class Snippet:
    """A request as text, and its body."""

    language: str
    text: str
    model: str
    endpoint: str
    content_type: str
    body: Internal[bytes]
    body_file: str
    """The file that the text reads or writes."""
    local_account: Internal[str | None]
    """The account of the local cloud whose credentials it needs."""


def snippet(
    session: Session,
    environment: str,
    endpoint: str,
    language: str = "curl",
    *,
    instance: str | None = None,
    model: str | None = None,
    variant: str | None = None,
    body_file: Path | None = None,
) -> Snippet:
    """Return a request to a deployed endpoint, in one of `LANGUAGES`; `body_file` receives its body."""
    require_known(language, LANGUAGES, "there is no snippet for the language")
    workspace = session.workspace(environment, instance)
    spec, target = workspace.spec, find_target(workspace, endpoint, model=model, variant=variant)
    if target.asynchronous and language not in QUEUED:
        raise NotApplicableError(
            f"the endpoint {endpoint!r} is asynchronous: a request needs S3 beside SageMaker",
            remedy=f"choose one of: {', '.join(QUEUED)}",
        )
    cloud = session.cloud(spec)
    request = ModelRequest(cloud, workspace, endpoint, target, InvokeOptions())
    text = target.model.test_texts[0] if target.model.generates else None
    with session.reporter.step(f"reading the test input of {target.model.name}"):
        inputs, parameters = ({}, {}) if text is not None else _test_input(request)
        is_binary = text is None and not target.model.streams and _answers_binary(request)
    if text is not None:
        fields = {"text_input": text, "exclude_input_in_output": True}
        body, content_type = json.dumps(fields).encode(), JSON_CONTENT_TYPE
    elif target.model.streams:
        body, content_type = json.dumps(flat_inputs(inputs)).encode(), JSON_CONTENT_TYPE
    else:
        body, content_type = body_of(inputs, parameters, binary_answer=is_binary)
    inline = content_type == JSON_CONTENT_TYPE and len(body) <= _MOST_INLINE
    url = cloud.client("sagemaker-runtime").meta.endpoint_url
    several = isinstance(spec.endpoints[endpoint], MultiModelEndpoint)
    suffix = "json" if content_type == JSON_CONTENT_TYPE else "bin"
    name = str(body_file or f"request.{suffix}")
    written = WRITERS[language](
        SnippetRequest(
            endpoint=target.endpoint,
            region=spec.region,
            url=url,
            own_url=not url.startswith(_AWS),
            model=target.model.name,
            target_model=target.target_model,
            variant=target.variant,
            component=target.component,
            names_path=naming.targets_path(spec.base, endpoint) if several else None,
            targets_command=f"tritonstack targets {workspace.cli_arguments} {endpoint}",
            input_prefix=f"s3://{spec.data_bucket}/{naming.request_prefix(target.endpoint)}"
            if target.asynchronous
            else None,
            inputs=inputs,
            parameters=parameters,
            body=body,
            content_type=content_type,
            body_file=name,
            body_command=shlex.join(
                [
                    *("tritonstack", "snippet", *workspace.cli_arguments.split(), endpoint),
                    *(("--model", model) if model else ()),
                    *(("--variant", variant) if variant else ()),
                    *("--body", name),
                ]
            ),
            inline=inline,
            binary_answer=is_binary,
            text=text,
            streams=target.model.streams,
            events=target.model.streams
            or spec.endpoints[endpoint].environment.get(INFERENCE_TYPE) == STREAMING,
        )
    )
    if body_file is not None:
        write_output(body_file, body)
    local_account = None if spec.costs_money else spec.account
    return Snippet(
        language, written, target.model.name, target.endpoint, content_type, body, name, local_account
    )


def _test_input(request: ModelRequest) -> tuple[Arrays, Mapping[str, Parameter]]:
    model = request.target.model
    if model.takes_texts:
        return {"TEXT": np.array([[model.test_texts[0]]], dtype=np.object_)}, {}
    return request.example()


def _answers_binary(request: ModelRequest) -> bool:
    """Return whether the model has outputs that JSON cannot hold; those of text models are FP32 and texts."""
    if request.target.model.takes_texts:
        return False
    outputs = request.examples().requests[0].outputs
    return any(output.datatype in _BINARY_ONLY for output in outputs)


def body_of(
    inputs: Arrays, parameters: Mapping[str, Parameter], *, binary_answer: bool = False
) -> tuple[bytes, str]:
    """Return a body: JSON, or Triton's binary form if JSON would be long. The answer is JSON, or binary."""
    try:
        text = json_body(inputs, {**parameters, **({"binary_data_output": True} if binary_answer else {})})
    except ValueError:
        text = b""
    if text and len(text) <= _MOST_INLINE:
        return text, JSON_CONTENT_TYPE
    encoded = encode_request(inputs, parameters=parameters)
    if binary_answer:
        return encoded.body, encoded.content_type
    header = parse_json(encoded.body[: encoded.header_size])
    header["parameters"].pop("binary_data_output")
    written = json.dumps(header).encode()
    return written + encoded.body[encoded.header_size :], content_type_for(len(written))


def json_body(inputs: Arrays, parameters: Mapping[str, Parameter]) -> bytes:
    """Return a request as JSON; raise ValueError for bytes, NaN, infinities, FP16, and BF16.

    JSON has no form for the first ones, and Triton reads no FP16 and BF16 from it.
    """
    if any(datatype_of(array.dtype) in _BINARY_ONLY for array in inputs.values()):
        raise ValueError("FP16 or BF16")
    tensors = [_tensor(name, array) for name, array in inputs.items()]
    fields = {"inputs": tensors, **({"parameters": parameters} if parameters else {})}
    return json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()


def _tensor(name: str, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    datatype = datatype_of(array.dtype)
    values = array.ravel().tolist()
    if datatype == BYTES:
        values = [value.decode() if isinstance(value, bytes) else value for value in values]
    return {"name": name, "shape": list(array.shape), "datatype": datatype, "data": values}
