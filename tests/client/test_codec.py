"""The wire format: requests follow Triton's protocol, and damaged replies are errors."""

import gc
import json
import struct
import sys

import numpy as np
import pytest

from tritonstack.client import (
    MalformedReplyError,
    RequestEncodingError,
    UnsupportedReplyError,
    decode_reply,
    encode_request,
)
from tritonstack.client.codec import BINARY_CONTENT_TYPE, content_type_for


def header_of(request):
    return json.loads(request.body[: request.header_size])


def binary_reply(outputs, *, payload, **more):
    header = json.dumps({"model_name": "m", "model_version": "1", "outputs": outputs, **more}).encode()
    return {"body": header + payload, "content_type": content_type_for(len(header))}


def output(name, datatype, shape, size):
    return {"name": name, "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": size}}


def test_a_request_is_a_json_header_and_the_bytes_of_the_tensors_in_order():
    request = encode_request(
        {"a": np.array([[1, 2]], np.int32), "b": np.array([0.5], np.float32)},
        outputs=["y"],
        request_id="r1",
        parameters={"mode": "fast", "limit": 3},
    )
    assert request.content_type == f"{BINARY_CONTENT_TYPE};json-header-size={request.header_size}"
    assert header_of(request) == {
        "id": "r1",
        "inputs": [
            {"name": "a", "shape": [1, 2], "datatype": "INT32", "parameters": {"binary_data_size": 8}},
            {"name": "b", "shape": [1], "datatype": "FP32", "parameters": {"binary_data_size": 4}},
        ],
        "outputs": [{"name": "y", "parameters": {"binary_data": True}}],
        "parameters": {"mode": "fast", "limit": 3},
    }
    assert request.body[request.header_size :] == struct.pack("<iif", 1, 2, 0.5)


@pytest.mark.parametrize(
    "strings",
    [["héllo", ""], [b"h\xc3\xa9llo", b""], np.array(["héllo", ""]), np.array(["héllo", ""], object)],
)
def test_strings_become_length_prefixed_bytes(strings):
    request = encode_request({"text": strings})
    assert header_of(request)["inputs"][0]["datatype"] == "BYTES"
    assert request.body[request.header_size :] == b"\x06\0\0\0h\xc3\xa9llo\0\0\0\0"


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, "at least one input"),
        ({"x": np.zeros(1, np.complex64)}, "x: Triton has no tensor type for NumPy's complex64"),
        ({"x": "text"}, "x: expected a NumPy array or a list of strings, got str"),
        ({"x": [1.0, 2.0]}, "x: expected only str or bytes in it, found float"),
        ({"x": np.array(["a", None], object)}, "x: expected only str or bytes in it, found NoneType"),
        ({"x": ["\ud800"]}, "cannot encode the request: .*surrogates not allowed"),
    ],
)
def test_unencodable_input_is_rejected(inputs, words):
    with pytest.raises(RequestEncodingError, match=words):
        encode_request(inputs)


def test_reserved_parameters_are_rejected():
    with pytest.raises(RequestEncodingError, match="reserved"):
        encode_request({"x": np.zeros(1)}, parameters={"triton_x": 1})


def test_parameter_that_is_not_json_is_rejected():
    with pytest.raises(RequestEncodingError, match="not JSON serializable"):
        encode_request({"x": np.zeros(1)}, parameters={"x": object()})


def test_a_single_output_must_be_a_list():
    with pytest.raises(RequestEncodingError, match=r"outputs .*'embedding'"):
        encode_request({"x": np.zeros(1)}, outputs="embedding")


def test_a_binary_reply_becomes_arrays():
    payload = struct.pack("<ff", 1.5, 2.5) + b"\x02\0\0\0hi"
    outputs = [
        output("v", "FP32", [1, 2], 8),
        output("s", "BYTES", [1], 6),
        output("empty", "INT8", [0, 3], 0),
    ]
    reply = decode_reply(**binary_reply(outputs, payload=payload, id="r1", parameters={"p": 1}))
    assert reply.outputs["v"].tolist() == [[1.5, 2.5]]
    assert reply.outputs["v"].dtype == np.float32
    assert reply.outputs["s"].tolist() == [b"hi"]
    assert reply.outputs["empty"].shape == (0, 3)
    assert (reply.model_name, reply.request_id, reply.parameters) == ("m", "r1", {"p": 1})


def test_bf16_without_ml_dtypes_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(UnsupportedReplyError, match=r"v: .*BF16.*ml_dtypes") as caught:
        decode_reply(**binary_reply([output("v", "BF16", [1], 2)], payload=b"\0\0"))
    assert "ml_dtypes" in caught.value.remedy


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_parameter_that_json_cannot_write_is_rejected(value):
    with pytest.raises(RequestEncodingError, match="not JSON compliant"):
        encode_request({"x": np.zeros(1)}, parameters={"x": value})


@pytest.mark.parametrize("name", [5, None, b"x"])
def test_an_input_whose_name_is_not_text_is_rejected(name):
    with pytest.raises(RequestEncodingError, match="an input"):
        encode_request({name: np.zeros(1)})


GOOD = output("v", "FP32", [2], 8)


@pytest.mark.parametrize(
    ("outputs", "payload", "words"),
    [
        ([GOOD], b"\0" * 7, "expected 8 bytes of tensors, got 7"),
        ([GOOD], b"\0" * 9, "expected 8 bytes of tensors, got 9"),
        ([{**GOOD, "shape": [3]}], b"\0" * 8, "v does not fit its description"),
        ([{**GOOD, "datatype": "FP8"}], b"\0" * 8, "unknown type FP8"),
        ([{"name": "v", "shape": [2]}], b"", "lacks name, datatype or shape"),
        (
            [{**GOOD, "parameters": {"binary_data_size": "x"}}],
            b"",
            "invalid JSON|the size is not a number",
        ),
        ([{**GOOD, "parameters": {"binary_data_size": -8}}], b"", "the size is not a number"),
        ([{"name": "v", "datatype": "FP32", "shape": [2]}], b"", "v does not fit its description"),
        ([output("s", "BYTES", [1], 6)], b"\x09\0\0\0hi", "s does not fit its description"),
        (["v"], b"", "invalid JSON|lacks name"),
        ({}, b"", "outputs are missing"),
        (None, b"", "outputs are missing|invalid JSON"),
    ],
)
def test_a_malformed_reply_is_named_and_never_decoded(outputs, payload, words):
    with pytest.raises(MalformedReplyError, match=words):
        decode_reply(**binary_reply(outputs, payload=payload))


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (b"<html>", "text/html", "neither Triton's binary form nor JSON"),
        (b"{}", f"{BINARY_CONTENT_TYPE};json-header-size=3", "header of 3 bytes, got 2"),
        (b"{}", f"{BINARY_CONTENT_TYPE};json-header-size=0", "header of 0 bytes"),
        (b"{}", BINARY_CONTENT_TYPE, "neither"),
        (b"{oops", "application/json", "invalid JSON"),
        (b"\xff\xfe", "application/json", "invalid JSON"),
        (b"[1]", "application/json", "outputs are missing"),
        (b"[1]", content_type_for(3), "outputs are missing"),
        (b"[" * 100_000, "application/json", "invalid JSON"),
        (b"{}", f"{BINARY_CONTENT_TYPE};json-header-size={'9' * 5000}", "neither"),
        (b"{}", "", "content type '' is neither"),
    ],
)
def test_a_reply_that_is_not_from_triton(body, content_type, words):
    gc.collect()  # finalizers of other tests would fail at the recursion limit
    with pytest.raises(MalformedReplyError, match=words):
        decode_reply(body, content_type=content_type)
