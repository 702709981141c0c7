"""Top classes of an output, as Triton's classification extension returns them."""

import asyncio
import io
import json

import numpy as np
import pytest

from tritonstack.base.byte_tensors import raw_bytes
from tritonstack.client import (
    EndpointClient,
    MalformedReplyError,
    ScoredClass,
    parse_classes,
)
from tritonstack.client.codec import content_type_for


class Scripted:
    """A transport that answers every request with one output, and records requests."""

    def __init__(self, name, array):
        datatype = "BYTES" if array.dtype == object else "FP32"
        payload = bytes(raw_bytes(array))
        described = {
            "name": name,
            "datatype": datatype,
            "shape": list(array.shape),
            "parameters": {"binary_data_size": len(payload)},
        }
        header = json.dumps({"outputs": [described]}).encode()
        self.body, self.content_type = header + payload, content_type_for(len(header))

    def invoke_endpoint(self, **call):
        size = int(call["ContentType"].rpartition("=")[2])
        self.asked = json.loads(call["Body"][:size])
        return {"Body": io.BytesIO(self.body), "ContentType": self.content_type}


def texts(rows):
    return np.array(rows, dtype=object)


def test_classes_are_requested_and_read():
    runtime = Scripted("scores", texts([[b"0.75:2:good: very", b"0.25:0:bad"]]))
    client = EndpointClient(endpoint_name="e", runtime=runtime)
    assert client.classify({"x": ["text"]}, output="scores", count=2) == [
        [ScoredClass(0.75, 2, "good: very"), ScoredClass(0.25, 0, "bad")]
    ]
    output = {"name": "scores", "parameters": {"classification": 2, "binary_data": True}}
    assert runtime.asked["outputs"] == [output]


def test_the_best_label_of_each_row():
    runtime = Scripted("scores", texts([[b"0.75:1:positive"], [b"0.9:0:negative"]]))
    client = EndpointClient(endpoint_name="e", runtime=runtime)
    assert client.labels({"x": ["good", "bad"]}) == ["positive", "negative"]
    assert asyncio.run(client.alabels({"x": ["good", "bad"]})) == ["positive", "negative"]
    assert runtime.asked["outputs"] == [
        {"name": "scores", "parameters": {"classification": 1, "binary_data": True}}
    ]


def test_classes_without_labels_are_malformed():
    client = EndpointClient(endpoint_name="e", runtime=Scripted("scores", texts([[b"0.75:1"]])))
    with pytest.raises(MalformedReplyError, match="class 1 "):
        client.labels({"x": ["good"]})


@pytest.mark.parametrize(
    ("output", "rows"),
    [
        (texts(["5:1", "-3:0"]), [[ScoredClass(5, 1), ScoredClass(-3, 0)]]),
        (texts([["1e-06:1:"], ["inf:0:größe"]]), [[ScoredClass(1e-6, 1)], [ScoredClass(np.inf, 0, "größe")]]),
        (texts(["1:0:a"]).reshape(1, 1, 1), [[ScoredClass(1, 0, "a")]]),
        (np.empty((0, 3), object), []),
    ],
)
def test_rows_of_classes(output, rows):
    assert parse_classes(output) == rows


@pytest.mark.parametrize(
    "output",
    [
        texts([b"0.5"]),
        texts([b"a:1"]),
        texts([b"0.5:1:\xff"]),
        np.ones((1, 3), np.float32),
        np.array(b"1:0", dtype=object),
    ],
)
def test_invalid_classes_are_malformed(output):
    with pytest.raises(MalformedReplyError, match="class"):
        parse_classes(output)


def test_another_output_is_malformed():
    client = EndpointClient(endpoint_name="e", runtime=Scripted("other", texts([b"1:0"])))
    with pytest.raises(MalformedReplyError, match="scores"):
        client.classify({"x": np.ones(1)}, output="scores")
