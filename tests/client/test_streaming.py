"""Streamed responses that end early, are damaged, or cannot be requested."""

import asyncio
import binascii
import io
import struct
from collections.abc import Callable
from typing import Any

import boto3
import numpy as np
import pytest
from botocore.config import Config

from tritonstack.client import EndpointClient, errors

HEAD = (
    b"HTTP/1.1 200 OK\r\nX-Amzn-SageMaker-Content-Type: text/event-stream\r\n"
    b"Content-Type: application/vnd.amazon.eventstream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
END = b"0\r\n\r\n"


def part(payload: bytes) -> bytes:
    """Return one payload part of InvokeEndpointWithResponseStream, as an HTTP chunk."""
    event_headers = {":event-type": "PayloadPart", ":message-type": "event"}
    headers = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in event_headers.items()
    )
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", binascii.crc32(prelude)) + headers + payload
    return chunk(message + struct.pack(">I", binascii.crc32(message)))


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


@pytest.fixture
def streaming(serve) -> Callable[..., EndpointClient]:
    """Return a client whose requests get the given bytes; then the connection ends, or stays silent."""

    def client(answer: bytes, silent: bool = False) -> EndpointClient:
        server = serve(lambda request: HEAD + answer, close_after_reply=not silent)
        runtime = boto3.client(
            "sagemaker-runtime",
            region_name="eu-west-1",
            endpoint_url=server.url,
            aws_access_key_id="a",
            aws_secret_access_key="b",
            config=Config(read_timeout=0.5 if silent else 60, retries={"total_max_attempts": 1}),
        )
        return EndpointClient(endpoint_name="writer", runtime=runtime)

    return client


FIRST = part(b'data: {"text_output":"Once"}\n\n')


@pytest.mark.parametrize(
    ("rest", "silent", "error"),
    [
        pytest.param(b"", False, errors.ConnectionFailedError, id="connection-broken"),
        pytest.param(b"", True, errors.InvocationTimeoutError, id="silence"),
        pytest.param(chunk(b"x" * 64) + END, False, errors.ConnectionFailedError, id="damaged-part"),
        pytest.param(part(b'data: {"te') + END, False, errors.MalformedReplyError, id="half-an-event"),
        pytest.param(part(b"data: [1]\n") + END, False, errors.MalformedReplyError, id="not-an-object"),
        pytest.param(
            part(b"data: " + b"[" * 100_000 + b"\n") + END, False, errors.MalformedReplyError, id="deep"
        ),
        pytest.param(part(b'data: {"error":"x"}\n') + END, False, errors.StreamFailedError, id="model-fails"),
    ],
)
def test_a_stream_that_fails_yields_what_arrived_and_raises(streaming, rest, silent, error):
    pieces = streaming(FIRST + rest, silent).stream("x")
    assert next(pieces) == "Once"
    with pytest.raises(error) as caught:
        next(pieces)
    assert isinstance(caught.value, errors.EndpointClientError)
    assert caught.value.remedy


def test_a_whole_stream_ends_without_an_error(streaming):
    rest = part(b'data: {"text_output":') + part(b'" upon"}\n\n') + END
    assert list(streaming(FIRST + rest).stream("x")) == ["Once", " upon"]


EMPTY = [
    pytest.param(END, id="no-part"),
    pytest.param(part(b"") + END, id="empty-part"),
    pytest.param(part(b": a comment\n\n") + END, id="no-event"),
]


@pytest.mark.parametrize("answer", EMPTY)
def test_an_answer_without_a_response_is_an_error(streaming, answer):
    for responses in (streaming(answer).stream("x"), streaming(answer).stream_responses({"x": 1})):
        with pytest.raises(errors.NoResponseError, match="writer: ") as caught:
            next(responses)
        assert not caught.value.retryable


def test_a_whole_answer_without_a_response_is_an_error():
    class Silent:
        def invoke_endpoint(self, **_: Any) -> dict[str, Any]:
            return {"Body": io.BytesIO(b""), "ContentType": "text/event-stream"}

        async def ainvoke_endpoint(self, **call: Any) -> dict[str, Any]:
            return self.invoke_endpoint(**call)

    client = EndpointClient(endpoint_name="writer", runtime=Silent())  # type: ignore[arg-type]
    with pytest.raises(errors.NoResponseError):
        client.generate("x")
    with pytest.raises(errors.NoResponseError):
        asyncio.run(client.agenerate("x"))


class NoRuntime:
    """Has no operation, so that a request fails."""


@pytest.mark.parametrize(
    ("inputs", "target", "words"),
    [
        ({"x": float("nan")}, None, "Out of range"),
        ({"x": np.zeros(2)}, None, "not JSON serializable"),
        ({"x": 1}, "m/1/model.tar.gz", "multi-model endpoint"),
    ],
)
def test_what_cannot_be_streamed_is_not_sent(inputs, target, words):
    client = EndpointClient(endpoint_name="e", runtime=NoRuntime(), target_model=target)  # type: ignore[arg-type]
    with pytest.raises(errors.RequestEncodingError, match=words) as caught:
        list(client.stream_responses(inputs))
    assert caught.value.remedy
