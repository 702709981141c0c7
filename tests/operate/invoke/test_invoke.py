"""Send inputs to an endpoint: what is sent by default, what a person gives, and what is asked for."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest

from tests.operate.invoke.invoked_site import COUNTER, QUEUED, SCORES, SINGLE, TOKENS, Arrays, Site, X, Y
from tests.operate.verify.smoke_environment import ASKED, SimulatedQueue, StreamingEndpoint, sequence
from tritonstack import Session, invoke
from tritonstack.base.errors import TritonstackError, UsageError
from tritonstack.base.results import document
from tritonstack.cli.main import run
from tritonstack.files.records.manifests import TensorSpec
from tritonstack.operate.invoke.request_inputs import GivenInputs


def length(inputs: Arrays) -> Arrays:
    return {"length": np.array([[len(row[0])] for row in inputs["TEXT"]], np.float32)}


def double(inputs: Arrays) -> Arrays:
    return {"y": inputs["x"] * 2}


def test_texts_need_no_manifest(site: Site) -> None:
    endpoints = site.answers(length)
    answer = site.invoke("a text")
    assert document(answer) == {
        "inputs": ["a text"],
        "outputs": {"length": [[6.0]]},
        "classes": {},
        "responses": [],
    }
    assert endpoints.calls[0]["EndpointName"] == "tritonstack-dev-search"


def test_an_unknown_endpoint_is_named(site: Site) -> None:
    with pytest.raises(UsageError, match="'serch'"):
        invoke(Session(site.project), "dev", "serch")


def test_given_inputs_are_sent_with_the_parameters(site: Site) -> None:
    site.model(TOKENS, SINGLE)
    site.stock(inputs=(X,), outputs=(Y,))
    endpoints = site.answers(double)
    answer = site.invoke(inputs=GivenInputs(["x=[1, 2, 3]"]), parameters={"priority": 2})
    assert answer.outputs["y"].tolist() == [[2.0, 4.0, 6.0]]
    assert endpoints.headers[0]["parameters"] == {"binary_data_output": True, "priority": 2}


def test_the_stored_example_is_sent_by_default(site: Site) -> None:
    site.model(TOKENS, SINGLE)
    site.stock(inputs=(X,), outputs=(Y,))
    site.answers(double)
    answer = site.invoke()
    assert answer.inputs["x"].tolist() == ASKED.tolist()
    assert answer.outputs["y"].tolist() == (ASKED * 2).tolist()


def test_the_first_step_of_a_sequence_is_a_whole_one(site: Site) -> None:
    site.model(TOKENS, SINGLE)
    site.stock(*sequence(3), inputs=(X,), outputs=(Y,))
    endpoints = site.answers(double)
    site.invoke()
    parameters = endpoints.headers[0]["parameters"]
    assert parameters["sequence_id"] > 0
    assert (parameters["sequence_start"], parameters["sequence_end"]) == (True, True)


# Streams

WRITER = """\
name: minilm
description: Continues a story.
source: file://weights
recipe: {kind: text-generation}
test_inputs: [Once]
"""
STREAMED = SINGLE.replace("}", ", environment: {SAGEMAKER_TRITON_INFERENCE_TYPE: generate_stream}}")


class Writer:
    """A runtime that streams a completion, or returns it whole."""

    def invoke_endpoint(self, **call: Any) -> dict[str, Any]:
        reply = self.invoke_endpoint_with_response_stream(**call)
        whole = b"".join(part["PayloadPart"]["Bytes"] for part in reply["Body"])
        return {**reply, "Body": io.BytesIO(whole)}

    def invoke_endpoint_with_response_stream(self, **call: Any) -> dict[str, Any]:
        self.request = json.loads(call["Body"])
        data = b"".join(b'data: {"text_output":"%b"}\n\n' % piece for piece in (b" upon", b" a", b" time"))
        return {"Body": Events(data[:30], data[30:]), "ContentType": "text/event-stream"}


class Events:
    def __init__(self, *parts: bytes) -> None:
        self.parts = parts
        self.closed = False

    def __iter__(self) -> Any:
        return iter([{"PayloadPart": {"Bytes": part}} for part in self.parts])

    def close(self) -> None:
        self.closed = True


def test_a_completion_is_streamed(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.model(WRITER, STREAMED)
    runtime = Writer()
    site.use(runtime)
    pieces: list[str] = []
    answer = site.invoke("Once", on_piece=pieces.append, parameters={"max_tokens": 3})
    assert pieces == [" upon", " a", " time", "\n"]
    assert answer.outputs["text_output"].tolist() == [" upon a time"]
    assert runtime.request["parameters"] == {"stream": True, "max_tokens": 3}
    command = ["--project", str(site.root), "invoke", "dev", "search", "Once", "--stream"]
    assert run(command) == 0
    assert capsys.readouterr().out == " upon a time\n"
    assert run(command[:-1]) == 0
    assert "upon a time  Once" in capsys.readouterr().out
    assert run(["--json", *command]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"] == {"text_output": [" upon a time"]}


@pytest.mark.parametrize(
    ("model", "words"), [(TOKENS, "one response"), (WRITER, "'search' returns whole answers")]
)
def test_what_cannot_be_streamed_is_not_sent(site: Site, model: str, words: str) -> None:
    site.model(model, SINGLE)
    with pytest.raises(UsageError, match=words):
        site.invoke("Once", on_piece=print)
    with pytest.raises(UsageError, match="--stream completes texts"):
        site.invoke(inputs=GivenInputs(["x=1"]), on_piece=print)


def test_the_responses_of_a_decoupled_model(
    site: Site, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    site.model(COUNTER, SINGLE)
    word = TensorSpec(name="word", datatype="BYTES", shape=(1,))
    site.stock(inputs=(X,), outputs=(Y, word))
    runtime = StreamingEndpoint()
    site.use(runtime)
    pieces: list[str] = []
    answer = site.invoke(on_piece=pieces.append, parameters={"most": 3})
    assert runtime.sent == {"x": [1.0, 2.0, 3.0], "parameters": {"most": 3}}
    assert pieces == ['{"y": [1.0, 2.0, 3.0]}\n', '{"y": 2.5, "word": "näch"}\n']
    first, second = answer.responses
    assert (first["y"].dtype, first["y"].tolist()) == (np.float32, [1.0, 2.0, 3.0])
    assert second["word"].tolist() == ["näch".encode()]
    assert document(answer)["responses"] == [{"y": [1.0, 2.0, 3.0]}, {"y": [2.5], "word": ["näch"]}]
    command = ["--project", str(site.root), "invoke", "dev", "search", "--input", "x=[4, 5, 6]"]
    assert run([*command, "--save", str(tmp_path / "saved.npz")]) == 0
    assert runtime.sent["x"] == [4.0, 5.0, 6.0]
    assert "response 2:\n  y: float32,   2.5000\n  word: object, näch" in capsys.readouterr().out
    assert sorted(np.load(tmp_path / "saved.npz").files) == ["0/y", "1/word", "1/y"]
    assert run([*command, "--stream"]) == 0
    assert capsys.readouterr().out == "".join(pieces)
    with pytest.raises(UsageError, match="no classes"):
        site.invoke(top=1)


# Labels


def test_labels_are_requested_from_triton(site: Site) -> None:
    class Classifier:
        def invoke_endpoint(self, **call: Any) -> dict[str, Any]:
            size = int(call["ContentType"].rpartition("=")[2])
            self.outputs = json.loads(call["Body"][:size])["outputs"]
            texts = [b"0.9:1:positive", b"0.1:0:negative"]
            data = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
            shape = {"shape": [1, 2], "parameters": {"binary_data_size": len(data)}}
            header = json.dumps({"outputs": [{"name": "scores", "datatype": "BYTES", **shape}]}).encode()
            return {
                "Body": io.BytesIO(header + data),
                "ContentType": call["ContentType"].replace(f"={size}", f"={len(header)}"),
            }

    site.stock(inputs=(X,), outputs=(SCORES,))
    runtime = Classifier()
    site.use(runtime)
    answer = site.invoke("good", top=5)
    assert runtime.outputs == [{"name": "scores", "parameters": {"classification": 2, "binary_data": True}}]
    labels = [(label.label, label.value) for label in answer.classes["scores"][0]]
    assert labels == [("positive", 0.9), ("negative", 0.1)]
    assert answer.outputs == {}
    file = site.root / "answer.npz"
    answer.save(file)
    assert np.load(file)["scores"].tolist() == [["positive", "negative"]]


# Bad input sends nothing


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["--input", "xx=[1,2,3]"], "'xx'", "TS912"),
        (["--input", "x=[1,2]"], "input 'x', got [2]", "TS912"),
        (["--input", "x=@none.npy"], "none.npy", "TS912"),
        (["--data", "none.npz"], "none.npz", "TS912"),
        (["caf\udce9"], "'caf\\udce9'", "TS912"),
        (["a text"], "x (FP32", "TS908"),
        (["a text", "--input", "x=[1,2,3]"], "texts and other inputs", "TS901"),
        (["--parameter", "priority"], "--parameter priority: ", "TS901"),
        (["--save", "out.csv"], ".npz", "TS901"),
        (["--save", "none/out.npz"], "none/out.npz", "TS901"),
        (["--save", f"{'n' * 300}.npz"], "File name too long", "TS901"),
        (["--top", "2"], "'minilm' has labels", "TS908"),
        (["--top", "0"], "1", "TS901"),
    ],
)
def test_bad_input_sends_nothing(
    site: Site, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str, code: str
) -> None:
    site.model(TOKENS, SINGLE)
    site.stock(inputs=(X,), outputs=(Y,))
    endpoints = site.answers(double)
    assert run(["--project", str(site.project.root), "invoke", "dev", "search", *arguments]) == 2
    output = capsys.readouterr().err
    assert message in output
    assert f"[{code}]" in output
    assert endpoints.calls == []
    assert not list(site.root.glob("*.npz"))


def test_a_model_without_examples_needs_inputs(site: Site) -> None:
    site.model(TOKENS, SINGLE)
    site.stock(None, inputs=(X,), outputs=(Y,))
    site.answers(double)
    with pytest.raises(TritonstackError, match="no examples") as caught:
        site.invoke()
    assert "--input NAME=VALUE" in str(caught.value.remedy)


# Outputs


def test_outputs_are_printed_and_saved(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.model(TOKENS, SINGLE)
    site.stock(inputs=(X,), outputs=(Y,))
    site.answers(double)
    file = site.root / "answer.npz"
    arguments = ["--input", "x=[[1, 2, 3], [4, 5, 6]]", "--save", str(file)]
    assert run(["--project", str(site.project.root), "invoke", "dev", "search", *arguments]) == 0
    output = capsys.readouterr()
    assert output.out.splitlines()[0] == "y: float32, shape [2, 3]"
    assert f"wrote {file}" in output.err
    assert np.load(file)["y"].tolist() == [[2.0, 4.0, 6.0], [8.0, 10.0, 12.0]]


# Asynchronous endpoints


def test_an_asynchronous_endpoint_is_called_through_s3(site: Site) -> None:
    site.model(TOKENS, QUEUED.replace("ensemble", "single"))
    site.stock(inputs=(X,), outputs=(Y,))
    s3 = boto3.client("s3", region_name="us-east-1")
    queue = SimulatedQueue(s3, lambda _, tensors: {"y": tensors["x"]})
    site.use(queue)
    answer = site.invoke(inputs=GivenInputs(["x=[1, 2, 3]"]))
    assert document(answer)["outputs"] == {"y": [1.0, 2.0, 3.0]}
    assert queue.request is not None
    assert queue.request["Key"].startswith("requests/tritonstack-dev-search/invoke/")


class SilentEndpoint:
    """A runtime whose model ends its answer without a response."""

    def invoke_endpoint(self, **_: Any) -> dict[str, Any]:
        return {"Body": io.BytesIO(b""), "ContentType": "text/event-stream"}

    def invoke_endpoint_with_response_stream(self, **_: Any) -> dict[str, Any]:
        return {"Body": Events(), "ContentType": "text/event-stream"}


@pytest.mark.parametrize("model", [COUNTER, WRITER], ids=["decoupled", "language model"])
@pytest.mark.parametrize("options", [[], ["--stream"]], ids=["whole", "streamed"])
def test_a_model_without_a_response_is_a_failure(
    site: Site, capsys: pytest.CaptureFixture[str], model: str, options: list[str]
) -> None:
    site.model(model, STREAMED if model == WRITER else SINGLE)
    site.stock(inputs=(X,), outputs=(Y,))
    site.use(SilentEndpoint())
    command = ["--project", str(site.root), "invoke", "dev", "search", *options]
    assert run(command) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "error[TS546]" in printed.err
    assert run(["--json", *command]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "TS546"
