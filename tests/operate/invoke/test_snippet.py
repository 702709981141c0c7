"""Printed requests: the right address, tensors, and body in each language. Others run them: tests/e2e."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.operate.invoke.invoked_site import COUNTER, PLAIN, QUEUED, SINGLE, TOKENS, Site, X, Y
from tests.operate.verify.smoke_environment import DIGESTS, RIGHT
from tests.projects import MODEL
from tritonstack import Session, snippet
from tritonstack.base.errors import UsageError
from tritonstack.cli.main import run
from tritonstack.client.codec import decode_reply
from tritonstack.files.model.tolerance import Tolerance
from tritonstack.files.records.examples import Example, RightAnswer, tensor_of
from tritonstack.operate.invoke.snippet import LANGUAGES, Snippet, body_of
from tritonstack.operate.invoke.snippet_texts import WRITERS, SnippetRequest

ROOT = Path(__file__).parents[3]

MANY = PLAIN.replace("kind: ensemble, model: minilm", "kind: multi-model, models: [minilm, other]")
COMPARED = PLAIN.replace("}", ", challenger: {model: other}}")
COMPONENTS = PLAIN.replace("}", ", components: {memory_mb: 512}}")
TARGET = f"minilm/{DIGESTS['minilm']}/model.tar.gz"


def printed(site: Site, language: str = "curl", **selected: str) -> Snippet:
    return snippet(Session(site.project), "dev", "search", language, **selected)


def request_with(array: np.ndarray) -> Example:
    right = RightAnswer(**dict(tensor_of("y", RIGHT)), tolerance=Tolerance(cosine=0.9999))
    return Example(name="input", origin="framework", inputs=(tensor_of("x", array),), outputs=(right,))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_documentation_shows_what_the_command_prints(language: str) -> None:
    inputs = {"TEXT": np.array([["A man is eating food."]], dtype=object)}
    body, content_type = body_of(inputs, {})
    shown = SnippetRequest(
        endpoint="tritonstack-dev-minilm",
        region="eu-west-1",
        url="https://runtime.sagemaker.eu-west-1.amazonaws.com",
        own_url=False,
        model="minilm-embedding",
        inputs=inputs,
        parameters={},
        body=body,
        content_type=content_type,
        body_file="request.json",
        inline=True,
    )
    assert WRITERS[language](shown) in (ROOT / "docs/client.md").read_text()


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_names_the_endpoint_and_the_text(site: Site, language: str) -> None:
    request = printed(site, language)
    assert all(part in request.text for part in ("tritonstack-dev-search", "us-east-1", "eating food."))
    assert "TargetModel" not in request.text
    assert request.content_type == "application/json"
    (tensor,) = json.loads(request.body)["inputs"]
    assert (tensor["name"], tensor["shape"], tensor["datatype"]) == ("TEXT", [1, 1], "BYTES")


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_calls_a_decoupled_model(site: Site, language: str) -> None:
    site.model(COUNTER, SINGLE)
    site.stock(inputs=(X,), outputs=(Y,))
    request = printed(site, language)
    assert json.loads(request.body) == {"x": [1.0, 2.0, 3.0]}
    assert "1.0, 2.0, 3.0" in request.text
    if language == "python":
        assert "client.stream_responses({'x': [1.0, 2.0, 3.0]}):" in request.text
        ast.parse(request.text)
    assert "JSON.parse" not in request.text  # the answer is a series of events


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("curl", f'--header "X-Amzn-SageMaker-Target-Model: {TARGET}"'),
        ("aws-cli", f"--target-model {TARGET}"),
        ("javascript", f'TargetModel: "{TARGET}"'),
        ("java", f'.targetModel("{TARGET}")'),
        ("python", 'ModelNames.published("/tritonstack-dev/targets/search", ssm=ssm)'),
    ],
)
def test_a_model_of_several_is_addressed(site: Site, language: str, expected: str) -> None:
    site.model(MODEL, MANY)
    text = printed(site, language, model="minilm").text
    assert expected in text
    if language == "python":
        assert 'target_model="minilm"' in text
    else:
        assert "`tritonstack targets" in text


@pytest.mark.parametrize(
    "array",
    [
        np.ones((1, 3, 500), np.float32),
        np.array([[b"\xff\xd8"]], object),
        np.array([[np.nan]], np.float32),
        np.array([[1.5]], np.float16),
        np.array([[1.5]], ml_dtypes.bfloat16),
    ],
    ids=["long", "bytes", "nan", "fp16", "bf16"],
)
def test_a_body_that_is_long_or_no_text_is_a_file(site: Site, array: np.ndarray) -> None:
    site.model(TOKENS, SINGLE)
    site.stock(request_with(array), inputs=(X,), outputs=(Y,))
    file = site.root / "body.bin"
    for language in LANGUAGES:
        request = printed(site, language, body_file=file)  # type: ignore[arg-type]
        assert "FILE" in request.text or "np.zeros" in request.text or "body.bin" in request.text
        assert len(request.text) < 2500
        if language == "python":
            ast.parse(request.text)
            bfloat16 = array.dtype == ml_dtypes.bfloat16
            assert ("dtype=ml_dtypes.bfloat16" in request.text) is bfloat16
            assert ("import ml_dtypes" in request.text) is bfloat16
    assert file.read_bytes() == request.body
    assert re.fullmatch(
        r"application/vnd\.sagemaker-triton\.binary\+json;json-header-size=\d+", request.content_type
    )
    size = int(request.content_type.rpartition("=")[2])
    header = json.loads(request.body[:size])
    assert "parameters" not in header or "binary_data_output" not in header["parameters"]
    renamed = request.body[:size].replace(b'{"inputs"', b'{"outputs"')
    sent = decode_reply(
        renamed + request.body[size:], content_type=request.content_type.replace(f"={size}", f"={size + 1}")
    )
    np.testing.assert_array_equal(sent.outputs["x"], array)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("endpoint", ["single", "several", "compared", "decoupled"])
def test_commands_in_comments_run(site: Site, language: str, endpoint: str) -> None:
    text = "word " * 1000
    selected: dict[str, str] = {}
    if endpoint == "decoupled":
        site.model(COUNTER.replace("[1.0, 2.0, 3.0]}, responses", f"{[1.0] * 1000}}}, responses"), SINGLE)
        site.stock(request_with(np.ones((1, 1000), np.float32)), inputs=(X,), outputs=(Y,))
    else:
        site.model(
            MODEL.replace("A man is eating food.", text),
            {"single": PLAIN, "several": MANY, "compared": COMPARED}[endpoint],
        )
        selected = {"several": {"model": "minilm"}, "compared": {"variant": "main"}}.get(endpoint, {})
    file = site.root / "my request.bin"
    request = printed(site, language, body_file=file, **selected)  # type: ignore[arg-type]
    comments = [line for line in request.text.splitlines() if line.strip().startswith(("#", "//"))]
    commands = [command for line in comments for command in re.findall(r"`(.+?)`", line)]
    writes = any(" --body " in command for command in commands)
    assert writes == (language != "python" or endpoint == "decoupled")
    file.unlink()
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "tritonstack"
        if arguments[0] != "targets":  # which reads names that a deploy publishes
            assert run(["--project", str(site.project.root), *arguments]) == 0
            assert file.read_bytes() == request.body


HOSTILE = 'it\'s "$HOME" `id` $(id) \\ \\u0041 \'\'\' """ %s\nEOF\n${x} // </script> \u2028 é \U0001f600'


def hostile(file: Path, language: str, number: int = 1) -> tuple[str, bytes]:
    """Return a snippet with texts that shells and languages interpret, and its body."""
    inputs = {"TEXT": np.array([[HOSTILE]], object), "id": np.array([[number]])}
    body, content_type = body_of(inputs, {})
    request = SnippetRequest(
        endpoint="e",
        region="r",
        url="https://e",
        own_url=True,
        model="m",
        inputs=inputs,
        parameters={},
        body=body,
        content_type=content_type,
        body_file=str(file),
        inline=True,
    )
    return WRITERS[language](request), body


@pytest.mark.parametrize(("language", "sent"), [("curl", "@{}"), ("aws-cli", "fileb://{}")])
def test_shells_leave_texts_and_files_as_they_are(tmp_path: Path, language: str, sent: str) -> None:
    file, arguments = tmp_path / "it's $(id).json", tmp_path / "seen"
    text, body = hostile(file, language)
    program = f"curl() {{ printf '%s\\0' \"$@\" > '{arguments}'; }}; aws() {{ curl \"$@\"; }}\n"
    subprocess.run(
        ["bash", "-euc", program + text],
        check=True,
        env={"AWS_ACCESS_KEY_ID": "i", "AWS_SECRET_ACCESS_KEY": "s"},
    )
    assert file.read_bytes() == body + b"\n"
    assert sent.format(file) in arguments.read_text().split("\0")


TOKEN = 'a "token" with $HOME'


@pytest.mark.parametrize("shell", ["bash", "dash"])
@pytest.mark.parametrize("token", [TOKEN, "", None])
def test_curl_sends_the_session_token_if_there_is_one(
    tmp_path: Path, site: Site, shell: str, token: str | None
) -> None:
    assert shutil.which(shell)
    program = f'curl() {{ printf \'%s\\0\' "$@" > "{tmp_path}/seen"; }}\n{printed(site).text}'
    keys = {"AWS_ACCESS_KEY_ID": "i", "AWS_SECRET_ACCESS_KEY": "s"}
    session = {} if token is None else {"AWS_SESSION_TOKEN": token}
    subprocess.run([shell, "-ec", program], check=True, env={**os.environ, **keys, **session}, cwd=tmp_path)
    words = (tmp_path / "seen").read_text().split("\0")
    assert words.count("--header") == (2 if token else 1)
    assert (f"X-Amz-Security-Token: {TOKEN}" in words) == bool(token)
    assert "" not in words[:-1]


@pytest.mark.parametrize("number", [7, 2**53 + 1])
def test_javascript_and_python_send_the_same_values(tmp_path: Path, number: int) -> None:
    text, body = hostile(tmp_path / "body", "javascript", number)
    assert ("JSON.stringify({" in text) == (number == 7), "JavaScript rounds integers above 2**53"
    expression = re.search(r"^    Body: (.*),$", text, re.MULTILINE)
    assert expression
    node = subprocess.run(
        ["node", "-e", f"process.stdout.write({expression[1]})"], check=True, capture_output=True
    )
    assert json.loads(node.stdout) == json.loads(body)
    program = ast.parse(hostile(tmp_path / "body", "python", number)[0])
    calls = [node for node in ast.walk(program) if isinstance(node, ast.Call)]
    arrays = [ast.literal_eval(call.args[0]) for call in calls if ast.unparse(call.func) == "np.array"]
    assert arrays == [[[HOSTILE]], [[number]]]


def test_asynchronous_endpoints_have_snippets_with_s3(site: Site) -> None:
    site.model(MODEL, QUEUED)
    prefix = "s3://tritonstack-dev-data-123456789012-us-east-1/requests/tritonstack-dev-search/"
    assert f'input_prefix="{prefix}"' in printed(site, "python").text
    commands = printed(site, "aws-cli").text
    assert f" request.json {prefix}request.json" in commands
    assert "invoke-endpoint-async" in commands
    with pytest.raises(UsageError, match="asynchronous") as caught:
        printed(site, "curl")
    assert str(caught.value.remedy).endswith("aws-cli, python")


def test_the_command_prints_text_and_json(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    project = ["--project", str(site.project.root)]
    file = site.root / "body.json"
    assert run([*project, "snippet", "dev", "search", "-l", "java", "--body", str(file)]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("// software.amazon.awssdk:sagemakerruntime\n")
    assert f"wrote {file}" in output.err
    assert run([*project, "--json", "snippet", "dev", "search"]) == 0
    assert json.loads(capsys.readouterr().out)["body_file"] == "request.json"
    assert Path(file).read_bytes() == printed(site).body
