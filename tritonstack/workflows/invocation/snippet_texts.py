"""Write one request to an endpoint for curl, for the client, and for boto3. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tritonstack.base.byte_tensors import BF16, datatype_of
from tritonstack.base.files import parse_json
from tritonstack.client.codec import Parameter

ANSWER = "answer.bin"
"""The file for an answer that is not JSON."""
_READ = (
    "import sys; from tritonstack.client import decode_reply; "
    f'print(decode_reply(open("{ANSWER}", "rb").read(), content_type=sys.argv[1]).outputs)'
)
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class SnippetRequest:
    """A request to one model, and what each language needs to send it."""

    endpoint: str
    region: str
    url: str
    """The URL of SageMaker's runtime API."""
    own_url: bool
    """Whether that is another URL than AWS's, so that programs must name it."""
    model: str
    target_model: str | None = None
    variant: str | None = None
    component: str | None = None
    names_path: str | None = None
    """The SSM path of the names of a multi-model endpoint."""
    targets_command: str = ""
    """The command that prints the current TargetModels."""
    input_prefix: str | None = None
    """The S3 prefix for requests of an asynchronous endpoint."""
    inputs: Arrays
    """Empty for language models."""
    parameters: Mapping[str, Parameter]
    body: bytes
    content_type: str
    body_file: str
    """The file with the body."""
    body_command: str = ""
    """The command that writes that file."""
    inline: bool
    """Whether the body is short text, so that the snippet contains it."""
    binary_answer: bool = False
    """Whether the answer is a JSON header and the bytes of the outputs: JSON cannot hold them."""
    text: str | None = None
    """The prompt of a language model."""
    streams: bool = False
    """Whether the model sends several responses, with tensors of its own."""

    @property
    def shell_file(self) -> str:
        """Return the file with the body as a shell reads it."""
        return shlex.quote(self.body_file)

    @property
    def headers(self) -> dict[str, str]:
        """Return the HTTP headers of the request."""
        named = {
            "X-Amzn-SageMaker-Target-Model": self.target_model,
            "X-Amzn-SageMaker-Target-Variant": self.variant,
            "X-Amzn-SageMaker-Inference-Component": self.component,
        }
        headers = {name: value for name, value in named.items() if value is not None}
        return {"Content-Type": self.content_type, **headers}

    @property
    def fields(self) -> dict[str, str]:
        """Return the fields of InvokeEndpoint, except the body."""
        named = {
            "EndpointName": self.endpoint,
            "TargetModel": self.target_model,
            "TargetVariant": self.variant,
            "InferenceComponentName": self.component,
            "ContentType": self.content_type,
        }
        return {name: value for name, value in named.items() if value is not None}


def as_curl(request: SnippetRequest) -> str:
    """Return a signed request with curl (7.76 or later)."""
    lines = [
        "curl --silent --show-error --fail-with-body",
        *([f"  --output {ANSWER} --write-out '%{{content_type}}'"] if request.binary_answer else []),
        f'  --aws-sigv4 "aws:amz:{request.region}:sagemaker"',
        '  --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"',
        # Two expansions, because zsh does not split one into words.
        '  ${AWS_SESSION_TOKEN:+--header} ${AWS_SESSION_TOKEN:+"X-Amz-Security-Token: $AWS_SESSION_TOKEN"}',
        *(f'  --header "{name}: {value}"' for name, value in request.headers.items()),
        f"  --data-binary @{request.shell_file}",
        f'  "{request.url}/endpoints/{request.endpoint}/invocations"',
    ]
    return f"{_body_in_shell(request)}{_target_comment(request)}{_shell_call(request, lines)}"


def as_python(request: SnippetRequest) -> str:
    """Return a program that uses tritonstack.client."""
    client = "QueuedEndpointClient" if request.input_prefix is not None else "EndpointClient"
    imported = f"{client}, ModelNames" if request.names_path else client
    own = f', endpoint_url="{request.url}"' if request.own_url else ""
    arguments = {
        "endpoint_name": _quoted(request.endpoint),
        "runtime": f'boto3.client("sagemaker-runtime", region_name="{request.region}"{own})',
        "target_model": _quoted(request.model) if request.names_path else None,
        "target_variant": _quoted(request.variant),
        "inference_component": _quoted(request.component),
        "input_prefix": _quoted(request.input_prefix),
    }
    needed = [] if request.text or request.streams else ["import numpy as np"]
    if any(_is_bfloat16(array) for array in request.inputs.values()):
        needed = ["import ml_dtypes", *needed]
    lines = ["import boto3", *needed]
    lines += [f"from tritonstack.client import {imported}", ""]
    if request.names_path:
        lines += [
            f'ssm = boto3.client("ssm", region_name="{request.region}"{own})',
            f'names = ModelNames.published("{request.names_path}", ssm=ssm)',
        ]
        arguments["models"] = "names"
    if request.input_prefix is not None:
        arguments["s3"] = f'boto3.client("s3", region_name="{request.region}"{own})'
    lines += [f"client = {client}("]
    lines += [f"    {name}={value}," for name, value in arguments.items() if value is not None]
    lines += [")"]
    if request.text is not None:
        return "\n".join([*lines, f"print(client.generate({_quoted(request.text)}))"]) + "\n"
    if request.streams:
        file = f"json.loads(open({_quoted(request.body_file)}).read())"
        sent = repr(parse_json(request.body)) if request.inline else file
        lines += [f"for response in client.stream_responses({sent}):", "    print(response)"]
        head = [] if request.inline else [_body_comment(request), "import json"]
        return "\n".join([*head, *lines]) + "\n"
    lines += _python_inputs(request)
    parameters = f", parameters={dict(request.parameters)!r}" if request.parameters else ""
    lines += [
        f"outputs = client.infer(inputs{parameters})",
        "for name, array in outputs.items():",
        "    print(name, array.dtype, array.shape, array)",
    ]
    return "\n".join(lines) + "\n"


def as_boto3(request: SnippetRequest) -> str:
    """Return a program that needs boto3 only, unless the answer is binary."""
    client = "boto3.client({}, region_name={}{})".format
    region = _quoted(request.region)
    own = f", endpoint_url={_quoted(request.url)}" if request.own_url else ""
    file = f'open({_quoted(request.body_file)}, "rb").read()'
    body = f"{request.body.decode()!r}.encode()" if request.inline else file
    decoding = "from tritonstack.client import decode_reply  # JSON cannot hold the outputs"
    lines = [
        "import boto3",
        *([decoding] if request.binary_answer else []),
        "",
        *([] if request.inline else [_body_comment(request)]),
        f"body = {body}",
        f"runtime = {client(_quoted('sagemaker-runtime'), region, own)}",
    ]
    if request.input_prefix is not None:
        location = f"{request.input_prefix}{PurePath(request.body_file).name}"
        bucket, _, key = location.removeprefix("s3://").partition("/")
        lines += [
            f"s3 = {client(_quoted('s3'), region, own)}",
            f"s3.put_object(Bucket={_quoted(bucket)}, Key={_quoted(key)}, Body=body)",
            "answer = runtime.invoke_endpoint_async(",
            *(f"    {name}={_quoted(value)}," for name, value in request.fields.items()),
            f"    InputLocation={_quoted(location)},",
            ")",
            "# The answer appears at OutputLocation, or an error at FailureLocation.",
            'print(answer["OutputLocation"], answer["FailureLocation"])',
        ]
    else:
        read = 'answer["Body"].read()'
        lines += [
            *_target_comment(request).splitlines(),
            "answer = runtime.invoke_endpoint(",
            *(f"    {name}={_quoted(value)}," for name, value in request.fields.items()),
            "    Body=body,",
            ")",
            f'print(decode_reply({read}, content_type=answer["ContentType"]).outputs)'
            if request.binary_answer
            else f"print({read}.decode())",
        ]
    return "\n".join(lines) + "\n"


def _shell_call(request: SnippetRequest, lines: Sequence[str]) -> str:
    """Return a command; one that also reads the answer if that is binary."""
    call = " \\\n".join(lines)
    if not request.binary_answer:
        return f"{call}\n"
    return (
        f"# JSON cannot hold the outputs: {ANSWER} has a JSON header and their bytes, or the error.\n"
        "# The package tritonstack reads it.\n"
        f"content_type=$({call}) \\\n  && python3 -c '{_READ}' \"$content_type\"\n"
    )


WRITERS: Mapping[str, Callable[[SnippetRequest], str]] = {
    "curl": as_curl,
    "python": as_python,
    "boto3": as_boto3,
}
QUEUED = ("python", "boto3")
"""Languages with a snippet for asynchronous endpoints, which need S3 as well."""


def _body_in_shell(request: SnippetRequest) -> str:
    """Return the command that writes the body; a comment if it is long or binary."""
    if not request.inline:
        return f"{_body_comment(request)}\n"
    return f"cat > {request.shell_file} <<'EOF'\n{request.body.decode()}\nEOF\n"


def _body_comment(request: SnippetRequest) -> str:
    return f"# `{request.body_command}` writes the body."


def _target_comment(request: SnippetRequest) -> str:
    if request.names_path is None:
        return ""
    return f"# TargetModel of {request.model}; `{request.targets_command}` prints the current one.\n"


def _python_inputs(request: SnippetRequest) -> list[str]:
    lines = ["inputs = {"]
    for name, array in request.inputs.items():
        package = "" if array.dtype in (object, bool) else "ml_dtypes." if _is_bfloat16(array) else "np."
        kind = f"{package}{array.dtype.name}"
        if request.inline:
            lines.append(f"    {_quoted(name)}: np.array({_literal(array)}, dtype={kind}),")
        else:
            shown = f"np.zeros({array.shape!r}, dtype={kind})"
            if array.dtype == object:
                shown = f'np.full({array.shape!r}, open("FILE", "rb").read(), dtype=object)'
            lines.append(f"    {_quoted(name)}: {shown},  # your values")
    return [*lines, "}"]


def _is_bfloat16(array: NDArray[Any]) -> bool:
    """Return whether an array has the one type of Triton that NumPy lacks."""
    return datatype_of(array.dtype) == BF16


def _literal(array: NDArray[Any]) -> str:
    """Return an array's values as Python writes them, texts in double quotes."""
    if array.dtype != object:
        return repr(array.tolist())
    texts = [value.decode() if isinstance(value, bytes) else value for value in array.flat]
    return json.dumps(np.array(texts, dtype=object).reshape(array.shape).tolist(), ensure_ascii=False)


def _quoted(text: str | None) -> str | None:
    return None if text is None else json.dumps(text, ensure_ascii=False)
