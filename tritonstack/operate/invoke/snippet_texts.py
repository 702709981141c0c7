"""Write one request to an endpoint in several languages. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
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
DECODING = files(__package__).joinpath("binary_answers.js").read_text(encoding="utf-8")
"""JavaScript that prints Triton's binary answers, after `answer`, the result of InvokeEndpoint."""
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
    events: bool = False
    """Whether the endpoint answers with server-sent events."""

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
    return f"{_body_in_shell(request)}{_target_comment(request, '#')}{_shell_call(request, lines)}"


def as_aws_cli(request: SnippetRequest) -> str:
    """Return commands of the AWS CLI, version 1 or 2."""
    own = f" --endpoint-url {request.url}" if request.own_url else ""
    end = f"--region {request.region}{own}"
    if request.input_prefix is not None:
        location = shlex.quote(f"{request.input_prefix}{PurePath(request.body_file).name}")
        call = (
            f"aws s3 cp {request.shell_file} {location} --content-type '{request.content_type}' {end}\n"
            f"aws sagemaker-runtime invoke-endpoint-async --endpoint-name {request.endpoint} \\\n"
            f"  --input-location {location} --content-type '{request.content_type}' {end}\n"
            "# The answer appears at OutputLocation, or an error at FailureLocation.\n"
        )
        return f"{_body_in_shell(request)}{call}"
    options = {
        "endpoint-name": request.endpoint,
        "target-model": request.target_model,
        "target-variant": request.variant,
        "inference-component-name": request.component,
        "content-type": f"'{request.content_type}'",
        "body": f"fileb://{request.shell_file}",
    }
    options_text = [f"  --{name} {value}" for name, value in options.items() if value is not None]
    answer = f"--query ContentType --output text {ANSWER}" if request.binary_answer else "answer.json"
    lines = ["aws sagemaker-runtime invoke-endpoint", *options_text, f"  {end} {answer}"]
    return f"{_body_in_shell(request)}{_target_comment(request, '#')}{_shell_call(request, lines)}"


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
        head = [] if request.inline else [_body_comment(request, "#"), "import json"]
        return "\n".join([*head, *lines]) + "\n"
    lines += _python_inputs(request)
    parameters = f", parameters={dict(request.parameters)!r}" if request.parameters else ""
    lines += [
        f"outputs = client.infer(inputs{parameters})",
        "for name, array in outputs.items():",
        "    print(name, array.dtype, array.shape, array)",
    ]
    return "\n".join(lines) + "\n"


def as_javascript(request: SnippetRequest) -> str:
    """Return a module for Node.js with the AWS SDK for JavaScript, version 3."""
    own = f', endpoint: "{request.url}"' if request.own_url else ""
    body = (
        _javascript_body(request.body.decode())
        if request.inline
        else f"await readFile({json.dumps(request.body_file)})"
    )
    lines = [
        "// npm install @aws-sdk/client-sagemaker-runtime",
        'import { InvokeEndpointCommand, SageMakerRuntimeClient } from "@aws-sdk/client-sagemaker-runtime";',
        *(
            []
            if request.inline
            else ['import { readFile } from "node:fs/promises";', "", _body_comment(request, "//")]
        ),
        "",
        f'const client = new SageMakerRuntimeClient({{ region: "{request.region}"{own} }});',
        *_target_comment(request, "//").splitlines(),
        "const answer = await client.send(",
        "  new InvokeEndpointCommand({",
        *(f"    {name}: {json.dumps(value)}," for name, value in request.fields.items()),
        f"    Body: {body},",
        "  }),",
        ");",
        *_javascript_answer(request),
    ]
    return "\n".join(lines) + "\n"


def as_java(request: SnippetRequest) -> str:
    """Return a class with the AWS SDK for Java, version 2."""
    own = f'.endpointOverride(URI.create("{request.url}"))' if request.own_url else ""
    escaped = request.body.decode(errors="replace").replace("\\", "\\\\").replace('"""', '\\"""')
    body = f'SdkBytes.fromUtf8String("""\n            {escaped}""")' if request.inline else "body"
    has_files = request.binary_answer or not request.inline
    calls = [f".{name[0].lower()}{name[1:]}({json.dumps(value)})" for name, value in request.fields.items()]
    lines = [
        "// software.amazon.awssdk:sagemakerruntime",
        *(["import java.net.URI;"] if own else []),
        *(["import java.nio.file.Files;", "import java.nio.file.Path;"] if has_files else []),
        "import software.amazon.awssdk.core.SdkBytes;",
        "import software.amazon.awssdk.regions.Region;",
        "import software.amazon.awssdk.services.sagemakerruntime.SageMakerRuntimeClient;",
        "",
        "public class Invoke {",
        f"    public static void main(String[] arguments){' throws Exception' if has_files else ''} {{",
        *(f"        {line}" for line in _target_comment(request, "//").splitlines()),
        f"        var region = Region.of({json.dumps(request.region)});",
        *([] if request.inline else _java_body(request)),
        f"        try (var client = SageMakerRuntimeClient.builder().region(region){own}.build()) {{",
        "            var answer = client.invokeEndpoint(request -> request",
        *(f"                {call}" for call in calls),
        f"                .body({body}));",
        *_java_answer(request),
        "        }",
        "    }",
        "}",
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


def _javascript_answer(request: SnippetRequest) -> list[str]:
    if request.binary_answer:
        return DECODING.splitlines()
    text = "new TextDecoder().decode(answer.Body)"
    return [
        f"console.log({text});" if request.events else f"console.log(JSON.stringify(JSON.parse({text})));"
    ]


def _java_body(request: SnippetRequest) -> list[str]:
    """Return what reads the body: outside the lambda, which cannot throw the exceptions of files."""
    file = json.dumps(request.body_file)
    return [
        f"        {_body_comment(request, '//')}",
        f"        var body = SdkBytes.fromByteArray(Files.readAllBytes(Path.of({file})));",
    ]


def _java_answer(request: SnippetRequest) -> list[str]:
    if not request.binary_answer:
        return ["            System.out.println(answer.body().asUtf8String());"]
    return [
        "            // A JSON header of json-header-size bytes, then the bytes of each output.",
        f'            Files.write(Path.of("{ANSWER}"), answer.body().asByteArray());',
        "            System.out.println(answer.contentType());",
    ]


WRITERS: Mapping[str, Callable[[SnippetRequest], str]] = {
    "curl": as_curl,
    "aws-cli": as_aws_cli,
    "python": as_python,
    "javascript": as_javascript,
    "java": as_java,
}
QUEUED = ("aws-cli", "python")
"""Languages with a snippet for asynchronous endpoints, which need S3 as well."""


def _body_in_shell(request: SnippetRequest) -> str:
    """Return the command that writes the body; a comment if it is long or binary."""
    if not request.inline:
        return f"{_body_comment(request, '#')}\n"
    return f"cat > {request.shell_file} <<'EOF'\n{request.body.decode()}\nEOF\n"


def _body_comment(request: SnippetRequest, mark: str) -> str:
    return f"{mark} `{request.body_command}` writes the body."


def _javascript_body(text: str) -> str:
    """Return JSON as an expression; as a string if JavaScript would round its integers."""
    rounded = _has_large_integer(parse_json(text))
    return json.dumps(text, ensure_ascii=False) if rounded else f"JSON.stringify({text})"


def _has_large_integer(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_large_integer, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int) and abs(value) > 1 << 53


def _target_comment(request: SnippetRequest, mark: str) -> str:
    if request.names_path is None:
        return ""
    return f"{mark} TargetModel of {request.model}; `{request.targets_command}` prints the current one.\n"


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
