"""Minimum sizes of requests and answers, which the payload limits use, in the lock."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.manifests import manifest
from tritonstack.files.records.locks import Lock
from tritonstack.files.records.manifests import TensorSpec


@pytest.mark.parametrize(
    ("datatype", "shape", "least"),
    [
        ("FP32", (384,), 1536),
        ("FP16", (3, 224, 224), 301_056),
        ("INT64", (-1,), 8),
        ("BYTES", (1,), 4),
        ("BOOL", (-1, 5), 5),
        ("FP64", (), 8),
    ],
)
def test_bytes_per_item_of_a_tensor(datatype: str, shape: tuple[int, ...], least: int) -> None:
    assert TensorSpec(name="x", datatype=datatype, shape=shape).least_bytes == least


def test_lock_records_the_larger_of_request_and_answer() -> None:
    text = TensorSpec(name="TEXT", datatype="BYTES", shape=(1,))
    image = TensorSpec(name="image", datatype="UINT8", shape=(3, 100, 100))
    for inputs, outputs, weight in (((text,), (image, text), 30_004), ((image, image), (text,), 60_000)):
        made = manifest("m", inputs=inputs, outputs=outputs, tensorrt="10.9.0.34")
        locked = Lock().with_artifact(made).models["m"]["cpu"]
        assert (locked.item_bytes, locked.tensorrt) == (weight, "10.9.0.34")


def test_datatype_unknown_to_triton() -> None:
    with pytest.raises(ValidationError, match="unknown datatype 'FLOAT32'"):
        TensorSpec(name="x", datatype="FLOAT32", shape=(1,))
