"""Invalid bodies and their status codes.

On a single-model endpoint, the code hints at the cause: 400 for a request that does not fit the model, 500
for one that cannot be parsed, and 500 for errors of the model itself. In multi-model mode all of them are
400, except 507 for whatever looks like a lack of memory: SageMaker then unloads another model.
"""

import gzip
from dataclasses import dataclass

import pytest

from tests.contract import models
from tests.contract.bodies import BINARY, JSON, binary_body, floats, json_body, numbers, output, said, tensor
from tests.contract.conftest import skip_other_ways
from tests.contract.drivers import DECOUPLED, Way

pytestmark = pytest.mark.e2e


@dataclass(frozen=True)
class Rejected:
    """A body, the code of its rejection on a single endpoint, and words of it."""

    called: str
    body: bytes
    code: int
    words: str
    kind: str = JSON
    many_code: int = 400


def in_binary(called: str, words: str, *, size: int, payload: bytes = floats(1, 2)) -> Rejected:
    body, header = binary_body(payload, shape=[1, 2], size=size)
    return Rejected(called, body, 400, words, f"{BINARY}{header}")


def of_header_size(size: str, code: int, words: str) -> Rejected:
    body, _ = binary_body(floats(1, 2), shape=[1, 2])
    return Rejected(f"header size {size}", body, code, words, f"{BINARY}{size}")


CASES = [
    Rejected("no JSON", b"hello", 500, "request JSON buffer"),
    Rejected("JSON and more", numbers(1) + b"more", 500, "must not be followed by other values"),
    Rejected("compressed", gzip.compress(numbers(1)), 500, "request JSON buffer"),
    Rejected("no inputs field", b"{}", 500, "Unable to parse 'inputs'"),
    Rejected("a list", b"[]", 500, "Unable to parse 'inputs'"),
    Rejected("inputs no list", b'{"inputs": 1}', 500, "Unable to parse 'inputs'"),
    Rejected("inputs empty", json_body(), 400, "missing required input(s) ['x']"),
    Rejected("another name", json_body(tensor(1, name="q")), 400, "unexpected inference input 'q'"),
    Rejected("one too many", json_body(tensor(1), tensor(1, name="q")), 400, "expected 1 inputs but got 2"),
    Rejected("another type", json_body(tensor(1, datatype="INT32")), 400, "data-type is 'INT32'"),
    Rejected("no such type", json_body(tensor(1, datatype="FLOAT")), 400, "invalid datatype for input x"),
    Rejected(
        "half precision", json_body(tensor(1, datatype="FP16")), 400, "Please use the binary data format"
    ),
    Rejected("another rank", json_body(tensor(1, 2, shape=[2])), 400, "Expected [-1,-1], got [2]"),
    Rejected("negative shape", json_body(tensor(1, 2, shape=[1, -2])), 500, "Unable to parse 'shape'"),
    Rejected("too many rows", json_body(tensor(*range(9), shape=[9, 1])), 400, "batch-size must be <= 8"),
    Rejected("too little data", json_body(tensor(1, shape=[1, 2])), 500, "does not match true shape"),
    Rejected("too much data", json_body(tensor(1, 2, 3, shape=[1, 2])), 500, "does not match true shape"),
    Rejected("texts as numbers", json_body(tensor("a")), 500, "Unable to parse 'data'"),
    Rejected(
        "no data", json_body({"name": "x", "datatype": "FP32", "shape": [1, 1]}), 400, "no field is set"
    ),
    Rejected("another output", numbers(1, outputs=[{"name": "z"}]), 400, "unexpected inference output 'z'"),
    in_binary("fewer bytes announced than sent", "unexpected additional input data", size=4),
    in_binary("more bytes announced than sent", "expecting 392 additional bytes", size=400),
    in_binary("bytes that do not fit the shape", "Expected 8, got 3", size=3, payload=b"123"),
    of_header_size("-1", 400, "inference header size should be in range"),
    of_header_size("99999", 400, "inference header size should be in range"),
    of_header_size("3", 500, "request JSON buffer"),
    Rejected(
        "binary type not at the start",
        numbers(1),
        400,
        "expect MIME type for binary data starts with",
        f"multipart/{BINARY}0",
    ),
    Rejected("raw bytes of no whole number", floats(1, 2)[:-1], 400, "Expected 4, got 7", f"{BINARY}0"),
    Rejected("the model rejects", numbers(models.REJECTS), 500, "minus one is no input"),
    Rejected("the model raises", numbers(models.RAISES), 500, "ValueError: the model raised this"),
    Rejected("the model lacks memory", numbers(models.OUT_OF_MEMORY), 500, "out of memory", many_code=507),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.called.replace(" ", "-"))
def test_rejected_with_status_code_and_message(served_model, case):
    answer = served_model.ask(case.body, case.kind)
    assert answer.status == (case.many_code if served_model.way.many else case.code), answer.body
    assert case.words in said(answer)
    assert output(served_model.ask(numbers(1)))["data"] == [served_model.factor], "it answers no more"


@pytest.mark.since("26.06")
@pytest.mark.parametrize("size", ["abc", ""])
def test_a_header_size_that_is_not_a_number_is_rejected(served_model, size):
    answer = served_model.ask(floats(1, 2), f"{BINARY}{size}")
    assert answer.status == 400
    assert "inference header size" in said(answer)


def test_space_before_the_size_or_other_case_is_another_content_type(served_model):
    """It is then read as JSON, and the bytes after the JSON are too many."""
    body, size = binary_body(floats(1, 2), shape=[1, 2])
    for kind in (f"{BINARY}{size}".replace(";", "; "), f"{BINARY}{size}".title()):
        assert served_model.ask(body, kind).status in (400, 500), kind


@pytest.mark.own_server
def test_content_encoding_does_not_unpack(served_model):
    for encoding in ("gzip", "br"):
        answer = served_model.ask(gzip.compress(numbers(1)), Content_Encoding=encoding)
        assert answer.status == (400 if served_model.way.many else 500)
        assert "request JSON buffer" in said(answer)


@pytest.mark.parametrize(("way", "code"), [(Way.SINGLE, 501), (Way.MULTI_MODEL, 400)])
def test_a_decoupled_model_loads_but_cannot_be_invoked(driver, way, code):
    skip_other_ways(driver, way)
    answer = driver.served_model(way, DECOUPLED).ask(numbers(1))
    assert answer.status == code
    assert "decoupled transaction policy" in said(answer)
