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
    TopClasses,
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


X = {"x": np.zeros(1)}


@pytest.mark.parametrize(
    ("inputs", "options", "words"),
    [
        ({}, {}, "at least one input"),
        ({"x": np.zeros(1, np.complex64)}, {}, "x: .*complex64"),
        ({"x": "text"}, {}, "x: .*got str"),
        ({"x": [1.0, 2.0]}, {}, "x: .*found float"),
        ({"x": np.array(["a", None], object)}, {}, "x: .*found NoneType"),
        ({"x": ["\ud800"]}, {}, "surrogates not allowed"),
        ({5: np.zeros(1)}, {}, "an input"),
        (X, {"parameters": {"triton_x": 1}}, "reserved"),
        (X, {"parameters": {"mode": object()}}, "not JSON serializable"),
        (X, {"outputs": "embedding"}, "outputs .*'embedding'"),
        (X, {"outputs": [5]}, "got int"),
        (X, {"outputs": [TopClasses("scores", 0)]}, "scores: .*at least 1"),
        (X, {"outputs": [TopClasses("scores", True)]}, "scores: .*at least 1"),
    ],
)
def test_what_cannot_be_encoded_is_rejected(inputs, options, words):
    with pytest.raises(RequestEncodingError, match=words):
        encode_request(inputs, **options)


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


GOOD = output("v", "FP32", [2], 8)


@pytest.mark.parametrize(
    ("outputs", "payload", "words"),
    [
        ([GOOD], b"\0" * 7, "8 bytes .* got 7"),
        ([GOOD, GOOD], b"\0" * 16, "duplicate output v"),
        ([{**GOOD, "shape": [3]}], b"\0" * 8, "v .*12 bytes, got 8"),
        ([{**GOOD, "name": 5}], b"\0" * 8, "got 5"),
        ([{**GOOD, "datatype": "FP8"}], b"\0" * 8, "type FP8"),
        ([{"name": "v", "shape": [2]}], b"", "lacks name, datatype or shape"),
        ([{**GOOD, "parameters": {"binary_data_size": "x"}}], b"", "size is not"),
        ([{**GOOD, "parameters": [1]}], b"", "parameters"),
        ([{"name": "v", "datatype": "FP32", "shape": [2]}], b"", "v .*no data"),
        ([output("v", "INT8", [0, 2**80], 0)], b"", "does not fit"),
        ([output("v", "INT8", [True], 1)], b"\0", "shape .*True"),
        ([output("v", "BOOL", [2], 2)], b"\1\2", "bytes 0 and 1"),
        ([output("v", "BYTES", [1], 6)], b"\1\0\0\0ab", "1 bytes follow"),
        ([output("v", "BYTES", [2], 10)], b"\6\0\0\0abcdef", "element 1 of 2"),
        ([output("v", "BYTES", [1], 6)], b"\3\0\0\0ab", "3 bytes, .* 2 follow"),
        ([output("v", "BYTES", [2**60], 0)], b"", "at least"),
        ({}, b"", "outputs are missing"),
    ],
)
def test_a_malformed_reply_is_named_and_never_decoded(outputs, payload, words):
    with pytest.raises(MalformedReplyError, match=words):
        decode_reply(**binary_reply(outputs, payload=payload))


@pytest.mark.parametrize(
    ("datatype", "shape", "data", "words"),
    [
        ("INT64", [1], [1.5], "unexpected float"),
        ("INT8", [1], [300], "out of bounds"),
        ("INT8", [1], [True], "unexpected bool"),
        ("BOOL", [1], [1], "unexpected int"),
        ("FP32", [1], ["1.5"], "unexpected str"),
        ("FP16", [1], [1e6], "too large"),
        ("FP64", [1], [10**400], "too large"),
        ("BYTES", [1], ["\ud800"], "surrogates"),
        ("INT8", [2], [1], "2 values, got 1"),
        ("INT8", [2, 2], [[1, 2], [3]], "nested"),
        ("INT8", [4], [[1, 2], [3, 4]], "nested"),
        ("INT8", [1], 1, "no data"),
    ],
)
def test_json_data_that_contradicts_its_description(datatype, shape, data, words):
    described = {"name": "x", "datatype": datatype, "shape": shape, "data": data}
    with pytest.raises(MalformedReplyError, match=words):
        decode_reply(json.dumps({"outputs": [described]}).encode(), content_type="application/json")


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (b"<html>", "text/html", "neither"),
        (b"{}", content_type_for(3), "3 bytes, got 2"),
        (b"{}", content_type_for(0), "0 bytes"),
        (b"{oops", "application/json", "invalid JSON"),
        (b"[1]", "application/json", "outputs are missing"),
        (b"[" * 100_000, "application/json", "invalid JSON"),
        (b"{}", content_type_for("9" * 5000), "neither"),
    ],
)
def test_a_reply_that_is_not_from_triton(body, content_type, words):
    gc.collect()  # finalizers of other tests would fail at the recursion limit
    with pytest.raises(MalformedReplyError, match=words):
        decode_reply(body, content_type=content_type)
