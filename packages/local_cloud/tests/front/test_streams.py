"""InvokeEndpointWithResponseStream: parts as they arrive, the error of each failure, and how it ends."""

import json

import pytest
from botocore.exceptions import ClientError, EventStreamError

from packages.local_cloud.tests.front.conftest import NAME, eventually
from tritonstack.client import (
    EndpointClient,
    StreamFailedError,
)
from tritonstack_local.sagemaker import invocations

PATH = f"/endpoints/{NAME}/invocations-response-stream"


def said(text):
    return f'data: {{"text_output":"{text}"}}\n\n'


def stream(endpoint, *script, **fields):
    return endpoint.runtime.invoke_endpoint_with_response_stream(
        **{
            "EndpointName": NAME,
            "Body": json.dumps(script).encode(),
            "ContentType": "application/json",
            **fields,
        }
    )


def failure(endpoint, *script, **fields):
    with pytest.raises(ClientError) as caught:
        stream(endpoint, *script, **fields)
    return caught.value.response


def test_parts_arrive_one_by_one(endpoint, fake_tritons):
    answer = stream(endpoint, "one", None, "two")
    assert answer["ContentType"] == "text/event-stream; charset=utf-8"
    assert answer["InvokedProductionVariant"] == "AllTraffic"
    events = iter(answer["Body"])
    assert next(events) == {"PayloadPart": {"Bytes": b"one"}}
    assert endpoint.pool.requests == 1
    fake_tritons.released.set()
    assert [event["PayloadPart"]["Bytes"] for event in events] == [b"two"]
    eventually(lambda: endpoint.pool.requests == 0)


@pytest.mark.parametrize("status", [400, 500])
def test_an_error_before_the_response_is_a_model_error(endpoint, status):
    response = failure(endpoint, f"status={status}", 'data: {"error":"no"}')
    assert response["Error"]["Code"] == "ModelError"
    assert response["OriginalStatusCode"] == status
    assert response["OriginalMessage"] == 'data: {"error":"no"}'


def test_a_broken_response_is_a_stream_error(endpoint):
    answer = stream(endpoint, "one", "break")
    events = iter(answer["Body"])
    assert next(events)["PayloadPart"]["Bytes"] == b"one"
    with pytest.raises(EventStreamError) as caught:
        next(events)
    assert caught.value.response["Error"]["Code"] == "ModelStreamError"
    eventually(lambda: endpoint.pool.requests == 0)


def test_a_response_beyond_the_time_limit_is_a_stream_error(endpoint, monkeypatch):
    monkeypatch.setattr(endpoint.cloud._sagemaker.runtime, "_stream_timeout_s", 0.0)
    monkeypatch.setattr(invocations, "MIN_INVOCATION_S", 0.2)
    client = EndpointClient(endpoint_name=NAME, runtime=Sending(endpoint.runtime, said("one"), None))
    pieces = client.stream("any")
    assert next(pieces) == "one"
    with pytest.raises(StreamFailedError, match="the time limit"):
        next(pieces)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"EndpointName": "other"}, "Endpoint other of account"),
        ({"TargetVariant": "other"}, "Variant other not found for endpoint e"),
        ({"InferenceComponentName": "c"}, "InvokeEndpointWithResponseStream.InferenceComponentName"),
        ({"SessionId": "s-1"}, "InvokeEndpointWithResponseStream.SessionId"),
    ],
)
def test_invalid_requests_are_rejected(endpoint, fields, words):
    error = failure(endpoint, **fields)["Error"]
    assert error["Code"] == "ValidationError"
    assert words in error["Message"]


def test_requests_must_be_signed(endpoint):
    assert endpoint.ask(b"[]", path=PATH, secret="x" * 40).status == 403


def test_a_connection_is_reused_after_a_stream(endpoint):
    with endpoint.connect() as connection:
        for line in (None, f"POST {PATH} HTTP/1.1"):
            connection.send(endpoint.request(b'["one"]', path=PATH, line=line))
            status, headers = connection.head()
            assert status == 200
            assert headers["content-type"] == "application/vnd.amazon.eventstream"
            assert headers["x-amzn-sagemaker-content-type"].startswith("text/event-stream")
            assert b"one" in connection.chunks()
        connection.send(endpoint.request())
        assert connection.response().body == b"yes"


def test_a_client_that_leaves_ends_the_request(endpoint):
    answer = stream(endpoint, "one", None, "two")
    next(iter(answer["Body"]))
    assert endpoint.pool.requests == 1
    answer["Body"].close()
    assert endpoint.server.streamed.left.wait(10)
    eventually(lambda: endpoint.pool.requests == 0)


class Sending:
    """A runtime that sends a script instead of the client's body."""

    def __init__(self, runtime, *script):
        self._runtime = runtime
        self._script = script
        self.sent = {}

    def _scripted(self, call):
        self.sent = json.loads(call["Body"])
        return {**call, "Body": json.dumps(self._script).encode()}

    def invoke_endpoint(self, **call):
        return self._runtime.invoke_endpoint(**self._scripted(call))

    def invoke_endpoint_with_response_stream(self, **call):
        return self._runtime.invoke_endpoint_with_response_stream(**self._scripted(call))
