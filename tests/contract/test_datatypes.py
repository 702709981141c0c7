"""Round trips of every datatype, as binary data and as JSON."""

import struct
from typing import Any

import numpy as np
import pytest

from tests.contract.bodies import BINARY, JSON, binary_body, json_body, output, payload, said, tensor
from tests.contract.conftest import skip_other_ways
from tests.contract.drivers import ECHO, Driver, ServedModel, Way
from tests.contract.models import DATATYPES

pytestmark = pytest.mark.e2e

TEXTS = ["plain", "", "naïve café", "日本語 🙂", 'quotes " and \\', "zero\0inside", "x" * 20_000]
NO_JSON = ("FP16", "BF16")
EXTREMES: dict[str, list[Any]] = {
    "BOOL": [True, False],
    **{
        name: [np.iinfo(kind).min, np.iinfo(kind).max]
        for name, kind in DATATYPES.items()
        if kind and kind[0] in "iu"
    },
    "FP16": [np.finfo("f2").min, np.finfo("f2").tiny],
    "FP32": [np.finfo("f4").min, np.finfo("f4").tiny],
    "FP64": [np.finfo("f8").min, np.finfo("f8").tiny],
}


@pytest.fixture(params=[Way.SINGLE, Way.MULTI_MODEL], ids=lambda way: way.value)
def echo(request: pytest.FixtureRequest, driver: Driver) -> ServedModel:
    """A model that sends back what it was sent."""
    skip_other_ways(driver, request.param)
    return driver.served_model(request.param, ECHO)


def in_bytes(name: str) -> tuple[bytes, int]:
    """The bytes of a tensor of some values, and how many they are."""
    if name == "BYTES":
        packed = [struct.pack("<I", len(text.encode())) + text.encode() for text in TEXTS]
        return b"".join(packed), len(TEXTS)
    if name == "BF16":  # the upper half of each float
        return np.array([1.5, -2.0], np.float32).tobytes()[2:4] * 2, 2
    values = np.array(EXTREMES[name], DATATYPES[name])
    return values.tobytes(), values.size


def ask_in_bytes(echo: ServedModel, name: str, content: bytes, count: int) -> Any:
    body, size = binary_body(content, shape=[1, count], name=name, parameters={"binary_data_output": True})
    return echo.ask(body, f"{BINARY}{size}")


@pytest.mark.parametrize("name", DATATYPES)
def test_as_bytes(echo, name):
    content, count = in_bytes(name)
    answer = ask_in_bytes(echo, name, content, count)
    assert payload(answer) == content
    assert output(answer, f"{name}_back")["datatype"] == name
    assert output(answer, f"{name}_back")["shape"] == [1, count]


@pytest.mark.parametrize("name", [name for name in DATATYPES if name not in NO_JSON])
def test_as_json(echo, name):
    values = TEXTS if name == "BYTES" else np.array(EXTREMES[name], DATATYPES[name]).tolist()
    answer = output(ask_in_json(echo, name, values), f"{name}_back")
    assert answer["datatype"] == name
    if name in ("FP32", "FP64"):
        assert np.allclose(answer["data"], values, rtol=1e-6)
    else:
        assert answer["data"] == values


def ask_in_json(echo: ServedModel, name: str, values: list[Any]) -> Any:
    return echo.ask(json_body(tensor(*values, name=name, datatype=name)), JSON)


@pytest.mark.parametrize("name", NO_JSON)
def test_no_half_precision_in_json(echo, name):
    answer = ask_in_json(echo, name, [1])
    assert answer.status == 400
    assert f"{name} data via JSON" in said(answer)


@pytest.mark.parametrize(
    ("name", "value"),
    [("UINT8", -1), ("INT32", 1.5), ("BOOL", 1), ("FP32", "NaN"), ("INT64", 2**63), ("BYTES", 1)],
)
def test_json_of_another_type_is_rejected(echo, name, value):
    answer = ask_in_json(echo, name, [value])
    assert answer.status == (400 if echo.way.many else 500)
    assert said(answer).startswith("Unable to parse")


@pytest.mark.before("26.02")
def test_overflowing_number_is_truncated(echo):
    assert output(ask_in_json(echo, "INT8", [300]), "INT8_back")["data"] == [300 - 256]


def test_bytes_that_are_not_text_are_returned_unchanged(echo):
    content = struct.pack("<I", 2) + b"\xff\xfe"
    assert payload(ask_in_bytes(echo, "BYTES", content, 1)) == content


def test_a_text_shorter_than_its_length_is_rejected(echo):
    answer = ask_in_bytes(echo, "BYTES", struct.pack("<I", 5) + b"ab", 1)
    assert answer.status == 400
    assert "incomplete string data" in said(answer)


def test_raw_bytes_need_a_model_of_one_input(echo):
    answer = echo.ask(b"1234", f"{BINARY}0")
    assert answer.status == 400
    assert "only have 1 input" in said(answer)
