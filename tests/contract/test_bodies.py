"""Valid bodies: JSON, a JSON header with binary data, and binary data only."""

import json

import pytest

from tests.contract.bodies import (
    BINARY,
    JSON,
    answered,
    binary_body,
    floats,
    json_body,
    numbers,
    output,
    payload,
    tensor,
)

pytestmark = pytest.mark.e2e

AS_BYTES = {"parameters": {"binary_data": True}}


def test_json_in_and_out(served_model):
    answer = served_model.ask(numbers(1, 2, id="request 7"))
    assert answer.headers["content-type"] == JSON
    data = [served_model.factor, 2 * served_model.factor]
    assert output(answer) == {"name": "y", "datatype": "FP32", "shape": [1, 2], "data": data}
    name = served_model.model.target if served_model.way.many else served_model.model.name
    reply = answered(answer)
    assert (reply["model_name"], reply["model_version"], reply["id"]) == (name, "1", "request 7")


@pytest.mark.parametrize("data", [[1, 2, 3, 4], [[1, 2], [3, 4]]], ids=["flat", "nested"])
def test_rows_of_a_batch_as_flat_or_nested_json(served_model, data):
    answer = output(served_model.ask(json_body(tensor(shape=[2, 2], data=data))))
    assert answer["shape"] == [2, 2]
    assert answer["data"] == [served_model.factor * number for number in (1, 2, 3, 4)]


def test_a_tensor_of_no_elements(served_model):
    answer = output(served_model.ask(json_body(tensor(shape=[1, 0], data=[]))))
    assert (answer["shape"], answer["data"]) == ([1, 0], [])


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "application/x-npy"])
def test_any_other_content_type_is_read_as_json(served_model, kind):
    assert output(served_model.ask(numbers(1), kind))["data"] == [served_model.factor]


@pytest.mark.own_server
def test_a_missing_content_type_is_read_as_json(served_model):
    assert output(served_model.ask(numbers(1), None))["data"] == [served_model.factor]


@pytest.mark.parametrize(
    "request_field",
    [{"outputs": [{"name": "y", **AS_BYTES}]}, {"parameters": {"binary_data_output": True}}],
    ids=["by name", "all"],
)
def test_json_in_and_bytes_out(served_model, request_field):
    answer = served_model.ask(numbers(1, 2, **request_field))
    assert output(answer)["parameters"] == {"binary_data_size": 8}
    assert payload(answer) == floats(served_model.factor, 2 * served_model.factor)


def test_bytes_in_and_out_or_json_unless_bytes_are_requested(served_model):
    body, size = binary_body(floats(1, 2), shape=[1, 2], outputs=[{"name": "y", **AS_BYTES}])
    answer = served_model.ask(body, f"{BINARY}{size}")
    assert payload(answer) == floats(served_model.factor, 2 * served_model.factor)
    body, size = binary_body(floats(1, 2), shape=[1, 2])
    answer = served_model.ask(body, f"{BINARY}{size}")
    assert answer.headers["content-type"] == JSON
    assert output(answer)["data"] == [served_model.factor, 2 * served_model.factor]


def test_header_padded_with_spaces_and_text_after_its_size(served_model):
    body, size = binary_body(floats(1), shape=[1, 1])
    padded = body[:size].ljust(512) + body[size:]
    for content, kind in ((padded, f"{BINARY}512"), (body, f"{BINARY}{size};charset=utf-8")):
        assert output(served_model.ask(content, kind))["data"] == [served_model.factor]


def test_header_size_0_sends_the_whole_body_as_the_input(served_model):
    answer = served_model.ask(floats(1, 2, 3), f"{BINARY}0")
    assert output(answer)["shape"] == [1, 3]
    assert payload(answer) == floats(*(served_model.factor * number for number in (1, 2, 3)))


def test_an_empty_body_is_a_raw_request_of_no_elements(served_model):
    for kind in (JSON, f"{BINARY}0"):
        answer = served_model.ask(b"", kind)
        assert answer.status == 200, answer.body
        assert json.loads(answer.body)["outputs"][0]["shape"] == [1, 0]


@pytest.mark.before("26.06")
def test_a_header_size_that_is_not_a_number_counts_as_0(served_model):
    """So a body meant as JSON and bytes is computed as a raw tensor if its size happens to fit."""
    answer = served_model.ask(floats(1, 2), f"{BINARY}abc")
    assert payload(answer) == floats(served_model.factor, 2 * served_model.factor)


@pytest.mark.own_server
def test_tritons_usual_header_is_ignored(served_model):
    """SageMaker strips Inference-Header-Content-Length; the container would not read it either."""
    body, size = binary_body(floats(1), shape=[1, 1])
    answer = served_model.ask(body, "application/octet-stream", Inference_Header_Content_Length=str(size))
    assert answer.status in (400, 500)


@pytest.mark.own_server
def test_content_encoding_and_accept_encoding_are_ignored(served_model):
    assert output(served_model.ask(numbers(1), Content_Encoding="gzip"))["data"] == [served_model.factor]
    answer = served_model.ask(numbers(1), Accept_Encoding="gzip, deflate")
    assert output(answer)["data"] == [served_model.factor]
    assert "content-encoding" not in answer.headers
