"""The serializer and deserializer in the real SageMaker SDK, including its HTTP call."""

import io
import json

import boto3
import numpy as np
import pytest

from tests.client.light.wire import reply
from tritonstack.client import RequestEncodingError
from tritonstack.client.codec import content_type_for


@pytest.fixture(scope="module")
def pair():
    """The module with the pair of classes. It imports the SDK, which takes two seconds."""
    pytest.importorskip("sagemaker.core", reason="the extra tritonstack[sagemaker] is not installed")
    from tritonstack.client import sagemaker_sdk

    return sagemaker_sdk


def echo(request):
    """Answer with the request's one input as output `y`, reading the header as Triton does."""
    size = int(request.headers["content-type"].split("json-header-size=")[1])
    tensor = {**json.loads(request.body[:size])["inputs"][0], "name": "y"}
    header = json.dumps({"outputs": [tensor]}).encode()
    return reply(header + request.body[size:], content_type=content_type_for(len(header)))


def test_an_endpoint_of_the_sdk_sends_and_receives_arrays(pair, serve, monkeypatch):
    from sagemaker.core.resources import Endpoint

    monkeypatch.setenv("AWS_ENDPOINT_URL", serve(echo).url)
    session = boto3.Session("a", "b", region_name="eu-west-1")
    serializer, deserializer = pair.TritonSerializer(), pair.TritonDeserializer()
    endpoint = Endpoint(endpoint_name="ep", serializer=serializer, deserializer=deserializer)
    vector = np.array([[1.5, 2.5]], np.float32)
    reply = endpoint.invoke(
        body={"x": vector},
        content_type=endpoint.serializer.CONTENT_TYPE,
        session=session,
        region="eu-west-1",
    )
    assert np.array_equal(reply.body["y"], vector)


def test_all_requests_of_a_serializer_have_the_same_content_type(pair):
    serializer = pair.TritonSerializer(header_size=512)
    short, long = serializer.serialize({"x": np.zeros(1)}), serializer.serialize({"a_longer_name": ["t"] * 9})
    assert serializer.CONTENT_TYPE.endswith(";json-header-size=512")
    assert json.loads(short[:512])["inputs"][0]["name"] == "x"
    assert json.loads(long[:512])["inputs"][0]["name"] == "a_longer_name"
    assert short[512:] == b"\0" * 8


def test_header_that_is_too_long_is_rejected_with_the_needed_size(pair):
    with pytest.raises(RequestEncodingError, match=r"[0-9]+ bytes, .* 16") as caught:
        pair.TritonSerializer(header_size=16).serialize({"x": np.zeros(1)})
    needed = int(caught.value.remedy.split("header_size=")[1].split(")")[0])
    assert pair.TritonSerializer(header_size=needed).serialize({"x": np.zeros(1)})


def test_the_stream_is_closed_when_the_reply_is_read(pair):
    stream = io.BytesIO(b'{"outputs": []}')
    assert pair.TritonDeserializer().deserialize(stream, "application/json") == {}
    assert stream.closed
